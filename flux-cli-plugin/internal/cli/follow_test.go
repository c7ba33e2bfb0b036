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

package cli

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

func TestProgressOfAnApprovedPromotion(t *testing.T) {
	for _, tt := range []struct {
		name     string
		changes  []func(*pipelinesv1.Pipeline)
		want     step
		wantText string
	}{
		{
			name: "an approval that is not counted yet is waited for",
			want: unseen,
		},
		{
			name:    "an approval of someone else is not one's own",
			changes: []func(*pipelinesv1.Pipeline){twoRequired},
			want:    unseen,
		},
		{
			name:    "once nothing is missing, the outcome is waited for",
			changes: []func(*pipelinesv1.Pipeline){approved},
			want:    underWay,
		},
		{
			name: "a failure from before the approval does not count",
			changes: []func(*pipelinesv1.Pipeline){func(p *pipelinesv1.Pipeline) {
				record := p.Status.Environments["prod"].Promotion
				record.State, record.LastError, record.NextAttemptTime = pipelinesv1.PromotionFailed, "no such host", at(time.Minute)
				stand(p, "prod", "Failed", "False", "promoting v1.2.3@sha1:cccccccc failed")
			}},
			want: unseen,
		},
		{
			name: "an attempt after one that failed is waited for",
			changes: []func(*pipelinesv1.Pipeline){approved, func(p *pipelinesv1.Pipeline) {
				record := p.Status.Environments["prod"].Promotion
				record.State, record.LastError, record.NextAttemptTime = pipelinesv1.PromotionFailed, "no such host", at(10*time.Second)
				stand(p, "prod", "Promoting", "Unknown", "promoting v1.2.3@sha1:cccccccc")
			}},
			want: underWay,
		},
		{
			name: "an attempt that was interrupted is reported, with the next one",
			changes: []func(*pipelinesv1.Pipeline){approved, func(p *pipelinesv1.Pipeline) {
				record := p.Status.Environments["prod"].Promotion
				record.State, record.Attempts, record.NextAttemptTime = pipelinesv1.PromotionUnattempted, 1, at(10*time.Second)
				stand(p, "prod", "Failed", "False", "the last attempt to promote v1.2.3@sha1:cccccccc was interrupted; next attempt at 2026-05-04T12:00:10Z")
			}},
			want:     ended,
			wantText: "prod: the last attempt to promote v1.2.3@sha1:cccccccc was interrupted; next attempt at 2026-05-04T12:00:10Z",
		},
		{
			name:     "the command ends at a pull request",
			changes:  []func(*pipelinesv1.Pipeline){approved, created},
			want:     done,
			wantText: "pull request " + pull + " waits to be merged",
		},
		{
			name: "so is a notification",
			changes: []func(*pipelinesv1.Pipeline){approved, func(p *pipelinesv1.Pipeline) {
				record := p.Status.Environments["prod"].Promotion
				record.State, record.Message = pipelinesv1.PromotionSucceeded, "notified"
				stand(p, "prod", "Promoted", "True", "v1.2.3@sha1:cccccccc was promoted and is not rolled out yet: notified")
			}},
			want:     done,
			wantText: "v1.2.3@sha1:cccccccc is promoted into prod: notified",
		},
		{
			name: "a pull request that was already closed is reported",
			changes: []func(*pipelinesv1.Pipeline){approved, func(p *pipelinesv1.Pipeline) {
				record := p.Status.Environments["prod"].Promotion
				record.State, record.Message = pipelinesv1.PromotionAbandoned, "closed"
				stand(p, "prod", "Abandoned", "True", "v1.2.3@sha1:cccccccc is not promoted: closed")
			}},
			want:     ended,
			wantText: "prod: v1.2.3@sha1:cccccccc is not promoted: closed; to force it: flux pipeline reconcile app --force -n flux-system",
		},
		{
			name: "a pipeline that is suspended is not waited for",
			changes: []func(*pipelinesv1.Pipeline){func(p *pipelinesv1.Pipeline) {
				stand(p, "prod", "Suspended", "True", "nothing is promoted while the Pipeline is suspended")
			}},
			want:     waits,
			wantText: "prod: nothing is promoted while the Pipeline is suspended",
		},
		{
			name: "an environment before it that became unready is not waited for",
			changes: []func(*pipelinesv1.Pipeline){func(p *pipelinesv1.Pipeline) {
				p.Status.Revision = ""
				stand(p, "dev", "NotReady", "True", "Kustomization dev/app is not ready: build failed")
			}},
			want:     waits,
			wantText: "prod: waits for dev: Kustomization dev/app is not ready: build failed",
		},
		{
			name: "a target that can't be read is not waited for",
			changes: []func(*pipelinesv1.Pipeline){func(p *pipelinesv1.Pipeline) {
				stand(p, "prod", "Unknown", "False", "Kustomization prod/app can't be read: not found")
			}},
			want:     waits,
			wantText: "prod: Kustomization prod/app can't be read: not found",
		},
		{
			name: "the command waits for a missing record",
			changes: []func(*pipelinesv1.Pipeline){func(p *pipelinesv1.Pipeline) {
				p.Status.Environments["prod"].Promotion = nil
			}},
			want: unseen,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			approved := &candidate{pipeline: waiting(tt.changes...), env: "prod", revision: current}
			got, text := approved.progress("ada", now)
			g.Expect(got).To(Equal(tt.want))
			g.Expect(text).To(Equal(tt.wantText))
		})
	}
}
