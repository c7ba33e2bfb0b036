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
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
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
	approvals, err := approvalsOf(t.Context(), reader, pipeline)
	g.Expect(err).NotTo(HaveOccurred())
	var names []string
	for i := range approvals {
		names = append(names, approvals[i].Name)
	}
	g.Expect(names).To(ConsistOf("of-nobody-yet", "of-the-pipeline", "made-by-a-job-too", "made-by-a-job", "made-by-another-tools-pipeline"))
}
