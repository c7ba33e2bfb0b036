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
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	// visualStudio is the domain of older organizations on Azure DevOps.
	visualStudio = ".visualstudio.com"
	// azureHost is the host of organizations today, and defaultCollection the collection of older ones.
	azureHost         = "dev.azure.com"
	defaultCollection = "DefaultCollection"
	// azureGit precedes the repository in each URL.
	azureGit = "_git"
	// azureClosed is the state of comment threads that nobody needs to resolve.
	azureClosed = "closed"
)

// azureVersions are the supported versions of the API, newest first. Azure DevOps rejects requests without a version,
// and those with one that it does not support yet: the service and Server 2022.1 support 7.1, Server 2022 supports 7.0,
// and Server 2020 supports 6.0. https://learn.microsoft.com/rest/api/azure/devops/#api-and-tfs-version-mapping
var azureVersions = []string{"7.1", "7.0", "6.0"}

// azureKind has separate hosts for SSH, with another form of path. Its service hooks are not signed. They can have a
// user name, which is ignored, and a password, which is the key:
// https://learn.microsoft.com/azure/devops/service-hooks/services/webhooks
var azureKind = kind{
	open:  newAzure,
	known: azureKnown,
	claims: func(header http.Header, key []byte) []claim {
		_, sent, _ := (&http.Request{Header: header}).BasicAuth()
		return keyClaim(sent, key)
	},
}

// azureKnown returns the current form of a path, /organization/project/_git/repository, which every organization has.
// Other paths are returned unchanged.
func azureKnown(address *url.URL) (host, path string, ok bool) {
	name := strings.ToLower(address.Hostname())
	organization, isOld := strings.CutSuffix(name, visualStudio)
	bySSH := name == "ssh."+azureHost || name == "vs-ssh"+visualStudio
	if !bySSH && name != azureHost && !isOld {
		return "", "", false
	}
	parts := strings.Split(strings.Trim(address.EscapedPath(), "/"), "/")
	switch {
	case bySSH && parts[0] == "v3":
		// /v3/organization/project/repository
		parts = parts[1:]
	case bySSH && isOld:
		parts = append([]string{address.User.Username()}, parts...)
	case isOld:
		parts = append([]string{organization}, parts...)
	}
	if len(parts) > 1 && parts[1] == defaultCollection {
		parts = slices.Delete(parts, 1, 2)
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == azureGit || part == "_ssh" })
	switch len(parts) {
	case 2:
		return azureHost, "/" + parts[0] + "/" + parts[1] + "/" + azureGit + "/" + parts[1], true
	case 3:
		return azureHost, "/" + parts[0] + "/" + parts[1] + "/" + azureGit + "/" + parts[2], true
	default:
		return azureHost, address.EscapedPath(), true
	}
}

// azure is a repository on Azure DevOps Services or Server.
type azure struct {
	location
	rest rest
	// client stores the version of the API that the host supports.
	client *apiClient
	// pageSize is the number of pull requests in a page. The maximum of Azure DevOps is 1000.
	pageSize int
}

// azurePullRequest is a pull request in the API of Azure DevOps.
type azurePullRequest struct {
	ID          int    `json:"pullRequestId"`
	Title       string `json:"title"`
	Description string `json:"description"`
	// Status is active, completed or abandoned.
	Status string `json:"status"`
	// MergeStatus is the result of a test merge, such as conflicts.
	MergeStatus string `json:"mergeStatus"`
	// MergeFailure is the error of the last merge.
	MergeFailure  string      `json:"mergeFailureMessage"`
	SourceRefName string      `json:"sourceRefName"`
	TargetRefName string      `json:"targetRefName"`
	Head          azureCommit `json:"lastMergeSourceCommit"`
	// Merge is the commit of the last merge: of a test merge until the pull request is completed.
	Merge azureCommit `json:"lastMergeCommit"`
	// ForkSource is set if the branch is in another repository.
	ForkSource *struct{} `json:"forkSource"`
}

type azureCommit struct {
	ID string `json:"commitId"`
}

func newAzure(repository Repository, connect connector) (Host, error) {
	at, err := locateAzure(repository)
	if err != nil {
		return nil, err
	}
	api, err := at.connect(repository, password, connect)
	if err != nil {
		return nil, err
	}
	return &azure{location: at, client: api, pageSize: 100, rest: rest{
		client: api.Client,
		// Without this header, the response to an invalid token is a redirect to a sign-in page.
		header:  http.Header{"X-TFS-FedAuthRedirect": {"Suppress"}},
		message: azureMessage, secrets: at.secrets,
	}}, nil
}

// locateAzure parses collection/project/_git/repository, and collection/_git/repository, in which the project has the
// name of the repository. The collection is an organization, or a collection of a server.
func locateAzure(repository Repository) (location, error) {
	const example = "the repository URL is not one of Azure DevOps: give one like https://dev.azure.com/organization/project/_git/repository"
	root, segments, err := parseURL(repository)
	if err != nil {
		return location{}, err
	}
	last := len(segments) - 1
	if segments[last-1] != azureGit {
		return location{}, errors.New(example)
	}
	name, before := segments[last], segments[:last-1]
	collection := min(azureCollection(root.Hostname(), before), len(before))
	project := name
	switch rest := before[collection:]; len(rest) {
	case 0:
	case 1:
		project = rest[0]
	default:
		return location{}, errors.New(example)
	}
	at := newLocation(under(root, before[:collection]), project, name)
	at.page = join(at.root, project, azureGit, name).String()
	at.clone = at.page
	return at, nil
}

// azureCollection returns how many of the path segments before _git name the collection.
func azureCollection(host string, before []string) int {
	switch {
	case host == azureHost:
		return 1
	case !strings.HasSuffix(host, visualStudio) && before[0] == "tfs":
		// In Team Foundation Server, and still by default, a collection follows.
		return 2
	case !strings.HasSuffix(host, visualStudio):
		// Collections of a server have paths of any length. Only a single segment shows that the project is omitted.
		return max(1, len(before)-1)
	case len(before) > 0 && before[0] == defaultCollection:
		return 1
	default:
		return 0
	}
}

// address returns an address in the repository's API.
func (h *azure) address(query url.Values, path ...string) *url.URL {
	address := join(h.root, append([]string{h.owner, "_apis", "git", "repositories", h.name}, path...)...)
	address.RawQuery = query.Encode()
	return address
}

// call sends a request with the newest version of the API that the host supports.
func (h *azure) call(ctx context.Context, method string, address *url.URL, body, answer any) error {
	for {
		older := h.client.older.Load()
		versioned := *address
		query := versioned.Query()
		query.Set("api-version", azureVersions[older])
		versioned.RawQuery = query.Encode()
		err := h.rest.call(ctx, method, &versioned, body, answer)
		tooNew := slices.Contains([]string{"VssVersionOutOfRangeException", "VssInvalidPreviewVersionException"}, azureType(err))
		if !tooNew || int(older) == len(azureVersions)-1 {
			return err
		}
		h.client.older.CompareAndSwap(older, older+1)
	}
}

func (h *azure) pull(number int, path ...string) *url.URL {
	return h.address(nil, append([]string{"pullrequests", strconv.Itoa(number)}, path...)...)
}

func (h *azure) Find(ctx context.Context, branch string) ([]PullRequest, error) {
	numbers := map[int]bool{}
	skip := 0
	// The order is always newest first. A pull request that is opened meanwhile moves others to the next page, where
	// they are read again.
	err := everyPage(func(page int) (int, error) {
		address := h.address(url.Values{
			"searchCriteria.status": {"all"}, "searchCriteria.sourceRefName": {"refs/heads/" + branch},
			"$top": {strconv.Itoa(h.pageSize)}, "$skip": {strconv.Itoa(skip)},
		}, "pullrequests")
		var list struct {
			Value []azurePullRequest `json:"value"`
		}
		if err := h.call(ctx, http.MethodGet, address, nil, &list); err != nil {
			return 0, h.failed("listing pull requests", err)
		}
		for _, pullRequest := range list.Value {
			if pullRequest.ForkSource == nil && pullRequest.SourceRefName == "refs/heads/"+branch {
				numbers[pullRequest.ID] = true
			}
		}
		if err := checkFound(len(numbers), branch); err != nil {
			return 0, err
		}
		skip += len(list.Value)
		if len(list.Value) < h.pageSize {
			return 0, nil
		}
		return page + 1, nil
	})
	if err != nil {
		return nil, err
	}
	var found found
	for number := range numbers {
		// Lists contain only the first 400 characters of each body.
		pullRequest, err := h.Get(ctx, number)
		if err != nil {
			return nil, err
		}
		if err := found.add(pullRequest); err != nil {
			return nil, err
		}
	}
	return newestFirst(found.pullRequests), nil
}

func (h *azure) Get(ctx context.Context, number int) (PullRequest, error) {
	pullRequest, err := h.get(ctx, number)
	if err != nil {
		return PullRequest{}, err
	}
	return h.fromAzure(pullRequest), nil
}

func (h *azure) get(ctx context.Context, number int) (azurePullRequest, error) {
	var pullRequest azurePullRequest
	if err := h.call(ctx, http.MethodGet, h.pull(number), nil, &pullRequest); err != nil {
		return azurePullRequest{}, h.failed(fmt.Sprintf("reading pull request %d", number), err)
	}
	return pullRequest, nil
}

func (h *azure) Create(ctx context.Context, wanted NewPullRequest) (PullRequest, error) {
	const doing = "opening a pull request"
	if wanted.Branch == wanted.Base {
		return PullRequest{}, h.location.failed(doing, ErrNoDifference, 0, nil)
	}
	type label struct {
		Name string `json:"name"`
	}
	body := struct {
		SourceRefName string  `json:"sourceRefName"`
		TargetRefName string  `json:"targetRefName"`
		Title         string  `json:"title"`
		Description   string  `json:"description"`
		IsDraft       bool    `json:"isDraft"`
		Labels        []label `json:"labels,omitempty"`
	}{"refs/heads/" + wanted.Branch, "refs/heads/" + wanted.Base, wanted.Title, wanted.Body, wanted.Draft, nil}
	for _, name := range wanted.Labels {
		body.Labels = append(body.Labels, label{name})
	}
	var answer azurePullRequest
	if err := h.call(ctx, http.MethodPost, h.address(nil, "pullrequests"), body, &answer); err != nil {
		return PullRequest{}, h.failed(doing, err)
	}
	created := h.fromAzure(answer)
	for _, reviewer := range wanted.Reviewers {
		notTaken(&created, "reviewers", h.askForReview(ctx, created.Number, reviewer))
	}
	return created, nil
}

// askForReview requests reviews from users and groups by their IDs. Their names are on another host, which needs
// another permission.
func (h *azure) askForReview(ctx context.Context, number int, reviewer string) error {
	noVote := map[string]int{"vote": 0}
	if err := h.call(ctx, http.MethodPut, h.pull(number, "reviewers", reviewer), noVote, nil); err != nil {
		return h.failed(fmt.Sprintf("requesting a review of pull request %d", number), err)
	}
	return nil
}

func (h *azure) Close(ctx context.Context, number int) (PullRequest, error) {
	return closeOpen(ctx, h, number, func() (PullRequest, error) {
		var abandoned azurePullRequest
		change := map[string]string{"status": "abandoned"}
		if err := h.call(ctx, http.MethodPatch, h.pull(number), change, &abandoned); err != nil {
			return PullRequest{}, h.failed(fmt.Sprintf("closing pull request %d", number), err)
		}
		return h.fromAzure(abandoned), nil
	})
}

func (h *azure) Comment(ctx context.Context, number int, text string) error {
	type comment struct {
		ParentCommentID int    `json:"parentCommentId"`
		Content         string `json:"content"`
		CommentType     string `json:"commentType"`
	}
	thread := struct {
		Comments []comment `json:"comments"`
		Status   string    `json:"status"`
	}{[]comment{{Content: text, CommentType: "text"}}, azureClosed}
	if err := h.call(ctx, http.MethodPost, h.pull(number, "threads"), thread, nil); err != nil {
		return h.failed(fmt.Sprintf("commenting on pull request %d", number), err)
	}
	return nil
}

// SetStatus sets the status of the pull request itself, for the push of its head. The branch policies of Azure DevOps
// ignore statuses of commits, and a status without a push applies to all later pushes too.
func (h *azure) SetStatus(ctx context.Context, pullRequest PullRequest, state StatusState, description string) error {
	iteration, err := h.iterationOf(ctx, pullRequest)
	if err != nil {
		return err
	}
	genre, name, _ := strings.Cut(StatusContext, "/")
	status := map[string]any{
		"state": map[StatusState]string{
			StatusPending: "pending", StatusSuccess: "succeeded", StatusFailure: "failed",
		}[state],
		"description": short(description),
		"context":     map[string]string{"genre": genre, "name": name},
		"iterationId": iteration,
	}
	if err := h.call(ctx, http.MethodPost, h.pull(pullRequest.Number, "statuses"), status, nil); err != nil {
		return h.failed(fmt.Sprintf("setting a status of pull request %d", pullRequest.Number), err)
	}
	return nil
}

// iterationOf returns the number of the newest push that left the pull request at the commit.
func (h *azure) iterationOf(ctx context.Context, pullRequest PullRequest) (int, error) {
	doing := fmt.Sprintf("reading the pushes to pull request %d", pullRequest.Number)
	var list struct {
		Value []struct {
			ID     int         `json:"id"`
			Source azureCommit `json:"sourceRefCommit"`
		} `json:"value"`
	}
	if err := h.call(ctx, http.MethodGet, h.pull(pullRequest.Number, "iterations"), nil, &list); err != nil {
		return 0, h.failed(doing, err)
	}
	newest := 0
	for _, iteration := range list.Value {
		if iteration.Source.ID == pullRequest.HeadCommit {
			newest = max(newest, iteration.ID)
		}
	}
	if newest == 0 {
		return 0, h.failed(doing, fmt.Errorf("there is no iteration of commit %s yet", pullRequest.HeadCommit))
	}
	return newest, nil
}

// Merge requests a merge, which Azure DevOps runs in the background.
func (h *azure) Merge(ctx context.Context, number int, method MergeMethod, headCommit string) error {
	pullRequest, err := h.get(ctx, number)
	if err != nil {
		return err
	}
	doing := fmt.Sprintf("merging pull request %d", number)
	// A conflict would be found in the background without a report. There may be one until the test merge has finished.
	if pullRequest.Status != "active" || pullRequest.Head.ID != headCommit ||
		slices.Contains([]string{"conflicts", "queued", "notSet"}, pullRequest.MergeStatus) {
		return h.location.failed(doing, ErrNotMergeable, http.StatusOK,
			fmt.Errorf("it is %s at commit %s, and its merge status is %s", pullRequest.Status, pullRequest.Head.ID, pullRequest.MergeStatus))
	}
	change := map[string]any{
		"status":                "completed",
		"lastMergeSourceCommit": azureCommit{headCommit},
		"completionOptions": map[string]string{
			"mergeStrategy": map[MergeMethod]string{
				MergeCommit: "noFastForward", MergeSquash: "squash", MergeRebase: "rebase",
			}[method],
		},
	}
	err = h.call(ctx, http.MethodPatch, h.pull(number), change, nil)
	if _, status := refusalOf(err); status == http.StatusConflict || status == http.StatusBadRequest {
		return h.location.failed(doing, ErrNotMergeable, status, err)
	}
	if err != nil {
		return h.failed(doing, err)
	}
	if pullRequest.MergeStatus == "rejectedByPolicy" || pullRequest.MergeStatus == "failure" {
		// A repeated request may fail like the first one.
		return h.location.failed(doing, ErrNotMergeable, http.StatusOK, fmt.Errorf("the last attempt ended with %s: %s", pullRequest.MergeStatus, pullRequest.MergeFailure))
	}
	return nil
}

func (h *azure) failed(doing string, err error) error {
	_, status := refusalOf(err)
	var kind error
	switch {
	case status == http.StatusConflict && has(err.Error(), "tf401179"):
		kind = ErrAlreadyExists
	// GitPullRequestUpdateRejectedByPolicyException and similar: the token is allowed to, but the branch's policies
	// reject it.
	case status == http.StatusForbidden && strings.Contains(azureType(err), "RejectedByPolicyException"):
		kind = ErrNotMergeable
	}
	return h.location.failed(doing, kind, status, err)
}

// azureType returns the type of the exception in an error response.
func azureType(err error) string {
	var body struct {
		TypeKey string `json:"typeKey"`
	}
	if refused, _ := refusalOf(err); refused != nil {
		_ = json.Unmarshal(refused.body, &body)
	}
	return body.TypeKey
}

func azureMessage(content []byte) string {
	var body struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(content, &body)
	return body.Message
}

func (h *azure) fromAzure(p azurePullRequest) PullRequest {
	pullRequest := PullRequest{
		Number:     p.ID,
		URL:        h.page + "/pullrequest/" + strconv.Itoa(p.ID),
		Title:      p.Title,
		Body:       p.Description,
		Branch:     strings.TrimPrefix(p.SourceRefName, "refs/heads/"),
		Base:       strings.TrimPrefix(p.TargetRefName, "refs/heads/"),
		HeadCommit: p.Head.ID,
		State:      map[string]State{"active": StateOpen, "completed": StateMerged, "abandoned": StateClosed}[p.Status],
	}
	if pullRequest.State == StateMerged {
		pullRequest.MergeCommit = p.Merge.ID
	}
	return pullRequest
}
