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

// Package why answers in one line why an environment of a Pipeline does not run the revision that travels through it. It is
// pure, and takes everything from the Pipeline's status: pipeline-controller has decided where the revision stands, this finds
// the words for someone who asks about one environment.
package why

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	pipelinesv1alpha1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
)

// ApprovalType is the type of the precondition that people's approvals meet.
const ApprovalType = "Approval"

// Line answers for an environment that is in the Pipeline's spec.
func Line(pipeline *pipelinesv1alpha1.Pipeline, env string, now time.Time) string {
	q := newQuestion(pipeline, now)
	line := env + ": " + q.answer(env)
	if pipeline.Status.ObservedGeneration < pipeline.Generation && q.ready != nil {
		line += "; pipeline-controller has not seen the last change of the pipeline yet"
	}
	return OneLine(line)
}

// OneLine keeps what others wrote to one line, and from giving orders to the terminal that it is shown on.
func OneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
}

// Lagging returns the first environment that does not run the revision, else the last one. It is empty if there are none.
func Lagging(pipeline *pipelinesv1alpha1.Pipeline) string {
	environments := pipeline.Spec.Environments
	if len(environments) == 0 {
		return ""
	}
	return environments[min(newQuestion(pipeline, time.Time{}).standsAt(), len(environments)-1)].Name
}

// Unmet returns what the promotion into an environment waits for besides people's approval, in words.
func Unmet(record *pipelinesv1alpha1.PromotionRecord) []string {
	var unmet []string
	for _, precondition := range record.Preconditions {
		if !precondition.Met && precondition.Type != ApprovalType {
			unmet = append(unmet, precondition.Message)
		}
	}
	return unmet
}

// ApproveCommand is what approves the promotion into an environment.
func ApproveCommand(pipeline *pipelinesv1alpha1.Pipeline, env string) string {
	return fmt.Sprintf("flux approve promotion %s --env %s -n %s", pipeline.Name, quote(env), pipeline.Namespace)
}

// PullRequestURL returns where the promotion's pull request is; empty if there is none.
func PullRequestURL(record *pipelinesv1alpha1.PromotionRecord) string {
	if record.PullRequest == nil {
		return ""
	}
	return record.PullRequest.URL
}

// question is about one Pipeline.
type question struct {
	pipeline *pipelinesv1alpha1.Pipeline
	ready    *metav1.Condition
	now      time.Time
}

func newQuestion(pipeline *pipelinesv1alpha1.Pipeline, now time.Time) *question {
	return &question{pipeline: pipeline, now: now, ready: apimeta.FindStatusCondition(pipeline.Status.Conditions, meta.ReadyCondition)}
}

func (q *question) answer(env string) string {
	environments := q.pipeline.Spec.Environments
	asked := slices.IndexFunc(environments, func(e pipelinesv1alpha1.Environment) bool { return e.Name == env })
	stands := q.standsAt()
	travelling := revision.Short(q.pipeline.Status.Revision)
	switch {
	case q.ready == nil:
		return "pipeline-controller has not looked at the pipeline yet: does it run?"
	case asked < stands && len(environments[asked].Targets) == 0:
		return "it has no targets, and is passed over"
	case asked < stands && asked == 0:
		return fmt.Sprintf("runs %s, nothing to do: what it runs is what travels", travelling)
	case asked < stands:
		return fmt.Sprintf("runs %s, nothing to do", travelling)
	case q.ready.Reason == pipelinesv1alpha1.InvalidSpecReason:
		return "nothing is promoted until the pipeline's spec is corrected: " + q.ready.Message
	case q.pipeline.Spec.Suspend:
		return "the pipeline is suspended, nothing is promoted while its spec.suspend is true"
	case asked > stands:
		return fmt.Sprintf("waits for %s: %s", environments[stands].Name, q.standing(environments[stands].Name))
	default:
		return q.standing(env)
	}
}

// standsAt returns the index of the environment that the revision has yet to settle in, or how many environments there are.
func (q *question) standsAt() int {
	environments := q.pipeline.Spec.Environments
	for i := range environments {
		if i == 0 && q.pipeline.Status.Revision == "" || !q.runs(&environments[i]) {
			return i
		}
	}
	return len(environments)
}

// runs tells whether an environment has settled on the revision. One without targets is passed over.
func (q *question) runs(env *pipelinesv1alpha1.Environment) bool {
	if _, about := q.told(env.Name); about && q.ready.Reason == pipelinesv1alpha1.TargetNotReadableReason {
		return false
	}
	if len(env.Targets) == 0 {
		return true
	}
	targets := q.status(env.Name).Targets
	return len(targets) > 0 && !slices.ContainsFunc(targets, func(target pipelinesv1alpha1.TargetStatus) bool {
		settledOn := ""
		switch {
		case target.Ready:
			settledOn = target.Revision
		case env.Steady == pipelinesv1alpha1.SteadyEver:
			settledOn = target.ReadyRevision
		}
		return !revision.Equal(settledOn, q.pipeline.Status.Revision)
	})
}

func (q *question) status(env string) *pipelinesv1alpha1.EnvironmentStatus {
	if status := q.pipeline.Status.Environments[env]; status != nil {
		return status
	}
	return &pipelinesv1alpha1.EnvironmentStatus{}
}

// told returns what the Ready condition says of an environment, if it is the one that the condition is about.
func (q *question) told(env string) (string, bool) {
	if q.ready == nil {
		return "", false
	}
	return strings.CutPrefix(q.ready.Message, env+": ")
}

// standing says what keeps the revision from the environment at which it stands.
func (q *question) standing(env string) string {
	told, about := q.told(env)
	record := q.status(env).Promotion
	current := record != nil && revision.Equal(record.Revision, q.pipeline.Status.Revision)
	switch {
	case q.ready.Reason == pipelinesv1alpha1.NoPromotionReason:
		return fmt.Sprintf("%s is not promoted, the pipeline has no promotion for this environment", revision.Short(q.pipeline.Status.Revision))
	case about && !(current && q.recordKnowsMore(record)):
		return told
	case current:
		return revision.Short(record.Revision) + " " + q.promotion(env, record)
	case q.pipeline.Status.Revision == "":
		return "not all of its targets are ready on one revision"
	default:
		return "does not run " + revision.Short(q.pipeline.Status.Revision) + " yet"
	}
}

// recordKnowsMore tells whether the record of the revision's promotion says more than the Ready condition, such as since when.
func (q *question) recordKnowsMore(record *pipelinesv1alpha1.PromotionRecord) bool {
	switch q.ready.Reason {
	case pipelinesv1alpha1.EnvironmentNotReadyReason, pipelinesv1alpha1.TargetNotReadableReason, pipelinesv1alpha1.RollingOutReason,
		pipelinesv1alpha1.PromotingReason, pipelinesv1alpha1.PullRequestUnknownReason, pipelinesv1alpha1.PullRequestOpenReason:
		return false
	}
	return !record.Superseded
}

// promotion says where the promotion of the revision stands, in a clause that begins after the revision.
func (q *question) promotion(env string, record *pipelinesv1alpha1.PromotionRecord) string {
	switch record.State {
	case pipelinesv1alpha1.PromotionCreated:
		return fmt.Sprintf("waits for pull request %s to be merged", PullRequestURL(record))
	case pipelinesv1alpha1.PromotionSucceeded:
		return "was promoted and has yet to be rolled out: " + record.Message
	case pipelinesv1alpha1.PromotionAbandoned:
		return fmt.Sprintf("is not promoted: %s; the next revision will be, or this one by the annotations %s and %s, with one new value for both",
			record.Message, meta.ReconcileRequestAnnotation, meta.ForceRequestAnnotation)
	}
	waits := q.waits(env, record)
	failed := q.failure(record)
	switch {
	case waits != "" && failed != "":
		return waits + "; " + failed
	case waits != "":
		return waits
	case failed != "":
		return failed
	default:
		return "is being promoted"
	}
}

// waits says which preconditions the promotion waits for, and since when.
func (q *question) waits(env string, record *pipelinesv1alpha1.PromotionRecord) string {
	var unmet []string
	var since *metav1.Time
	for _, precondition := range record.Preconditions {
		if precondition.Met {
			continue
		}
		message := precondition.Message
		if precondition.Type == ApprovalType {
			message += fmt.Sprintf(" (%s)", ApproveCommand(q.pipeline, env))
		}
		unmet = append(unmet, message)
		if at := precondition.LastTransitionTime; at != nil && (since == nil || at.Before(since)) {
			since = at
		}
	}
	switch {
	case len(unmet) == 0:
		return ""
	case since == nil:
		return "waits: " + strings.Join(unmet, "; ")
	default:
		return fmt.Sprintf("has been waiting since %s (%s): %s", since.UTC().Format(time.RFC3339), duration.HumanDuration(q.now.Sub(since.Time)), strings.Join(unmet, "; "))
	}
}

// failure says why the last attempt failed and when the next one is due.
func (q *question) failure(record *pipelinesv1alpha1.PromotionRecord) string {
	if record.LastError == "" {
		return ""
	}
	attempts := "once"
	if record.Attempts > 1 {
		attempts = fmt.Sprintf("%d times", record.Attempts)
	}
	due := record.NextAttemptTime
	if limit := record.RateLimitedUntil; limit != nil && (due == nil || due.Before(limit)) {
		due = limit
	}
	next := "is being tried again"
	switch {
	case due == nil:
	case due.After(q.now):
		next = fmt.Sprintf("next try at %s (in %s)", due.UTC().Format(time.RFC3339), duration.HumanDuration(due.Sub(q.now)))
	default:
		next = "the next try is due"
	}
	return fmt.Sprintf("failed to be promoted %s, %s: %s", attempts, next, record.LastError)
}

var plain = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// quote writes a word so that a shell takes it for one.
func quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
