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
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/scm"
	"github.com/sluice-toolkit/sluice/tests/githost"
)

// monorepo is a repository whose branch main the first environments of two Pipelines follow, and that their promotions
// are merged into.
type monorepo struct {
	*testing.T
	*WithT
	pulls  *PullRequests
	host   *githost.Server
	to     access
	method scm.MergeMethod
	app    Promotion
	// earlier is what each Pipeline has promoted.
	earlier map[string]Earlier
}

func newMonorepo(t *testing.T, method scm.MergeMethod) *monorepo {
	t.Helper()
	pulls, app, host, to := newPullRequests(t)
	m := &monorepo{T: t, WithT: NewWithT(t), pulls: pulls, host: host, to: to, method: method, app: app, earlier: map[string]Earlier{}}
	m.change("shop.yaml", strings.ReplaceAll(markedFile, "app", "shop"))
	return m
}

// change is a person's commit on main.
func (m *monorepo) change(name, content string) string {
	m.Helper()
	commit, err := m.host.CommitFiles("acme", "fleet", "main", map[string]string{name: content}, "A change")
	m.Expect(err).NotTo(HaveOccurred())
	return commit
}

// head is the newest commit of a branch.
func (m *monorepo) head(branch string) string {
	m.Helper()
	branches, err := m.host.Branches("acme", "fleet")
	m.Expect(err).NotTo(HaveOccurred())
	return branches[branch]
}

// open promotes a commit of main in a Pipeline.
func (m *monorepo) open(pipeline, commit string) plan.Outcome {
	m.Helper()
	promoted := m.app
	promoted.Pipeline.Name, promoted.Revision, promoted.Earlier = pipeline, "main@sha1:"+commit, m.earlier[pipeline]
	outcome := m.pulls.Open(m.Context(), promoted, goAhead)
	m.Expect(outcome.Err).NotTo(HaveOccurred())
	return outcome
}

// promote does so to the end: the pull request is merged. It returns the commit of that.
func (m *monorepo) promote(pipeline, commit string) string {
	m.Helper()
	outcome := m.open(pipeline, commit)
	m.Expect(outcome.State).To(Equal(pipelinesv1.PromotionCreated))
	return m.merge(pipeline, commit, outcome)
}

func (m *monorepo) merge(pipeline, commit string, outcome plan.Outcome) string {
	m.Helper()
	number := int(outcome.PullRequest.Number)
	m.Expect(m.to.host.Merge(m.Context(), number, m.method, m.head(outcome.PullRequest.Branch))).To(Succeed())
	merged := m.head("main")
	earlier, known := m.earlier[pipeline]
	if !known {
		earlier = Earlier{Promoted: map[string]string{}, Merged: map[string]string{}}
		m.earlier[pipeline] = earlier
	}
	earlier.Promoted[commit], earlier.Merged[merged] = "main@sha1:"+commit, outcome.PullRequest.URL
	return merged
}

// pullRequests returns the number of pull requests.
func (m *monorepo) pullRequests() int {
	m.Helper()
	all, err := m.host.PullRequests("acme", "fleet")
	m.Expect(err).NotTo(HaveOccurred())
	return len(all)
}

func TestWhatAddsNothingButPromotionsIsNotPromoted(t *testing.T) {
	for _, method := range []scm.MergeMethod{scm.MergeCommit, scm.MergeSquash, scm.MergeRebase} {
		for _, test := range []struct {
			name string
			// next returns the commit that the first environment of app runs in the end.
			next func(m *monorepo, change string) string
			// loop is whether that is refused.
			loop bool
		}{
			{"the merge of another Pipeline's promotion", func(m *monorepo, change string) string {
				m.promote("app", change)
				return m.promote("shop", change)
			}, true},
			{"one of which the Pipeline's own is not known", func(m *monorepo, change string) string {
				m.promote("app", change)
				clear(m.earlier["app"].Merged)
				return m.promote("shop", change)
			}, true},
			{"the merge of its own, which is not known", func(m *monorepo, change string) string {
				merged := m.promote("app", change)
				clear(m.earlier["app"].Merged)
				return merged
			}, true},
			{"one that is no longer the newest", func(m *monorepo, change string) string {
				m.promote("app", change)
				merged := m.promote("shop", change)
				m.change("newer.yaml", "a: b\n")
				return merged
			}, true},
			{"a change that is merged on top", func(m *monorepo, change string) string {
				m.promote("app", change)
				m.promote("shop", change)
				return m.change("newer.yaml", "a: b\n")
			}, false},
			{"another Pipeline's promotion of a change that this one has not promoted", func(m *monorepo, change string) string {
				m.promote("app", change)
				return m.promote("shop", m.change("newer.yaml", "a: b\n"))
			}, false},
			{"the same, though its own promotion was merged last", func(m *monorepo, change string) string {
				opened := m.open("app", change)
				m.promote("shop", m.change("newer.yaml", "a: b\n"))
				m.merge("app", change, opened)
				return m.promote("shop", change)
			}, false},
			{"a commit of another branch", func(m *monorepo, change string) string {
				m.promote("app", change)
				commit, err := m.host.CommitFiles("acme", "fleet", "release", map[string]string{"a.yaml": "a: b\n"}, "Release")
				m.Expect(err).NotTo(HaveOccurred())
				return commit
			}, false},
			{"a commit of another repository", func(m *monorepo, change string) string {
				m.promote("app", change)
				return strings.Repeat("a", 40)
			}, false},
			{"the first one of all", func(m *monorepo, change string) string { return m.promote("shop", change) }, false},
		} {
			if !test.loop && method != scm.MergeCommit {
				continue
			}
			t.Run(string(method)+": "+test.name, func(t *testing.T) {
				m := newMonorepo(t, method)
				change := m.head("main")
				next := test.next(m, change)
				before := m.pullRequests()
				outcome := m.open("app", next)
				if !test.loop {
					m.Expect(outcome).To(And(HaveField("State", pipelinesv1.PromotionCreated), HaveField("Loop", "")))
					return
				}
				m.Expect(outcome).To(Equal(plan.Outcome{
					Loop: "main@sha1:" + change, Message: "it adds only Sluice's own commits to main@sha1:" + change[:8] + ", which was promoted before",
				}))
				m.Expect(m.pullRequests()).To(Equal(before))
			})
		}
	}
}

func TestWhatAPersonHasPushedToAPullRequestIsAChange(t *testing.T) {
	m := newMonorepo(t, scm.MergeCommit)
	change := m.head("main")
	m.promote("app", change)
	opened := m.open("shop", change)
	_, err := m.host.CommitFiles("acme", "fleet", opened.PullRequest.Branch, map[string]string{"more.yaml": "a: b\n"}, "More")
	m.Expect(err).NotTo(HaveOccurred())
	merged := m.merge("shop", change, opened)
	m.Expect(m.open("app", merged)).To(HaveField("State", pipelinesv1.PromotionCreated))
}

func TestOfAHostThatSendsNoCommitsAloneTheNewestIsLookedAt(t *testing.T) {
	m := newMonorepo(t, scm.MergeSquash)
	dir, err := m.host.RepositoryDir("acme", "fleet")
	m.Expect(err).NotTo(HaveOccurred())
	m.Expect(exec.CommandContext(t.Context(), "git", "-C", dir, "config", "uploadpack.allowFilter", "false").Run()).To(Succeed())
	change := m.head("main")
	merged := m.promote("app", change)
	clear(m.earlier["app"].Merged)
	m.Expect(m.open("app", merged)).To(HaveField("Loop", "main@sha1:"+change))
	m.Expect(m.open("app", m.promote("shop", change))).To(HaveField("State", pipelinesv1.PromotionCreated))
}

func TestNoHistoryIsAskedForWhereThereIsNoNeed(t *testing.T) {
	m := newMonorepo(t, scm.MergeCommit)
	reads := func(open func()) int {
		before := m.host.Count("POST", "/git-upload-pack$")
		open()
		return m.host.Count("POST", "/git-upload-pack$") - before
	}
	change := m.head("main")
	m.Expect(reads(func() { m.promote("app", change) })).To(Equal(1), "nothing was promoted before: the files are all that is read")
	newer := m.change("newer.yaml", "a: b\n")
	m.Expect(reads(func() { m.open("app", newer) })).To(Equal(1), "it is the newest commit, and a person's")
	m.Expect(reads(func() { m.open("app", strings.Repeat("a", 40)) })).To(BeNumerically("<=", 1), "it is not the newest one")
	promoted := m.app
	promoted.Revision, promoted.Earlier = "1.2.3", m.earlier["app"]
	m.Expect(reads(func() { m.Expect(m.pulls.Open(t.Context(), promoted, goAhead).Err).NotTo(HaveOccurred()) })).To(Equal(0), "it is no commit")
}

func TestOwnCommitsAreKnownByWhatHostsMakeOfThem(t *testing.T) {
	own := promotion("flux-system", "app", "prod", "main@sha1:"+strings.Repeat("a", 40))
	own.Strategy.PullRequest = &pipelinesv1.PullRequestPromotion{}
	title := own.title()
	for _, test := range []struct {
		name    string
		message string
		own     bool
	}{
		{"its own message, as a rebase leaves it", own.commitMessage(), true},
		{"GitHub's merge", "Merge pull request #7 from acme/" + own.branch() + "\n\n" + title + "\n", true},
		{"GitHub's squash of one commit", title + " (#7)\n\n" + own.trailers(), true},
		{"GitHub's squash of several", "Another title (#7)\n\n* " + title + "\n\n" + own.trailers() + "\n* More\n", true},
		{"GitLab's merge", "Merge branch '" + own.branch() + "' into 'main'\n\n" + title + "\n\nSee merge request acme/fleet!7", true},
		{"GitLab's squash", title, true},
		{"Bitbucket's merge", "Merge pull request #7 in ACME/fleet from " + own.branch() + " to main\n\n* commit 'c0ffee':\n  " + title + "\n", true},
		{"Bitbucket's squash", "Pull request #7: " + title + "\n\nSquashed commit of the following:\n\ncommit c0ffee\n\n    " + strings.ReplaceAll(own.commitMessage(), "\n", "\n    "), true},
		{"Azure's merge and squash", "Merged PR 7: " + title + "\n\n" + own.body(), true},
		{"Gitea's merge", "Merge pull request '" + title + "' (#7) from " + own.branch() + " into main\n", true},
		{"a person's change", "Promote the use of tabs\n\nin all files", false},
		{"a person's merge", "Merge branch 'feature' into main", false},
		{"a person who writes about trailers", "Document the trailer Sluice-Revision: it has the revision", false},
		{"no message", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			NewWithT(t).Expect(ownMessage.MatchString(test.message)).To(Equal(test.own))
		})
	}
}

func TestWhatAHostSaysInPlaceOfAMergeCommitIsNotKept(t *testing.T) {
	g := NewWithT(t)
	commit := strings.Repeat("a", 40)
	g.Expect(mergeCommit(scm.PullRequest{MergeCommit: commit})).To(Equal(commit))
	for _, text := range []string{"", "none", commit + commit, strings.ToUpper(commit), commit + "\n"} {
		g.Expect(mergeCommit(scm.PullRequest{MergeCommit: text})).To(BeEmpty())
	}
}
