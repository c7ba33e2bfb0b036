/*
Copyright 2026 The Sluice Authors

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package v1alpha1

import (
	"github.com/fluxcd/pkg/apis/acl"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// GateKind is the kind of a Gate.
	GateKind = "Gate"

	// OpenCondition on a Gate is True while the gate is open. Its reason is OpenReason or ClosedReason.
	OpenCondition = "Open"
	// OpenReason is the reason of OpenCondition while the gate is open.
	OpenReason = "Open"
	// ClosedReason is the reason of OpenCondition while the gate is closed.
	ClosedReason = "Closed"
	// InvalidWindowsReason means that the gate has an invalid window, so it is closed.
	InvalidWindowsReason = "InvalidWindows"
)

// GateSpec is the desired state of a Gate.
type GateSpec struct {
	// Closed is the gate's switch. While it is true, the gate holds everything that refers to it.
	// +required
	Closed bool `json:"closed"`

	// ClosedDuring are the windows in which the gate is closed, regardless of the switch.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	ClosedDuring []Window `json:"closedDuring,omitempty"`

	// OpenDuring are the only windows in which the gate is open. If it is empty, the gate is open outside closedDuring.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	OpenDuring []Window `json:"openDuring,omitempty"`

	// Override is a temporary exception from the switch and the windows.
	// +structType=atomic
	// +optional
	Override *Override `json:"override,omitempty"`

	// Passes is how GatePasses of this gate are granted. By default, one person is enough.
	// +optional
	Passes *Passes `json:"passes,omitempty"`

	// AccessFrom selects the namespaces whose objects may refer to this gate, as '<namespace>/<name>'. By default, only
	// objects in the gate's own namespace may. A selector without labels selects every namespace.
	// +optional
	AccessFrom *acl.AccessFrom `json:"accessFrom,omitempty"`
}

// GateStatus is the observed state of a Gate.
type GateStatus struct {
	// ObservedGeneration is the generation of the Gate that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions of the Gate: 'Ready', 'Open', and 'Stalled' if a window is invalid.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// LastTransitionTime is when the gate last opened or closed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`

	// NextTransitionTime is when the gate next opens or closes by itself. It is absent if it doesn't. New artifacts of
	// sources that require this gate are blocked from an announced closing on, even if no controller runs.
	// +optional
	NextTransitionTime *metav1.Time `json:"nextTransitionTime,omitempty"`

	// Reason is why the gate is open or closed: the annotation 'gating.toolkit.fluxcd.io/reason', or the reason of the
	// current override, on one line of at most 200 characters. It is empty if there is none, or if it belongs to an
	// earlier state.
	// +optional
	Reason string `json:"reason,omitempty"`

	// TurnedBy is who changed the switch or set the current override: the user in the annotation
	// 'gating.toolkit.fluxcd.io/turned-by' if one entry of the managed fields owns both, else the field manager. It is
	// empty while windows decide.
	// +optional
	TurnedBy string `json:"turnedBy,omitempty"`

	// Passes are the revisions that may pass this gate while it is closed. They count only while observedGeneration is
	// the generation of the Gate, so any change of its spec ends them until gate-controller confirms them.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=revision
	// +optional
	Passes []PassInForce `json:"passes,omitempty"`

	// Sources is the number of Flux sources that refer to this gate.
	// +kubebuilder:default=0
	// +optional
	Sources int32 `json:"sources"`

	// Held is the number of sources and promotions that refer to this gate and are held, by it or by another gate.
	// +kubebuilder:default=0
	// +optional
	Held int32 `json:"held"`

	// HeldPromotions is the number of promotions in held.
	// +kubebuilder:default=0
	// +optional
	HeldPromotions int32 `json:"heldPromotions"`

	// Pending is the number of sources and promotions that have not followed their gates yet.
	// +kubebuilder:default=0
	// +optional
	Pending int32 `json:"pending"`

	// Refused is the number of sources that should be held but are not, because setting their spec.suspend failed.
	// Their condition 'GatesOpen' says why. The backstop still blocks their new artifacts.
	// +kubebuilder:default=0
	// +optional
	Refused int32 `json:"refused"`

	// Lost is the number of sources whose artifact source-controller has lost while they were held. Their condition
	// 'ArtifactLost' says whether it is being restored.
	// +kubebuilder:default=0
	// +optional
	Lost int32 `json:"lost"`

	// Pipelines is the number of Pipelines with promotions that refer to this gate.
	// +kubebuilder:default=0
	// +optional
	Pipelines int32 `json:"pipelines"`
}

// HeldSources is the number of sources in Held.
func (s *GateStatus) HeldSources() int32 { return s.Held - s.HeldPromotions }

// Gate is an open or closed point of control. A closed gate holds the Flux sources and promotions that refer to it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=sluice,shortName=gt
// +kubebuilder:printcolumn:name="Closed",type=boolean,JSONPath=`.spec.closed`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Open")].reason`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.lastTransitionTime`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.status.nextTransitionTime`
// +kubebuilder:printcolumn:name="Held",type=integer,JSONPath=`.status.held`
// +kubebuilder:printcolumn:name="Refused",type=integer,JSONPath=`.status.refused`
// +kubebuilder:printcolumn:name="Turned-By",type=string,JSONPath=`.status.turnedBy`,priority=1
// +kubebuilder:printcolumn:name="Sources",type=integer,JSONPath=`.status.sources`,priority=1
// +kubebuilder:printcolumn:name="Pipelines",type=integer,JSONPath=`.status.pipelines`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
type Gate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state of the Gate.
	// +required
	Spec GateSpec `json:"spec"`

	// Status is the observed state of the Gate.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status GateStatus `json:"status,omitempty"`
}

// GetConditions returns the conditions of the Gate.
func (g *Gate) GetConditions() []metav1.Condition { return g.Status.Conditions }

// SetConditions replaces the conditions of the Gate.
func (g *Gate) SetConditions(conditions []metav1.Condition) { g.Status.Conditions = conditions }

// GateList is a list of Gates.
// +kubebuilder:object:root=true
type GateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Gate `json:"items"`
}
