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

package codeblock

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestIn(t *testing.T) {
	for _, tt := range []struct {
		name, page string
		found      []Block
	}{
		{"text alone has no blocks", "# Title\n\ntext with `code`\n", nil},
		{"a block has its language and its place", "a\n```yaml\nb: c\n\nd: e\n```\nf\n", []Block{{Language: "yaml", Line: 3, Text: "b: c\n\nd: e\n"}}},
		{"blocks keep their order", "```sh\na\n```\n```\nb\n```\n", []Block{{Language: "sh", Line: 2, Text: "a\n"}, {Line: 5, Text: "b\n"}}},
		{"a block of a list loses the list's indentation and keeps its own", "- a\n\n  ```yaml\n  b:\n    c: d\n\n  ```\n",
			[]Block{{Language: "yaml", Line: 4, Text: "b:\n  c: d\n\n"}}},
		{"a block that is empty is one", "```sh\n```\n", []Block{{Language: "sh", Line: 2}}},
	} {
		t.Run(tt.name, func(t *testing.T) { NewWithT(t).Expect(In(tt.page)).To(Equal(tt.found)) })
	}
}
