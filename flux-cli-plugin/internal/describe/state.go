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

package describe

import (
	"strings"
	"unicode"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// Kind groups the states of environments, for colours and filters.
type Kind string

const (
	// Current: the revision needs nothing more in the environment.
	Current Kind = "current"
	// Behind: the environment runs another revision, and nothing is promoted into it now.
	Behind Kind = "behind"
	// Waiting: the promotion waits or is in progress.
	Waiting Kind = "waiting"
	// Failed: a person must act.
	Failed Kind = "failed"
	// RolledBack: the environment ran the revision, and now runs another one.
	RolledBack Kind = "rolled-back"
	// UnknownKind: nobody has observed the environment.
	UnknownKind Kind = "unknown"
)

// Kinds are all kinds, in the order in which they are listed.
var Kinds = []Kind{Failed, RolledBack, Waiting, Behind, UnknownKind, Current}

// Word returns the kind for readers.
func (k Kind) Word() string { return strings.ReplaceAll(string(k), "-", " ") }

// Sign returns a sign that shows the kind without colours.
func (k Kind) Sign() string { return signs[k] }

var signs = map[Kind]string{
	Current: "✓", Behind: "↓", Waiting: "◷", Failed: "✗", RolledBack: "↺", UnknownKind: "?",
}

var kinds = map[pipelinesv1.EnvironmentState]Kind{
	pipelinesv1.EnvironmentCurrent: Current, pipelinesv1.EnvironmentSkipped: Current,
	pipelinesv1.EnvironmentBehind: Behind, pipelinesv1.EnvironmentNotPromoted: Behind,
	pipelinesv1.EnvironmentNotReady: Waiting, pipelinesv1.EnvironmentWaiting: Waiting, pipelinesv1.EnvironmentPromoting: Waiting,
	pipelinesv1.EnvironmentPullRequestOpen: Waiting, pipelinesv1.EnvironmentPromoted: Waiting,
	pipelinesv1.EnvironmentRollingOut: Waiting, pipelinesv1.EnvironmentSuspended: Waiting,
	pipelinesv1.EnvironmentFailed: Failed, pipelinesv1.EnvironmentAbandoned: Failed, pipelinesv1.EnvironmentInvalid: Failed,
	pipelinesv1.EnvironmentRolledBack: RolledBack,
	pipelinesv1.EnvironmentUnknown:    UnknownKind,
}

// KindOf returns the kind of a state.
func KindOf(state pipelinesv1.EnvironmentState) Kind {
	if kind, known := kinds[state]; known {
		return kind
	}
	return UnknownKind
}

// State returns a state in words, such as 'pull request open'.
func State(state pipelinesv1.EnvironmentState) string {
	if state == "" {
		return UnknownKind.Word()
	}
	var words strings.Builder
	for i, r := range string(state) {
		if i > 0 && unicode.IsUpper(r) {
			words.WriteByte(' ')
		}
		words.WriteRune(unicode.ToLower(r))
	}
	return words.String()
}
