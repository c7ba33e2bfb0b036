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

package application

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
)

func TestExactlyTheFieldsAskedForAreDecoded(t *testing.T) {
	const object = `{"spec": {"path": "./prod", "suspend": true}, "status": {"history": [{"a": 1}], "inventory": {"b": 2.5}, "revision": null}}`
	for _, test := range []struct {
		name  string
		paths []string
		want  map[string]any
	}{
		{"none", nil, map[string]any{}},
		{"one field of one field", []string{"spec.path"}, map[string]any{"spec": map[string]any{"path": "./prod"}}},
		{"fields of two", []string{"status.history", "spec.suspend"}, map[string]any{
			"spec": map[string]any{"suspend": true}, "status": map[string]any{"history": []any{map[string]any{"a": int64(1)}}},
		}},
		{"a whole field, of which one field is asked for too", []string{"spec.path", "spec"}, map[string]any{
			"spec": map[string]any{"path": "./prod", "suspend": true},
		}},
		{"a field of a field of a field", []string{"status.inventory.b"}, map[string]any{"status": map[string]any{"inventory": map[string]any{"b": 2.5}}}},
		{"one that is null, one that does not exist, and one of what is no object", []string{"status.revision", "kind", "spec.path.x"}, map[string]any{
			"spec": map[string]any{}, "status": map[string]any{},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			f := fieldsAt(test.paths)
			parts, err := f.split(json.RawMessage(object))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(f.decode(parts)).To(Equal(test.want))
		})
	}
}
