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

// Package e2einstall installs Sluice with Flux from a signed artifact, and uninstalls it. Each test has its own
// cluster, because uninstalling would affect the other tests.
package e2einstall

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-toolkit/sluice/tests/cosign"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
	"github.com/sluice-toolkit/sluice/tests/upstream"
)

const (
	// root is the root of the repository, relative to this directory.
	root = "../.."
	flux = localcluster.FluxNamespace

	manifests = "sluice-toolkit/sluice-manifests"
)

// world is a cluster with Flux, and a registry.
type world struct {
	Gomega
	t       *testing.T
	ctx     context.Context
	cluster *localcluster.Cluster
	client  client.Client
	up      *upstream.Server
	key     cosign.Key
}

func start(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	w := &world{Gomega: NewWithT(t), t: t, ctx: ctx}
	var err error
	w.up, err = upstream.New()
	w.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = w.up.Close() })
	w.cluster, err = localcluster.Start(ctx, localcluster.Options{
		Flux: []localcluster.FluxController{localcluster.SourceController, localcluster.KustomizeController},
	})
	w.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { NewWithT(t).Expect(w.cluster.Stop()).To(Succeed()) })
	w.client, err = client.New(w.cluster.Config, client.Options{})
	w.Expect(err).NotTo(HaveOccurred())
	w.key, err = cosign.NewKey()
	w.Expect(err).NotTo(HaveOccurred())
	return w
}

// command returns a command of the local cluster, run as an administrator.
func (w *world) command(program string, args ...string) *exec.Cmd {
	w.t.Helper()
	path, err := w.cluster.Program(program)
	w.Expect(err).NotTo(HaveOccurred())
	plugins, err := w.cluster.Program("plugins")
	w.Expect(err).NotTo(HaveOccurred())
	command := exec.CommandContext(w.ctx, path, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+w.cluster.Kubeconfig, "HOME="+w.cluster.Dir, "FLUXCD_PLUGINS="+plugins,
		"PATH="+filepath.Dir(path)+":"+os.Getenv("PATH"))
	return command
}

// run runs a command that must succeed, and returns its output.
func (w *world) run(program string, args ...string) string {
	w.t.Helper()
	out, err := w.command(program, args...).CombinedOutput()
	w.Expect(err).NotTo(HaveOccurred(), "%s %s: %s", program, strings.Join(args, " "), out)
	return string(out)
}

// publish pushes the manifests of this repository as a release does, and returns the reference to sign.
func (w *world) publish(version string) string {
	w.t.Helper()
	answer, err := w.command("flux", "push", "artifact", w.up.OCIURL(manifests)+":"+version, "--path="+filepath.Join(root, "config"),
		"--source=https://github.com/sluice-toolkit/sluice", "--revision="+version+"@sha1:"+strings.Repeat("0", 40), "--output=json").Output()
	w.Expect(err).NotTo(HaveOccurred())
	pushed := struct{ Repository, Digest string }{}
	w.Expect(json.Unmarshal(answer, &pushed)).To(Succeed())
	return pushed.Repository + "@" + pushed.Digest
}

// install applies config/flux/sluice.yaml as users do, with replacements for Sigstore, the registry and pods, which
// this machine lacks.
func (w *world) install() {
	w.t.Helper()
	public, err := w.key.Public()
	w.Expect(err).NotTo(HaveOccurred())
	pem, err := json.Marshal(string(public))
	w.Expect(err).NotTo(HaveOccurred())
	copied, err := os.ReadFile(filepath.Join(root, "config/flux/sluice.yaml"))
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(w.cluster.Apply(w.ctx, fmt.Appendf(copied, `
---
apiVersion: v1
kind: Secret
metadata: {name: cosign, namespace: flux-system}
stringData: {cosign.pub: %s}
`, pem))).To(Succeed())
	// This comes first, because a running reconciliation would keep waiting.
	w.patch("kustomization", "sluice", `{"spec":{"wait":false,"retryInterval":"1s"}}`)
	w.patch("ocirepository", "sluice", fmt.Sprintf(
		`{"spec":{"url":%q,"insecure":true,"interval":"1s","verify":{"secretRef":{"name":"cosign"},"matchOIDCIdentity":null}}}`, w.up.OCIURL(manifests)))
}

func (w *world) patch(kind, name, patch string) {
	w.t.Helper()
	w.run("kubectl", "--namespace="+flux, "patch", kind, name, "--type=merge", "--patch="+patch)
}

// get returns a function that reads a field of an object in the namespace of Flux, by a JSON path, for Eventually.
func (w *world) get(kind, name, path string) func() (string, error) {
	return func() (string, error) {
		out, err := w.command("kubectl", "--namespace="+flux, "get", kind, name, "--output=jsonpath="+path).CombinedOutput()
		return string(out), err
	}
}

// condition returns the JSON path of a condition.
func condition(kind, field string) string {
	return fmt.Sprintf(`{.status.conditions[?(@.type==%q)].%s}`, kind, field)
}

// ofSluice lists all objects of Sluice.
func (w *world) ofSluice() ([]string, error) {
	var found []string
	for _, kind := range []schema.GroupVersionKind{
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyBinding"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
		{Group: "apps", Version: "v1", Kind: "Deployment"},
		{Version: "v1", Kind: "ServiceAccount"},
	} {
		objects := &unstructured.UnstructuredList{}
		objects.SetGroupVersionKind(kind)
		if err := w.client.List(w.ctx, objects, client.MatchingLabels{"app.kubernetes.io/part-of": "sluice"}); err != nil {
			return nil, err
		}
		for i := range objects.Items {
			found = append(found, kind.Kind+"/"+objects.Items[i].GetName())
		}
	}
	return found, nil
}
