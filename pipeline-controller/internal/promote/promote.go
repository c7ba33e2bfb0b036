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

// Package promote carries promotions out: by pull request or by notification. Whatever it does in the outside world can be
// found again, so that an attempt which was cut off is picked up by the next one and nothing happens twice.
package promote

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluice-toolkit/sluice/api/marker"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// Promotion is the promotion of one revision into one environment of one Pipeline.
type Promotion struct {
	// Pipeline is the name of the Pipeline.
	Pipeline types.NamespacedName
	// Environment that is promoted into.
	Environment string
	// Revision that is promoted.
	Revision string
	// Started is when the promotion was found to be needed. It tells apart promotions of the same revision.
	Started metav1.Time
	// Running are the revisions that the environment's targets run now.
	Running []string
	// Checked are the preconditions that the promotion has waited for.
	Checked []pipelinesv1.PreconditionStatus
	// Supersedes is the pull request of another revision that was withdrawn for this promotion; nil if there was none.
	Supersedes *pipelinesv1.PullRequestStatus
	// Earlier is what the Pipeline has promoted before.
	Earlier Earlier
	// Strategy is how the promotion is carried out.
	Strategy pipelinesv1.Strategy
}

// key is what the fields to be set are marked for.
func (p Promotion) key() marker.Key {
	return marker.Key{Namespace: p.Pipeline.Namespace, Pipeline: p.Pipeline.Name, Environment: p.Environment}
}

// Confirm is asked right before the outside world is touched. It returns why the promotion must not go ahead, or "".
type Confirm func(ctx context.Context) (why string, err error)

// validate refuses what a cluster or a Pipeline could slip into a commit message or a pull request, and what can't be seen: who approves
// has to see what is written.
func (p Promotion) validate() error {
	for _, value := range []string{p.Environment, p.Revision} {
		if !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return fmt.Errorf("%q has non-printable characters", value)
		}
	}
	return nil
}
