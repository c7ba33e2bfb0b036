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
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/scm"
	"github.com/sluice-toolkit/sluice/tests/githost"
)

// newPullRequests returns a promotion in a repository with one marked field, and what promotes it.
func newPullRequests(t *testing.T) (*PullRequests, Promotion, *githost.Server, access) {
	t.Helper()
	g := NewWithT(t)
	host, remote := startHost(t, map[string]string{"app.yaml": markedFile})
	clones, err := git.NewClones(t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())
	pulls := NewPullRequests(fake.NewClientBuilder().WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "flux-system", Name: "fleet"},
		Data:       map[string][]byte{"username": []byte("sluice"), "token": []byte("secret"), "ca.crt": host.CA()},
	}).Build(), scm.NewHosts(onLoopback), clones)
	promoted := promotion("flux-system", "app", "prod", "v1.1.0")
	promoted.Strategy.PullRequest = &pipelinesv1.PullRequestPromotion{Type: "github", URL: remote.URL, BaseBranch: "main"}
	promoted.Strategy.PullRequest.SecretRef.Name = "fleet"
	to, err := pulls.access(t.Context(), promoted)
	g.Expect(err).NotTo(HaveOccurred())
	return pulls, promoted, host, to
}

func goAhead(context.Context) (string, error) { return "", nil }

func TestAPullRequestIntoAnotherBranchIsNotThePromotions(t *testing.T) {
	g := NewWithT(t)
	pulls, promoted, host, to := newPullRequests(t)
	// An attempt has pushed the branch, and someone has opened a pull request from it into the branch release.
	_, err := host.CommitFiles("acme", "fleet", "release", map[string]string{"other.yaml": "a: b\n"}, "Release")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = host.CommitFiles("acme", "fleet", promoted.branch(), map[string]string{"app.yaml": setFile}, "Promote")
	g.Expect(err).NotTo(HaveOccurred())
	theirs, err := to.host.Create(t.Context(), scm.NewPullRequest{Title: "Backport", Branch: promoted.branch(), Base: "release"})
	g.Expect(err).NotTo(HaveOccurred())

	outcome := pulls.Open(t.Context(), promoted, goAhead)
	g.Expect(outcome.Err).NotTo(HaveOccurred())
	g.Expect(outcome.PullRequest.Number).NotTo(BeEquivalentTo(theirs.Number))
	opened, err := to.host.Get(t.Context(), int(outcome.PullRequest.Number))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(opened.Base).To(Equal("main"))

	again := pulls.Open(t.Context(), promoted, goAhead)
	g.Expect(again.PullRequest.Number).To(Equal(outcome.PullRequest.Number))
}

func TestAPullRequestThatWasGivenAnotherBaseIsStillThePromotions(t *testing.T) {
	g := NewWithT(t)
	pulls, promoted, host, to := newPullRequests(t)
	_, err := host.CommitFiles("acme", "fleet", "release", map[string]string{"other.yaml": "a: b\n"}, "Release")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = host.CommitFiles("acme", "fleet", promoted.branch(), map[string]string{"app.yaml": setFile}, "Promote")
	g.Expect(err).NotTo(HaveOccurred())
	ours, err := to.host.Create(t.Context(), scm.NewPullRequest{Title: promoted.title(), Body: promoted.body(), Branch: promoted.branch(), Base: "release"})
	g.Expect(err).NotTo(HaveOccurred())

	outcome := pulls.Open(t.Context(), promoted, goAhead)
	g.Expect(outcome.Err).NotTo(HaveOccurred())
	g.Expect(outcome.PullRequest.Number).To(BeEquivalentTo(ours.Number))
}

// intoRelease makes a pull request of the promotion's branch into another branch than its base, with the body that
// Sluice writes.
func intoRelease(t *testing.T, promoted Promotion, host *githost.Server, to access) scm.PullRequest {
	t.Helper()
	g := NewWithT(t)
	_, err := host.CommitFiles("acme", "fleet", "release", map[string]string{"other.yaml": "a: b\n"}, "Release")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = host.CommitFiles("acme", "fleet", promoted.branch(), map[string]string{"app.yaml": setFile}, "Promote")
	g.Expect(err).NotTo(HaveOccurred())
	made, err := to.host.Create(t.Context(), scm.NewPullRequest{Title: promoted.title(), Body: promoted.body(), Branch: promoted.branch(), Base: "release"})
	g.Expect(err).NotTo(HaveOccurred())
	return made
}

func TestAMergeIntoAnotherBranchIsNoSuccess(t *testing.T) {
	g := NewWithT(t)
	pulls, promoted, host, to := newPullRequests(t)
	made := intoRelease(t, promoted, host, to)
	_, err := host.Merge("acme", "fleet", made.Number)
	g.Expect(err).NotTo(HaveOccurred())

	adopted := pulls.Open(t.Context(), promoted, goAhead)
	g.Expect(adopted.Err).NotTo(HaveOccurred())
	g.Expect(adopted.State).NotTo(Equal(pipelinesv1.PromotionSucceeded))
	g.Expect(adopted.PullRequest.Number).To(BeEquivalentTo(made.Number))
	seen := pulls.Poll(t.Context(), promoted, adopted.PullRequest)
	g.Expect(seen.Merged).To(BeFalse())
	g.Expect(seen.Closed).To(Equal("merged into release, not into main"))

	withdrawn := pulls.Withdraw(t.Context(), promoted, "superseded by v2")
	g.Expect(withdrawn.Err).NotTo(HaveOccurred())
	g.Expect(withdrawn.State).To(Equal(pipelinesv1.PromotionAbandoned))
	g.Expect(withdrawn.Message).To(Equal("superseded by v2"))
}

func TestAPullRequestThatCannotBeReadNamesWhatToCheck(t *testing.T) {
	const hint = "check the credentials in secretRef, and the Git host"
	for _, test := range []struct {
		name  string
		fault githost.Fault
		want  OmegaMatcher
	}{
		{"if the token is rejected", githost.Unauthorized(), HaveSuffix(": " + hint)},
		{"but not at a rate limit, which ends by itself", githost.TooManyRequests(time.Hour), Not(ContainSubstring(hint))},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			pulls, promoted, host, to := newPullRequests(t)
			made := intoRelease(t, promoted, host, to)
			host.FailNext("GET", "/pulls/", githost.Always, test.fault)

			seen := pulls.Poll(t.Context(), promoted, &pipelinesv1.PullRequestStatus{Number: int64(made.Number), Branch: made.Branch})
			g.Expect(seen.Err).To(MatchError(test.want))
		})
	}
}

func TestAMergeIntoTheBaseBranchIsASuccessThoughItIsWithdrawn(t *testing.T) {
	g := NewWithT(t)
	pulls, promoted, host, _ := newPullRequests(t)
	opened := pulls.Open(t.Context(), promoted, goAhead)
	g.Expect(opened.Err).NotTo(HaveOccurred())
	_, err := host.Merge("acme", "fleet", int(opened.PullRequest.Number))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pulls.Withdraw(t.Context(), promoted, "superseded by v2")).To(HaveField("State", pipelinesv1.PromotionSucceeded))
}

func TestThePullRequestIntoTheBaseBranchIsAdoptedBeforeOthers(t *testing.T) {
	for _, merged := range []bool{false, true} {
		t.Run(fmt.Sprintf("the other one is merged: %t", merged), func(t *testing.T) {
			g := NewWithT(t)
			pulls, promoted, host, to := newPullRequests(t)
			opened := pulls.Open(t.Context(), promoted, goAhead)
			g.Expect(opened.Err).NotTo(HaveOccurred())
			// Someone has copied the description, too.
			theirs := intoRelease(t, promoted, host, to)
			if merged {
				_, err := host.Merge("acme", "fleet", theirs.Number)
				g.Expect(err).NotTo(HaveOccurred())
			}
			g.Expect(pulls.Open(t.Context(), promoted, goAhead).PullRequest.Number).To(Equal(opened.PullRequest.Number))

			_, err := host.Merge("acme", "fleet", int(opened.PullRequest.Number))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(pulls.Open(t.Context(), promoted, goAhead).PullRequest.Number).To(Equal(opened.PullRequest.Number))
		})
	}
}

func TestARenewedPullRequestStatesWhatTheEnvironmentRunsNow(t *testing.T) {
	g := NewWithT(t)
	pulls, promoted, host, _ := newPullRequests(t)
	promoted.Running = []string{"v1.0.0"}
	now := pulls.Open(t.Context(), promoted, goAhead)
	comments := func(running string) []string {
		base, err := host.ReadFile("acme", "fleet", "main", "app.yaml")
		g.Expect(err).NotTo(HaveOccurred())
		_, err = host.CommitFiles("acme", "fleet", "main", map[string]string{"app.yaml": "# New\n" + string(base)}, "Move")
		g.Expect(err).NotTo(HaveOccurred())
		promoted.Running = []string{running}
		now = pulls.Renew(t.Context(), promoted, now.PullRequest, goAhead)
		g.Expect(now.Err).NotTo(HaveOccurred())
		all, err := host.PullRequests("acme", "fleet")
		g.Expect(err).NotTo(HaveOccurred())
		var texts []string
		for _, comment := range all[0].Comments {
			texts = append(texts, comment.Body)
		}
		return texts
	}
	g.Expect(comments("v1.0.0")).To(BeEmpty(), "its description is of the present")
	g.Expect(comments("v0.9.0")).To(Equal([]string{"Renewed by Sluice: the base branch has changed, and the environment runs `v0.9.0` now."}))
}

func TestWhatARenewHasPushedAndNotRecordedIsStillThePromotions(t *testing.T) {
	g := NewWithT(t)
	pulls, promoted, host, to := newPullRequests(t)
	opened := pulls.Open(t.Context(), promoted, goAhead)
	g.Expect(opened.Err).NotTo(HaveOccurred())
	_, err := host.CommitFiles("acme", "fleet", "main", map[string]string{"app.yaml": "# New\n" + markedFile}, "Move")
	g.Expect(err).NotTo(HaveOccurred())
	renewed := pulls.Renew(t.Context(), promoted, opened.PullRequest, goAhead)
	g.Expect(renewed.Err).NotTo(HaveOccurred())
	g.Expect(renewed.PullRequest.Commit).NotTo(Equal(opened.PullRequest.Commit))

	// All that is known afterwards is what the host says.
	lost := opened.PullRequest.DeepCopy()
	lost.HeadCommit = renewed.PullRequest.HeadCommit
	again := pulls.Renew(t.Context(), promoted, lost, goAhead)
	g.Expect(again.Err).NotTo(HaveOccurred())
	g.Expect(again.PullRequest).To(Equal(renewed.PullRequest))

	// What someone else has pushed is not, and stays.
	theirs, err := host.CommitFiles("acme", "fleet", promoted.branch(), map[string]string{"more.yaml": "a: b\n"}, "More")
	g.Expect(err).NotTo(HaveOccurred())
	lost.HeadCommit = theirs
	for _, main := range []string{"# Newer\n" + markedFile, setFile} {
		_, err = host.CommitFiles("acme", "fleet", "main", map[string]string{"app.yaml": main}, "Move again")
		g.Expect(err).NotTo(HaveOccurred())
		left := pulls.Renew(t.Context(), promoted, lost, goAhead)
		g.Expect(left.Err).NotTo(HaveOccurred())
		g.Expect(left.State).To(Equal(pipelinesv1.PromotionCreated))
		g.Expect(left.PullRequest.Commit).To(Equal(opened.PullRequest.Commit))
		at, err := to.host.Get(t.Context(), int(left.PullRequest.Number))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(at.HeadCommit).To(Equal(theirs))
	}
}
