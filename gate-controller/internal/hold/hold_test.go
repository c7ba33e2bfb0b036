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

package hold_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-toolkit/sluice/gate-controller/internal/hold"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

func TestOn(t *testing.T) {
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: operation, Subresource: subresource, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	const suspend, interval = `{"f:spec":{"f:suspend":{}}}`, `{"f:spec":{"f:interval":{}}}`

	for _, test := range []struct {
		name  string
		entry metav1.ManagedFieldsEntry
		want  bool
	}{
		{"our ownership of suspend is a hold", entry("gate-controller", "Apply", "", suspend), true},
		{"someone else's suspension is not", entry("flux", "Apply", "", suspend), false},
		{"an update in our name is not, for a release would not undo it", entry("gate-controller", "Update", "", suspend), false},
		{"our writes of the status are not", entry("gate-controller", "Update", "status", suspend), false},
		{"what is left of a released hold is not", entry("gate-controller", "Apply", "", `{}`), false},
		{"our ownership of another field is not", entry("gate-controller", "Apply", "", interval), false},
		{"garbled managed fields are not", entry("gate-controller", "Apply", "", `{"f:spec"`), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			repository := &source.GitRepository{}
			repository.SetManagedFields([]metav1.ManagedFieldsEntry{entry("flux", "Apply", "", interval), test.entry})
			g.Expect(hold.On(repository).Suspend).To(Equal(test.want))

			trimmed, err := hold.TrimManagedFields(repository)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(hold.On(trimmed.(*source.GitRepository)).Suspend).To(Equal(test.want), "what the cache drops makes no difference")
		})
	}
}
