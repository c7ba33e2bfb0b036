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
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const maxStatusDescription = 140

// Status is a commit status.
type Status struct {
	// Context names the check. The default is "default".
	Context string
	// State is error, failure, pending or success.
	State string
	// Description and TargetURL are for people.
	Description, TargetURL string
	// Creator is the login of the user who set it.
	Creator string
	// CreatedAt is the time at which it was set.
	CreatedAt time.Time

	id int64
}

// Statuses returns all statuses of the commit, newest last.
func (s *Server) Statuses(owner, name, sha string) ([]Status, error) {
	repo, err := s.repository(owner, name)
	if err != nil {
		return nil, err
	}
	repo.mu.Lock()
	defer repo.mu.Unlock()
	return slices.Clone(repo.statuses[sha]), nil
}

type statusJSON struct {
	ID          int64    `json:"id"`
	State       string   `json:"state"`
	Context     string   `json:"context"`
	Description *string  `json:"description"`
	TargetURL   *string  `json:"target_url"`
	Creator     userJSON `json:"creator"`
	CreatedAt   *string  `json:"created_at"`
	UpdatedAt   *string  `json:"updated_at"`
}

func (s Status) json() statusJSON {
	return statusJSON{
		ID: s.id, State: s.State, Context: s.Context, Description: nullable(s.Description), TargetURL: nullable(s.TargetURL),
		Creator: user(s.Creator), CreatedAt: timestamp(s.CreatedAt), UpdatedAt: timestamp(s.CreatedAt),
	}
}

type combinedStatusJSON struct {
	State      string         `json:"state"`
	SHA        string         `json:"sha"`
	TotalCount int            `json:"total_count"`
	Statuses   []statusJSON   `json:"statuses"`
	Repository repositoryJSON `json:"repository"`
}

func createStatus(r *request) (*reply, error) {
	var wanted struct {
		State, Context, Description string
		TargetURL                   string `json:"target_url"`
	}
	if err := r.decode(&wanted); err != nil {
		return nil, err
	}
	sha := r.PathValue("sha")
	if kind, exists := r.repo.git.objectType(sha); !exists || kind != "commit" {
		return nil, errUnprocessable("No commit found for SHA: %s", sha)
	}
	refused := func(field, message string) error {
		return errValidation(fieldError{Resource: "Status", Code: "custom", Field: field, Message: field + " " + message})
	}
	if !slices.Contains([]string{"error", "failure", "pending", "success"}, wanted.State) {
		return nil, refused("state", "is not included in the list")
	}
	if utf8.RuneCountInString(wanted.Description) > maxStatusDescription {
		return nil, refused("description", fmt.Sprintf("is too long (maximum is %d characters)", maxStatusDescription))
	}
	if wanted.Context == "" {
		wanted.Context = "default"
	}
	status := Status{
		Context: wanted.Context, State: wanted.State, Description: wanted.Description, TargetURL: wanted.TargetURL,
		Creator: r.token.Login, CreatedAt: time.Now(), id: r.repo.newID(),
	}
	r.repo.statuses[sha] = append(r.repo.statuses[sha], status)
	return created(status.json())
}

func getCommitStatuses(r *request) (*reply, error) {
	refAndWhat := r.PathValue("refAndWhat")
	slash := strings.LastIndex(refAndWhat, "/")
	if slash < 0 {
		return nil, errNotFound()
	}
	ref, what := refAndWhat[:slash], refAndWhat[slash+1:]
	sha, exists := r.repo.git.commit(ref)
	if !exists {
		return nil, errUnprocessable("No commit found for SHA: %s", ref)
	}
	switch what {
	case "status":
		return combinedStatus(r, sha)
	case "statuses":
		var all []statusJSON
		for _, status := range slices.Backward(r.repo.statuses[sha]) {
			all = append(all, status.json())
		}
		return listOf(r, all)
	default:
		return nil, errNotFound()
	}
}

func combinedStatus(r *request, sha string) (*reply, error) {
	latest := r.repo.latestStatuses(sha)
	body := combinedStatusJSON{
		State: combinedState(latest), SHA: sha, TotalCount: len(latest), Statuses: []statusJSON{}, Repository: r.repo.json(),
	}
	part, header := page(r, latest)
	for _, status := range part {
		body.Statuses = append(body.Statuses, status.json())
	}
	return &reply{status: http.StatusOK, header: header, body: body}, nil
}

// latestStatuses returns the last status of each context, in order of the contexts' first use.
func (r *repository) latestStatuses(sha string) []Status {
	var latest []Status
	for _, status := range r.statuses[sha] {
		same := func(other Status) bool { return other.Context == status.Context }
		if known := slices.IndexFunc(latest, same); known >= 0 {
			latest[known] = status
		} else {
			latest = append(latest, status)
		}
	}
	return latest
}

func combinedState(latest []Status) string {
	state := "success"
	if len(latest) == 0 {
		state = "pending"
	}
	for _, status := range latest {
		switch status.State {
		case "error", "failure":
			return "failure"
		case "pending":
			state = "pending"
		}
	}
	return state
}
