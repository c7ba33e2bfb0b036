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

package githost

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Comment is a comment on a pull request.
type Comment struct {
	// Author is the login of the author.
	Author    string
	Body      string
	CreatedAt time.Time

	id int64
}

type commentJSON struct {
	ID        int64    `json:"id"`
	HTMLURL   string   `json:"html_url"`
	User      userJSON `json:"user"`
	Body      string   `json:"body"`
	CreatedAt *string  `json:"created_at"`
	UpdatedAt *string  `json:"updated_at"`
}

type labelJSON struct {
	Name string `json:"name"`
}

type teamJSON struct {
	Name string `json:"name"`
	Slug string `json:"slug"`
}

func (r *repository) commentJSON(p *pullRequest, c Comment) commentJSON {
	return commentJSON{
		ID: c.id, HTMLURL: fmt.Sprintf("%s/pull/%d#issuecomment-%d", r.htmlURL(), p.Number, c.id), User: user(c.Author),
		Body: c.Body, CreatedAt: timestamp(c.CreatedAt), UpdatedAt: timestamp(c.CreatedAt),
	}
}

func listComments(r *request) (*reply, error) {
	pull, err := r.pull()
	if err != nil {
		return nil, err
	}
	var comments []commentJSON
	for _, comment := range pull.Comments {
		comments = append(comments, r.repo.commentJSON(pull, comment))
	}
	return listOf(r, comments)
}

func createComment(r *request) (*reply, error) {
	pull, err := r.pull()
	if err != nil {
		return nil, err
	}
	var wanted struct{ Body string }
	if err := r.decode(&wanted); err != nil {
		return nil, err
	}
	if strings.TrimSpace(wanted.Body) == "" {
		return nil, errValidation(fieldError{Resource: "IssueComment", Code: "unprocessable", Field: "data", Message: "Body cannot be blank"})
	}
	comment := Comment{Author: r.token.Login, Body: wanted.Body, CreatedAt: time.Now(), id: r.repo.newID()}
	pull.Comments = append(pull.Comments, comment)
	pull.touch()
	return created(r.repo.commentJSON(pull, comment))
}

func labels(names []string) []labelJSON {
	views := []labelJSON{}
	for _, name := range names {
		views = append(views, labelJSON{Name: name})
	}
	return views
}

func listLabels(r *request) (*reply, error) {
	pull, err := r.pull()
	if err != nil {
		return nil, err
	}
	return listOf(r, labels(pull.Labels))
}

// addLabels accepts {"labels": […]}, or the list alone as go-github sends it. Missing labels are created.
func addLabels(r *request) (*reply, error) {
	pull, err := r.pull()
	if err != nil {
		return nil, err
	}
	var body json.RawMessage
	if err := r.decode(&body); err != nil {
		return nil, err
	}
	var names []string
	if err := json.Unmarshal(body, &names); err != nil {
		var object struct{ Labels []string }
		if err := json.Unmarshal(body, &object); err != nil {
			return nil, errUnprocessable("Invalid request.\n\nFor 'links/1/schema', %s is not an array.", body)
		}
		names = object.Labels
	}
	pull.Labels = union(pull.Labels, names)
	pull.touch()
	return ok(labels(pull.Labels))
}

func requestReviewers(r *request) (*reply, error) {
	pull, err := r.pull()
	if err != nil {
		return nil, err
	}
	var wanted struct {
		Reviewers     []string
		TeamReviewers []string `json:"team_reviewers"`
	}
	if err := r.decode(&wanted); err != nil {
		return nil, err
	}
	// If one is rejected, all are.
	if !r.repo.areCollaborators(wanted.Reviewers) || r.repo.teams != nil && !containsAll(r.repo.teams, wanted.TeamReviewers) {
		return nil, errUnprocessable("Reviews may only be requested from collaborators. "+
			"One or more of the users or teams you specified is not a collaborator of the %s repository.", r.repo.fullName())
	}
	if slices.Contains(wanted.Reviewers, pull.Author) {
		return nil, errUnprocessable("Review cannot be requested from pull request author.")
	}
	pull.Reviewers = union(pull.Reviewers, wanted.Reviewers)
	pull.TeamReviewers = union(pull.TeamReviewers, wanted.TeamReviewers)
	pull.touch()
	return created(r.repo.pullJSON(pull))
}

func (r *repository) areCollaborators(logins []string) bool {
	return r.collaborators == nil || containsAll(r.collaborators, logins)
}

func containsAll(known, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(known, name) })
}

func union(have, add []string) []string {
	have = slices.Clone(have)
	for _, name := range add {
		if !slices.Contains(have, name) {
			have = append(have, name)
		}
	}
	return have
}
