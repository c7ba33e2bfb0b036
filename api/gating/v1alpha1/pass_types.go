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
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// GatePassKind is the kind of a GatePass.
	GatePassKind = "GatePass"

	// PassVerb is the RBAC verb on a Gate that users need to let a revision pass it.
	PassVerb = "pass"

	// MaxPasses is how many revisions can pass a gate at the same time. They fit into a condition of 32,768 bytes, even
	// with the longest revisions.
	MaxPasses = 16
)

// GatePassSpec defines which revision may pass which gate, until when, and by whom that is granted. It is immutable.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a pass is immutable: delete it, then grant another one"
type GatePassSpec struct {
	// GateRef names the Gate, in the namespace of the pass.
	// +required
	GateRef meta.LocalObjectReference `json:"gateRef"`

	// Revision that may pass: the whole revision of an artifact, such as 'main@sha1:<commit>', or its digest alone,
	// such as 'sha1:<commit>'. A tag or branch alone does not match, but the version of a Helm chart does. It must not
	// contain spaces.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=400
	// +kubebuilder:validation:Pattern=`^[\p{L}\p{M}\p{N}\p{P}\p{S}]*$`
	// +required
	Revision string `json:"revision"`

	// Expires is when the pass ends.
	// +kubebuilder:validation:XValidation:rule="self < timestamp('9999-01-01T00:00:00Z')",message="must be an RFC 3339 time before the year 9999"
	// +required
	Expires metav1.Time `json:"expires"`

	// GrantedBy is the name of the user who grants the pass, as the API server reports it ('kubectl auth whoami').
	// Granting in the name of another user is denied.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +required
	GrantedBy string `json:"grantedBy"`

	// Reason says why.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	// +required
	Reason string `json:"reason"`
}

// GatePass lets one revision pass a closed gate. Everything else stays held. Delete it to revoke it.
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=sluice,path=gatepasses,singular=gatepass,shortName=gtp
// +kubebuilder:selectablefield:JSONPath=`.spec.gateRef.name`
// +kubebuilder:printcolumn:name="Gate",type=string,JSONPath=`.spec.gateRef.name`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.spec.revision`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expires`
// +kubebuilder:printcolumn:name="Granted By",type=string,JSONPath=`.spec.grantedBy`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GatePass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec defines which revision may pass which gate, until when, and by whom that is granted.
	// +required
	Spec GatePassSpec `json:"spec"`
}

// GatePassList is a list of GatePasses.
// +kubebuilder:object:root=true
type GatePassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GatePass `json:"items"`
}

// Passes is how passes of a gate are granted.
type Passes struct {
	// Required is how many people must grant a pass for the same revision.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	// +optional
	Required int32 `json:"required,omitempty"`
}

// PassInForce is a revision that may pass a gate.
type PassInForce struct {
	// Revision is the text in the GatePasses that grant it.
	// +kubebuilder:validation:MaxLength=400
	// +required
	Revision string `json:"revision"`

	// Expires is when passes of too few people are left.
	// +required
	Expires metav1.Time `json:"expires"`
}

// PassesRequired returns how many people must grant a pass for the same revision.
func (g *Gate) PassesRequired() int {
	if g.Spec.Passes == nil {
		return 1
	}
	return max(1, int(g.Spec.Passes.Required))
}

// Concerns reports whether the pass is for the gate. One that is older than the gate was for a deleted gate of the same
// name.
func (p *GatePass) Concerns(gate *Gate) bool {
	return p.Namespace == gate.Namespace && p.Spec.GateRef.Name == gate.Name && !p.CreationTimestamp.Before(&gate.CreationTimestamp)
}

// IsInForce reports whether the pass counts at a time.
func (p *GatePass) IsInForce(now time.Time) bool {
	return p.DeletionTimestamp.IsZero() && now.Before(p.Spec.Expires.Time)
}

// Granters returns the people who let a revision pass the gate at a time, in the order of the passes. Each is listed
// once.
func (g *Gate) Granters(passes []GatePass, revision string, now time.Time) []string {
	var people []string
	for i := range passes {
		pass := &passes[i]
		if pass.Spec.Revision == revision && pass.Concerns(g) && pass.IsInForce(now) && !slices.Contains(people, pass.Spec.GrantedBy) {
			people = append(people, pass.Spec.GrantedBy)
		}
	}
	return people
}

// PassesInForce returns the revisions that enough different people let pass the gate at a time, at most 16: those that
// were granted first. Revisions are compared as text: a pass for a digest and one for the whole revision do not count
// together.
func PassesInForce(gate *Gate, passes []GatePass, now time.Time) []PassInForce {
	type grants struct {
		first metav1.Time
		until map[string]time.Time // by who granted it
	}
	granted := map[string]grants{}
	for i := range passes {
		pass := &passes[i]
		if !pass.Concerns(gate) || !pass.IsInForce(now) {
			continue
		}
		revision, by := pass.Spec.Revision, pass.Spec.GrantedBy
		found, known := granted[revision]
		if !known {
			found = grants{first: pass.CreationTimestamp, until: map[string]time.Time{}}
		}
		if pass.CreationTimestamp.Before(&found.first) {
			found.first = pass.CreationTimestamp
		}
		if pass.Spec.Expires.After(found.until[by]) {
			found.until[by] = pass.Spec.Expires.Time
		}
		granted[revision] = found
	}

	required := gate.PassesRequired()
	maps.DeleteFunc(granted, func(_ string, found grants) bool { return len(found.until) < required })
	revisions := slices.SortedFunc(maps.Keys(granted), func(a, b string) int {
		return cmp.Or(granted[a].first.Compare(granted[b].first.Time), cmp.Compare(a, b))
	})
	var inForce []PassInForce
	for _, revision := range revisions[:min(len(revisions), MaxPasses)] {
		ends := slices.SortedFunc(maps.Values(granted[revision].until), func(a, b time.Time) int { return b.Compare(a) })
		inForce = append(inForce, PassInForce{Revision: revision, Expires: metav1.NewTime(ends[required-1])})
	}
	return inForce
}
