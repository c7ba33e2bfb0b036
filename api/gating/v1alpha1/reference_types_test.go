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
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestReferencesFromAnnotations(t *testing.T) {
	for _, tt := range []struct {
		name        string
		annotations map[string]string
		want        *GateReferences
		wantErr     string
	}{
		{
			name: "an object without annotations has no gates",
		},
		{
			name:        "a requirement without gates is no reference",
			annotations: map[string]string{RequireAnnotation: "oneOf"},
		},
		{
			name:        "an empty annotation is no reference",
			annotations: map[string]string{GatesAnnotation: " "},
		},
		{
			name:        "commas alone are an error, because someone meant to name a gate",
			annotations: map[string]string{GatesAnnotation: " , "},
			wantErr:     "annotation gating.toolkit.fluxcd.io/gates names no gate",
		},
		{
			name:        "a gate that is named twice counts once",
			annotations: map[string]string{GatesAnnotation: "a,b,a"},
			want:        references(RequireAll, "a", "b"),
		},
		{
			name:        "what can't be the name of a gate is an error that doesn't repeat it",
			annotations: map[string]string{GatesAnnotation: "a\nb"},
			wantErr:     "annotation gating.toolkit.fluxcd.io/gates must list gates as <name> or <namespace>/<name>, separated by commas",
		},
		{
			name:        "a gate of another namespace is named with that namespace",
			annotations: map[string]string{GatesAnnotation: "a,ops/change-freeze"},
			want:        references(RequireAll, "a", "ops/change-freeze"),
		},
		{
			name:        "two slashes are an error",
			annotations: map[string]string{GatesAnnotation: "cluster/ops/a"},
			wantErr:     "annotation gating.toolkit.fluxcd.io/gates must list gates as <name> or <namespace>/<name>, separated by commas",
		},
		{
			name:        "a namespace without a gate is an error",
			annotations: map[string]string{GatesAnnotation: "ops/"},
			wantErr:     "annotation gating.toolkit.fluxcd.io/gates must list gates as <name> or <namespace>/<name>, separated by commas",
		},
		{
			name:        "a name longer than Kubernetes allows is an error",
			annotations: map[string]string{GatesAnnotation: strings.Repeat("a", 254)},
			wantErr:     "annotation gating.toolkit.fluxcd.io/gates must list gates as <name> or <namespace>/<name>, separated by commas",
		},
		{
			name:        "more gates than a spec may have are an error",
			annotations: map[string]string{GatesAnnotation: many(65)},
			wantErr:     "annotation gating.toolkit.fluxcd.io/gates names more than 64 gates",
		},
		{
			name:        "all named gates are required by default",
			annotations: map[string]string{GatesAnnotation: "a,b"},
			want:        references(RequireAll, "a", "b"),
		},
		{
			name:        "an empty requirement is the default",
			annotations: map[string]string{GatesAnnotation: "a", RequireAnnotation: ""},
			want:        references(RequireAll, "a"),
		},
		{
			name:        "spaces around names and a comma too many do not matter",
			annotations: map[string]string{GatesAnnotation: " b , a,\n"},
			want:        references(RequireAll, "b", "a"),
		},
		{
			name:        "'all' can be written out",
			annotations: map[string]string{GatesAnnotation: "a,b", RequireAnnotation: "all"},
			want:        references(RequireAll, "a", "b"),
		},
		{
			name:        "'oneOf' asks for one of the gates",
			annotations: map[string]string{GatesAnnotation: "a,b", RequireAnnotation: "oneOf"},
			want:        references(RequireOneOf, "a", "b"),
		},
		{
			name:        "any other requirement is an error that says what to write",
			annotations: map[string]string{GatesAnnotation: "a", RequireAnnotation: "oneof"},
			wantErr:     "annotation gating.toolkit.fluxcd.io/require must be 'all' or 'oneOf'",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := ReferencesFromAnnotations(tt.annotations)
			if tt.wantErr != "" {
				g.Expect(err).To(MatchError(tt.wantErr))
				g.Expect(got).To(BeNil())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(tt.want))
		})
	}
}

func many(gates int) string {
	names := make([]string, gates)
	for i := range names {
		names[i] = fmt.Sprintf("gate-%d", i)
	}
	return strings.Join(names, ",")
}
