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

package controller

import (
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

func TestSourceControllerIsWoken(t *testing.T) {
	is := func(conditionType string, status metav1.ConditionStatus, generation int64) metav1.Condition {
		return metav1.Condition{Type: conditionType, Status: status, Reason: "Succeeded", ObservedGeneration: generation, LastTransitionTime: metav1.Now()}
	}
	ready := is(meta.ReadyCondition, metav1.ConditionTrue, 5)
	open := is(gatingv1.GatesOpenCondition, metav1.ConditionTrue, 5)
	stored := func(revision string) metav1.Condition {
		stored := is(sourcev1.ArtifactInStorageCondition, metav1.ConditionTrue, 5)
		stored.Message = "stored artifact for revision '" + revision + "'"
		return stored
	}
	const asked = "2026-01-01T00:00:00Z"

	for _, test := range []struct {
		name     string
		suspend  bool
		observed int64
		asked    string
		are      []metav1.Condition
		woken    bool
	}{
		{"when its artifact of this generation was refused", false, 4, "", []metav1.Condition{ready, stored("v2")}, true},
		{"when it was refused a new artifact of a revision that has one", false, 4, "", []metav1.Condition{ready, stored("v1")}, true},
		{"when it was refused a later artifact of this generation", false, 5, "", []metav1.Condition{ready, stored("v2")}, true},
		{"when it was refused a revision that begins like the one it has", false, 5, "", []metav1.Condition{ready, stored("v10")}, true},
		{"when nobody knows what it has stored", false, 5, "", []metav1.Condition{ready}, true},
		{"when someone has woken it too early", false, 4, asked, []metav1.Condition{ready, stored("v2")}, true},
		{"when the gates were found open before, and nobody was there to wake it", false, 4, "", []metav1.Condition{ready, stored("v2"), open}, true},
		{"not when the gates were found open before, and it was woken", false, 4, asked, []metav1.Condition{ready, stored("v2"), open}, false},
		{"not when the gates were found open before, and nothing was refused since", false, 5, "", []metav1.Condition{ready, open}, false},
		{"when the gates were found open before, and were closed while nobody was there", false, 5, "", []metav1.Condition{ready, stored("v2"), open}, true},
		{"not when it was woken after that", false, 5, asked, []metav1.Condition{ready, stored("v2"), open}, false},
		{"not when it found nothing new", false, 5, "", []metav1.Condition{ready, stored("v1")}, false},
		{"not while it has yet to look at this generation", false, 4, "", []metav1.Condition{is(meta.ReadyCondition, metav1.ConditionTrue, 4)}, false},
		{"not while it is at work", false, 4, "", []metav1.Condition{ready, stored("v2"), is(meta.ReconcilingCondition, metav1.ConditionTrue, 5)}, false},
		{"not when it has failed by itself", false, 4, "", []metav1.Condition{is(meta.ReadyCondition, metav1.ConditionFalse, 5)}, false},
		{"not when the source is new", false, 0, "", nil, false},
		{"not when a person has suspended the source", true, 4, "", []metav1.Condition{ready, stored("v2")}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := &source.OCIRepository{}
			obj.Namespace, obj.Name, obj.UID, obj.Generation = "default", "app", "source", 5
			obj.Spec.Gates = &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"freeze"}}
			obj.Spec.Suspend = test.suspend
			obj.Annotations = map[string]string{gatingv1.GatedByAnnotation: gatingv1.GatedBySpec}
			if test.asked != "" {
				obj.Annotations[meta.ReconcileRequestAnnotation] = test.asked
			}
			obj.Status = source.Status{ObservedGeneration: test.observed, Conditions: test.are, Artifact: &source.Artifact{Revision: "v1"}}
			w := newWorld(t, gate("freeze", false), obj)

			requested := w.reconcile(t, obj).GetAnnotations()[meta.ReconcileRequestAnnotation]
			w.Expect(requested != test.asked).To(Equal(test.woken), "the request is %q", requested)
			w.Expect(w.reconcile(t, obj).GetAnnotations()[meta.ReconcileRequestAnnotation]).To(Equal(requested), "it is woken once")
		})
	}
}
