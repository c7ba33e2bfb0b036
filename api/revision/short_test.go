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
	"testing"

	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/api/revision"
)

func TestShort(t *testing.T) {
	for _, test := range []struct{ name, rev, want string }{
		{"a Git revision keeps its name and the start of its commit", "main@sha1:" + sha1, "main@sha1:01234567"},
		{"a name may hold an at sign", "feature@home@sha1:" + sha1, "feature@home@sha1:01234567"},
		{"a digest alone is cut", "sha256:" + sha256, "sha256:01234567"},
		{"the older form is written as the newer one", "feature/x/" + sha1, "feature/x@sha1:01234567"},
		{"a digest that is already short stays", "v1@sha1:abc", "v1@sha1:abc"},
		{"a chart version is shown whole", "6.5.4+0cdf2ab6ec12", "6.5.4+0cdf2ab6ec12"},
		{"nothing is nothing", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			NewWithT(t).Expect(revision.Short(test.rev)).To(Equal(test.want))
		})
	}
}
