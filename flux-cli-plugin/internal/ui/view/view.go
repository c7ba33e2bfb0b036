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

// Package view turns the world into what the pages show. It is pure: it knows nothing of HTTP or HTML.
package view

import (
	"net/url"
	"time"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/rights"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/world"
)

// View is what the views are made of.
type View struct {
	*world.Snapshot
	// User is the name that the API server knows the user by.
	User string
	// ReadOnly leaves all actions out.
	ReadOnly bool
	// RightsIn returns the user's rights in a namespace.
	RightsIn func(namespace string) rights.Rules
}

// Age is a time in the past, for readers who see how long ago it was.
type Age struct{ time.Time }

// Stamp returns the time in full.
func (a Age) Stamp() string { return a.UTC().Format(time.RFC3339) }

// Link is a name with a path of the page, or with a URL of another host.
type Link struct{ Text, Path string }

// PipelinePath returns the path of a Pipeline's page.
func PipelinePath(pipeline *pipelinesv1.Pipeline) string {
	return "/pipelines/" + url.PathEscape(pipeline.Namespace) + "/" + url.PathEscape(pipeline.Name)
}

// GatePath returns the path of a Gate's page.
func GatePath(gate *gatingv1.Gate) string {
	return "/gates/" + url.PathEscape(gate.Namespace) + "/" + url.PathEscape(gate.Name)
}
