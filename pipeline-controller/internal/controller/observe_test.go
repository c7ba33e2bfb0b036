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

package controller

import (
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/gomega"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
)

func TestNothingIsMadeOfAWorldInWhichAClusterIsBeingConnected(t *testing.T) {
	now := time.Now()
	unknown := func(reason string, since time.Duration) application.State {
		return application.UnknownBecause(reason, "", now.Add(-since))
	}
	for _, test := range []struct {
		name   string
		states []application.State
		wait   time.Duration
	}{
		{"all targets are known", []application.State{{Known: true}}, 0},
		{"the connection to a cluster is pending", []application.State{{Known: true}, unknown(pipelinesv1.ConnectingReason, 0)}, connectingPatience},
		{"one has been for a while, and another begins to be", []application.State{unknown(pipelinesv1.ConnectingReason, 4*time.Second), unknown(pipelinesv1.ConnectingReason, time.Second)}, connectingPatience - time.Second},
		{"a cluster takes too long, which is reported", []application.State{unknown(pipelinesv1.ConnectingReason, connectingPatience)}, 0},
		{"a cluster can't be reached", []application.State{unknown(pipelinesv1.UnreachableReason, 0)}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			world := plan.World{Now: now, Targets: map[string][]application.State{"dev": {{Known: true}}, "prod": test.states}}
			NewWithT(t).Expect(max(connecting(world), 0)).To(Equal(test.wait))
		})
	}
}

func TestAPullRequestIsLookedAtWhereItWasOpened(t *testing.T) {
	opened := &pipelinesv1.RepositoryReference{URL: "https://git/fleet", BaseBranch: "main", SecretRef: meta.LocalObjectReference{Name: "before"}}
	for _, test := range []struct {
		name             string
		url              string
		wantURL, wantRef string
	}{
		{"with the Secret of before, in another repository than the spec has now", "https://git/other", "https://git/fleet", "before"},
		{"with the Secret that the spec names now, in the same repository", "https://git/fleet", "https://git/fleet", "now"},
		{"as the spec has now, in the same repository by another of its URLs", "ssh://git@git:2222/fleet.git", "ssh://git@git:2222/fleet.git", "now"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			pipeline := &pipelinesv1.Pipeline{}
			pipeline.Spec.Environments = []pipelinesv1.Environment{{Name: "prod"}}
			pipeline.Spec.Promotion = &pipelinesv1.Promotion{Strategy: pipelinesv1.Strategy{PullRequest: &pipelinesv1.PullRequestPromotion{
				URL: test.url, BaseBranch: "other", SecretRef: meta.LocalObjectReference{Name: "now"},
			}}}
			pipeline.Status.Environments = map[string]*pipelinesv1.EnvironmentStatus{"prod": {Promotion: &pipelinesv1.PromotionRecord{Repository: opened}}}
			promotion, ok := promotionOf(pipeline, "prod")
			g.Expect(ok).To(BeTrue())
			pr := promotion.Strategy.PullRequest
			g.Expect([]string{pr.URL, pr.BaseBranch, pr.SecretRef.Name}).To(Equal([]string{test.wantURL, "main", test.wantRef}))
		})
	}
}

func TestOnlyAPullRequestOfTheSameRepositoryIsToldOfItsSuccessor(t *testing.T) {
	for _, test := range []struct {
		name   string
		before *pipelinesv1.RepositoryReference
		told   bool
	}{
		{"the one before was opened in the same repository", &pipelinesv1.RepositoryReference{URL: "https://git/fleet", BaseBranch: "release"}, true},
		{"the one before was opened in another repository", &pipelinesv1.RepositoryReference{URL: "https://git/former"}, false},
		{"where the one before was opened is not known", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			superseded := pipelinesv1.PromotionRecord{Superseded: true, Repository: test.before, PullRequest: &pipelinesv1.PullRequestStatus{Number: 5}}
			pipeline := &pipelinesv1.Pipeline{}
			pipeline.Status.Environments = map[string]*pipelinesv1.EnvironmentStatus{"prod": {
				Promotion: &pipelinesv1.PromotionRecord{Repository: &pipelinesv1.RepositoryReference{URL: "https://git/fleet", BaseBranch: "main"}},
				History:   []pipelinesv1.PromotionRecord{superseded},
			}}
			promotion, _ := promotionOf(pipeline, "prod")
			NewWithT(t).Expect(promotion.Supersedes != nil).To(Equal(test.told))
		})
	}
}
