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

	"github.com/fluxcd/pkg/runtime/conditions"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

func TestAnArtifactThatIsRefusedIsToldOf(t *testing.T) {
	for _, test := range []struct {
		name      string
		published *source.Artifact
		stored    string
		want      string
	}{
		{"where something was published before", &source.Artifact{Revision: "v1"}, "stored artifact for revision 'v2'",
			"stored artifact for revision 'v2' was refused; v1 is still published"},
		{"where nothing was", nil, "stored artifact for revision 'v2'", "stored artifact for revision 'v2' was refused; nothing is published"},
		{"unless it is the one that is published", &source.Artifact{Revision: "v2"}, "stored artifact for revision 'v2'", ""},
		{"unless nothing was fetched", nil, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := &source.OCIRepository{}
			obj.Namespace, obj.Name, obj.UID, obj.Generation = "default", "app", "source", 1
			obj.Annotations = map[string]string{gatingv1.GatesAnnotation: "freeze"}
			obj.Status.Artifact = test.published
			w := newWorld(t, gate("freeze", true), obj)
			w.Expect(w.reconcile(t, obj).Gated().Spec.Suspend).To(BeTrue())
			w.Expect(w.events.Events).To(Receive(Equal("Normal GateClosed held: gate freeze is closed")))

			if test.stored != "" {
				before := obj.DeepCopy()
				conditions.Set(obj, &metav1.Condition{Type: sourcev1.ArtifactInStorageCondition, Status: metav1.ConditionTrue, Reason: "Succeeded", Message: test.stored})
				w.Expect(w.Status().Update(t.Context(), obj)).To(Succeed())
				w.Expect(blockedChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: obj})).To(Equal(test.want != ""))
			}
			w.reconcile(t, obj)
			message := conditions.GetMessage(obj, gatingv1.GatesOpenCondition)
			if test.want == "" {
				w.Expect(message).To(Equal("gate freeze is closed" + gatingv1.NewArtifactsBlocked))
				w.Expect(w.events.Events).NotTo(Receive())
				return
			}
			w.Expect(message).To(Equal("gate freeze is closed; new artifacts are blocked: " + test.want))
			w.Expect(w.events.Events).To(Receive(Equal("Normal ArtifactBlocked blocked: " + test.want + ": gate freeze is closed")))
			w.reconcile(t, obj)
			w.Expect(w.events.Events).NotTo(Receive(), "that is no news")
		})
	}
}
