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
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// TestRecordedAnswers plays what hosts were seen to answer, where users of other programs have reported it.
func TestRecordedAnswers(t *testing.T) {
	const (
		azurePull     = `{"pullRequestId":1,"status":"active","mergeStatus":"succeeded","lastMergeSourceCommit":{"commitId":"c0ffee"},"count":1,"value":[{"id":1,"sourceRefCommit":{"commitId":"c0ffee"}}]}`
		bitbucketPull = `{"id":1,"version":1,"state":"OPEN","fromRef":{"id":"refs/heads/b","latestCommit":"c0ffee"}}`
		gitLabPull    = `{"iid":1,"state":"opened","last_pipeline":{"id":1,"ref":"b"}}`
	)
	for _, test := range []struct {
		name, source, hostType, path string
		operation                    string
		// read is the response to reads, and answer the response to changes.
		read   string
		status int
		answer string
		// kind and text of the expected error. If both are empty, no error is expected.
		kind error
		text string
	}{
		{
			name:   "Azure DevOps wants a status to be one of an iteration",
			source: "mc1arke/sonarqube-community-branch-plugin#1219", hostType: "azure-devops", path: "/org/project/_git/fleet",
			operation: "status", read: azurePull, status: http.StatusForbidden,
			answer: `{"$id":"1","innerException":null,"message":"Pull request status rejected by status policy. Policy configuration requires status to be posted on iteration","typeName":"Microsoft.TeamFoundation.Git.Server.GitPullRequestStatusRejectedByPolicyException, Microsoft.TeamFoundation.Git.Server","typeKey":"GitPullRequestStatusRejectedByPolicyException","errorCode":0,"eventId":3000}`,
			kind:   ErrNotMergeable, text: "requires status to be posted on iteration",
		},
		{
			name:   "Azure DevOps takes no part in a merge that its policies forbid",
			source: "shayki5/azure-devops-create-pr-task#103", hostType: "azure-devops", path: "/org/project/_git/fleet",
			operation: "merge", read: azurePull, status: http.StatusBadRequest,
			answer: `{"$id":"1","innerException":null,"message":"Invalid argument value.\r\nParameter name: The pull request to update was not valid.","typeName":"Microsoft.TeamFoundation.SourceControl.WebServer.InvalidArgumentValueException, Microsoft.TeamFoundation.SourceControl.WebServer","typeKey":"InvalidArgumentValueException","errorCode":0,"eventId":0}`,
			kind:   ErrNotMergeable, text: "The pull request to update was not valid",
		},
		{
			name:   "Bitbucket vetoes a merge",
			source: "yontrack/yontrack#1120", hostType: "bitbucket-server", path: "/scm/org/fleet.git",
			operation: "merge", read: bitbucketPull, status: http.StatusConflict,
			answer: `{"errors":[{"context":null,"message":"Merging the pull request has been vetoed.","exceptionName":"com.atlassian.bitbucket.pull.PullRequestMergeVetoedException","conflicted":false,"vetoes":[{"summaryMessage":"Not all required builds are successful yet","detailedMessage":"You still need a minimum of one successful build before this pull request can be merged."}]}]}`,
			kind:   ErrNotMergeable, text: "Not all required builds are successful yet",
		},
		{
			name:   "Bitbucket has another version of the pull request",
			source: "runatlantis/atlantis#465", hostType: "bitbucket-server", path: "/scm/org/fleet.git",
			operation: "merge", read: bitbucketPull, status: http.StatusConflict,
			answer: `{"errors":[{"context":null,"message":"You are attempting to modify a pull request based on out-of-date information.","exceptionName":"com.atlassian.bitbucket.pull.PullRequestOutOfDateException","currentVersion":2,"expectedVersion":1}]}`,
			kind:   ErrNotMergeable, text: "based on out-of-date information",
		},
		{
			name:   "GitLab does not make pending what is pending",
			source: "gabrie-allaigre/sonar-gitlab-plugin#10", hostType: "gitlab", path: "/org/fleet",
			operation: "status", read: gitLabPull, status: http.StatusBadRequest,
			answer: `{"message":"Cannot transition status via :enqueue from :pending (Reason(s): Status cannot transition via \"enqueue\")"}`,
		},
		{
			name:   "GitHub has no drafts",
			source: "SWE-agent/SWE-agent#179", hostType: "github", path: "/org/fleet",
			operation: "create", status: http.StatusUnprocessableEntity,
			answer: `{"message": "Draft pull requests are not supported in this repository.", "documentation_url": "https://docs.github.com/rest/pulls/pulls#create-a-pull-request"}`,
			text:   "Draft pull requests are not supported in this repository.",
		},
	} {
		t.Run(test.name+": "+test.source, func(t *testing.T) {
			g := NewWithT(t)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.Method == http.MethodGet {
					_, _ = io.WriteString(w, test.read)
					return
				}
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.answer)
			}))
			t.Cleanup(server.Close)
			host, err := NewHosts(onLoopback).Open(test.hostType, Repository{URL: server.URL + test.path, Token: "t0ken"})
			g.Expect(err).NotTo(HaveOccurred())
			err = operations[test.operation](t.Context(), host)
			if test.kind == nil && test.text == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(test.text)))
			if test.kind != nil {
				g.Expect(err).To(MatchError(test.kind))
			}
		})
	}
}

// TestRecordedPullRequests plays pull requests as hosts have answered them, and holds the descriptions to them. Fields
// that are not in the descriptions are left out.
func TestRecordedPullRequests(t *testing.T) {
	for _, test := range []struct {
		source, hostType, answer string
		want                     PullRequest
	}{
		{
			source: "pull_request.closed of @octokit/webhooks-examples 7.6.1, MIT", hostType: "github",
			answer: `{"url":"https://api.github.com/repos/Codertocat/Hello-World/pulls/2","id":279147437,"html_url":"https://github.com/Codertocat/Hello-World/pull/2","number":2,"state":"closed","title":"Update the README with new information.","user":{"login":"Codertocat","type":"User"},"body":"This is a pretty simple change that we need to pull into master.","created_at":"2019-05-15T15:20:33Z","updated_at":"2019-05-15T15:21:18Z","closed_at":"2019-05-15T15:21:18Z","merged_at":null,"merge_commit_sha":"c4295bd74fb0f4fda03689c3df3f2803b658fd85","requested_reviewers":[{"login":"octocat","type":"User"}],"requested_teams":[],"labels":[{"name":"bug"}],"head":{"label":"Codertocat:changes","ref":"changes","sha":"ec26c3e57ca3a959ca5aad62de7213c562f8c821","user":{"login":"Codertocat","type":"User"},"repo":{"id":186853002,"name":"Hello-World","full_name":"Codertocat/Hello-World","private":false,"owner":{"login":"Codertocat","type":"User"},"html_url":"https://github.com/Codertocat/Hello-World","url":"https://api.github.com/repos/Codertocat/Hello-World","clone_url":"https://github.com/Codertocat/Hello-World.git","default_branch":"master"}},"base":{"label":"Codertocat:master","ref":"master","sha":"f95f852bd8fca8fcc58a9a2d6c842781e32a215e","user":{"login":"Codertocat","type":"User"},"repo":{"id":186853002,"name":"Hello-World","full_name":"Codertocat/Hello-World","private":false,"owner":{"login":"Codertocat","type":"User"},"html_url":"https://github.com/Codertocat/Hello-World","url":"https://api.github.com/repos/Codertocat/Hello-World","clone_url":"https://github.com/Codertocat/Hello-World.git","default_branch":"master"}},"draft":false,"merged":false,"mergeable":true,"mergeable_state":"clean","merged_by":null,"comments":0}`,
			want: PullRequest{
				Number: 2, URL: "https://github.com/Codertocat/Hello-World/pull/2", Title: "Update the README with new information.",
				Body:   "This is a pretty simple change that we need to pull into master.",
				Branch: "changes", Base: "master", HeadCommit: "ec26c3e57ca3a959ca5aad62de7213c562f8c821", State: StateClosed,
			},
		},
		{
			source: "testdata/get_merge_request.json of gitlab.com/gitlab-org/api/client-go/v2 2.64.0, Apache 2.0", hostType: "gitlab",
			answer: `{"id":33092005,"iid":14656,"project_id":278964,"title":"Add deletion support for designs","description":"## What does this MR do?\r\n\r\nThis adds the capability to destroy/hide designs.","state":"opened","created_at":"2019-07-11T22:34:43.500Z","target_branch":"master","source_branch":"delete-designs-v2","reviewers":[{"id":2535118,"username":"tkuah"}],"source_project_id":278964,"target_project_id":278964,"labels":["backend","database::reviewed","design management"],"detailed_merge_status":"mergeable","sha":"8e0b45049b6253b8984cde9241830d2851168142","web_url":"https://gitlab.com/gitlab-org/gitlab-ee/merge_requests/14656","head_pipeline":{"id":77056819,"sha":"8e0b45049b6253b8984cde9241830d2851168142","ref":"delete-designs-v2","status":"success"},"merge_error":null,"draft":true}`,
			want: PullRequest{
				Number: 14656, URL: "https://gitlab.com/gitlab-org/gitlab-ee/merge_requests/14656", Title: "Add deletion support for designs",
				Body:   "## What does this MR do?\r\n\r\nThis adds the capability to destroy/hide designs.",
				Branch: "delete-designs-v2", Base: "master", HeadCommit: "8e0b45049b6253b8984cde9241830d2851168142", State: StateOpen, Pipeline: "77056819",
			},
		},
	} {
		t.Run(test.hostType+": "+test.source, func(t *testing.T) {
			g := NewWithT(t)
			server := httptest.NewServer(describe(t, test.hostType).around(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, test.answer)
			})))
			t.Cleanup(server.Close)
			host, err := NewHosts(onLoopback).Open(test.hostType, Repository{URL: server.URL + "/org/fleet", Token: "t0ken"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(host.Get(t.Context(), test.want.Number)).To(Equal(test.want))
		})
	}
}

func TestAVersionOfTheAPIThatAzureDevOpsRefusesIsFollowedByAnOlderOne(t *testing.T) {
	for _, test := range []struct{ name, source, message, typeKey string }{
		{"since it is newer than the server", "microsoft/azure-devops-extension-sample#161",
			"The requested REST API version of 7.1 is out of range for this server. The latest REST API version this server supports is 6.1.", "VssVersionOutOfRangeException"},
		{"since it is still a preview there", "dotnet/arcade-services#1141",
			`The requested version "7.1" of the resource is under preview. The -preview flag must be supplied in the api-version for such requests. For example: "7.1-preview"`, "VssInvalidPreviewVersionException"},
	} {
		t.Run(test.name+": "+test.source, func(t *testing.T) {
			g := NewWithT(t)
			var asked []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				version := r.URL.Query().Get("api-version")
				asked = append(asked, version)
				if version == "6.0" {
					_, _ = io.WriteString(w, `{"pullRequestId":1,"status":"active"}`)
					return
				}
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"$id":"1","message":"`+strings.ReplaceAll(test.message, `"`, `\"`)+`","typeKey":"`+test.typeKey+`","errorCode":0,"eventId":3000}`)
			}))
			t.Cleanup(server.Close)
			host, err := NewHosts(onLoopback).Open("azure-devops", Repository{URL: server.URL + "/org/project/_git/fleet", Token: "t0ken"})
			g.Expect(err).NotTo(HaveOccurred())
			_, err = host.Get(t.Context(), 1)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(asked).To(Equal([]string{"7.1", "7.0", "6.0"}))
		})
	}
}
