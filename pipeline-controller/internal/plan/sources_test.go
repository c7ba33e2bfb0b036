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
package plan_test

import (
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
)

var (
	fleet  = application.Source{Kind: "GitRepository", Namespace: "flux-system", Name: "fleet"}
	charts = application.Source{Kind: "GitRepository", Namespace: "flux-system", Name: "charts"}
)

// from has the applications of environments take their revision from a source.
func from(source application.Source, environments ...string) func(*plan.World) {
	return func(w *plan.World) {
		for _, env := range environments {
			for i := range w.Targets[env] {
				w.Targets[env][i].Source, w.Targets[env][i].RevisionSource = source, source
			}
		}
	}
}

// reading has the source of an environment's first target read.
func reading(env string, state application.State) func(*plan.World) {
	return func(w *plan.World) {
		w.Sources = map[plan.TargetKey]application.State{{Environment: env}: state}
	}
}

func TestASourceThatSaysNothingOfWhatRuns(t *testing.T) {
	mergesIntoMain := spec(func(s *pipelinesv1.PipelineSpec) {
		s.Promotion.Strategy.PullRequest.URL, s.Promotion.Strategy.PullRequest.BaseBranch = "https://git.example.com/fleet.git", "main"
	})
	following := func(url, branch string) func(*plan.World) {
		return reading("dev", application.State{Known: true, Ready: true, Follows: application.Branch{URL: url, Name: branch}})
	}
	withExpr := spec(func(s *pipelinesv1.PipelineSpec) { s.Revision = &pipelinesv1.RevisionSpec{Expr: "object.spec.path"} })
	inClusters := spec(func(s *pipelinesv1.PipelineSpec) {
		for i, name := range []string{"dev", "staging", "prod"} {
			s.Environments[i].Targets[0].ClusterRef = &pipelinesv1.CrossNamespaceClusterReference{Kind: "Secret", Name: name}
		}
	})
	inOneNamespace := spec(func(s *pipelinesv1.PipelineSpec) {
		for i := range s.Environments {
			s.Environments[i].Targets[0].Namespace = "shop"
		}
	})
	for _, test := range []struct {
		name   string
		change []func(*plan.World)
		reason string
	}{
		{"each environment has its own", []func(*plan.World){from(fleet, "dev"), from(charts, "staging")}, ""},
		{"two environments share one", []func(*plan.World){from(fleet, "dev"), from(charts, "staging", "prod")}, pipelinesv1.SharedSourceReason},
		{"all environments share one", []func(*plan.World){from(fleet, "dev", "staging", "prod")}, pipelinesv1.SharedSourceReason},
		{"an expression tells them apart", []func(*plan.World){from(fleet, "dev", "staging", "prod"), withExpr}, ""},
		{"they are in clusters of their own", []func(*plan.World){from(fleet, "dev", "staging", "prod"), inClusters}, ""},
		{"the environments are one object", []func(*plan.World){from(fleet, "dev", "staging", "prod"), inOneNamespace}, ""},
		{"the first follows the branch that promotions are merged into", []func(*plan.World){from(fleet, "dev"), mergesIntoMain, following("ssh://git@git.example.com/fleet", "main")}, pipelinesv1.PromotionLoopReason},
		{"the first follows another branch", []func(*plan.World){from(fleet, "dev"), mergesIntoMain, following("https://git.example.com/fleet", "dev")}, ""},
		{"the first follows another repository", []func(*plan.World){from(fleet, "dev"), mergesIntoMain, following("https://git.example.com/shop", "main")}, ""},
		{"nothing is known of the first's", []func(*plan.World){from(fleet, "dev"), mergesIntoMain}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			w := world("v2", "v1", "v1")
			for _, change := range test.change {
				change(&w)
			}
			next := plan.Next(w)
			if test.reason == "" {
				g.Expect(next.Action).NotTo(BeNil())
				g.Expect(apimeta.FindStatusCondition(next.Status.Conditions, pipelinesv1.SharedSourceCondition)).To(BeNil())
				return
			}
			g.Expect(next.Action).To(BeNil())
			g.Expect(next.Status.Environments["staging"].State).To(Equal(pipelinesv1.EnvironmentInvalid))
			for condition, status := range map[string]metav1.ConditionStatus{meta.ReadyCondition: "False", meta.StalledCondition: "True"} {
				g.Expect(apimeta.FindStatusCondition(next.Status.Conditions, condition)).To(And(
					HaveField("Status", status), HaveField("Reason", test.reason), HaveField("Message", ContainSubstring("spec.revision.expr"))))
			}
		})
	}
}

func TestAnInvalidPipelineIsNotSettled(t *testing.T) {
	for _, test := range []struct {
		name   string
		change []func(*plan.World)
		reason string
	}{
		{"though all environments report the revision of the source that they share", []func(*plan.World){from(fleet, "dev", "staging", "prod")}, pipelinesv1.SharedSourceReason},
		{"though all environments run the revision of a loop", []func(*plan.World){
			from(fleet, "dev"), reading("dev", application.State{Known: true, Follows: application.Branch{URL: "https://git/fleet", Name: "main"}}),
			spec(func(s *pipelinesv1.PipelineSpec) {
				s.Promotion.Strategy.PullRequest.URL, s.Promotion.Strategy.PullRequest.BaseBranch = "https://git/fleet", "main"
			}),
		}, pipelinesv1.PromotionLoopReason},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := world("v1", "v1", "v1")
			for _, change := range test.change {
				change(&w)
			}
			NewWithT(t).Expect(apimeta.FindStatusCondition(plan.Next(w).Status.Conditions, pipelinesv1.SettledCondition)).To(And(
				HaveField("Status", metav1.ConditionFalse), HaveField("Reason", test.reason)))
		})
	}
}

func TestASharedSourceIsNoErrorWhereNothingIsPromoted(t *testing.T) {
	g := NewWithT(t)
	w := world("v1", "v1", "v1")
	from(fleet, "dev", "staging", "prod")(&w)
	w.Pipeline.Spec.Promotion = nil
	next := plan.Next(w)
	g.Expect(apimeta.IsStatusConditionTrue(next.Status.Conditions, meta.ReadyCondition)).To(BeTrue())
	g.Expect(apimeta.FindStatusCondition(next.Status.Conditions, pipelinesv1.SharedSourceCondition)).To(And(
		HaveField("Status", metav1.ConditionTrue), HaveField("Reason", pipelinesv1.SharedSourceReason), HaveField("Message", ContainSubstring("GitRepository flux-system/fleet"))))
}

func TestWhatKeepsAPromotedRevisionFromBeingRolledOut(t *testing.T) {
	merged := record("staging", "v2", pipelinesv1.PromotionSucceeded, func(r *pipelinesv1.PromotionRecord) { r.Message = "pull request https://git/pulls/7 was merged" })
	fetched := application.State{Known: true, Ready: true, Revision: "v1"}
	for _, test := range []struct {
		name   string
		app    func(*application.State)
		source application.State
		want   string
	}{
		{"a gate holds its source", nil, application.State{Known: true, Ready: true, Suspended: true, Held: "gate change-freeze is closed"}, "GitRepository flux-system/fleet is held: gate change-freeze is closed"},
		{"its source has lost its artifact", nil, application.State{Known: true, Ready: true, Held: "gate change-freeze is closed", Lost: "drift is not corrected: v1 was lost by source-controller; it is being restored until noon"},
			"GitRepository flux-system/fleet: drift is not corrected: v1 was lost by source-controller; it is being restored until noon"},
		{"its source is suspended", nil, application.State{Known: true, Ready: true, Suspended: true}, "GitRepository flux-system/fleet is suspended"},
		{"its source can't be fetched", nil, application.State{Known: true, Message: "authentication required"}, "GitRepository flux-system/fleet is not ready: authentication required"},
		{"its source can't be read", nil, application.Unknown("the kubeconfig's user may not list it"), "GitRepository flux-system/fleet can't be read: the kubeconfig's user may not list it"},
		{"its source has not fetched it", nil, fetched, "GitRepository flux-system/fleet has fetched v1"},
		{"it is suspended", func(s *application.State) { s.Suspended = true }, fetched, "Kustomization staging/app is suspended"},
		{"it can't be applied", func(s *application.State) { s.Ready, s.Message = false, "Deployment/app is invalid" }, fetched, "Kustomization staging/app is not ready: Deployment/app is invalid"},
		{"it has no source and can't be applied", func(s *application.State) {
			s.Ready, s.Message, s.Source = false, "no such chart", application.Source{}
		}, fetched, "Kustomization staging/app is not ready: no such chart"},
		{"nothing is known of that", func(s *application.State) { s.Source = application.Source{} }, fetched, "pull request https://git/pulls/7 was merged"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			w := world("v2", "v1", "v1")
			merged(&w)
			from(fleet, "staging")(&w)
			if test.app != nil {
				test.app(&w.Targets["staging"][0])
			}
			reading("staging", test.source)(&w)
			next := plan.Next(w)
			g.Expect(next.Status.Environments["staging"]).To(And(HaveField("State", pipelinesv1.EnvironmentPromoted),
				HaveField("Message", "v2 was promoted and is not rolled out yet: "+test.want)))
		})
	}
}

func TestALostArtifactOfAnEnvironmentThatRunsTheRevisionIsTold(t *testing.T) {
	g := NewWithT(t)
	w := world("v1", "v1", "v1")
	record("prod", "v1", pipelinesv1.PromotionSucceeded)(&w)
	from(fleet, "prod")(&w)
	w.Targets["prod"][0].Ready, w.Targets["prod"][0].Message = false, "artifact not found"
	keys, _ := w.SourcesOfInterest()
	g.Expect(keys).To(ContainElement(plan.TargetKey{Environment: "prod"}))
	reading("prod", application.State{Known: true, Ready: true, Held: "gate change-freeze is closed"})(&w)
	g.Expect(plan.Next(w).Status.Environments["prod"].Message).To(Equal("v1 is rolling out: Kustomization prod/app: artifact not found"))
	reading("prod", application.State{Known: true, Ready: true, Lost: "drift is not corrected: v1 was lost by source-controller"})(&w)
	g.Expect(plan.Next(w).Status.Environments["prod"].Message).To(
		Equal("v1 is rolling out: Kustomization prod/app: GitRepository flux-system/fleet: drift is not corrected: v1 was lost by source-controller"))
}

func TestOnlyTheSourcesThatMatterAreLookedAt(t *testing.T) {
	everywhere := from(fleet, "dev", "staging", "prod")
	for _, test := range []struct {
		name   string
		change []func(*plan.World)
		want   []plan.TargetKey
	}{
		{"the first environment's, which may follow the branch that promotions are merged into", nil, []plan.TargetKey{{Environment: "dev"}}},
		{"none if there are no pull requests", []func(*plan.World){spec(byNotification)}, nil},
		{"that of an environment whose pull request is open", []func(*plan.World){spec(byNotification), record("staging", "v2", pipelinesv1.PromotionCreated)}, []plan.TargetKey{{Environment: "staging"}}},
		{"that of an environment which has yet to run what was promoted", []func(*plan.World){spec(byNotification), record("prod", "v2", pipelinesv1.PromotionSucceeded)}, []plan.TargetKey{{Environment: "prod"}}},
		{"none of an environment that runs it", []func(*plan.World){spec(byNotification), record("prod", "v1", pipelinesv1.PromotionSucceeded)}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			w := world("v2", "v1", "v1")
			everywhere(&w)
			for _, change := range test.change {
				change(&w)
			}
			keys, sources := w.SourcesOfInterest()
			g.Expect(keys).To(Equal(test.want))
			g.Expect(sources).To(HaveLen(len(keys)))
		})
	}
}
