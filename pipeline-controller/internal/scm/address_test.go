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

package scm

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
		{name: "an organization with a host of its own has another host by SSH", repository: "ssh://org@vs-ssh.visualstudio.com/v3/org/my%20project/repo",
			web: "https://dev.azure.com/org/my%20project/_git/repo", bySSH: true},
		{name: "the older form of that names the organization as the user", repository: "ssh://org@vs-ssh.visualstudio.com:22/DefaultCollection/project/_ssh/repo",
			web: "https://dev.azure.com/org/project/_git/repo", bySSH: true},
		{name: "of a project whose name the repository has", repository: "ssh://org@vs-ssh.visualstudio.com:22/_ssh/repo",
			web: "https://dev.azure.com/org/repo/_git/repo", bySSH: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			web, bySSH := WebURL(test.repository)
			g.Expect(web).To(Equal(test.web))
			g.Expect(bySSH).To(Equal(test.bySSH))
		})
	}
}

func TestOneRepositoryByAllItsURLs(t *testing.T) {
	for _, test := range []struct {
		name, a, b string
		// same is whether they are one repository, and oneClone whether they have one clone.
		same, oneClone bool
		// oneHost is whether they have one share of the work.
		oneHost bool
	}{
		{"github.com by https and by its host for SSH at port 443",
			"https://github.com/org/fleet", "ssh://git@ssh.github.com:443/org/fleet.git", true, true, true},
		{"github.com by SSH at port 22 and at port 443",
			"ssh://git@github.com/org/fleet", "ssh://git@ssh.github.com:443/org/fleet.git", true, true, true},
		{"www.github.com and github.com", "https://www.github.com/org/fleet", "https://github.com/org/fleet", true, true, true},
		{"gitlab.com by SSH at port 22 and at port 443",
			"ssh://git@gitlab.com/a/b/fleet.git", "ssh://git@altssh.gitlab.com:443/a/b/fleet", true, true, true},
		{"Azure DevOps by https and by SSH",
			"https://dev.azure.com/acme/my%20project/_git/fleet", "ssh://git@ssh.dev.azure.com/v3/acme/my%20project/fleet", true, true, true},
		{"Azure DevOps by its names of today and of before",
			"https://dev.azure.com/acme/p/_git/fleet", "https://acme.visualstudio.com/DefaultCollection/p/_git/fleet", true, true, true},
		{"Azure DevOps by SSH, by its names of today and of before",
			"ssh://git@ssh.dev.azure.com/v3/acme/p/fleet", "ssh://acme@vs-ssh.visualstudio.com/v3/acme/p/fleet", true, true, true},
		{"Azure DevOps with the project left out", "https://dev.azure.com/acme/_git/fleet", "https://dev.azure.com/acme/fleet/_git/fleet", true, true, true},
		{"upper case in a host's name", "https://GitHub.com/org/fleet", "https://github.com/org/fleet.git/", true, true, true},
		{"a host of one's own by https and by SSH, whose ports may lead to different hosts",
			"https://git.example/org/fleet", "ssh://git@git.example:2222/org/fleet", true, false, false},
		{"another repository", "https://github.com/org/fleet", "ssh://git@ssh.github.com:443/org/other.git", false, false, true},
		{"another host", "https://github.com/org/fleet", "https://gitlab.com/org/fleet", false, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(SameRepository(test.a, test.b)).To(Equal(test.same))
			g.Expect(RepositoryName(test.a) == RepositoryName(test.b)).To(Equal(test.oneClone))
			g.Expect(HostName(test.a) == HostName(test.b)).To(Equal(test.oneHost))
		})
	}
}

func TestOneBudgetForAllURLsOfARepository(t *testing.T) {
	for _, test := range []struct{ name, a, b string }{
		{"github.com", "https://github.com/org/fleet", "ssh://git@ssh.github.com:443/org/fleet.git"},
		{"gitlab.com", "https://gitlab.com/org/fleet", "ssh://git@altssh.gitlab.com:443/org/fleet.git"},
		{"Azure DevOps", "https://dev.azure.com/acme/p/_git/fleet", "ssh://git@ssh.dev.azure.com/v3/acme/p/fleet"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			hosts := NewHosts(onLoopback)
			for _, address := range []string{test.a, test.b} {
				web, _ := WebURL(address)
				_, err := hosts.Open("", Repository{URL: web, Token: "t"})
				g.Expect(err).NotTo(HaveOccurred())
			}
			g.Expect(hosts.budgets).To(HaveLen(1))
			g.Expect(hosts.clients).To(HaveLen(1))
		})
	}
}
