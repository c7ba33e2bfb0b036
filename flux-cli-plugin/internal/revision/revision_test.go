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

package revision_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/revision"
)

var (
	sha1   = strings.Repeat("0123456789", 4)
	sha256 = strings.Repeat("01234567", 8)
)

func TestShort(t *testing.T) {
	for _, tt := range []struct{ name, revision, want string }{
		{"a Git revision keeps its name and the start of its commit", "main@sha1:" + sha1, "main@sha1:01234567"},
		{"a name may hold an at sign", "feature@home@sha1:" + sha1, "feature@home@sha1:01234567"},
		{"a digest alone is cut", "sha256:" + sha256, "sha256:01234567"},
		{"the older form is written as the newer one", "feature/x/" + sha1, "feature/x@sha1:01234567"},
		{"a digest that is short already stays", "v1@sha1:abc", "v1@sha1:abc"},
		{"a chart version is shown whole", "6.5.4+0cdf2ab6ec12", "6.5.4+0cdf2ab6ec12"},
		{"nothing is nothing", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(revision.Short(tt.revision)).To(Equal(tt.want))
		})
	}
}

func TestEqual(t *testing.T) {
	for _, tt := range []struct {
		name, a, b string
		want       bool
	}{
		{"the same commit by another name is equal", "main@sha1:" + sha1, "v1@sha1:" + sha1, true},
		{"the same commit in the older form is equal", "main/" + sha1, "main@sha1:" + sha1, true},
		{"the same digest in the older form is equal", sha256, "latest@sha256:" + sha256, true},
		{"the same name with another commit is not equal", "main@sha1:" + sha1, "main@sha1:" + strings.Repeat("f", 40), false},
		{"a shortened commit does not equal the whole one", "main@sha1:01234567", "main@sha1:" + sha1, false},
		{"the same chart version is equal", "1.2.3", "1.2.3", true},
		{"another chart version is not equal", "1.2.3", "1.2.4", false},
		{"a tag alone does not equal that of a commit", "v1", "v1@sha1:" + sha1, false},
		{"nothing does not equal nothing", "", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(revision.Equal(tt.a, tt.b)).To(Equal(tt.want))
			g.Expect(revision.Equal(tt.b, tt.a)).To(Equal(tt.want))
		})
	}
}
