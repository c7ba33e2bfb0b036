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

package e2e

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// An application is promoted from dev to UAT, which has two places, to staging and to prod. dev follows releases, and
// Git sets the version of the others. One gate holds promotions into UAT, and another one holds the source of one
// place.
var _ = Describe("A release, on its way from dev by UAT and staging to prod", Ordered, func() {
	const name, app = "journey", "journey-app"
	places := []string{"dev", "uat-eu", "uat-us", "staging", "prod"}

	// manifest returns the manifest of a place.
	manifest := func(place, version string) string {
		env, _, _ := strings.Cut(place, "-")
		ref, interval, gates := "tag: "+version+fmt.Sprintf(` # {"$promotion": "flux-system:journey:%s:tag"}`, env), "24h", ""
		if env == "dev" {
			ref, interval = `semver: ">=1.0.0"`, "1s"
		}
		if place == "uat-us" {
			gates = "\n  gates: {refs: [journey-us]}"
		}
		return fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata:
  name: journey-%[1]s
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata:
  name: app
  namespace: journey-%[1]s
spec:
  interval: %[5]s
  url: %[2]s
  ref:
    %[3]s%[4]s
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: app
  namespace: journey-%[1]s
spec:
  interval: 24h
  retryInterval: 1s
  path: ./deploy
  prune: true
  targetNamespace: journey-%[1]s
  sourceRef: {kind: GitRepository, name: app}
`, place, world.RepositoryURL(app), ref, gates, interval)
	}
	manifests := func(version string) string {
		var all []string
		for _, place := range places {
			all = append(all, manifest(place, version))
		}
		return strings.Join(all, "---\n")
	}
	stands := func(env string, state pipelinesv1.EnvironmentState, message string) func(Gomega, context.Context) {
		return func(g Gomega, ctx context.Context) {
			status := object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name)
			g.Expect(field(status, "status", "environments", env, "state")(ctx)).To(BeEquivalentTo(state))
			g.Expect(field(status, "status", "environments", env, "message")(ctx)).To(MatchRegexp(message))
		}
	}
	runs := func(place string) func(context.Context) (any, error) {
		return field(object("v1", "ConfigMap", "journey-"+place, "app"), "data", "version")
	}
	person := func(ctx context.Context, args ...string) {
		GinkgoHelper()
		_, err := run(ctx, "flux", args...)
		Expect(err).NotTo(HaveOccurred())
	}
	// promote merges the pull request of a version into an environment.
	promote := func(ctx context.Context, env, version string) {
		GinkgoHelper()
		Eventually(ctx, record(name, env)).Should(And(haveState("created"), HaveField("Revision", HavePrefix(version+"@"))))
		promotion, err := record(name, env)(ctx)
		Expect(err).NotTo(HaveOccurred())
		mergeInGitea(ctx, name, promotion.PullRequest.Number)
		reconcile(ctx, name, env+" "+version) // without waiting for the next check
	}

	BeforeAll(func(ctx SpecContext) {
		for _, repository := range []string{name, app} {
			_, err := world.Git.CreateRepository(repository)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(world.Release(app, "v1.0.0")).To(Succeed())
		Expect(world.Commit(name, "Run the application", map[string]string{"places.yaml": manifests("v1.0.0")})).To(Succeed())
		apply(ctx, `
apiVersion: v1
kind: Namespace
metadata: {name: journey-uat-us}
---
apiVersion: gating.toolkit.fluxcd.io/v1alpha1
kind: Gate
metadata: {name: journey, namespace: flux-system}
spec: {closed: true}
---
apiVersion: gating.toolkit.fluxcd.io/v1alpha1
kind: Gate
metadata: {name: journey-us, namespace: journey-uat-us}
spec: {closed: false}
---
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %[1]s, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: app}
  environments:
  - {name: dev, targets: [{namespace: journey-dev}]}
  - {name: uat, targets: [{namespace: journey-uat-eu}, {namespace: journey-uat-us}], promotion: {gates: {refs: [journey]}}}
  - {name: staging, targets: [{namespace: journey-staging}]}
  - {name: prod, targets: [{namespace: journey-prod}], promotion: {manual: true}}
  promotion: {strategy: {pull-request: {type: gitea, url: '%[2]s', baseBranch: main, secretRef: {name: fleet-credentials}}}}
`, name, world.RepositoryURL(name))
		syncFrom(ctx, name, flux, "1s", "./", "")
		DeferCleanup(func(ctx SpecContext) { deleteAll(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name)) })
	})

	It("begins where all environments run the same version", func(ctx SpecContext) {
		Eventually(ctx, ready(name)).Should(HaveField("Message", HavePrefix("every environment runs v1.0.0@sha1:")))
	})

	It("waits for the gate before UAT, and is deployed there once that opens", func(ctx SpecContext) {
		person(ctx, "close", "gate", "journey-us", "--namespace=journey-uat-us", "--reason=maintenance")
		Expect(world.Release(app, "v1.0.1")).To(Succeed())
		Eventually(ctx, ready(name)).Should(HaveField("Message", MatchRegexp("^uat: v1.0.1@sha1:.* waits: gate journey is closed")))
		person(ctx, "open", "gate", "journey")
		promote(ctx, "uat", "v1.0.1")
		Eventually(ctx, runs("uat-eu")).Should(Equal("v1.0.1"))
		Eventually(ctx, stands("uat", pipelinesv1.EnvironmentRollingOut, "^v1.0.1@sha1:.* is rolling out: ")).Should(Succeed())
		Expect(runs("uat-us")(ctx)).To(Equal("v1.0.0"), "its source is held")
	})

	It("is superseded by the next release, which starts in dev", func(ctx SpecContext) {
		Expect(world.Release(app, "v1.0.2")).To(Succeed())
		promote(ctx, "uat", "v1.0.2")
		Eventually(ctx, runs("uat-eu")).Should(Equal("v1.0.2"))
		Expect(record(name, "staging")(ctx)).To(BeZero(), "one place of UAT does not run it")
		person(ctx, "open", "gate", "journey-us", "--namespace=journey-uat-us")
		promote(ctx, "staging", "v1.0.2")
		Expect(runs("uat-us")(ctx)).To(Equal("v1.0.2"), "which has gone past v1.0.1")
	})

	It("reaches prod once a person has approved it, and every environment runs it then", func(ctx SpecContext) {
		Eventually(ctx, stands("prod", pipelinesv1.EnvironmentWaiting, "^v1.0.2@sha1:")).Should(Succeed())
		Expect(runs("prod")(ctx)).To(Equal("v1.0.0"))
		person(ctx, "approve", "promotion", name, "--env=prod", "--yes")
		promote(ctx, "prod", "v1.0.2")
		Eventually(ctx, ready(name)).Should(HaveField("Message", HavePrefix("every environment runs v1.0.2@sha1:")))
		for _, place := range places {
			Expect(runs(place)(ctx)).To(Equal("v1.0.2"), place)
		}
		Expect(world.ReadFile(name, "main", "places.yaml")).To(Equal(manifests("v1.0.2")))
		Expect(record(name, "uat")(ctx)).To(HaveField("Revision", HavePrefix("v1.0.2@")))
	})
})
