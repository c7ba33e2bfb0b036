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

package view

import (
	"net/url"
	"strings"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
)

// Filter selects applications. It is the query of the address.
type Filter struct {
	Namespace, Application string
	State                  describe.Kind
	// All shows all applications, however many are selected.
	All bool
}

// The names of the query.
const (
	namespaceQuery   = "namespace"
	applicationQuery = "app"
	stateQuery       = "state"
	showQuery        = "show"

	showAll = "all"
)

// FilterOf reads a query.
func FilterOf(query url.Values) Filter {
	return Filter{Namespace: query.Get(namespaceQuery), Application: query.Get(applicationQuery), State: describe.Kind(query.Get(stateQuery)), All: query.Get(showQuery) == showAll}
}

// Query returns the query that FilterOf reads, with a question mark, or "".
func (f Filter) Query() string {
	query := url.Values{}
	for name, value := range map[string]string{namespaceQuery: f.Namespace, applicationQuery: f.Application, stateQuery: string(f.State)} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if f.All {
		query.Set(showQuery, showAll)
	}
	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}

// withState returns the filter with another state.
func (f Filter) withState(state describe.Kind) Filter {
	f.State = state
	return f
}

// selects reports whether the filter, but for its state, selects a pipeline.
func (f Filter) selects(pipeline *pipelinesv1.Pipeline) bool {
	application := strings.ToLower(strings.TrimSpace(f.Application))
	return (f.Namespace == "" || f.Namespace == pipeline.Namespace) &&
		(strings.Contains(strings.ToLower(pipeline.Name), application) || strings.Contains(strings.ToLower(pipeline.Spec.AppRef.Name), application))
}

// kindOf returns the kind of a pipeline: that of the environment that the revision stands at.
func kindOf(pipeline *pipelinesv1.Pipeline) describe.Kind {
	status := pipeline.Status.Environments[why.Lagging(pipeline)]
	if status == nil {
		return describe.UnknownKind
	}
	return describe.KindOf(status.State)
}
