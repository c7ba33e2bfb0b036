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
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAReasonIsThatOfTheTurnItWasGivenFor(t *testing.T) {
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const (
		both   = `{"f:metadata":{"f:annotations":{"f:gating.toolkit.fluxcd.io/reason":{}}},"f:spec":{"f:closed":{}}}`
		reason = `{"f:metadata":{"f:annotations":{"f:gating.toolkit.fluxcd.io/reason":{}}}}`
		closed = `{"f:spec":{"f:closed":{}}}`
	)
	for _, test := range []struct {
		name    string
		entries []metav1.ManagedFieldsEntry
		counts  bool
	}{
		{"it counts while the CLI, which gave it, owns the switch", []metav1.ManagedFieldsEntry{entry("flux", both)}, true},
		{"it counts even if Git sets the switch to the same value as the CLI", []metav1.ManagedFieldsEntry{entry("kustomize-controller", closed), entry("flux", both)}, true},
		{"it no longer counts once Git has turned the switch", []metav1.ManagedFieldsEntry{entry("kustomize-controller", closed), entry("flux", reason)}, false},
		{"it no longer counts once a person has turned the switch", []metav1.ManagedFieldsEntry{entry("flux", reason), entry("kubectl-patch", closed)}, false},
		{"it counts if it is in Git", []metav1.ManagedFieldsEntry{entry("kustomize-controller", both)}, true},
		{"it counts if it was annotated by itself", []metav1.ManagedFieldsEntry{entry("kubectl-annotate", reason), entry("flux", closed)}, true},
		{"it counts if nothing shows who set it, as after a restore", nil, true},
		{"it counts if the record can't be read", []metav1.ManagedFieldsEntry{entry("flux", "{"), {Manager: "flux"}}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			gate := Gate{ObjectMeta: metav1.ObjectMeta{
				Annotations: map[string]string{ReasonAnnotation: "end of quarter"}, ManagedFields: test.entries,
			}}
			want := ""
			if test.counts {
				want = "end of quarter"
			}
			NewWithT(t).Expect(gate.Reason()).To(Equal(want))
		})
	}
}
