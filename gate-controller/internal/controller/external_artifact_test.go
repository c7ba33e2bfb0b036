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
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/hold"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

// externalArtifact returns an ExternalArtifact that an ArtifactGenerator makes, with the annotations.
func externalArtifact(annotations map[string]string) *source.ExternalArtifact {
	artifact := &source.ExternalArtifact{}
	artifact.Namespace, artifact.Name, artifact.UID, artifact.Generation, artifact.Annotations = "default", "prod", "uid", 3, annotations
	artifact.Spec.SourceRef = &source.Reference{APIVersion: "source.extensions.fluxcd.io/v1beta1", Kind: artifactGenerators.Kind, Name: "fleet"}
	return artifact
}

func TestTheGatesOfAnExternalArtifact(t *testing.T) {
	freeze := gate("freeze", true)
	artifact := externalArtifact(map[string]string{gatingv1.GatesAnnotation: "freeze", gatingv1.RequireAnnotation: "oneOf"})
	w := newWorld(t, freeze, artifact)
	told := func() metav1.Condition { return *conditions.Get(artifact, gatingv1.GatesOpenCondition) }

	w.reconcile(t, artifact)
	w.Expect(told()).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", gatingv1.GateClosedReason),
		HaveField("Message", "gate freeze is closed; new artifacts are blocked"), HaveField("ObservedGeneration", int64(3))))
	w.Expect(artifact.Annotations).To(HaveKeyWithValue(gatingv1.OpenForAnnotation, hold.NotOpen))
	w.Expect(artifact.Gated().Spec.Suspend).To(BeFalse(), "its CRD has no such field")
	w.Expect(hold.On(artifact).Suspend).To(BeTrue(), "it is counted as held")
	w.Expect(w.events.Events).To(Receive(Equal("Normal GateClosed held: gate freeze is closed")))

	w.edit(t, freeze, func() { freeze.Spec.Closed = false })
	w.reconcile(t, artifact)
	w.Expect(told().Status).To(Equal(metav1.ConditionTrue))
	w.Expect(artifact.Annotations).To(HaveKeyWithValue(gatingv1.OpenForAnnotation, "uid/3 oneOf freeze"))
	w.Expect(hold.On(artifact).Suspend).To(BeFalse())
	w.Expect(w.events.Events).To(Receive(HavePrefix("Normal OneGateOpen released: gate freeze is open")))

	w.requests = nil
	w.reconcile(t, artifact)
	w.Expect(w.requests).To(Equal([]string{"get"}), "of its generator; nothing has to be written")

	w.edit(t, artifact, func() { artifact.Annotations[gatingv1.GatesAnnotation] = "freeze,other" })
	w.reconcile(t, artifact)
	w.Expect(artifact.Annotations).To(HaveKeyWithValue(gatingv1.OpenForAnnotation, "uid/3 oneOf freeze,other"))

	w.edit(t, artifact, func() {
		delete(artifact.Annotations, gatingv1.GatesAnnotation)
		delete(artifact.Annotations, gatingv1.RequireAnnotation)
	})
	w.reconcile(t, artifact)
	w.Expect(artifact.Annotations).To(BeEmpty())
}

func TestAnExternalArtifactWhoseAnnotationsSomeoneElseOwnsToo(t *testing.T) {
	freeze := gate("freeze", false)
	artifact := externalArtifact(map[string]string{gatingv1.GatesAnnotation: "freeze"})
	w := newWorld(t, freeze, artifact)
	w.reconcile(t, artifact)
	w.Expect(artifact.Annotations).To(HaveKeyWithValue(gatingv1.OpenForAnnotation, gatingv1.OpenFor(artifact)))
	copied := &unstructured.Unstructured{}
	copied.SetGroupVersionKind(gatingv1.SourceGroupVersion.WithKind("ExternalArtifact"))
	copied.SetNamespace("default")
	copied.SetName("prod")
	copied.SetAnnotations(map[string]string{
		gatingv1.OpenForAnnotation:   artifact.Annotations[gatingv1.OpenForAnnotation],
		gatingv1.GatesOpenAnnotation: artifact.Annotations[gatingv1.GatesOpenAnnotation],
	})
	own := func() {
		w.Expect(w.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(copied.DeepCopy()), client.FieldOwner("tenant"))).To(Succeed())
	}

	own()
	w.edit(t, freeze, func() { freeze.Spec.Closed = true })
	w.reconcile(t, artifact)
	w.Expect(artifact.Annotations).To(HaveKeyWithValue(gatingv1.OpenForAnnotation, hold.NotOpen))
	w.Expect(hold.On(artifact).Suspend).To(BeTrue())

	w.edit(t, freeze, func() { freeze.Spec.Closed = false })
	w.reconcile(t, artifact)
	copied.SetAnnotations(map[string]string{
		gatingv1.OpenForAnnotation:   artifact.Annotations[gatingv1.OpenForAnnotation],
		gatingv1.GatesOpenAnnotation: artifact.Annotations[gatingv1.GatesOpenAnnotation],
	})
	own()
	w.edit(t, artifact, func() { delete(artifact.Annotations, gatingv1.GatesAnnotation) })
	w.reconcile(t, artifact)
	w.Expect(artifact.Annotations).To(BeEmpty(), "otherwise they would count again once the same gates are named")
}

func TestAnExternalArtifactWithoutRoomForTheConditionIsHeld(t *testing.T) {
	freeze := gate("freeze", false)
	artifact := externalArtifact(map[string]string{gatingv1.GatesAnnotation: "freeze"})
	w := newWorld(t, freeze, artifact)
	w.reconcile(t, artifact)
	w.edit(t, artifact, func() {
		room := validation.TotalAnnotationSizeLimitB - len("padding")
		for key, value := range artifact.Annotations {
			room -= len(key) + len(value)
		}
		artifact.Annotations["padding"] = strings.Repeat("x", room)
	})

	w.edit(t, freeze, func() { freeze.Spec.Closed = true })
	w.reconcile(t, artifact)
	w.Expect(artifact.Annotations).To(HaveKeyWithValue(gatingv1.OpenForAnnotation, hold.NotOpen))
	w.Expect(artifact.Annotations).NotTo(HaveKey(gatingv1.GatesOpenAnnotation))
	w.Expect(hold.On(artifact).Suspend).To(BeTrue(), "it is counted as held")
	w.Expect(w.events.Events).To(Receive(Equal("Normal GateClosed held: gate freeze is closed")))
	w.reconcile(t, artifact)
	w.Expect(w.events.Events).NotTo(Receive(), "it was held before")
}

func TestNoPassAppliesToAnExternalArtifact(t *testing.T) {
	freeze := gate("freeze", true)
	freeze.Status.Passes = []gatingv1.PassInForce{{Revision: "v2", Expires: metav1.NewTime(time.Now().Add(time.Hour))}}
	artifact := externalArtifact(map[string]string{gatingv1.GatesAnnotation: "freeze"})
	w := newWorld(t, freeze, artifact)
	w.Expect(hold.On(w.reconcile(t, artifact)).Suspend).To(BeTrue())
	w.Expect(artifact.Annotations).To(HaveKeyWithValue(gatingv1.OpenForAnnotation, hold.NotOpen))
}

func TestAnArtifactGeneratorIsTriggeredAfterARefusal(t *testing.T) {
	for _, test := range []struct {
		name  string
		ready string
		want  bool
	}{
		{"its artifact was refused", "False", true},
		{"it has not ended yet", "Unknown", true},
		{"it has succeeded", "True", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			artifact := externalArtifact(map[string]string{gatingv1.GatesAnnotation: "freeze"})
			w := newWorld(t, gate("freeze", false), artifact)
			generator := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
				"conditions": []any{map[string]any{"type": meta.ReadyCondition, "status": test.ready}},
			}}}
			generator.SetAPIVersion(artifact.Spec.SourceRef.APIVersion)
			generator.SetKind(artifact.Spec.SourceRef.Kind)
			generator.SetNamespace("default")
			generator.SetName("fleet")
			w.Expect(w.Create(t.Context(), generator)).To(Succeed())

			w.reconcile(t, artifact)
			w.Expect(w.Get(t.Context(), client.ObjectKeyFromObject(generator), generator)).To(Succeed())
			_, triggered := generator.GetAnnotations()[meta.ReconcileRequestAnnotation]
			w.Expect(triggered).To(Equal(test.want))
		})
	}
}

func TestAnExternalArtifactWhoseAnnotationsAreRefused(t *testing.T) {
	artifact := externalArtifact(map[string]string{gatingv1.GatesAnnotation: "freeze"})
	w := newWorld(t, gate("freeze", true), artifact)
	w.beforeApply = func() error { return errRefused }
	w.Expect(w.tryReconcile(t, artifact)).To(MatchError(errRefused), "so that it is tried again")
	w.Expect(w.events.Events).To(Receive(Equal("Warning HoldFailed refused: setting the annotations failed: admission webhook denied the request; gate freeze is closed")))
}
