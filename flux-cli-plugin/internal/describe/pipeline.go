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
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
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

// Target describes a target.
func Target(target *pipelinesv1.TargetStatus) string {
	app := target.ClusterAppRef
	text := fmt.Sprintf("%s/%s/%s", app.Kind, target.Namespace, app.Name)
	if app.ClusterRef != nil {
		text += " in cluster " + app.ClusterRef.Name
	}
	text += ": "
	if target.Revision == "" {
		text += "no revision"
	} else {
		text += revision.Short(target.Revision)
	}
	if target.Ready {
		return text + ", ready"
	}
	if target.Error == "" {
		return text + ", not ready"
	}
	return text + ", not ready: " + target.Error
}

// Promotion describes the record of a promotion.
func Promotion(record *pipelinesv1.PromotionRecord) string {
	parts := []string{string(record.State)}
	if record.Message != "" {
		parts = append(parts, record.Message)
	}
	if url := why.PullRequestURL(record); url != "" && !strings.Contains(record.Message, url) {
		parts = append(parts, "pull request "+url)
	}
	if len(record.Approvers) > 0 {
		parts = append(parts, "approved by "+strings.Join(record.Approvers, ", "))
	}
	text := strings.Join(parts, ", ")
	if record.LastError != "" {
		text += ": " + record.LastError
	}
	return text
}

// Environments returns the environments of the spec in order, followed by those that are only in the status.
func Environments(pipeline *pipelinesv1.Pipeline) []string {
	var names []string
	for _, env := range pipeline.Spec.Environments {
		names = append(names, env.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(pipeline.Status.Environments)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Records returns the promotions into an environment, newest first.
func Records(status *pipelinesv1.EnvironmentStatus) []pipelinesv1.PromotionRecord {
	switch {
	case status == nil:
		return nil
	case status.Promotion == nil:
		return status.History
	default:
		return append([]pipelinesv1.PromotionRecord{*status.Promotion}, status.History...)
	}
}

// Ready returns the status and the message of the Ready condition.
func Ready(pipeline *pipelinesv1.Pipeline) (status, message string) {
	ready := apimeta.FindStatusCondition(pipeline.Status.Conditions, meta.ReadyCondition)
	if ready == nil {
		return string(metav1.ConditionUnknown), "pipeline-controller has not reconciled it yet"
	}
	return string(ready.Status), ready.Message
}

// RecordMessage explains the record of a promotion, without the URL of its pull request.
func RecordMessage(record *pipelinesv1.PromotionRecord) string {
	message := record.Message
	if url := why.PullRequestURL(record); url != "" {
		message = strings.ReplaceAll(message, " "+url, "")
	}
	if record.LastError != "" {
		message += ": " + record.LastError
	}
	if record.RollbackTime != nil {
		message += fmt.Sprintf("; rolled back to %s at %s", revision.Short(record.RolledBackTo), Timestamp(record.RollbackTime))
	}
	return message
}

// Approvals returns how many approvals the promotion of a revision into an environment has.
func Approvals(pipeline *pipelinesv1.Pipeline, env, rev string) string {
	required, byHTTP := 0, ""
	if promotion := pipeline.PromotionInto(pipeline.Environment(env)); promotion != nil {
		required = promotion.RequiredApprovals()
		if !promotion.CountsHTTP() {
			byHTTP = "; approvals by HTTP don't count"
		}
	}
	approvers := Approvers(pipeline, env, rev)
	text := fmt.Sprintf("%d of %d", len(approvers), required)
	if len(approvers) > 0 {
		text += ", by " + strings.Join(approvers, ", ")
	}
	return text + byHTTP
}

// Approvers returns who has approved the promotion of a revision into an environment.
func Approvers(pipeline *pipelinesv1.Pipeline, env, rev string) []string {
	if status := pipeline.Status.Environments[env]; status != nil && status.Promotion != nil && status.Promotion.Revision == rev {
		return status.Promotion.Approvers
	}
	return nil
}

// Besides returns the preconditions other than approval that a promotion waits for.
func Besides(pipeline *pipelinesv1.Pipeline, env string) string {
	if status := pipeline.Status.Environments[env]; status != nil && status.Promotion != nil {
		if unmet := why.Unmet(status.Promotion); len(unmet) > 0 {
			return strings.Join(unmet, "; ")
		}
	}
	return "nothing else"
}
