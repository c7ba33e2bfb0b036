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

package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
)

// A Pipeline is one object in etcd, whose requests are limited to 1536 KiB by default (--max-request-bytes):
//
//	1280 KiB  the Pipeline with its status, as JSON, without its managed fields (mostBytes)
//	 100 KiB  the managed fields of 64 environments, 512 targets and 64 gates, with one manager of the spec
//	  30 KiB  added by Record until the next plan: two texts of longestText, with six bytes per character, and addresses
//	 126 KiB  reserve for other managers of fields, and for etcd itself
//
// The largest Pipeline has 64 environments, 512 targets and 64 gates, and an open pull request in every environment. If
// its applications and clusters have names of 128 characters, and everything else has the maximum length of the schema,
// that is:
//
//	231 KiB  the spec
//	953 KiB  the status, with texts of shortText and without history
//
// Package largest creates it by planning, and stores it. With names of usual length, the whole history fits too.
const (
	// mostBytes is the maximum size of a Pipeline with its status, as JSON, without its managed fields.
	mostBytes = 1280 << 10

	// longestText is the maximum length, in characters, of each text of a promotion's record, and longestPastText that
	// of each text of the history.
	longestText     = 2000
	longestPastText = 200
	// shortText is the maximum length, in characters, of each text of a status that would otherwise be too large.
	shortText = 100
	// longestMessage is the maximum length, in characters, of a condition's message. The API rejects more than 32768
	// bytes.
	longestMessage = 2 * longestText
	// longestDescription is the length of a commit status' text that every Git host accepts.
	longestDescription = 139
	// mostApprovers is the maximum number of approvers in a record. They are sorted.
	mostApprovers = 32
)

// CheckSize returns an error if the Pipeline has more environments or targets than the schema allows: it was stored
// before the schema had these limits. Nothing is looked up for such a Pipeline.
func CheckSize(pipeline *pipelinesv1.Pipeline) error {
	if n := len(pipeline.Spec.Environments); n > pipelinesv1.MaxEnvironments {
		return fmt.Errorf("the Pipeline has %d environments, at most %d are allowed: split it", n, pipelinesv1.MaxEnvironments)
	}
	targets := 0
	for i := range pipeline.Spec.Environments {
		targets += len(pipeline.Spec.Environments[i].Targets)
	}
	if targets > pipelinesv1.MaxTargets {
		return fmt.Errorf("the Pipeline has %d targets, at most %d are allowed: split it", targets, pipelinesv1.MaxTargets)
	}
	return nil
}

var errTooLarge = fmt.Errorf("the Pipeline and its status would exceed %d KiB: "+
	"use fewer targets or gates, shorter names or less metadata, or split it", mostBytes>>10)

// refuse returns a plan without an action for a Pipeline that is too large. It reduces the status to what must be kept:
// the last promotion into each environment.
func refuse(world World, why error) Plan {
	p := newPlanner(world)
	p.takeRequests()
	status := &p.pipeline.Status
	status.Revision = ""
	for name, env := range status.Environments {
		if env.Promotion == nil {
			delete(status.Environments, name)
			continue
		}
		status.Environments[name] = &pipelinesv1.EnvironmentStatus{Promotion: env.Promotion}
	}
	bound(status, shortText)
	p.stopped = new(stands(pipelinesv1.EnvironmentInvalid, "%s", why))
	p.conclude(p.stopped)
	return Plan{Status: *status}
}

// fit limits the texts of the status, and reduces it if the Pipeline would be too large: first the history, oldest
// first, then the length of texts. It returns false if that is not enough.
func (p *planner) fit() bool {
	status := &p.pipeline.Status
	bound(status, longestText)
	excess := stored(&p.pipeline) - mostBytes
	for excess > 0 {
		dropped := dropOldest(status)
		if dropped == 0 {
			bound(status, shortText)
			return stored(&p.pipeline) <= mostBytes
		}
		excess -= dropped
	}
	return true
}

// unchanged reports whether the plan leaves the status as it was, which fits: it is stored. It may miss that, for
// example because it compares the history by identity. Then the status is measured in vain.
func (p *planner) unchanged() bool {
	was, is := &p.World.Pipeline.Status, &p.pipeline.Status
	return was.ObservedGeneration == is.ObservedGeneration && was.Revision == is.Revision &&
		was.ReconcileRequestStatus == is.ReconcileRequestStatus && was.ForceRequestStatus == is.ForceRequestStatus &&
		slices.Equal(was.Conditions, is.Conditions) && maps.EqualFunc(was.Environments, is.Environments, sameEnvironment)
}

func sameEnvironment(a, b *pipelinesv1.EnvironmentStatus) bool {
	return a.State == b.State && a.Message == b.Message && a.Since.Equal(b.Since) && a.WaitingApproval == b.WaitingApproval &&
		slices.EqualFunc(a.Targets, b.Targets, sameTarget) && sameHistory(a.History, b.History) &&
		(a.Promotion == nil && b.Promotion == nil || reflect.DeepEqual(a.Promotion, b.Promotion))
}

func sameTarget(a, b pipelinesv1.TargetStatus) bool {
	if !a.Since.Equal(b.Since) || !sameCluster(a.ClusterAppRef.ClusterRef, b.ClusterAppRef.ClusterRef) {
		return false
	}
	a.Since, a.ClusterAppRef.ClusterRef = b.Since, b.ClusterAppRef.ClusterRef
	return a == b
}

// sameHistory compares the first records: a record of the history never changes, and a new one comes first.
func sameHistory(a, b []pipelinesv1.PromotionRecord) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// dropOldest removes the oldest record of all histories and returns its size, or 0 if there is none.
func dropOldest(status *pipelinesv1.PipelineStatus) int {
	var oldest *pipelinesv1.EnvironmentStatus
	var start time.Time
	for _, name := range slices.Sorted(maps.Keys(status.Environments)) {
		env := status.Environments[name]
		if len(env.History) == 0 {
			continue
		}
		if last := env.History[len(env.History)-1].StartTime.Time; oldest == nil || last.Before(start) {
			oldest, start = env, last
		}
	}
	if oldest == nil {
		return 0
	}
	last := len(oldest.History) - 1
	dropped := size(oldest.History[last])
	oldest.History = oldest.History[:last]
	return dropped
}

// stored returns the size in bytes of a Pipeline without its managed fields.
func stored(pipeline *pipelinesv1.Pipeline) int {
	without := *pipeline
	without.ManagedFields = nil
	return size(&without)
}

// size returns the size in bytes of a part of a Pipeline as JSON, which is how the API server stores it.
func size(part any) int {
	content, err := json.Marshal(part)
	if err != nil {
		return math.MaxInt
	}
	return len(content)
}

// bound limits the texts of a status to a number of characters, and the lists of approvers.
func bound(status *pipelinesv1.PipelineStatus, most int) {
	for i := range status.Conditions {
		status.Conditions[i].Message = cut(status.Conditions[i].Message, 2*most)
	}
	for _, env := range status.Environments {
		*env = *env.DeepCopy() // because the history is shared with the status of the world
		env.Message = cut(env.Message, most)
		for i := range env.Targets {
			env.Targets[i].Error = cut(env.Targets[i].Error, most)
		}
		if env.Promotion != nil {
			boundRecord(env.Promotion, most)
		}
		for i := range env.History {
			boundRecord(&env.History[i], min(most, longestPastText))
		}
	}
}

func boundRecord(record *pipelinesv1.PromotionRecord, most int) {
	record.Approvers = record.Approvers[:min(len(record.Approvers), mostApprovers)]
	for _, text := range textsOf(record) {
		*text = cut(*text, most)
	}
}

// textsOf returns all texts of a record that may quote untrusted text.
func textsOf(record *pipelinesv1.PromotionRecord) []*string {
	texts := []*string{&record.Message, &record.LastError}
	for i := range record.Preconditions {
		texts = append(texts, &record.Preconditions[i].Message)
	}
	for i := range record.Approvers {
		texts = append(texts, &record.Approvers[i])
	}
	if pr := record.PullRequest; pr != nil {
		texts = append(texts, &pr.Warning)
		for _, step := range []*pipelinesv1.StepStatus{pr.Reporting, pr.Merging} {
			if step != nil {
				texts = append(texts, &step.LastError)
			}
		}
	}
	return texts
}

// cut shortens untrusted text to one line that can be quoted.
func cut(text string, most int) string {
	return plaintext.Cut(plaintext.Line(text), most)
}
