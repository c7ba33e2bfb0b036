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
	"encoding/base64"
	"fmt"
	"path/filepath"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/githost"
	"github.com/sluice-toolkit/sluice/tests/playground"
)

// The specs run the real flux, which finds the plugin by its links. The application runs v2.0.0 in namespace cli-one
// and v1.0.0 in cli-two. Each spec has a Pipeline from one to two, and a repository on the fake of GitHub.
var _ = Describe("The plugin of the Flux CLI", Ordered, func() {
	// people have only the rights that the specs give them.
	people := []string{"cli-ada", "cli-bob", "cli-turner", "cli-tenant"}

	BeforeAll(func(ctx SpecContext) {
		github.AddToken(githost.Token{Value: token, Login: "sluice-bot"})
		_, err := world.Git.CreateRepository("cli")
		Expect(err).NotTo(HaveOccurred())
		for _, version := range []string{"v1.0.0", "v2.0.0"} {
			Expect(world.Release("cli", version)).To(Succeed())
		}
		for namespace, version := range map[string]string{"cli-one": "v2.0.0", "cli-two": "v1.0.0"} {
			deploy(ctx, "cli", namespace, version)
			Eventually(ctx, field(object("v1", "ConfigMap", namespace, "app"), "data", "version")).Should(Equal(version))
		}
		for _, name := range people {
			apply(ctx, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: %s, namespace: flux-system}}", name)
		}
	})

	// pipeline creates a Pipeline from one to two with a promotion by pull request, to which more is added, and its
	// repository. It waits until the promotion waits, and returns the revision.
	pipeline := func(ctx context.Context, name, more string) string {
		GinkgoHelper()
		Expect(github.AddRepository(owner, name)).To(Succeed())
		_, err := github.CommitFiles(owner, name, "main", map[string]string{
			"app.yaml": fmt.Sprintf("tag: v1.0.0 # {\"$promotion\": \"flux-system:%s:two:tag\"}\n", name),
		}, "Begin")
		Expect(err).NotTo(HaveOccurred())
		apply(ctx, `
apiVersion: v1
kind: Secret
metadata: {name: %[1]s, namespace: flux-system}
stringData: {token: %[2]s}
data: {ca.crt: %[3]s}
---
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %[1]s, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: cli}
  environments:
  - {name: one, targets: [{namespace: cli-one}]}
  - {name: two, targets: [{namespace: cli-two}]}
  promotion: {%[4]s, strategy: {pull-request: {type: github, url: '%[5]s', baseBranch: main, secretRef: {name: %[1]s}}}}
`, name, token, base64.StdEncoding.EncodeToString(github.CA()), more, github.RepositoryURL(owner, name))
		obj := object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name)
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(world.Client.Delete(ctx, obj))).To(Succeed())
		})
		waiting := field(obj, "status", "environments", "two", "waitingApproval", "revision")
		Eventually(ctx, waiting).Should(HavePrefix("v2.0.0@sha1:"))
		revision, err := waiting(ctx)
		Expect(err).NotTo(HaveOccurred())
		return revision.(string)
	}
	// pull returns the URL of a Pipeline's pull request once it is open.
	pull := func(ctx context.Context, name string) string {
		GinkgoHelper()
		promotion, err := record(name, "two")(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(promotion).To(haveState(pipelinesv1.PromotionCreated))
		return promotion.PullRequest.URL
	}
	fluxSays := func(ctx context.Context, args ...string) string {
		GinkgoHelper()
		said, err := run(ctx, "flux", args...)
		Expect(err).NotTo(HaveOccurred())
		return said
	}
	// waits and since match the description of a waiting promotion.
	const (
		waits = `two: v2\.0\.0@sha1:[0-9a-f]{8} waits: `
		since = ` \(since 20[-0-9]{8}T[0-9:]{8}Z, [0-9a-z]+\)`
	)

	It("approves a promotion in the caller's name, and prints its pull request", func(ctx SpecContext) {
		revision := pipeline(ctx, "cli-by-one", "manual: true")
		Expect(fluxSays(ctx, "pipeline", "why", "cli-by-one")).To(MatchRegexp(
			`^` + waits + `waiting for approval` + since + `; to approve: flux approve promotion cli-by-one --env two -n flux-system\n$`))

		By("not asking for confirmation without a terminal")
		_, err := run(ctx, "flux", "approve", "promotion", "cli-by-one", "--env", "two")
		Expect(err).To(MatchError(ContainSubstring("✗ confirmation needs a terminal: pass --yes and --revision " + revision)))

		By("refusing a revision that isn't the waiting one")
		_, err = run(ctx, "flux", "approve", "promotion", "cli-by-one", "--env=two", "--yes", "--revision=v1.0.0")
		Expect(err).To(MatchError(ContainSubstring("✗ revision v1.0.0 does not wait for approval in environment two of pipeline cli-by-one: " + revision + " does")))
		Expect(record("cli-by-one", "two")(ctx)).To(haveState(pipelinesv1.PromotionUnapproved))

		By("approving the waiting revision by its tag, in the only environment that waits")
		self := &authenticationv1.SelfSubjectReview{}
		Expect(world.Client.Create(ctx, self)).To(Succeed())
		me := self.Status.UserInfo.Username
		said := fluxSays(ctx, "approve", "promotion", "cli-by-one", "--yes", "--revision=v2.0.0", "--comment=e2e")
		Expect(said).To(And(
			MatchRegexp(`(?m)^  revision: +v1\.0\.0@sha1:[0-9a-f]{8} → v2\.0\.0@sha1:[0-9a-f]{40}$`),
			ContainSubstring("✔ promotion approved by "+me+"\n◎ waiting for pipeline reconciliation\n"),
			HaveSuffix("✔ pull request "+pull(ctx, "cli-by-one")+" waits to be merged\n")))
		Expect(fluxSays(ctx, "pipeline", "why", "cli-by-one")).To(MatchRegexp(
			`^two: v2\.0\.0@sha1:[0-9a-f]{8} waits for pull request ` + pull(ctx, "cli-by-one") + ` to be merged` + since + `\n$`))
		var approvals pipelinesv1.PromotionApprovalList
		Expect(world.Client.List(ctx, &approvals, client.InNamespace(flux), client.MatchingFields{pipelinesv1.ApprovalPipelineField: "cli-by-one"})).To(Succeed())
		Expect(approvals.Items).To(ConsistOf(HaveField("Spec.Comment", "e2e")))

		By("having nothing left to approve")
		_, err = run(ctx, "flux", "pipeline", "approve", "cli-by-one", "--env=two", "--yes")
		Expect(err).To(MatchError(ContainSubstring("✗ nothing waits for approval in environment two of pipeline cli-by-one: two: v2.0.0@")))

		By("showing it everywhere")
		Eventually(ctx, ready("cli-by-one")).Should(HaveField("Reason", "PullRequestOpen"))
		Expect(fluxSays(ctx, "pipeline", "list")).To(MatchRegexp(`(?m)^cli-by-one +v2\.0\.0@sha1:[0-9a-f]{8} +False +True +two: v2.*waits for pull request`))
		Expect(fluxSays(ctx, "pipeline", "list", "--all-namespaces")).To(MatchRegexp(`(?m)^flux-system +cli-by-one +v2\.0\.0@`))
		Expect(fluxSays(ctx, "pipeline", "get", "cli-by-one")).To(And(
			MatchRegexp(`(?m)^│   └── Kustomization/cli-one/cli: v2\.0\.0@sha1:[0-9a-f]{8}, ready$`),
			MatchRegexp(`(?m)^    └── promotion of v2\.0\.0@sha1:[0-9a-f]{8}: created, .*, approved by `+me+`$`)))
		Expect(fluxSays(ctx, "pipeline", "history", "cli-by-one", "--env=two")).To(MatchRegexp(
			`(?m)^two +v2\.0\.0@sha1:[0-9a-f]{8} +created +\S+Z +- +` + me + ` +` + pull(ctx, "cli-by-one")))
		Expect(fluxSays(ctx, "pipeline", "why", "cli-by-one", "--env=one")).To(MatchRegexp(`^one: runs v2\.0\.0@sha1:[0-9a-f]{8}, which is promoted from here`))
	})

	It("needs the approvals of two people, who may do nothing else", func(ctx SpecContext) {
		ada, bob := kubeconfigOf(ctx, "cli-ada"), kubeconfigOf(ctx, "cli-bob")
		approve := func(kubeconfig, name string) (string, error) {
			return run(ctx, "flux", "--kubeconfig="+kubeconfig, "approve", "promotion", name, "--env=two", "--yes")
		}
		pipeline(ctx, "cli-two-eyes", "approvals: {required: 2}")
		apply(ctx, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: pipeline-approver-cli, namespace: flux-system}
rules:
- {apiGroups: [pipelines.weave.works], resources: [pipelines], resourceNames: [cli-two-eyes], verbs: [get, watch, approve]}
- {apiGroups: [pipelines.weave.works], resources: [promotionapprovals], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: pipeline-approver-cli, namespace: flux-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: pipeline-approver-cli}
subjects:
- {kind: ServiceAccount, name: cli-ada, namespace: flux-system}
- {kind: ServiceAccount, name: cli-bob, namespace: flux-system}
`)
		Eventually(ctx, may("cli-bob", authorizationv1.ResourceAttributes{
			Verb: "create", Group: pipelinesv1.GroupVersion.Group, Resource: "promotionapprovals", Namespace: flux})).Should(BeTrue())
		const adasName = "system:serviceaccount:flux-system:cli-ada"

		said, err := approve(ada, "cli-two-eyes")
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(And(
			MatchRegexp(`(?m)^  approvals: +0 of 2$`),
			ContainSubstring("✔ promotion approved by "+adasName+"\n"),
			MatchRegexp(`(?m)^◎ `+waits+`1 of 2 approvals, by `+adasName+since+`; to approve: flux approve promotion cli-two-eyes `)))
		Expect(fluxSays(ctx, "pipeline", "why", "cli-two-eyes")).To(MatchRegexp("^" + waits + "1 of 2 approvals, by " + adasName + since))

		By("counting one person once")
		said, err = approve(ada, "cli-two-eyes")
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(And(ContainSubstring("✔ promotion is already approved by "+adasName+"\n"), ContainSubstring("1 of 2 approvals, by "+adasName)))

		By("promoting with the second")
		said, err = approve(bob, "cli-two-eyes")
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(And(MatchRegexp(`(?m)^  approvals: +1 of 2, by `+adasName+`$`), HaveSuffix("✔ pull request "+pull(ctx, "cli-two-eyes")+" waits to be merged\n")))

		By("refusing another Pipeline")
		pipeline(ctx, "cli-not-theirs", "manual: true")
		_, err = approve(ada, "cli-not-theirs")
		Expect(err).To(MatchError(ContainSubstring(`✗ reading pipeline cli-not-theirs failed: pipelines.pipelines.weave.works "cli-not-theirs" is forbidden: User "` + adasName + `"`)))

		By("refusing those who may read it and create approvals, but not approve it")
		apply(ctx, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: view-cli, namespace: flux-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sluice-view}
subjects: [{kind: ServiceAccount, name: cli-ada, namespace: flux-system}]
`)
		Eventually(ctx, may("cli-ada", authorizationv1.ResourceAttributes{
			Verb: "get", Group: pipelinesv1.GroupVersion.Group, Resource: "pipelines", Namespace: flux})).Should(BeTrue())
		_, err = approve(ada, "cli-not-theirs")
		Expect(err).To(MatchError(And(ContainSubstring("✗ approving the promotion failed: promotionapprovals.pipelines.weave.works"),
			ContainSubstring(adasName+" may not approve promotions of Pipeline flux-system/cli-not-theirs"))))
	})

	It("does not wait for a gate, but reports it", func(ctx SpecContext) {
		Expect(fluxSays(ctx, "gate", "create", "cli-freeze", "--closed", "--reason=end of quarter")).To(ContainSubstring("✔ gate created; it is closed\n"))
		_, err := run(ctx, "flux", "gate", "create", "cli-freeze")
		Expect(err).To(MatchError(ContainSubstring("✗ gate cli-freeze already exists in flux-system namespace")))
		pipeline(ctx, "cli-gated", "manual: true, gates: {refs: [cli-freeze]}")

		const frozen = "gate cli-freeze is closed by admin (end of quarter)"
		const urgent = `; if it is urgent: flux pass gate cli-freeze -n flux-system --revision v2\.0\.0@sha1:[0-9a-f]{40} --reason TEXT`
		said := fluxSays(ctx, "approve", "promotion", "cli-gated", "--env=two", "--yes")
		Expect(said).To(And(
			MatchRegexp(`(?m)^  also waits for: gate cli-freeze is closed by admin \(end of quarter\)$`),
			MatchRegexp(`◎ `+waits+`gate cli-freeze is closed by admin \(end of quarter\)`+since+urgent+`\n$`)))
		Expect(fluxSays(ctx, "pipeline", "why", "cli-gated")).To(MatchRegexp(`^` + waits + `gate cli-freeze is closed by admin \(end of quarter\)` + since + urgent + `\n$`))

		By("showing what the gate holds")
		apply(ctx, `
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: cli-gated, namespace: flux-system}
spec: {interval: 24h, url: '%s', ref: {tag: v1.0.0}, gates: {refs: [cli-freeze]}}
`, world.RepositoryURL("cli"))
		source := object(sourceAPI, sourcev1.GitRepositoryKind, flux, "cli-gated")
		DeferCleanup(func(ctx SpecContext) { Expect(world.Client.Delete(ctx, source)).To(Succeed()) })
		Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(HaveField("Reason", "GateClosed"))
		gate := object(gatingAPI, gatingv1.GateKind, flux, "cli-freeze")
		Eventually(ctx, field(gate, "status", "held")).Should(BeEquivalentTo(2))
		Expect(field(gate, "status", "heldPromotions")(ctx)).To(BeEquivalentTo(1))
		Expect(fluxSays(ctx, "gate", "list")).To(MatchRegexp(`(?m)^cli-freeze +closed +\S+ +- +2 +end of quarter$`))
		Expect(fluxSays(ctx, "gate", "get", "cli-freeze")).To(And(
			HavePrefix("Gate/flux-system/cli-freeze: closed by admin since "),
			ContainSubstring("│   └── GitRepository/flux-system/cli-gated: held: "+frozen),
			MatchRegexp(`    └── Pipeline/flux-system/cli-gated: two: v2\.0\.0@sha1:[0-9a-f]{8} waits: gate cli-freeze is closed`)))

		Expect(fluxSays(ctx, "gate", "sources")).To(MatchRegexp(`(?m)^GitRepository/cli-gated +cli-freeze +held +true +- +gate cli-freeze is closed by admin \(end of quarter\)`))

		By("opening it, and waiting until the source and the promotion continue")
		Expect(fluxSays(ctx, "open", "gate", "cli-freeze")).To(HaveSuffix("✔ gate cli-freeze is open: released 1 of 1 source\n"))
		Expect(field(source, "spec", "suspend")(ctx)).To(BeNil())
		Eventually(ctx, record("cli-gated", "two")).Should(haveState(pipelinesv1.PromotionCreated))
		Expect(fluxSays(ctx, "pipeline", "why", "cli-gated")).To(ContainSubstring("waits for pull request " + pull(ctx, "cli-gated") + " to be merged"))
	})

	It("shows a gate to a user who may only turn it, and to a tenant whose sources it holds", func(ctx SpecContext) {
		apply(ctx, `
apiVersion: gating.toolkit.fluxcd.io/v1alpha1
kind: Gate
metadata: {name: cli-limited, namespace: flux-system}
spec: {closed: false, accessFrom: {namespaceSelectors: [{}]}}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: cli-limited, namespace: cli-one}
spec: {interval: 24h, url: '%s', ref: {tag: v1.0.0}, gates: {refs: [flux-system/cli-limited]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: turn-cli-limited, namespace: flux-system}
rules: [{apiGroups: [gating.toolkit.fluxcd.io], resources: [gates], resourceNames: [cli-limited], verbs: [get, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: turn-cli-limited, namespace: flux-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: turn-cli-limited}
subjects: [{kind: ServiceAccount, name: cli-turner, namespace: flux-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: cli-tenant, namespace: cli-one}
rules: [{apiGroups: [gating.toolkit.fluxcd.io, source.toolkit.fluxcd.io], resources: ["*"], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: cli-tenant, namespace: cli-one}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: cli-tenant}
subjects: [{kind: ServiceAccount, name: cli-tenant, namespace: flux-system}]
`, world.RepositoryURL("cli"))
		source := object(sourceAPI, sourcev1.GitRepositoryKind, "cli-one", "cli-limited")
		DeferCleanup(func(ctx SpecContext) { Expect(world.Client.Delete(ctx, source)).To(Succeed()) })
		turner, tenant := "--kubeconfig="+kubeconfigOf(ctx, "cli-turner"), "--kubeconfig="+kubeconfigOf(ctx, "cli-tenant")
		Eventually(ctx, may("cli-turner", authorizationv1.ResourceAttributes{
			Verb: "patch", Group: gatingv1.GroupVersion.Group, Resource: "gates", Namespace: flux, Name: "cli-limited"})).Should(BeTrue())
		Eventually(ctx, may("cli-tenant", authorizationv1.ResourceAttributes{
			Verb: "list", Group: gatingv1.GroupVersion.Group, Resource: "gates", Namespace: "cli-one"})).Should(BeTrue())
		Eventually(ctx, field(object(gatingAPI, gatingv1.GateKind, flux, "cli-limited"), "status", "sources")).Should(BeEquivalentTo(1))

		Expect(fluxSays(ctx, turner, "close", "gate", "cli-limited", "--reason=end of quarter")).To(HaveSuffix("✔ gate cli-limited is closed: held 1 of 1 source\n"))
		Expect(fluxSays(ctx, turner, "gate", "get", "cli-limited")).To(And(
			MatchRegexp(`^Gate/flux-system/cli-limited: closed by \S+ since \S+ \(\S+\): end of quarter\n`),
			ContainSubstring("│   └── you may not list GitRepository, OCIRepository, Bucket, HelmRepository, HelmChart, ExternalArtifact in flux-system namespace; by the gate's status: 1 of 1 source held\n"),
			ContainSubstring("    └── you may not list Pipeline in flux-system namespace; by the gate's status: 0 promotions held\n")))

		Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(HaveField("Reason", "GateClosed"))
		Expect(fluxSays(ctx, tenant, "gate", "sources", "--namespace=cli-one")).To(
			MatchRegexp(`(?m)^GitRepository/cli-limited +flux-system/cli-limited +held +true +\S+ +gate flux-system/cli-limited is closed by \S+ \(end of quarter\)`))
		Expect(fluxSays(ctx, tenant, "gate", "list", "--namespace=cli-one")).To(
			MatchRegexp(`(?m)^flux-system/cli-limited +<unknown> +<unknown> +<unknown> +<unknown> +you may not get it: 'flux gate sources' shows what it holds$`))
		Expect(fluxSays(ctx, "gate", "list", "--namespace=cli-one")).To(MatchRegexp(`(?m)^flux-system/cli-limited +closed +\S+ +- +1 +end of quarter$`))
	})

	It("says that there is nothing to do if all run the revision", func(ctx SpecContext) {
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: cli-alone, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: cli}
  environments: [{name: one, targets: [{namespace: cli-one}]}, {name: same, targets: [{namespace: cli-one}]}]
`)
		Eventually(ctx, ready("cli-alone")).Should(HaveField("Reason", pipelinesv1.UpToDateReason))
		Expect(fluxSays(ctx, "pipeline", "why", "cli-alone")).To(MatchRegexp(`^same: runs v2\.0\.0@sha1:[0-9a-f]{8}` + since + `\n$`))
	})

	It("completes the names of existing objects", func(ctx SpecContext) {
		Expect(world.Client.Get(ctx, playground.InFluxNamespace("cli-alone"), &pipelinesv1.Pipeline{})).To(Succeed())
		Expect(fluxSays(ctx, "__complete", "pipeline", "why", "cli-al")).To(MatchRegexp(`(?m)^cli-alone\tv2\.0\.0@sha1:[0-9a-f]{8}$`))
	})
})

// kubeconfigOf writes a kubeconfig with the token of a ServiceAccount in the namespace of Flux, and returns its path.
func kubeconfigOf(ctx context.Context, name string) string {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: flux, Name: name}}
	token := &authenticationv1.TokenRequest{}
	Expect(world.Client.SubResource("token").Create(ctx, account, token)).To(Succeed())
	config := clientcmdapi.NewConfig()
	config.Clusters["local"] = &clientcmdapi.Cluster{Server: world.Cluster.Config.Host, CertificateAuthorityData: world.Cluster.Config.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["local"] = &clientcmdapi.Context{Cluster: "local", AuthInfo: name}
	config.CurrentContext = "local"
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*config, path)).To(Succeed())
	return path
}
