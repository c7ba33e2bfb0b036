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
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestRemoveConditions(t *testing.T) {
	g := NewWithT(t)
	condition := func(name string) any { return map[string]any{"type": name} }
	source := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"conditions": []any{condition("GatesOpen"), condition("Ready"), condition("RevisionPasses"), condition("ArtifactLost")},
	}}}
	removed, err := removeConditions(source)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(removed).To(BeTrue())
	g.Expect(source.Object).To(HaveKeyWithValue("status", HaveKeyWithValue("conditions", ConsistOf(condition("Ready")))))

	removed, err = removeConditions(source)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(removed).To(BeFalse(), "nothing is left to remove")
}
