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

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/revision"
)

func TestShort(t *testing.T) {
	for _, test := range []struct{ name, rev, want string }{
		{"a Git revision keeps its name and the start of its commit", "main@sha1:" + sha1, "main@sha1:01234567"},
		{"a digest alone is cut", "sha256:" + sha256, "sha256:01234567"},
		{"a chart version is shown whole", "1.2.3", "1.2.3"},
		{"nothing is nothing", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			NewWithT(t).Expect(revision.Short(test.rev)).To(Equal(test.want))
		})
	}
}
