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
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/codeblock"
)

var _ = Describe("The guide to an urgent fix", func() {
	const name = "urgent-fix"

	It("lets the fix out, with the commands and manifests of the page", func(ctx SpecContext) {
		page, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "urgent-fix.md"))
		Expect(err).NotTo(HaveOccurred())
		var commands, manifests []string
		for _, block := range codeblock.In(strings.ReplaceAll(string(page), "change-freeze", name)) {
			switch block.Language {
			case "sh":
				commands = append(commands, block.Text)
			case "yaml":
				manifests = append(manifests, block.Text)
			}
		}
		Expect(commands).To(HaveLen(3), "to grant, to look and to revoke")
		Expect(manifests).To(HaveLen(3), "the source's ref, the Gate and the Role")

		w := newWindowed(ctx, name)
		observer, before := watchArtifacts(ctx, w.source), w.head()
		w.hold(ctx)
		fix := w.release("v2.0.0")
		checkout := GinkgoT().TempDir()
		sh(ctx, checkout, "git clone --quiet "+world.RepositoryURL(name)+" .")

		Expect(sh(ctx, checkout, commands[0])).To(And(
			MatchRegexp(`source: +GitRepository/flux-system/urgent-fix: runs main@sha1:[0-9a-f]{8}, and gets this revision only if branch main resolves to it\n`),
			MatchRegexp(`✔ pass granted by admin\n  to revoke it: +kubectl -n flux-system delete gatepass urgent-fix-\w+\n`)))
		Eventually(ctx, w.published()).Should(Equal(fix))
		w.expectHeld(ctx)
		Expect(sh(ctx, checkout, commands[1])).To(And(
			MatchRegexp(`(?m)^urgent-fix +sha1:[0-9a-f]{8} .* admin +INC-4711 +in force$`),
			MatchRegexp(`(?m)^GitRepository/urgent-fix +urgent-fix +held +true +main@sha1:`+fix[len("main@sha1:"):][:8]+` `)))
		Expect(run(ctx, "flux", "gate", "get", name)).To(MatchRegexp(`├── passes in force\n│   └── sha1:[0-9a-f]{8} until .*, by admin \(INC-4711\)\n`))

		By("letting a fix pass that the branch has moved past, once the source names it")
		late := w.release("v3.0.0")
		w.release("v4.0.0")
		_, err = run(ctx, "flux", "pass", "gate", name, "--revision", late, "--reason=INC-4712")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, w.gatesOpen()).Should(ContainSubstring("passes in force are for other revisions"))
		_, commit, _ := strings.Cut(late, "@sha1:")
		ref, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(manifests[0], "2e5d000368cc881c79a6be7e5745eb6ad956ef81", commit)))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(ref)).To(ContainSubstring(commit))
		Expect(world.Client.Patch(ctx, w.source.DeepCopy(), client.RawPatch(types.MergePatchType, ref))).To(Succeed())
		Eventually(ctx, w.published()).Should(Equal(late))

		By("revoking all passes")
		sh(ctx, checkout, commands[2])
		Eventually(ctx, field(w.gate, "status", "passes")).Should(BeNil())
		Expect(run(ctx, "flux", "gate", "passes", name)).To(Equal("✗ no passes found in flux-system namespace\n"))

		By("requiring two people")
		apply(ctx, "%s", manifests[1])
		apply(ctx, `%s
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: urgent-fix, namespace: flux-system}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: pass-urgent-fix, namespace: flux-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: pass-urgent-fix}
subjects: [{kind: ServiceAccount, name: urgent-fix, namespace: flux-system}]
`, manifests[2])
		Eventually(ctx, may(name, authorizationv1.ResourceAttributes{
			Verb: gatingv1.PassVerb, Group: gatingv1.GroupVersion.Group, Resource: "gates", Namespace: flux, Name: name})).Should(BeTrue())
		last := w.head()
		Expect(run(ctx, "flux", "pass", "gate", name, "--revision", last, "--reason=INC-4713")).To(
			ContainSubstring("✔ pass granted by admin\n◎ 1 of 2 people have granted it; another person must run: flux pass gate urgent-fix -n flux-system --revision " + last + " --reason TEXT\n"))
		Expect(run(ctx, "flux", "gate", "passes", name)).To(MatchRegexp(`INC-4713 +1 of 2\n$`))
		second := "--kubeconfig=" + kubeconfigOf(ctx, name)
		Expect(run(ctx, "flux", second, "pass", "gate", name, "--revision", last, "--reason=INC-4713")).To(
			ContainSubstring("✔ 2 of 2 people have granted it: "))
		Eventually(ctx, field(w.gate, "status", "passes")).Should(ConsistOf(HaveKeyWithValue("revision", last)))

		By("refusing those who may not pass another gate")
		apply(ctx, `
apiVersion: gating.toolkit.fluxcd.io/v1alpha1
kind: Gate
metadata: {name: not-urgent, namespace: flux-system}
spec: {closed: true}
`)
		other := object(gatingAPI, gatingv1.GateKind, flux, "not-urgent")
		DeferCleanup(func(ctx SpecContext) { Expect(world.Client.Delete(ctx, other)).To(Succeed()) })
		_, err = run(ctx, "flux", "pass", "gate", "not-urgent", "--revision", last, "--reason=INC-4713", "--as=system:serviceaccount:flux-system:urgent-fix")
		Expect(err).To(MatchError(ContainSubstring(`reading gate not-urgent failed: gates.gating.toolkit.fluxcd.io "not-urgent" is forbidden`)))
		observer.expect(before, fix, late)
	})
})

// sh runs commands of a page in a directory as an administrator, and returns what they print.
func sh(ctx context.Context, dir, commands string) string {
	GinkgoHelper()
	programs, err := world.Cluster.Program("flux")
	Expect(err).NotTo(HaveOccurred())
	shell := exec.CommandContext(ctx, "sh", "-eu", "-c", commands)
	shell.Dir = dir
	shell.Env, err = administrator()
	Expect(err).NotTo(HaveOccurred())
	shell.Env = append(shell.Env, fmt.Sprintf("PATH=%s:%s", filepath.Dir(programs), os.Getenv("PATH")))
	out, err := shell.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s: %s", commands, out)
	return string(out)
}
