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

package e2einstall

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

func TestFluxInstallsOnlyWhatIsSigned(t *testing.T) {
	w := start(t)
	signed := w.publish("v0.1.0")
	w.Expect(w.key.Sign(w.ctx, signed)).To(Succeed())
	w.install()
	w.Eventually(w.get("kustomization", "sluice", condition("Ready", "status"))).Should(Equal("True"))
	w.Expect(w.get("ocirepository", "sluice", condition("SourceVerified", "status"))()).To(Equal("True"))
	w.Expect(w.get("kustomization", "sluice", "{.status.lastAppliedRevision}")()).To(HavePrefix("v0.1.0@sha256:"))
	w.Expect(w.ofSluice()).To(ContainElements("Deployment/gate-controller", "Deployment/pipeline-controller",
		"CustomResourceDefinition/gates.gating.toolkit.fluxcd.io", "ValidatingAdmissionPolicy/sluice-gated-sources"))

	// The registry has a newer version without a signature.
	w.publish("v0.1.1")
	w.Eventually(w.get("ocirepository", "sluice", condition("SourceVerified", "status"))).Should(Equal("False"))
	w.Expect(w.get("ocirepository", "sluice", "{.status.artifact.revision}")()).To(HavePrefix("v0.1.0@sha256:"))
}

// held installs Sluice and makes it hold two sources, one of which someone else has suspended too, and add its
// finalizer to a Pipeline. Then it stops its controllers, which are processes here, because the Pods of the Deployments
// can't run.
func held(t *testing.T) *world {
	w := start(t)
	w.Expect(w.key.Sign(w.ctx, w.publish("v0.1.0"))).To(Succeed())
	w.install()
	w.Eventually(w.get("kustomization", "sluice", condition("Ready", "status"))).Should(Equal("True"))
	for _, controller := range []string{"gate-controller", "pipeline-controller"} {
		process, err := w.cluster.StartController(w.ctx, localcluster.ControllerProcess{Name: controller, ServiceAccount: controller})
		w.Expect(err).NotTo(HaveOccurred())
		defer func() { w.Expect(process.Kill()).To(Succeed()) }()
	}
	w.Expect(w.up.PushArtifact("app", "v1.0.0", map[string]string{"a.yaml": "{}"})).To(Succeed())
	for _, source := range []string{"held", "suspended-too"} {
		w.Expect(w.cluster.Apply(w.ctx, []byte(strings.NewReplacer("NAME", source, "URL", w.up.OCIURL("app")).Replace(`
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata:
  name: NAME
  namespace: flux-system
  annotations: {gating.toolkit.fluxcd.io/gates: freeze}
spec: {interval: 1s, url: 'URL', insecure: true, ref: {semver: '*'}}
`)))).To(Succeed())
	}
	w.Expect(w.cluster.Apply(w.ctx, []byte(`
apiVersion: gating.toolkit.fluxcd.io/v1alpha1
kind: Gate
metadata: {name: freeze, namespace: flux-system}
spec: {closed: true}
---
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: app, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: app}
  environments: [{name: dev, targets: [{namespace: dev}]}]
`))).To(Succeed())
	for _, source := range []string{"held", "suspended-too"} {
		w.Eventually(w.get("ocirepository", source, "{.spec.suspend}")).Should(Equal("true"))
		w.Eventually(w.get("ocirepository", source, condition("GatesOpen", "status"))).Should(Equal("False"))
	}
	w.run("kubectl", "--namespace="+flux, "patch", "ocirepository", "suspended-too", "--field-manager=ada", "--type=merge",
		"--patch="+`{"spec":{"suspend":true},"metadata":{"labels":{"by":"ada"}}}`)
	w.run("kubectl", "--namespace="+flux, "apply", "--server-side", "--field-manager=ada", "--filename="+w.file(`
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {name: suspended-too, namespace: flux-system}
spec: {suspend: true}
`))
	w.Eventually(w.get("pipeline", "app", "{.metadata.finalizers}")).Should(ContainSubstring("finalizers.pipelines.weave.works"))
	return w
}

func (w *world) file(content string) string {
	path := filepath.Join(w.t.TempDir(), "manifest.yaml")
	w.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	return path
}

// expectNothingHeld expects that sources have no traces of Sluice, and that changes of others are kept.
func (w *world) expectNothingHeld() {
	w.t.Helper()
	w.Expect(w.get("ocirepository", "held", "{.spec.suspend}")()).To(BeEmpty())
	w.Expect(w.get("ocirepository", "suspended-too", "{.spec.suspend}")()).To(Equal("true"))
	w.Eventually(w.get("ocirepository", "held", "{.status.artifact.revision}")).Should(HavePrefix("v1.0.0@"))
}

func TestUninstall(t *testing.T) {
	w := held(t)
	out := w.run("flux", "sluice", "uninstall", "--silent")
	w.Expect(out).To(And(ContainSubstring("releasing OCIRepository held in flux-system namespace"),
		ContainSubstring("removing the finalizer of Pipeline app in flux-system namespace"),
		ContainSubstring("next: remove Kustomization flux-system/sluice from Git, or run 'flux delete kustomization sluice --namespace flux-system'")))
	w.Expect(w.get("ocirepository", "held", "{.spec.suspend}")()).To(BeEmpty())
	for _, source := range []string{"held", "suspended-too"} {
		w.Expect(w.get("ocirepository", source, condition("GatesOpen", "status"))()).To(BeEmpty())
	}

	// Flux still applies Sluice, but the controllers stay stopped.
	w.run("flux", "reconcile", "kustomization", "sluice")
	for _, controller := range []string{"gate-controller", "pipeline-controller"} {
		w.Expect(w.get("deployment", controller, "{.spec.replicas}")()).To(Equal("0"))
	}
	w.run("flux", "delete", "kustomization", "sluice", "--silent")
	w.Eventually(w.ofSluice).Should(BeEmpty())
	w.expectNothingHeld()
	w.Expect(w.run("flux", "sluice", "uninstall", "--silent")).To(ContainSubstring("all holds are released"), "it can be repeated")
}

// This covers users who delete Sluice first; see docs/guides/uninstall.md.
func TestCleanUpAfterwards(t *testing.T) {
	w := held(t)
	w.run("flux", "delete", "kustomization", "sluice", "--silent")
	w.Eventually(w.ofSluice).Should(Equal([]string{"CustomResourceDefinition/pipelines.pipelines.weave.works"}), "it waits for the Pipeline's finalizer")

	guide, err := os.ReadFile(filepath.Join(root, "docs/guides/uninstall.md"))
	w.Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(guide), "## Without the plugin\n")
	w.Expect(found).To(BeTrue())
	section, _, _ = strings.Cut(section, "\n## ")
	commands := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1)
	w.Expect(commands).NotTo(BeEmpty())
	for _, command := range commands {
		shell := exec.CommandContext(w.ctx, "sh", "-eu", "-c", command[1])
		shell.Env = w.command("kubectl").Env
		out, err := shell.CombinedOutput()
		w.Expect(err).NotTo(HaveOccurred(), "%s: %s", command[1], out)
	}
	w.Eventually(w.ofSluice).Should(BeEmpty())
	w.expectNothingHeld()
}
