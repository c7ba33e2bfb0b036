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
	"fmt"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/workpool"
	"github.com/sluice-toolkit/sluice/runtime/announce"
)

func TestApprovalsOfADeletedPipelineDontCountForOneOfTheSameName(t *testing.T) {
	g := NewWithT(t)
	pipeline := &pipelinesv1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "app", UID: "new"}}
	approval := func(name, pipeline string, owners ...metav1.OwnerReference) *pipelinesv1.PromotionApproval {
		return &pipelinesv1.PromotionApproval{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, OwnerReferences: owners},
			Spec:       pipelinesv1.PromotionApprovalSpec{PipelineRef: meta.LocalObjectReference{Name: pipeline}},
		}
	}
	owner := func(apiVersion, kind string, uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "app", UID: uid}
	}
	ofPipeline := func(uid types.UID) metav1.OwnerReference {
		return owner(pipelinesv1.GroupVersion.String(), pipelinesv1.PipelineKind, uid)
	}
	scheme := runtime.NewScheme()
	g.Expect(pipelinesv1.AddToScheme(scheme)).To(Succeed())
	reader := fake.NewClientBuilder().WithScheme(scheme).
		WithIndex(&pipelinesv1.PromotionApproval{}, pipelinesv1.ApprovalPipelineField, indexApprovals).
		WithObjects(
			approval("of-nobody-yet", "app"),
			approval("of-the-pipeline", "app", ofPipeline("new")),
			approval("of-a-deleted-one", "app", ofPipeline("old")),
			approval("made-by-a-job-too", "app", owner("batch/v1", "Job", "job"), ofPipeline("new")),
			approval("made-by-a-job", "app", owner("batch/v1", "Job", "job")),
			approval("made-by-another-tools-pipeline", "app", owner("tekton.dev/v1", "Pipeline", "tekton")),
			approval("of-another-name", "other"),
		).Build()
	approvals, tooMany, err := approvalsOf(t.Context(), reader, pipeline)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(tooMany).To(BeFalse())
	var names []string
	for i := range approvals {
		names = append(names, approvals[i].Name)
	}
	g.Expect(names).To(ConsistOf("of-nobody-yet", "of-the-pipeline", "made-by-a-job-too", "made-by-a-job", "made-by-another-tools-pipeline"))
}

// counted counts requests about approvals.
type counted struct {
	client.Client
	requests int
}

func (c *counted) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	c.requests++
	return c.Client.Delete(ctx, obj, opts...)
}

func (c *counted) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	c.requests++
	return c.Client.Patch(ctx, obj, patch, opts...)
}

// never is a pool whose tasks never start.
type never struct{ Pool }

func (never) Do(workpool.Task) bool       { return false }
func (never) Running(string) bool         { return false }
func (never) Waited(string) time.Duration { return queuePatience }

func TestManyApprovalsOfOnePipeline(t *testing.T) {
	for _, test := range []struct {
		name string
		// revision of the approvals, and their number.
		revision  string
		approvals int
		// leaves is the number of approvals in the end.
		leaves int
	}{
		{"of another revision are deleted before a new one is asked for", "v1", 3000, 0},
		{"of the revision become the Pipeline's own", "v2", 1000, 1000},
		{"of the revision, if they are too many to look at, are left to people", "v2", 3000, 3000},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			scheme := runtime.NewScheme()
			g.Expect(pipelinesv1.AddToScheme(scheme)).To(Succeed())
			g.Expect(gatingv1.AddToScheme(scheme)).To(Succeed())
			pipeline := slowPipeline(1, nil)
			pipeline.Spec.Promotion.Approvals = &pipelinesv1.Approvals{Required: 2}
			objects := []client.Object{pipeline}
			for i := range test.approvals {
				spec := pipelinesv1.PromotionApprovalSpec{
					PipelineRef: meta.LocalObjectReference{Name: pipeline.Name}, Environment: "two", Revision: test.revision, ApprovedBy: "ada",
				}
				objects = append(objects, &pipelinesv1.PromotionApproval{
					ObjectMeta: metav1.ObjectMeta{Namespace: pipeline.Namespace, Name: fmt.Sprint("approval-", i), UID: types.UID(fmt.Sprint(i))}, Spec: spec,
				})
			}
			kube := &counted{Client: fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&pipelinesv1.Pipeline{}).WithObjects(objects...).
				WithIndex(&pipelinesv1.PromotionApproval{}, pipelinesv1.ApprovalPipelineField, indexApprovals).Build()}
			pool := &atOnce{}
			r := &PipelineReconciler{
				Client: kube, Live: kube, Targets: twoTargets{}, PullRequests: deadHost{}, Actions: never{}, Polls: pool, NoCrossNamespaceRefs: true,
				Announcer: announce.To(kube.Scheme(), &record.FakeRecorder{}, &record.FakeRecorder{}),
				Now:       func() time.Time { return polledAt },
			}
			request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pipeline)}
			left := func() int {
				var list pipelinesv1.PromotionApprovalList
				g.Expect(kube.List(t.Context(), &list)).To(Succeed())
				return len(list.Items)
			}
			ready := func() string {
				g.Expect(kube.Get(t.Context(), request.NamespacedName, pipeline)).To(Succeed())
				return apimeta.FindStatusCondition(pipeline.Status.Conditions, meta.ReadyCondition).Message
			}

			_, err := r.Reconcile(t.Context(), request)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(kube.requests).To(BeNumerically("<=", fewChores), "reconciles are for all tenants")
			g.Expect(ready()).To(ContainSubstring("nothing is promoted until approvals of other revisions are deleted"))
			g.Expect(pipeline.Status.Revision).To(BeEmpty())

			r.Actions = pool
			for range test.approvals/mostChores + 2 {
				kube.requests = 0
				_, err := r.Reconcile(t.Context(), request)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(kube.requests).To(BeNumerically("<=", mostChores))
				g.Expect(kube.Get(t.Context(), request.NamespacedName, pipeline)).To(Succeed())
				if test.leaves == 0 && left() > 0 {
					g.Expect(pipeline.Status.Revision).To(BeEmpty())
				}
			}
			r.Actions = never{}
			_, err = r.Reconcile(t.Context(), request)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(left()).To(Equal(test.leaves))
			if test.leaves > mostApprovals {
				g.Expect(ready()).To(ContainSubstring("the Pipeline has too many approvals: list them with "))
				g.Expect(pipeline.Status.Revision).To(BeEmpty())
				return
			}
			g.Expect(ready()).NotTo(ContainSubstring("nothing is promoted"))
			g.Expect(pipeline.Status.Revision).To(Equal("v2"))
		})
	}
}
