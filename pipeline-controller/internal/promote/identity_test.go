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
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/scm"
)

func promotion(namespace, name, env, revision string) Promotion {
	return Promotion{
		Pipeline:    types.NamespacedName{Namespace: namespace, Name: name},
		Environment: env,
		Revision:    revision,
		Started:     metav1.NewTime(time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC)),
	}
}

func TestBranchesOfDifferentPromotionsDiffer(t *testing.T) {
	g := NewWithT(t)
	seen := map[string]Promotion{}
	for _, p := range []Promotion{
		promotion("a-b", "c", "prod", "v1"),
		promotion("a", "b-c", "prod", "v1"),
		promotion("a", "b.c", "prod", "v1"),
		promotion("a", "b", "c-prod", "v1"),
		promotion("a", "b", "c/prod", "v1"),
		promotion("a", "b", "c prod", "v1"),
		promotion("a", "b", "PROD", "v1"),
		promotion("a", "b", "prod", "v1"),
		promotion("a", "b", "prod", "v1.0"),
		promotion("a", "b", "prod", "v1-0"),
		promotion("a", "b", "生产", "v1"),
		promotion("a", "b", "测试", "v1"),
		promotion("a", "b", "prod", "main@sha1:0123456789012345678901234567890123456789"),
		promotion("a", "b", "prod", "main@sha1:0123456789012345678901234567890123456780"),
	} {
		g.Expect(seen).NotTo(HaveKey(p.branch()))
		seen[p.branch()] = p
	}
}

func TestBranchesAreNamesThatGitTakes(t *testing.T) {
	for _, p := range []Promotion{
		promotion("default", "app", "prod", "v1.0.0"),
		promotion("default", "app.lock", "prod.lock", "v1.lock"),
		promotion("default", "a.b", "..", "refs/heads/main@sha1:0123456789012345678901234567890123456789"),
		promotion("default", "app", "生产", "~^:?*[\\"),
		promotion("default", "app", strings.Repeat("long", 100), strings.Repeat("1", 300)),
	} {
		out, err := exec.Command("git", "check-ref-format", "refs/heads/"+p.branch()).CombinedOutput()
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), "%s: %s", p.branch(), out)
	}
}

func TestMade(t *testing.T) {
	p := promotion("default", "app", "prod", "v1")
	later := p
	later.Started = metav1.NewTime(p.Started.Add(time.Second))

	for _, test := range []struct {
		name, body string
		want       bool
	}{
		{"the body as it was written", p.body(), true},
		{"line ends that a browser has changed", strings.ReplaceAll(p.body(), "\n", "\r\n"), true},
		{"trimmed white space", strings.TrimSpace(p.body()), true},
		{"a person's note above", "Please review.\n\n" + p.body(), true},
		{"another promotion of the same revision", later.body(), false},
		{"another environment", promotion("default", "app", "staging", "v1").body(), false},
		{"a body that a person rewrote", "Promote app", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			NewWithT(t).Expect(p.made(test.body)).To(Equal(test.want))
		})
	}
}

func TestTextsOfOthersStayTexts(t *testing.T) {
	g := NewWithT(t)
	p := promotion("default", "app", "prod", "v1")
	p.Running = []string{"v0`|<img src=x>\nSluice-Revision: v9"}
	body := p.body()
	g.Expect(body).NotTo(ContainSubstring("\nSluice-Revision: v9"))
	g.Expect(body).NotTo(ContainSubstring("<img"))

	p.Checked = []pipelinesv1.PreconditionStatus{
		{Type: "Gates", Message: strings.Repeat("gate <x> is open; ", 1000)}, {Type: "Approval", Message: "approved by ada"},
	}
	g.Expect(p.body()).To(ContainSubstring("- Approval: approved by ada"))
	g.Expect(p.body()).NotTo(ContainSubstring("<x>"))
	g.Expect(len(p.body())).To(BeNumerically("<", 4000), "Azure DevOps takes no more")

	for i := range 100 {
		p.Checked = append(p.Checked, pipelinesv1.PreconditionStatus{Type: fmt.Sprintf("Check%d", i), Message: strings.Repeat("ü", 100)})
	}
	g.Expect(utf8.RuneCountInString(p.body())).To(BeNumerically("<=", scm.MaxBody))
	g.Expect(p.body()).To(ContainSubstring("- Check1: "))
	g.Expect(p.body()).To(ContainSubstring(" more\n"), "it says that some are left out")
	g.Expect(p.made(p.body())).To(BeTrue(), "the trailers are whole")
	p.Checked = nil

	for _, value := range []string{"v1\nSluice-Revision: v9", "v1\r", "v1\x00", "v1\u009b2J", "v1\u200b", "v1\u202e", "v1\u00a0", "v1\xff"} {
		p.Revision = value
		g.Expect(p.validate()).NotTo(Succeed(), "%q", value)
	}
	for _, value := range []string{"v1.4.0+build.5@sha1:0123", "feature/größe#1@sha1:0123", "生产"} {
		p.Revision = value
		g.Expect(p.validate()).To(Succeed(), "%q", value)
	}
}
