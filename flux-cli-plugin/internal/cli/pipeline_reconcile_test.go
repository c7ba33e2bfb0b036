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

package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// second is another Pipeline of the namespace, which is suspended.
func second() *pipelinesv1.Pipeline {
	pipeline := waiting()
	pipeline.Name, pipeline.Spec.Suspend = "shop", true
	return pipeline
}

// handled acts as pipeline-controller does.
func handled(object client.Object) {
	if pipeline, ok := object.(*pipelinesv1.Pipeline); ok {
		pipeline.Status.ObservedGeneration = pipeline.Generation
		pipeline.Status.LastHandledReconcileAt = pipeline.Annotations[meta.ReconcileRequestAnnotation]
	}
}

// promotes acts as pipeline-controller does while an action of a promotion runs, for a number of reads.
func promotes(reads int) func(client.Object) {
	return func(object client.Object) {
		handled(object)
		if pipeline, ok := object.(*pipelinesv1.Pipeline); ok && reads > 0 {
			stand(pipeline, "prod", "Promoting", "Unknown", "promoting v1.2.3@sha1:cccccccc")
			reads--
		}
	}
}

func TestPipelinesAreChanged(t *testing.T) {
	requested := now.Format(time.RFC3339Nano)
	const waits = "prod: v1.2.3@sha1:cccccccc waits: waiting for approval"
	for _, tt := range []struct {
		name    string
		command string
		read    func(client.Object)
		objects []client.Object
		refuse  func(verb string, obj any) error
		wantLog string
		wantErr string
		// want is the expected result of the pipeline app.
		wantSuspended                 bool
		wantRequestedAt, wantForcedAt string
	}{
		{
			name: "suspend", command: "flux-pipeline suspend app", objects: []client.Object{waiting()},
			wantLog:       "► suspending pipeline app in flux-system namespace\n✔ pipeline suspended\n",
			wantSuspended: true,
		},
		{
			name: "suspend several, each once", command: "flux-pipeline suspend shop app shop", objects: []client.Object{waiting(), second()},
			wantLog: "► suspending pipeline shop in flux-system namespace\n✔ pipeline suspended\n" +
				"► suspending pipeline app in flux-system namespace\n✔ pipeline suspended\n",
			wantSuspended: true,
		},
		{
			name: "suspend none, if one does not exist", command: "flux-pipeline suspend app shop", objects: []client.Object{waiting()},
			wantErr: "pipeline shop not found in flux-system namespace, which has: app",
		},
		{
			name: "resume waits for the result", command: "flux-pipeline resume app shop", objects: []client.Object{waiting(), second()}, read: handled,
			wantLog: "► resuming pipeline app in flux-system namespace\n✔ pipeline resumed\n" +
				"► resuming pipeline shop in flux-system namespace\n✔ pipeline resumed\n" +
				"◎ waiting for pipeline reconciliation\n✔ pipeline app is reconciled: " + waits + "\n✔ pipeline shop is reconciled: " + waits + "\n",
		},
		{
			name: "reconcile", command: "flux-pipeline reconcile app", objects: []client.Object{waiting()}, read: handled,
			wantLog: "► annotating pipeline app in flux-system namespace\n✔ pipeline annotated\n" +
				"◎ waiting for pipeline reconciliation\n✔ pipeline app is reconciled: " + waits + "\n",
			wantRequestedAt: requested,
		},
		{
			name: "reconcile waits for the result of the attempt", command: "flux-pipeline reconcile app", objects: []client.Object{waiting()}, read: promotes(2),
			wantLog: "► annotating pipeline app in flux-system namespace\n✔ pipeline annotated\n" +
				"◎ waiting for pipeline reconciliation\n✔ pipeline app is reconciled: " + waits + "\n",
			wantRequestedAt: requested,
		},
		{
			name: "reconcile says so if there is no result yet", command: "flux-pipeline reconcile app --timeout 10ms", objects: []client.Object{waiting()}, read: promotes(9),
			wantLog:         "► annotating pipeline app in flux-system namespace\n✔ pipeline annotated\n◎ waiting for pipeline reconciliation\n",
			wantErr:         "pipeline app is still in progress: prod: promoting v1.2.3@sha1:cccccccc",
			wantRequestedAt: requested,
		},
		{
			name: "reconcile also ends if someone else requested it a moment later", command: "flux-pipeline reconcile app --timeout 10ms", objects: []client.Object{waiting()},
			read: func(object client.Object) {
				object.SetAnnotations(map[string]string{meta.ReconcileRequestAnnotation: "later"})
				handled(object)
			},
			wantLog: "► annotating pipeline app in flux-system namespace\n✔ pipeline annotated\n" +
				"◎ waiting for pipeline reconciliation\n✔ pipeline app is reconciled: " + waits + "\n",
			wantRequestedAt: "later",
		},
		{
			name: "reconcile --force", command: "flux-pipeline reconcile app --force --wait=false", objects: []client.Object{waiting()},
			wantLog:         "► annotating pipeline app in flux-system namespace\n✔ pipeline annotated\n",
			wantRequestedAt: requested, wantForcedAt: requested,
		},
		{
			name: "reconcile continues with the others", command: "flux-pipeline reconcile shop app --wait=false", objects: []client.Object{waiting(), second()},
			wantLog: "✗ pipeline shop is suspended; to resume it: flux pipeline resume shop -n flux-system\n" +
				"► annotating pipeline app in flux-system namespace\n✔ pipeline annotated\n",
			wantErr:         "1 of 2 pipelines failed",
			wantRequestedAt: requested,
		},
		{
			name: "reconcile fails if the pipeline is not ready then", command: "flux-pipeline reconcile app", objects: []client.Object{outOfReach()}, read: handled,
			wantLog:         "► annotating pipeline app in flux-system namespace\n✔ pipeline annotated\n◎ waiting for pipeline reconciliation\n",
			wantErr:         "pipeline app is not ready: prod: Kustomization prod/app in cluster eu can't be read: no route\nto host",
			wantRequestedAt: requested,
		},
		{
			name: "reconcile says so if pipeline-controller does not answer", command: "flux-pipeline reconcile app --timeout 10ms", objects: []client.Object{waiting()},
			wantLog: "► annotating pipeline app in flux-system namespace\n✔ pipeline annotated\n◎ waiting for pipeline reconciliation\n",
			wantErr: "pipeline-controller has not reconciled pipeline app yet: check that it is running " +
				"(kubectl get deployments --all-namespaces --field-selector metadata.name=pipeline-controller)",
			wantRequestedAt: requested,
		},
		{
			name: "a name is required", command: "flux-pipeline resume", objects: []client.Object{waiting()},
			wantErr: "pipeline name is required",
		},
		{
			name: "--verbose shows what is sent", command: "flux-pipeline suspend app --verbose", objects: []client.Object{waiting()},
			wantLog:       "► suspending pipeline app in flux-system namespace\n✚ {\"spec\":{\"suspend\":true}}\n✔ pipeline suspended\n",
			wantSuspended: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			var kube client.Client
			_, log, err := cluster{objects: tt.objects, read: tt.read, refuse: tt.refuse, dialed: func(c client.Client) { kube = c }}.run(t, strings.Fields(tt.command)...)
			if tt.wantErr == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tt.wantErr))
			}
			g.Expect(log).To(Equal(tt.wantLog))
			if kube == nil {
				return
			}
			app := &pipelinesv1.Pipeline{}
			g.Expect(kube.Get(t.Context(), client.ObjectKey{Namespace: "flux-system", Name: "app"}, app)).To(Succeed())
			g.Expect(app.Spec.Suspend).To(Equal(tt.wantSuspended))
			g.Expect(app.Annotations[meta.ReconcileRequestAnnotation]).To(Equal(tt.wantRequestedAt))
			g.Expect(app.Annotations[meta.ForceRequestAnnotation]).To(Equal(tt.wantForcedAt))
		})
	}
}
