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
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gitopsv1 "github.com/sluice-toolkit/sluice/api/gitops/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/leafserver"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
	"github.com/sluice-toolkit/sluice/tests/playground"
	"github.com/sluice-toolkit/sluice/tests/standin"
)

const (
	// leafNamespace is the namespace of the applications in the leaf cluster, and leafUser is the controller's user
	// there.
	leafNamespace = "leaf-apps"
	leafUser      = "system:serviceaccount:" + leafNamespace + ":sluice"
)

// gitopsCluster returns a GitopsCluster. All of them have the same Secret.
const gitopsCluster = "{apiVersion: gitops.weave.works/v1alpha1, kind: GitopsCluster, metadata: {name: %s, namespace: flux-system}, spec: {secretRef: {name: leaf}}}"

// leafRole allows a subject to read the applications in the leaf cluster, and nothing else.
const leafRole = `
apiVersion: v1
kind: Namespace
metadata: {name: leaf-apps}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: sluice, namespace: leaf-apps}
rules:
- {apiGroups: [kustomize.toolkit.fluxcd.io], resources: [kustomizations], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: sluice, namespace: leaf-apps}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: sluice}
subjects: [%s]
`

// leafAudit makes the leaf's API server log all requests of leafUser.
const leafAudit = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["` + leafUser + `"]
- level: None
`

// A second API server is the leaf. Nothing reconciles there: the specs set what its applications run. In the cluster of
// the controllers, the applications are suspended for the same reason.
var _ = Describe("A target in another cluster", Ordered, func() {
	var (
		leaf  *localcluster.Cluster
		admin client.Client // of the leaf
		line  *leafserver.Line
		audit string
	)

	BeforeAll(func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		audit = filepath.Join(dir, "audit.log")
		policy := filepath.Join(dir, "policy.yaml")
		Expect(os.WriteFile(policy, []byte(leafAudit), 0o600)).To(Succeed())
		leaf = startLeaf(ctx, dir, "--audit-policy-file="+policy, "--audit-log-path="+audit)
		var err error
		admin, err = client.New(leaf.Config, client.Options{Scheme: world.Client.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		line, err = leafserver.NewLine(leaf.Config.Host)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(line.Close()).To(Succeed()) })

		// Users write this in flux-system/kustomization.yaml.
		Expect(world.Cluster.ApplyKustomization(ctx, kustomizationWith(dir, "gitops-clusters"))).To(Succeed())
		apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: leaf-dev}}")
		apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: leaf-prod}}")
		Expect(leaf.Apply(ctx, fmt.Appendf(nil, leafRole, "{kind: ServiceAccount, name: sluice, namespace: leaf-apps}"))).To(Succeed())
		Expect(leaf.Apply(ctx, []byte(`
apiVersion: v1
kind: Namespace
metadata: {name: leaf-others}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: sluice, namespace: leaf-apps}
`))).To(Succeed())
		runs(ctx, world.Client, "leaf-dev", "v1")
		runs(ctx, admin, leafNamespace, "v1")
		runs(ctx, world.Client, "leaf-prod", "v1")
	})

	// kubeconfig creates a Secret with a kubeconfig of the ServiceAccount and a new token.
	kubeconfig := func(ctx context.Context, name, url string) {
		GinkgoHelper()
		account := &corev1.ServiceAccount{}
		account.Namespace, account.Name = leafNamespace, "sluice"
		request := &authenticationv1.TokenRequest{}
		Expect(admin.SubResource("token").Create(ctx, account, request)).To(Succeed())
		secretOf(ctx, name, leafserver.Kubeconfig(url, leaf.Config.CAData, request.Status.Token))
	}
	pipeline := func(ctx context.Context, name, clusterRef, namespace string) {
		GinkgoHelper()
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %[1]s, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: leafapp}
  environments:
  - {name: dev, targets: [{namespace: leaf-dev}]}
  - {name: staging, targets: [{namespace: %[3]s, clusterRef: %[2]s}]}
  - {name: prod, targets: [{namespace: leaf-prod}]}
  promotion: {strategy: {notification: {}}}
`, name, clusterRef, namespace)
	}

	It("says that its cluster does not exist", func(ctx SpecContext) {
		pipeline(ctx, "leaf", "{kind: GitopsCluster, name: leaf}", leafNamespace)
		Eventually(ctx, ready("leaf")).Should(And(HaveField("Reason", "TargetNotReadable"),
			HaveField("Message", ContainSubstring("GitopsCluster flux-system/leaf not found"))))
		Eventually(ctx, staging("leaf")).Should(And(HaveField("Reason", "ClusterNotFound"), HaveField("Since", Not(BeNil()))))
	})

	It("is known once the cluster is connected, with the rights to get, list and watch one kind in one namespace", func(ctx SpecContext) {
		kubeconfig(ctx, "leaf", line.URL())
		apply(ctx, gitopsCluster, "leaf")
		Eventually(ctx, ready("leaf")).Should(HaveField("Reason", "UpToDate"))
		Expect(staging("leaf")(ctx)).To(And(HaveField("Revision", "v1"), HaveField("Ready", true), HaveField("Reason", BeEmpty())))
		Eventually(ctx, metricsOf(world.PipelineController)).Should(ContainSubstring(
			`sluice_leaf_cluster_connected{kind="GitopsCluster",name="leaf",namespace="flux-system"} 1`))
	})

	It("is promoted into, and past", func(ctx SpecContext) {
		runs(ctx, world.Client, "leaf-dev", "v2")
		Eventually(ctx, record("leaf", "staging")).Should(And(haveState(pipelinesv1.PromotionSucceeded), HaveField("Revision", "v2")))
		Expect(record("leaf", "prod")(ctx)).To(HaveField("Revision", BeEmpty()))
		// The controller also requests the cause of a stopped rollout, but need not be allowed to.
		Eventually(func() []string { return asked(audit) }).Should(ContainElement("list gitrepositories in leaf-apps"))
		runs(ctx, admin, leafNamespace, "v2")
		Eventually(ctx, record("leaf", "prod")).Should(And(haveState(pipelinesv1.PromotionSucceeded), HaveField("Revision", "v2")))
	})

	It("can be in a cluster that a Secret represents, beside clusters that don't respond", func(ctx SpecContext) {
		nowhere, err := leafserver.Blackhole()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(nowhere.Close()).To(Succeed()) })
		kubeconfig(ctx, "leaf-silent", nowhere.URL())
		pipeline(ctx, "leaf-silent", "{kind: Secret, name: leaf-silent}", leafNamespace)
		kubeconfig(ctx, "leaf-dead", "https://127.0.0.1:1")
		pipeline(ctx, "leaf-dead", "{kind: Secret, name: leaf-dead}", leafNamespace)
		Eventually(ctx, staging("leaf-silent")).Should(And(HaveField("Reason", "Unreachable"), HaveField("Error", ContainSubstring("timed out"))))
		Eventually(ctx, staging("leaf-dead")).Should(And(HaveField("Reason", "Unreachable"), HaveField("Error", ContainSubstring("connection refused"))))

		kubeconfig(ctx, "leaf-direct", leaf.Config.Host)
		pipeline(ctx, "leaf-direct", "{kind: Secret, name: leaf-direct}", leafNamespace)
		Eventually(ctx, staging("leaf-direct")).Should(HaveField("Revision", "v2"))
	})

	It("can't be read if the leaf cluster does not allow it", func(ctx SpecContext) {
		pipeline(ctx, "leaf-others", "{kind: GitopsCluster, name: leaf}", "leaf-others")
		Eventually(ctx, staging("leaf-others")).Should(And(HaveField("Reason", "Forbidden"), HaveField("Error",
			ContainSubstring("the kubeconfig's user may not list objects of kind Kustomization.kustomize.toolkit.fluxcd.io in namespace leaf-others"))))
		Expect(world.Client.Delete(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "leaf-others"))).To(Succeed())
	})

	It("requires no other request to its cluster, and no read of a Secret", func() {
		Eventually(func() []string { return asked(audit) }).Should(ConsistOf(
			"get /version",
			"get /apis/kustomize.toolkit.fluxcd.io/v1",
			"list kustomizations in leaf-apps", "watch kustomizations in leaf-apps",
			"list kustomizations in leaf-others",
			"get /apis/source.toolkit.fluxcd.io/v1", "list gitrepositories in leaf-apps",
		))
	})

	It("stops promotions past it while it is unreachable, causes none, and continues by itself", func(ctx SpecContext) {
		line.Silence()
		Eventually(ctx, staging("leaf")).Should(And(HaveField("Reason", "Unreachable"), HaveField("Error", ContainSubstring("unreachable since ")),
			HaveField("ReadyRevision", "v2")))
		Eventually(ctx, ready("leaf")).Should(HaveField("Reason", "TargetNotReadable"))
		Expect(run(ctx, "flux", "pipeline", "clusters")).To(And(
			MatchRegexp(`(?m)^GitopsCluster/flux-system/leaf +False +Unreachable `), MatchRegexp(`(?m)^Secret/flux-system/leaf-direct +True `)))
		runs(ctx, world.Client, "leaf-dev", "v3")
		// The same cluster can still be reached at the other address.
		Eventually(ctx, record("leaf-direct", "staging")).Should(And(haveState(pipelinesv1.PromotionSucceeded), HaveField("Revision", "v3")))
		Consistently(ctx, record("leaf", "staging")).ShouldNot(HaveField("Revision", "v3"))
		Expect(record("leaf", "prod")(ctx)).NotTo(HaveField("Revision", "v3"))

		line.Restore()
		Eventually(ctx, record("leaf", "staging")).Should(And(haveState(pipelinesv1.PromotionSucceeded), HaveField("Revision", "v3")))
		runs(ctx, admin, leafNamespace, "v3")
		Eventually(ctx, record("leaf", "prod")).Should(And(haveState(pipelinesv1.PromotionSucceeded), HaveField("Revision", "v3")))
	})

	It("is unknown while its kubeconfig is rejected", func(ctx SpecContext) {
		account := &corev1.ServiceAccount{}
		account.Namespace, account.Name = leafNamespace, "sluice"
		Expect(admin.Delete(ctx, account)).To(Succeed())
		Eventually(ctx, staging("leaf")).WithTimeout(3 * time.Minute).Should(HaveField("Reason", "Unauthorized"))
		account.ResourceVersion, account.UID = "", ""
		Expect(admin.Create(ctx, account)).To(Succeed())
		kubeconfig(ctx, "leaf", line.URL())
		Eventually(ctx, staging("leaf")).Should(And(HaveField("Reason", BeEmpty()), HaveField("Revision", "v3")))
	}, SpecTimeout(6*time.Minute))

	It("says what is wrong with its kubeconfig, and follows the cluster to the address of another one", func(ctx SpecContext) {
		wrong := func(reason string) {
			GinkgoHelper()
			// A person's request does not wait.
			reconcile(ctx, "leaf", "look-for-"+reason)
			Eventually(ctx, staging("leaf")).Should(And(HaveField("Reason", reason), HaveField("Since", Not(BeNil()))))
		}
		Expect(world.Client.Delete(ctx, object("v1", "Secret", flux, "leaf"))).To(Succeed())
		wrong("SecretNotFound")
		secretOf(ctx, "leaf", []byte("{garbled"))
		wrong("InvalidKubeconfig")
		secretOf(ctx, "leaf", expiredKubeconfig(leaf))
		wrong("CertificateExpired")
		kubeconfig(ctx, "leaf", leaf.Config.Host)
		Eventually(ctx, staging("leaf")).Should(And(HaveField("Reason", BeEmpty()), HaveField("Revision", "v3")))
	})

	It("is known again when the object that represents its cluster was deleted and created again", func(ctx SpecContext) {
		Expect(world.Client.Delete(ctx, object(gitopsv1.GroupVersion.String(), gitopsv1.GitopsClusterKind, flux, "leaf"))).To(Succeed())
		reconcile(ctx, "leaf", "look-for-the-cluster")
		Eventually(ctx, staging("leaf")).Should(HaveField("Reason", "ClusterNotFound"))
		apply(ctx, gitopsCluster, "leaf")
		Eventually(ctx, staging("leaf")).Should(And(HaveField("Reason", BeEmpty()), HaveField("Revision", "v3")))
	})

	It("can be in a cluster that has two names", func(ctx SpecContext) {
		apply(ctx, gitopsCluster, "leaf-too")
		pipeline(ctx, "leaf-too", "{kind: GitopsCluster, name: leaf-too}", leafNamespace)
		Eventually(ctx, staging("leaf-too")).Should(HaveField("Revision", "v3"))
		runs(ctx, admin, leafNamespace, "v4")
		Eventually(ctx, staging("leaf-too")).Should(HaveField("Revision", "v4"))
		Eventually(ctx, staging("leaf")).Should(HaveField("Revision", "v4"))
	})

	It("is unknown while its kind is removed from the cluster", func(ctx SpecContext) {
		crd := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "kustomizations.kustomize.toolkit.fluxcd.io")
		Expect(admin.Delete(ctx, crd)).To(Succeed())
		Eventually(ctx, staging("leaf")).Should(HaveField("Reason", "KindNotInstalled"))
		path, err := leaf.FluxCRDs(localcluster.KustomizeController)
		Expect(err).NotTo(HaveOccurred())
		crds, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(leaf.Apply(ctx, crds)).To(Succeed())
		Eventually(ctx, staging("leaf")).Should(HaveField("Reason", "ObjectNotFound"))
		runs(ctx, admin, leafNamespace, "v4")
		Eventually(ctx, staging("leaf")).Should(And(HaveField("Reason", BeEmpty()), HaveField("Revision", "v4")))
	})

	It("is disconnected when no Pipeline names the cluster", func(ctx SpecContext) {
		for _, name := range []string{"leaf", "leaf-too", "leaf-direct", "leaf-silent", "leaf-dead"} {
			Expect(world.Client.Delete(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name))).To(Succeed())
		}
		Eventually(ctx, metricsOf(world.PipelineController)).ShouldNot(MatchRegexp(`sluice_leaf_cluster_connected\{.*name="leaf(|-too|-direct|-silent|-dead)"`))
	})
})

// startLeaf starts a control plane whose API server has more flags. It adds them with a script in KUBEBUILDER_ASSETS,
// where a cluster finds its programs.
func startLeaf(ctx context.Context, dir string, flags ...string) *localcluster.Cluster {
	GinkgoHelper()
	program, err := world.Cluster.Program("kube-apiserver")
	Expect(err).NotTo(HaveOccurred())
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\" '%s'\n", program, strings.Join(flags, "' '"))
	assets := filepath.Join(dir, "assets")
	Expect(os.Mkdir(assets, 0o700)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(assets, "kube-apiserver"), []byte(script), 0o700)).To(Succeed())

	before, was := os.LookupEnv("KUBEBUILDER_ASSETS")
	Expect(os.Setenv("KUBEBUILDER_ASSETS", assets)).To(Succeed())
	defer func() {
		if was {
			Expect(os.Setenv("KUBEBUILDER_ASSETS", before)).To(Succeed())
		} else {
			Expect(os.Unsetenv("KUBEBUILDER_ASSETS")).To(Succeed())
		}
	}()
	cluster, err := localcluster.Start(ctx, localcluster.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(cluster.Stop()).To(Succeed()) })
	return cluster
}

// asked returns the distinct requests of leafUser.
func asked(log string) []string {
	GinkgoHelper()
	content, err := os.ReadFile(log)
	Expect(err).NotTo(HaveOccurred())
	seen := map[string]bool{}
	var all []string
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var request struct {
			Verb, RequestURI string
			ObjectRef        *struct{ Resource, Namespace, Name string }
		}
		Expect(json.Unmarshal(lines.Bytes(), &request)).To(Succeed())
		what := request.Verb + " " + request.RequestURI
		if ref := request.ObjectRef; ref != nil {
			what = fmt.Sprintf("%s %s in %s", request.Verb, ref.Resource, ref.Namespace)
		}
		if !seen[what] {
			seen[what] = true
			all = append(all, what)
		}
	}
	Expect(lines.Err()).NotTo(HaveOccurred())
	return all
}

// kustomizationWith creates a directory with a kustomization of a component of config/, and optionally a manifest.
func kustomizationWith(dir, component string, manifest ...string) string {
	GinkgoHelper()
	path := filepath.Join(dir, component)
	Expect(os.Mkdir(path, 0o755)).To(Succeed())
	root, err := filepath.Abs("../../config/components/" + component)
	Expect(err).NotTo(HaveOccurred())
	relative, err := filepath.Rel(path, root)
	Expect(err).NotTo(HaveOccurred())
	kustomization := "components: [" + relative + "]\n"
	if len(manifest) > 0 {
		Expect(os.WriteFile(filepath.Join(path, "manifest.yaml"), []byte(strings.Join(manifest, "\n---\n")), 0o644)).To(Succeed())
		kustomization += "resources: [manifest.yaml]\n"
	}
	Expect(os.WriteFile(filepath.Join(path, "kustomization.yaml"), []byte(kustomization), 0o644)).To(Succeed())
	return path
}

// secretOf creates a Secret with a kubeconfig.
func secretOf(ctx context.Context, name string, kubeconfig []byte) {
	GinkgoHelper()
	s := &corev1.Secret{Data: map[string][]byte{"value": kubeconfig}}
	s.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	s.Namespace, s.Name = flux, name
	content, err := json.Marshal(s)
	Expect(err).NotTo(HaveOccurred())
	Expect(world.Cluster.Apply(ctx, content)).To(Succeed())
}

// expiredKubeconfig returns a kubeconfig whose certificate was valid for a minute, an hour ago.
func expiredKubeconfig(leaf *localcluster.Cluster) []byte {
	GinkgoHelper()
	certificate, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{Host: "leaf", MaxAge: time.Minute})
	Expect(err).NotTo(HaveOccurred())
	config := clientcmdapi.NewConfig()
	config.Clusters["leaf"] = &clientcmdapi.Cluster{Server: leaf.Config.Host, CertificateAuthorityData: leaf.Config.CAData}
	config.AuthInfos["leaf"] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
	config.Contexts["leaf"] = &clientcmdapi.Context{Cluster: "leaf", AuthInfo: "leaf"}
	config.CurrentContext = "leaf"
	content, err := clientcmd.Write(*config)
	Expect(err).NotTo(HaveOccurred())
	return content
}

// runs makes the application in a namespace of a cluster ready on a revision.
func runs(ctx context.Context, in client.Client, namespace, revision string) {
	GinkgoHelper()
	key := client.ObjectKey{Namespace: namespace, Name: "leafapp"}
	Expect(standin.Application{Key: key, Revision: revision, Ready: metav1.ConditionTrue}.Put(ctx, in)).To(Succeed())
}

// staging returns a function that reads the target in the environment 'staging' of a Pipeline, for Eventually.
func staging(pipeline string) func(context.Context) (pipelinesv1.TargetStatus, error) {
	return func(ctx context.Context) (pipelinesv1.TargetStatus, error) {
		now := &pipelinesv1.Pipeline{}
		if err := world.Client.Get(ctx, playground.InFluxNamespace(pipeline), now); err != nil {
			return pipelinesv1.TargetStatus{}, err
		}
		if env := now.Status.Environments["staging"]; env != nil && len(env.Targets) == 1 {
			return env.Targets[0], nil
		}
		return pipelinesv1.TargetStatus{}, nil
	}
}
