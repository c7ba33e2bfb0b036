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
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// delays is a queue that remembers how long its requests are to wait.
type delays struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	waits []time.Duration
}

func (d *delays) AddAfter(_ reconcile.Request, wait time.Duration) { d.waits = append(d.waits, wait) }

func TestPipelinesAreLeftAloneWhileFluxLooksAtAnApplication(t *testing.T) {
	application := func(ready, revision string) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{}
		NewWithT(t).Expect(yaml.Unmarshal([]byte(`{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {name: app, namespace: dev},
			status: {lastAppliedRevision: `+revision+`, conditions: [{type: Ready, status: "`+ready+`"}]}}`), &obj.Object)).To(Succeed())
		return obj
	}
	scheme := runtime.NewScheme()
	NewWithT(t).Expect(pipelinesv1.AddToScheme(scheme)).To(Succeed())
	pipeline := &pipelinesv1.Pipeline{Spec: pipelinesv1.PipelineSpec{
		AppRef:       pipelinesv1.LocalAppReference{APIVersion: "kustomize.toolkit.fluxcd.io/v1", Kind: "Kustomization", Name: "app"},
		Environments: []pipelinesv1.Environment{{Name: "dev", Targets: []pipelinesv1.Target{{Namespace: "dev"}}}},
	}}
	pipeline.Name, pipeline.Namespace = "app", "default"
	r := &PipelineReconciler{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(pipeline).
		WithIndex(pipeline, targetIndex, indexTargets).Build()}

	for _, test := range []struct {
		name          string
		before, after *unstructured.Unstructured
		wait          time.Duration
	}{
		{"ready and then looked at: the Pipeline waits for the outcome", application("True", "v1"), application("Unknown", "v1"), flickerPatience},
		{"ready again: at once", application("Unknown", "v1"), application("True", "v1"), 0},
		{"ready and then failed: at once", application("True", "v1"), application("False", "v1"), 0},
		{"another revision: at once", application("True", "v1"), application("Unknown", "v2"), 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			queue := &delays{}
			r.queuePipelinesOfTarget().Update(context.Background(), event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}, queue)
			NewWithT(t).Expect(queue.waits).To(Equal([]time.Duration{test.wait}))
		})
	}
}
