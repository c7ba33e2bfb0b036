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

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

// A watch that was interrupted may deliver a deletion and a creation as one update.
func TestAnObjectThatWasReplacedIsNoticed(t *testing.T) {
	for _, test := range []struct {
		name      string
		predicate predicate.Predicate
		obj       client.Object
	}{
		{"a Gate", gateTurned(), &gatingv1.Gate{}},
		{"a source", sourceChanged(), &source.GitRepository{}},
		{"the HelmRepository of a chart", repositoryChanged(), &source.HelmRepository{}},
		{"a Pipeline", specChanged(), &pipelinesv1.Pipeline{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			before, after := test.obj, test.obj.DeepCopyObject().(client.Object)
			for obj, uid := range map[client.Object]types.UID{before: "before", after: "after"} {
				obj.SetUID(uid)
				obj.SetGeneration(1)
			}
			g.Expect(test.predicate.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})).To(BeTrue())
			g.Expect(test.predicate.Update(event.UpdateEvent{ObjectOld: after, ObjectNew: after})).To(BeFalse(), "the same object")
		})
	}
}
