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

package githost_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-github/v53/github"
	. "github.com/onsi/gomega"
)

func TestCombinedStatus(t *testing.T) {
	type set struct{ context, state string }
	tests := []struct {
		name     string
		statuses []set
		combined string
		contexts int
	}{
		{"is pending without any status", nil, "pending", 0},
		{"is success when all are", []set{{"ci", "success"}, {"sluice/preconditions", "success"}}, "success", 2},
		{"is pending when one is", []set{{"ci", "success"}, {"sluice/preconditions", "pending"}}, "pending", 2},
		{"is failure when one failed, pending or not", []set{{"ci", "pending"}, {"sluice/preconditions", "failure"}}, "failure", 2},
		{"is failure when one is in error", []set{{"ci", "error"}}, "failure", 1},
		{"counts only the last one of a context", []set{{"ci", "failure"}, {"ci", "success"}}, "success", 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			sha := w.commit("sluice/x", "a.yaml", "a: 1\n")
			for _, status := range test.statuses {
				_, response, err := w.client.Repositories.CreateStatus(w.ctx, owner, repo, sha,
					&github.RepoStatus{Context: github.String(status.context), State: github.String(status.state)})
				w.Expect(err).NotTo(HaveOccurred())
				w.Expect(response.StatusCode).To(Equal(http.StatusCreated))
			}
			for _, ref := range []string{sha, "sluice/x", "heads/sluice/x"} {
				combined, _, err := w.client.Repositories.GetCombinedStatus(w.ctx, owner, repo, ref, nil)
				w.Expect(err).NotTo(HaveOccurred())
				w.Expect(combined.GetState()).To(Equal(test.combined))
				w.Expect(combined.GetSHA()).To(Equal(sha))
				w.Expect(combined.Statuses).To(HaveLen(test.contexts))
			}
			all, _, err := w.client.Repositories.ListStatuses(w.ctx, owner, repo, sha, nil)
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(all).To(HaveLen(len(test.statuses)))
			w.Expect(w.host.Statuses(owner, repo, sha)).To(HaveLen(len(test.statuses)))
		})
	}
}

func TestStatusIsRefused(t *testing.T) {
	tests := []struct {
		name    string
		sha     string // main's if empty
		status  github.RepoStatus
		message string
		field   string
	}{
		{"for a commit that is missing", unknownSHA, github.RepoStatus{State: github.String("success")},
			"No commit found for SHA: " + unknownSHA, ""},
		{"of a state that there is not", "", github.RepoStatus{State: github.String("fine")}, "Validation Failed", "state"},
		{"with too long a description", "",
			github.RepoStatus{State: github.String("success"), Description: github.String(strings.Repeat("é", 141))},
			"Validation Failed", "description"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			sha := test.sha
			if sha == "" {
				sha = w.first
			}
			_, _, err := w.client.Repositories.CreateStatus(w.ctx, owner, repo, sha, &test.status)
			status, message, first := w.refusal(err)
			w.Expect(status).To(Equal(http.StatusUnprocessableEntity))
			w.Expect(message).To(Equal(test.message))
			w.Expect(first.Field).To(Equal(test.field))
		})
	}
}

func TestFailingStatusMakesAPullRequestUnstable(t *testing.T) {
	w := newWorld(t)
	pull := w.open("feature")
	w.Expect(pull.GetMergeableState()).To(Equal("clean"))
	_, _, err := w.client.Repositories.CreateStatus(w.ctx, owner, repo, pull.GetHead().GetSHA(),
		&github.RepoStatus{Context: github.String("sluice/preconditions"), State: github.String("failure")})
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(w.pull(1).GetMergeableState()).To(Equal("unstable"))
}
