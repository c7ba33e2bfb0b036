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
	// InvalidWindowsReason says that the windows of a gate are not such as ever begin and end, so that the gate is closed.
	InvalidWindowsReason = "InvalidWindows"
)

// GateSpec is the desired state of a Gate.
type GateSpec struct {
	// Closed is the gate's switch: while it is true, whatever refers to the gate is held back.
	// +required
	Closed bool `json:"closed"`

	// ClosedDuring are times in which the gate is closed too, whatever the switch says.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	ClosedDuring []Window `json:"closedDuring,omitempty"`

	// OpenDuring are the only times in which the gate is open, if there are any. It is closed outside of all of them.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	OpenDuring []Window `json:"openDuring,omitempty"`

	// Override is an exception from the switch and the windows, that ends by itself.
	// +optional
	Override *Override `json:"override,omitempty"`

	// AccessFrom selects the namespaces whose objects may refer to this gate, as '<namespace>/<name>'. By default, those of the
	// gate's own namespace alone may. A selector without labels selects every namespace.
	// +optional
	AccessFrom *acl.AccessFrom `json:"accessFrom,omitempty"`
}

// GateStatus is the observed state of a Gate.
type GateStatus struct {
	// ObservedGeneration is the generation of the Gate that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions of the Gate: 'Ready', 'Open', and 'Stalled' if its windows are invalid.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// LastTransitionTime is when the gate was last seen to open or close.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`

	// NextTransitionTime is when the gate opens or closes by itself next. It is absent if it does not. New artifacts of sources that require this
	// gate are refused from the closing that was announced here on, whether or not a controller runs.
	// +optional
	NextTransitionTime *metav1.Time `json:"nextTransitionTime,omitempty"`

	// Reason is what the annotation 'gating.toolkit.fluxcd.io/reason' gave as the reason, or the override in force, on one line of at most 200
	// characters. It is empty if there is none, or if that is of an earlier turn of the gate.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Sources is how many Flux sources name this gate.
	// +kubebuilder:default=0
	// +optional
	Sources int32 `json:"sources"`

	// Held is how many of these sources, and of the promotions that name this gate, are held back now, by this gate or by another one that they
	// name.
	// +kubebuilder:default=0
	// +optional
	Held int32 `json:"held"`

	// HeldPromotions is how many of what is held are promotions.
	// +kubebuilder:default=0
	// +optional
	HeldPromotions int32 `json:"heldPromotions"`

	// Pending is how many of these sources and promotions have yet to follow their gates: to be held or, once the gates are open, to go on.
	// +kubebuilder:default=0
	// +optional
	Pending int32 `json:"pending"`

	// Refused is how many of these sources should be held but are not, because setting their spec.suspend failed. Their condition
	// 'GatesOpen' says why. The backstop alone keeps their new artifacts back.
	// +kubebuilder:default=0
	// +optional
	Refused int32 `json:"refused"`

	// Pipelines is how many Pipelines name this gate as a precondition of a promotion.
	// +kubebuilder:default=0
	// +optional
	Pipelines int32 `json:"pipelines"`
}

// Gate is an open or closed point of control. Flux sources and Pipelines name the gates that hold them back while closed.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=sluice,shortName=gt
// +kubebuilder:printcolumn:name="Closed",type=boolean,JSONPath=`.spec.closed`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Open")].reason`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.lastTransitionTime`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.status.nextTransitionTime`
// +kubebuilder:printcolumn:name="Held",type=integer,JSONPath=`.status.held`
// +kubebuilder:printcolumn:name="Refused",type=integer,JSONPath=`.status.refused`
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
