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

// Package describe says in words and signs what pipelines and gates are doing. It is pure. The commands and the page of
// 'flux pipeline ui' use it, so they say the same.
package describe

import (
	"slices"
	"strings"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
)

// Unknown is shown for what a controller has not observed yet.
const Unknown = "<unknown>"

// Running returns the revisions that the targets of an environment run.
func Running(pipeline *pipelinesv1.Pipeline, env string) string {
	status := pipeline.Status.Environments[env]
	if status == nil {
		return Unknown
	}
	var running []string
	for _, target := range status.Targets {
		now := "nothing"
		if target.Revision != "" {
			now = revision.Short(target.Revision)
		}
		if !slices.Contains(running, now) {
			running = append(running, now)
		}
	}
	return strings.Join(running, ", ")
}
