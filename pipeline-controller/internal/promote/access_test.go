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

package promote

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestWebURL(t *testing.T) {
	for _, test := range []struct {
		name, repository, web string
		bySSH                 bool
	}{
		{name: "an https URL stays as it is", repository: "https://git.example:8443/a/b.git", web: "https://git.example:8443/a/b.git"},
		{name: "by SSH, user and port are Git's alone", repository: "ssh://git@git.example:2222/a/b.git", web: "https://git.example/a/b.git", bySSH: true},
		{name: "nested groups stay nested", repository: "ssh://git@gitlab.com/a/b/c", web: "https://gitlab.com/a/b/c", bySSH: true},
		{name: "GitHub has another host for SSH by port 443", repository: "ssh://git@ssh.github.com:443/a/b.git", web: "https://github.com/a/b.git", bySSH: true},
		{name: "GitLab has another host for SSH by port 443", repository: "ssh://git@altssh.gitlab.com:443/a/b/c.git", web: "https://gitlab.com/a/b/c.git", bySSH: true},
		{name: "Azure DevOps has another path by SSH", repository: "ssh://git@ssh.dev.azure.com/v3/org/my%20project/repo",
			web: "https://dev.azure.com/org/my%20project/_git/repo", bySSH: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			web, bySSH := webURL(test.repository)
			g.Expect(web).To(Equal(test.web))
			g.Expect(bySSH).To(Equal(test.bySSH))
		})
	}
}
