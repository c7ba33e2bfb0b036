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

// Package promote runs promotions, by pull request or by notification. Every external change can be found again, so the
// next attempt continues one that was interrupted, and nothing happens twice.
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

// Promotion is the promotion of a revision into an environment of a Pipeline.
type Promotion struct {
	// Pipeline is the name of the Pipeline.
	Pipeline types.NamespacedName
	// Environment that is promoted into.
	Environment string
	// Revision that is promoted.
	Revision string
	// Started is when the promotion was created. It distinguishes promotions of the same revision.
	Started metav1.Time
	// Running contains the revisions that the environment's targets run.
	Running []string
	// Checked contains the preconditions of the promotion.
	Checked []pipelinesv1.PreconditionStatus
	// Supersedes is the withdrawn pull request of another revision that this promotion replaces, or nil.
	Supersedes *pipelinesv1.PullRequestStatus
	// Earlier promotions of the Pipeline.
	Earlier Earlier
	// Strategy of the promotion.
	Strategy pipelinesv1.Strategy
}

// key returns the key of the markers.
func (p Promotion) key() marker.Key {
	return marker.Key{Namespace: p.Pipeline.Namespace, Pipeline: p.Pipeline.Name, Environment: p.Environment}
}

// Confirm is called right before any external change. It returns why the promotion must not continue, or "".
type Confirm func(ctx context.Context) (why string, err error)

// validate rejects values with which a cluster or a Pipeline could forge parts of a commit message or a pull request,
// and invisible characters: approvers must see what is written.
func (p Promotion) validate() error {
	for _, value := range []string{p.Environment, p.Revision} {
		if !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return fmt.Errorf("%q has non-printable characters", value)
		}
	}
	return nil
}
