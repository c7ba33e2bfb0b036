//go:build e2e_node

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

package stories

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

var _ = Describe("A Pipeline from dev to prod", Ordered, func() {
	// The namespaces of environments, and the repositories of the application and the fleet, have names of the story.
	const story = "shop"
	dev, staging, prod := story+"-dev", story+"-staging", story+"-prod"

	BeforeAll(func(ctx SpecContext) {
		install(ctx, thisVersion)
		startFleet(ctx, story, `
  - name: prod
    targets: [{namespace: shop-prod}]
    promotion: {approvals: {required: 1}}
`, dev, staging, prod)
	})

	It("runs one version everywhere at first", func(ctx SpecContext) {
		for _, namespace := range []string{dev, staging, prod} {
			Eventually(ctx, runs(namespace)).Should(Equal("v1.0.0"))
		}
		Eventually(ctx, ready(story)).Should(HavePrefix("every environment runs v1.0.0@sha1:"))
	})

	It("promotes what dev runs to staging, by a pull request", func(ctx SpecContext) {
		upon.release(story, "v1.1.0")
		mergePromotion(ctx, story, "staging", 1)
		Eventually(ctx, runs(staging)).Should(Equal("v1.1.0"))
		Expect(runs(prod)(ctx)).To(Equal("v1.0.0"))
	})

	It("waits before prod for an approval, which a ServiceAccount gives that may do nothing else", func(ctx SpecContext) {
		Eventually(ctx, ready(story)).Should(MatchRegexp(`^prod: v1\.1\.0@sha1:[0-9a-f]{8} waits: .*approval`))
		Expect(upon.pullRequests(fleetOf(story))).To(HaveLen(1))
		apply(ctx, approver, story)
		DeferCleanup(func(ctx SpecContext) { remove(ctx, "job,role,rolebinding,serviceaccount", "shop-approver") })
		apply(ctx, approvalJob, cronJobImage(ctx))
		Expect(end(ctx, "shop-approver")).To(Equal(batchv1.JobComplete), kubectl(ctx, "logs", "job/shop-approver"))
		Eventually(ctx, record(story, "prod")).Should(HaveField("Approvers", ConsistOf("system:serviceaccount:flux-system:shop-approver")))
	})

	It("reaches prod once that pull request is merged too", func(ctx SpecContext) {
		mergePromotion(ctx, story, "prod", 2)
		Eventually(ctx, runs(prod)).Should(Equal("v1.1.0"))
		Eventually(ctx, ready(story)).Should(HavePrefix("every environment runs v1.1.0@sha1:"))
		Expect(upon.pullRequests(fleetOf(story))).To(HaveLen(2))
	})
})

func fleetOf(story string) string { return story + "-fleet" }

// startFleet creates a repository with an application, and one with the sources of its environments, one for each
// namespace. The first one follows releases. Flux applies both, and a Pipeline promotes from the first environment to
// the last one, whose entry is given.
func startFleet(ctx context.Context, story, last string, namespaces ...string) {
	GinkgoHelper()
	upon.release(story, "v1.0.0")
	files := map[string]string{}
	for i, namespace := range namespaces {
		ref := "semver: '>=1.0.0'"
		if i > 0 {
			ref = fmt.Sprintf(`tag: v1.0.0 # {"$promotion": "flux-system:%s:%s:tag"}`, story, namespace[len(story)+1:])
		}
		files[namespace+".yaml"] = fmt.Sprintf(fleetFile, namespace, repositoryURL(story), ref)
	}
	fleet := fleetOf(story)
	upon.commit(fleet, files)
	token := upon.token(story)
	environments := ""
	for _, namespace := range namespaces[:len(namespaces)-1] {
		environments += fmt.Sprintf("\n  - {name: %s, targets: [{namespace: %s}]}", namespace[len(story)+1:], namespace)
	}
	for _, namespace := range namespaces {
		consume(ctx, namespace)
	}
	apply(ctx, `
apiVersion: v1
kind: Secret
metadata: {name: %[1]s, namespace: flux-system}
stringData: {username: %[3]s, password: %[4]s, token: %[4]s}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: %[1]s, namespace: flux-system}
spec: {interval: 2s, url: '%[2]s', ref: {branch: main}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: %[1]s, namespace: flux-system}
spec: {interval: 1m, retryInterval: 2s, path: ./, prune: true, sourceRef: {kind: GitRepository, name: %[1]s}}
---
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %[5]s, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: app}
  environments:%[6]s%[7]s
  promotion: {strategy: {pull-request: {type: gitea, url: '%[2]s', baseBranch: main, secretRef: {name: %[1]s}}}}
`, fleet, repositoryURL(fleet), gitUser, token, story, environments, last)
	DeferCleanup(func(ctx SpecContext) {
		remove(ctx, "pipeline/"+story, "kustomization/"+fleet)
		remove(ctx, "gitrepository/"+fleet, "secret/"+fleet)
		for _, namespace := range namespaces {
			undeploy(ctx, namespace)
		}
	})
}

// fleetFile takes the name of a source, what it is fetched from, and what of it.
const fleetFile = `apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata:
  name: %s
  namespace: flux-system
spec:
  interval: 2s
  url: %s
  ref:
    %s
`

// mergePromotion waits for the pull request for an environment, which must have the number, and merges it.
func mergePromotion(ctx context.Context, story, env string, number int64) {
	GinkgoHelper()
	Eventually(ctx, record(story, env)).Should(And(haveState(pipelinesv1.PromotionCreated), HaveField("PullRequest.Number", number)))
	upon.merge(ctx, fleetOf(story), number)
	Eventually(ctx, record(story, env)).Should(haveState(pipelinesv1.PromotionSucceeded))
}

// cronJobImage returns the image of the Flux CLI that the release's samples run.
func cronJobImage(ctx context.Context) string {
	GinkgoHelper()
	sample := kubectl(ctx, "kustomize", filepath.Join(releaseDir(thisVersion, "manifests"), "samples", "freeze-schedule"))
	match := regexp.MustCompile(`image: (\S+)`).FindStringSubmatch(sample)
	Expect(match).NotTo(BeNil())
	return match[1]
}

// approver takes the Pipeline's name.
const approver = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: shop-approver, namespace: flux-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: shop-approver, namespace: flux-system}
rules:
- {apiGroups: [pipelines.weave.works], resources: [pipelines], resourceNames: [%[1]s], verbs: [get, watch, approve]}
- {apiGroups: [pipelines.weave.works], resources: [promotionapprovals], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: shop-approver, namespace: flux-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: shop-approver}
subjects: [{kind: ServiceAccount, name: shop-approver, namespace: flux-system}]
`

// approvalJob takes the image of the Flux CLI with the plugin.
const approvalJob = `
apiVersion: batch/v1
kind: Job
metadata: {name: shop-approver, namespace: flux-system}
spec:
  backoffLimit: 0
  template:
    spec:
      serviceAccountName: shop-approver
      restartPolicy: Never
      securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: approve
        image: %s
        args: [approve, promotion, shop, --env=prod, --yes, --wait=false, --namespace=flux-system]
        securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
`
