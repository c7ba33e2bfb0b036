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
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/upstream"
)

// groupLabel marks the sources of a group for the sentinel.
const groupLabel = "sluice-e2e-group"

// group is a set of sources that share a gate: one of each line. The gate has the name of the group.
type group struct {
	name     string
	lines    []line
	sentinel *sentinel
}

// newGroup returns a group. Its sources are watched, and deleted when the spec ends.
func newGroup(ctx context.Context, name string, lines []line) *group {
	GinkgoHelper()
	g := &group{name: name, lines: lines}
	g.sentinel = post(ctx, name)
	DeferCleanup(func(ctx SpecContext) {
		for _, kind := range gatingv1.SourceKinds {
			Expect(world.Client.DeleteAllOf(ctx, object(sourceAPI, kind, flux, ""), client.InNamespace(flux), client.MatchingLabels{groupLabel: name})).To(Succeed())
		}
		for _, line := range lines {
			if line.repository != nil {
				Expect(client.IgnoreNotFound(world.Client.Delete(ctx, object(sourceAPI, sourcev1.HelmRepositoryKind, flux, g.upstreamOf(line))))).To(Succeed())
			}
		}
	})
	return g
}

// upstreamOf is the name under which a line's versions are published.
func (g *group) upstreamOf(l line) string { return g.name + "-" + l.slug }

// sources are the sources that establish creates, in the order of the lines.
func (g *group) sources() []*unstructured.Unstructured {
	var sources []*unstructured.Unstructured
	for _, line := range g.lines {
		sources = append(sources, object(sourceAPI, line.kind, flux, g.upstreamOf(line)))
	}
	return sources
}

// manifest is a source of a line, with the HelmRepository of a HelmChart. More is added to its spec.
func (g *group) manifest(l line, name, more string) string {
	return l.repositoryManifest(g.upstreamOf(l), g.name) + "\n---\n" + l.manifest(name, g.upstreamOf(l), g.name, more)
}

// establish creates the sources with an open gate, and waits until they have published. gate-controller has then seen
// the gate, so no source is held because its gate is missing.
func (g *group) establish(ctx context.Context) {
	GinkgoHelper()
	turnGate(ctx, g.name, false)
	Eventually(ctx, condition(object(gatingAPI, gatingv1.GateKind, flux, g.name), gatingv1.OpenCondition)).Should(HaveField("Status", BeEquivalentTo("True")))
	for _, line := range g.lines {
		apply(ctx, "%s", g.manifest(line, g.upstreamOf(line), ""))
	}
	for _, source := range g.sources() {
		Eventually(ctx, content(source)).Should(ContainSubstring(version(0)), key(source))
	}
}

// hold closes the gate, and waits until all sources are held.
func (g *group) hold(ctx context.Context) {
	GinkgoHelper()
	turnGate(ctx, g.name, true)
	g.expectHeld(ctx, now(ctx, g.sources())...)
}

// publish publishes the version of a round on all lines.
func (g *group) publish(ctx context.Context, round int) {
	GinkgoHelper()
	for _, line := range g.lines {
		if round == 0 {
			Expect(line.begin(g.upstreamOf(line))).To(Succeed())
		}
		line.publish(ctx, g.upstreamOf(line), version(round))
	}
}

// fromGit commits the sources, with 'suspend: false', and makes Flux apply them.
func (g *group) fromGit(ctx context.Context) {
	GinkgoHelper()
	_, err := world.Git.CreateRepository(g.name)
	Expect(err).NotTo(HaveOccurred())
	files := map[string]string{}
	for _, line := range g.lines {
		files[line.slug+".yaml"] = line.manifest(g.upstreamOf(line), g.upstreamOf(line), g.name, "suspend: false")
	}
	Expect(world.Commit(g.name, "Don't suspend the sources", files)).To(Succeed())
	fromGit(ctx, g.name, "")
}

// fromGit makes Flux apply a repository until the spec ends, with more in the spec of the Kustomization. It waits until
// the Kustomization is ready.
func fromGit(ctx context.Context, name, more string) *unstructured.Unstructured {
	GinkgoHelper()
	kustomization := syncFrom(ctx, name, flux, "24h", "./", more)
	Eventually(ctx, condition(kustomization, meta.ReadyCondition)).Should(HaveField("Status", BeEquivalentTo("True")))
	return kustomization
}

// expectHeld waits until the sources are held in the given states, or in later ones, and source-controller has seen the
// hold. Then no fetch is in progress, and the sentinel has seen all earlier writes.
func (g *group) expectHeld(ctx context.Context, sources ...*unstructured.Unstructured) {
	GinkgoHelper()
	for _, source := range sources {
		Eventually(ctx, func() error { return g.sentinel.held(source) }).WithPolling(10 * time.Millisecond).Should(Succeed())
	}
	// A source that was held before its first fetch has no observedGeneration. source-controller handles a request for
	// a reconciliation even if the source is suspended, after an earlier reconciliation of it has ended.
	token := time.Now().Format(time.RFC3339Nano)
	for _, source := range sources {
		requested := source.DeepCopy()
		annotate(ctx, requested, meta.ReconcileRequestAnnotation, token)
		Eventually(ctx, func() error { return g.sentinel.heldAndObserved(requested, token) }).WithPolling(10 * time.Millisecond).Should(Succeed())
	}
}

// expectReleased waits until the sources are not held in the given states, or in later ones.
func (g *group) expectReleased(ctx context.Context, sources ...*unstructured.Unstructured) {
	GinkgoHelper()
	for _, source := range sources {
		Eventually(ctx, func() error { return g.sentinel.released(source) }).WithPolling(10 * time.Millisecond).Should(Succeed())
	}
}

// resumed waits until each source was seen without its suspension more often than before, so the hold was removed.
func (g *group) resumed(ctx context.Context, before map[string]int) {
	GinkgoHelper()
	for _, source := range g.sources() {
		Eventually(ctx, func() int { return g.sentinel.resumptions()[key(source)] }).WithPolling(10*time.Millisecond).
			Should(BeNumerically(">", before[key(source)]), key(source))
	}
}

// key names an object in a message.
func key(obj *unstructured.Unstructured) string { return obj.GetKind() + "/" + obj.GetName() }

// content returns a function that fetches what a source has published, for Eventually: its artifact, decompressed.
func content(source *unstructured.Unstructured) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		url, err := field(source, "status", "artifact", "url")(ctx)
		if url == nil || err != nil {
			return "", err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprint(url), nil)
		if err != nil {
			return "", err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return "", fmt.Errorf("GET %s: %s", url, response.Status)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return "", err
		}
		if compressed, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(compressed)
			return string(body), err
		}
		return string(body), nil
	}
}

// now returns the current objects.
func now(ctx context.Context, objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	GinkgoHelper()
	var read []*unstructured.Unstructured
	for _, obj := range objects {
		current := object(obj.GetAPIVersion(), obj.GetKind(), obj.GetNamespace(), obj.GetName())
		Expect(world.Client.Get(ctx, client.ObjectKeyFromObject(obj), current)).To(Succeed())
		read = append(read, current)
	}
	return read
}

// request requests a reconciliation of a Flux object, and waits until it was handled.
func request(ctx context.Context, obj *unstructured.Unstructured) {
	GinkgoHelper()
	token := time.Now().Format(time.RFC3339Nano)
	annotate(ctx, obj, meta.ReconcileRequestAnnotation, token)
	Eventually(ctx, field(obj, "status", "lastHandledReconcileAt")).WithPolling(10 * time.Millisecond).Should(Equal(token))
}

func turnGate(ctx context.Context, name string, closed bool) {
	GinkgoHelper()
	apply(ctx, "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: %s, namespace: flux-system}, spec: {closed: %t}}", name, closed)
}

// version returns the version of a round. No version contains another one.
func version(round int) string { return fmt.Sprintf("1.0.%d", 100+round) }

// startUpstream starts the upstream of sources, until the container of specs ends.
func startUpstream(ctx context.Context) *upstream.Server {
	GinkgoHelper()
	up, err := upstream.New()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(up.Close()).To(Succeed()) })
	apply(ctx, "{apiVersion: v1, kind: Secret, metadata: {name: s3, namespace: flux-system}, stringData: {accesskey: %s, secretkey: %s}}",
		upstream.AccessKey, upstream.SecretKey)
	return up
}

// line connects an upstream with sources of a kind. They are fetched once a day, and otherwise only on request.
type line struct {
	// slug is the short name of the line.
	slug string
	// kind of the sources, and its name in the flux CLI.
	kind, cli string
	// begin creates the place upstream.
	begin func(name string) error
	// publish publishes a version upstream, and returns once a fetch finds it.
	publish func(ctx context.Context, name, version string)
	// spec returns the spec of a source that is published under a name.
	spec func(name string) string
	// edits are patches of the spec. They alternate between the original reference and another reference to the same
	// version.
	edits func(name, version string) [2]string
	// repository is the spec of the HelmRepository of a HelmChart. If inherits is true, the HelmRepository has the
	// gates.
	repository func(name string) string
	inherits   bool
}

// manifest returns a source that is published under a name, with a gate.
func (l line) manifest(name, upstream, gate, more string) string {
	spec := []string{"interval: 24h", l.spec(upstream)}
	if !l.inherits {
		spec = append(spec, fmt.Sprintf("gates: {refs: [%s]}", gate))
	}
	if more != "" {
		spec = append(spec, more)
	}
	return fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: flux-system, labels: {%s: %s}}, spec: {%s}}",
		sourceAPI, l.kind, name, groupLabel, gate, strings.Join(spec, ", "))
}

// repositoryManifest returns the HelmRepository of a HelmChart, or nothing for other sources.
func (l line) repositoryManifest(upstream, gate string) string {
	if l.repository == nil {
		return ""
	}
	spec := []string{"interval: 24h", l.repository(upstream)}
	if l.inherits {
		spec = append(spec, fmt.Sprintf("gates: {refs: [%s]}", gate))
	}
	return fmt.Sprintf("{apiVersion: %s, kind: HelmRepository, metadata: {name: %s, namespace: flux-system}, spec: {%s}}",
		sourceAPI, upstream, strings.Join(spec, ", "))
}

// lines returns a line for each kind of source, and one for HelmCharts of an OCI HelmRepository. That has no artifact,
// so its charts are held.
func lines(up *upstream.Server) []line {
	nothing := func(string) error { return nil }
	// Each version is published under all names of an upstream.
	to := func(publish func(name, version string) error, also ...string) func(context.Context, string, string) {
		return func(_ context.Context, name, version string) {
			GinkgoHelper()
			Expect(publish(name, version)).To(Succeed())
			for _, suffix := range also {
				Expect(publish(name+suffix, version)).To(Succeed())
			}
		}
	}
	chart := func(repository, version string) error { return up.PublishChart(repository, "app", version) }
	chartEdits := func(_, version string) [2]string {
		return [2]string{`{"version":null}`, fmt.Sprintf(`{"version":%q}`, version)}
	}
	chartSpec := func(name string) string {
		return fmt.Sprintf("chart: app, sourceRef: {kind: HelmRepository, name: %s}", name)
	}
	return []line{
		{
			slug: "git", kind: sourcev1.GitRepositoryKind, cli: "git",
			begin: func(name string) error {
				_, err := world.Git.CreateRepository(name)
				return err
			},
			publish: to(func(name, version string) error {
				_, _, err := world.Git.Client.CreateFile(world.Git.Username, name, "deploy/"+version, gitea.CreateFileOptions{
					FileOptions: gitea.FileOptions{Message: "Release " + version, BranchName: "main"},
					Content:     base64.StdEncoding.EncodeToString([]byte(version)),
				})
				if err != nil {
					return err
				}
				_, _, err = world.Git.Client.CreateTag(world.Git.Username, name, gitea.CreateTagOption{TagName: version, Target: "main"})
				return err
			}),
			spec: func(name string) string {
				return fmt.Sprintf("url: '%s', ref: {branch: main}", world.RepositoryURL(name))
			},
			edits: func(_, version string) [2]string {
				return [2]string{`{"ref":{"branch":"main","tag":null}}`, fmt.Sprintf(`{"ref":{"branch":null,"tag":%q}}`, version)}
			},
		},
		{
			slug: "oci", kind: sourcev1.OCIRepositoryKind, cli: "oci",
			begin: nothing,
			publish: to(func(name, version string) error {
				if err := up.PushArtifact(name, version, map[string]string{"version": version}); err != nil {
					return err
				}
				return up.PushArtifact(name, "latest", map[string]string{"version": version})
			}),
			spec: func(name string) string {
				return fmt.Sprintf("url: '%s', insecure: true, ref: {tag: latest}", up.OCIURL(name))
			},
			edits: func(_, version string) [2]string {
				return [2]string{`{"ref":{"tag":"latest"}}`, fmt.Sprintf(`{"ref":{"tag":%q}}`, version)}
			},
		},
		{
			slug: "bucket", kind: sourcev1.BucketKind, cli: "bucket",
			begin:   up.CreateBucket,
			publish: to(func(name, version string) error { return up.PutObject(name, "app/version", version) }),
			spec: func(name string) string {
				return fmt.Sprintf("endpoint: '%s', bucketName: %s, insecure: true, secretRef: {name: s3}", up.S3Endpoint(), name)
			},
			edits: func(string, string) [2]string { return [2]string{`{"prefix":null}`, `{"prefix":"app/"}`} },
		},
		{
			slug: "helm", kind: sourcev1.HelmRepositoryKind, cli: "helm",
			begin:   nothing,
			publish: to(chart, "-moved"),
			spec:    func(name string) string { return fmt.Sprintf("url: '%s'", up.HelmURL(name)) },
			edits: func(name, _ string) [2]string {
				return [2]string{fmt.Sprintf(`{"url":%q}`, up.HelmURL(name)), fmt.Sprintf(`{"url":%q}`, up.HelmURL(name+"-moved"))}
			},
		},
		{
			slug: "chart", kind: sourcev1.HelmChartKind, cli: "chart",
			begin: nothing,
			publish: func(ctx context.Context, name, version string) {
				GinkgoHelper()
				to(chart)(ctx, name, version)
				// source-controller reads the chart from the index that the HelmRepository has fetched.
				repository := object(sourceAPI, sourcev1.HelmRepositoryKind, flux, name)
				if uid, err := field(repository, "metadata", "uid")(ctx); err != nil || uid != nil {
					Expect(err).NotTo(HaveOccurred())
					request(ctx, repository)
				}
			},
			spec: chartSpec, edits: chartEdits,
			repository: func(name string) string { return fmt.Sprintf("url: '%s'", up.HelmURL(name)) },
		},
		{
			slug: "oci-chart", kind: sourcev1.HelmChartKind, cli: "chart",
			begin:   nothing,
			publish: to(func(name, version string) error { return up.PushChart(name, "app", version) }),
			spec:    chartSpec, edits: chartEdits,
			repository: func(name string) string {
				return fmt.Sprintf("type: oci, insecure: true, url: '%s'", up.OCIURL(name))
			},
			inherits: true,
		},
	}
}

// chartOfGatedRepository returns a line of HelmCharts whose HelmRepository has the default type and is held too.
func chartOfGatedRepository(up *upstream.Server) line {
	all := lines(up)
	l := all[len(all)-1]
	l.slug = "gated-chart"
	l.publish = func(_ context.Context, name, version string) {
		GinkgoHelper()
		Expect(up.PublishChart(name, "app", version)).To(Succeed())
	}
	l.repository = func(name string) string { return fmt.Sprintf("url: '%s'", up.HelmURL(name)) }
	return l
}
