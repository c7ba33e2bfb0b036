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
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// leafAuthentication configures the leaf's API server to accept ServiceAccounts of the management cluster, which has
// the given address and CA.
const leafAuthentication = `
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: ADDRESS
    audiences: [leaf]
    certificateAuthority: |
CA
  claimMappings:
    username: {claim: sub, prefix: 'management:'}
`

var _ = Describe("A target in a cluster that trusts the ServiceAccounts of the controller's cluster", Ordered, func() {
	const name = "leaf-identity"
	var admin client.Client // of the leaf

	BeforeAll(func(ctx SpecContext) {
		// The leaf looks up the issuer of tokens without any credentials.
		apply(ctx, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: issuer-discovery}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: 'system:service-account-issuer-discovery'}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: 'system:unauthenticated'}]
`)
		dir := GinkgoT().TempDir()
		management := world.Cluster.Config
		authentication := filepath.Join(dir, "authentication.yaml")
		content := strings.NewReplacer("ADDRESS", management.Host, "CA", indented(management.CAData)).Replace(leafAuthentication)
		Expect(os.WriteFile(authentication, []byte(content), 0o600)).To(Succeed())
		leaf := startLeaf(ctx, dir, "--authentication-config="+authentication)
		var err error
		admin, err = client.New(leaf.Config, client.Options{Scheme: world.Client.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		Expect(leaf.Apply(ctx, fmt.Appendf(nil, leafRole,
			"{apiGroup: rbac.authorization.k8s.io, kind: User, name: 'management:system:serviceaccount:flux-system:leaf-identity'}"))).To(Succeed())
		runs(ctx, admin, leafNamespace, "v1")

		apply(ctx, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: leaf-identity, namespace: flux-system}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: leaf-identity, namespace: flux-system}
data:
  provider: generic
  address: %s
  serviceAccountName: leaf-identity
  audiences: leaf
  ca.crt: |
%s
---
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: leaf-identity, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: leafapp}
  environments:
  - {name: staging, targets: [{namespace: leaf-apps, clusterRef: {kind: ConfigMap, name: leaf-identity}}]}
`, leaf.Config.Host, indented(leaf.Config.CAData))
		DeferCleanup(func(ctx SpecContext) {
			Expect(world.Client.Delete(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name))).To(Succeed())
		})
	})

	It("can't be read until the controller may create tokens, and says so", func(ctx SpecContext) {
		Eventually(ctx, staging(name)).Should(And(HaveField("Reason", pipelinesv1.TokenUnavailableReason), HaveField("Error", ContainSubstring(
			"the controller may not create tokens for ServiceAccount flux-system/leaf-identity: see config/components/workload-identity"))))
	})

	It("is read as the ServiceAccount that the ConfigMap names", func(ctx SpecContext) {
		// Users write this in flux-system/kustomization.yaml.
		Expect(world.Cluster.ApplyKustomization(ctx, kustomizationWith(GinkgoT().TempDir(), "workload-identity"))).To(Succeed())
		Eventually(ctx, staging(name)).Should(And(HaveField("Reason", BeEmpty()), HaveField("Revision", "v1")))
		runs(ctx, admin, leafNamespace, "v2")
		Eventually(ctx, staging(name)).Should(HaveField("Revision", "v2"))
		Expect(run(ctx, "flux", "pipeline", "clusters")).To(MatchRegexp(`(?m)^ConfigMap/flux-system/leaf-identity +True `))
	})

	It("is no longer read when the ServiceAccount is deleted", func(ctx SpecContext) {
		Expect(world.Client.Delete(ctx, object("v1", "ServiceAccount", flux, name))).To(Succeed())
		Eventually(ctx, staging(name)).Should(And(HaveField("Reason", pipelinesv1.TokenUnavailableReason),
			HaveField("Error", "ServiceAccount flux-system/leaf-identity not found")))
	})
})

// indented returns text as part of a YAML block.
func indented(text []byte) string {
	const indent = "      "
	return indent + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n"+indent)
}
