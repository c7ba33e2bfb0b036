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

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/upstream"
)

// gatedKind is a kind of source with a real upstream.
type gatedKind struct {
	kind string
	// release publishes a version of the upstream of a source.
	release func(name, version string) error
	// manifest returns a source that is fetched each second, with the annotations and the gates.
	manifest func(name, annotations, gates string) string
	// inheriting kinds are HelmCharts that inherit the gates of their HelmRepository.
	inheriting bool
}

var _ = Describe("Each kind of source", Ordered, func() {
	var up *upstream.Server

	BeforeAll(func(ctx SpecContext) {
		var err error
		up, err = upstream.New()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(up.Close()).To(Succeed()) })
		apply(ctx, "{apiVersion: v1, kind: Secret, metadata: {name: s3, namespace: flux-system}, stringData: {accesskey: %s, secretkey: %s}}",
			upstream.AccessKey, upstream.SecretKey)
	})

	source := func(kind, name, annotations, spec, gates string) string {
		return fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: flux-system, annotations: {%s}}, spec: {interval: 1s, %s, %s}}",
			sourceAPI, kind, name, annotations, spec, gates)
	}
	chart := func(name, annotations, repositoryAnnotations, repositorySpec, repositoryGates, gates string) string {
		return source(sourcev1.HelmRepositoryKind, name, repositoryAnnotations, repositorySpec, repositoryGates) + "\n---\n" +
			source(sourcev1.HelmChartKind, name, annotations, fmt.Sprintf("chart: app, sourceRef: {kind: HelmRepository, name: %s}", name), gates)
	}

	kinds := []gatedKind{
		{
			kind: sourcev1.GitRepositoryKind,
			release: func(name, version string) error {
				_, _ = world.Git.CreateRepository(name)
				return world.Release(name, version)
			},
			manifest: func(name, annotations, gates string) string {
				return source(sourcev1.GitRepositoryKind, name, annotations, fmt.Sprintf("url: '%s', ref: {branch: main}", world.RepositoryURL(name)), gates)
			},
		},
		{
			kind: sourcev1.OCIRepositoryKind,
			release: func(name, version string) error {
				return up.PushArtifact(name, "latest", map[string]string{"version": version})
			},
			manifest: func(name, annotations, gates string) string {
				return source(sourcev1.OCIRepositoryKind, name, annotations, fmt.Sprintf("url: '%s', insecure: true, ref: {tag: latest}", up.OCIURL(name)), gates)
			},
		},
		{
			kind: sourcev1.BucketKind,
			release: func(name, version string) error {
				if version == "1.0.0" {
					if err := up.CreateBucket(name); err != nil {
						return err
					}
				}
				return up.PutObject(name, "version", version)
			},
			manifest: func(name, annotations, gates string) string {
				return source(sourcev1.BucketKind, name, annotations, fmt.Sprintf("endpoint: '%s', bucketName: %s, insecure: true, secretRef: {name: s3}", up.S3Endpoint(), name), gates)
			},
		},
		{
			kind:    sourcev1.HelmRepositoryKind,
			release: func(name, version string) error { return up.PublishChart(name, "app", version) },
			manifest: func(name, annotations, gates string) string {
				return source(sourcev1.HelmRepositoryKind, name, annotations, fmt.Sprintf("url: '%s'", up.HelmURL(name)), gates)
			},
		},
		{
			kind:    sourcev1.HelmChartKind,
			release: func(name, version string) error { return up.PublishChart(name, "app", version) },
			manifest: func(name, annotations, gates string) string {
				return chart(name, annotations, "", fmt.Sprintf("url: '%s'", up.HelmURL(name)), "", gates)
			},
		},
		{
			kind:    sourcev1.HelmChartKind,
			release: func(name, version string) error { return up.PublishChart(name, "app", version) },
			manifest: func(name, annotations, gates string) string {
				return chart(name, "", annotations, fmt.Sprintf("url: '%s'", up.HelmURL(name)), gates, "")
			},
			inheriting: true,
		},
		{
			kind:    sourcev1.HelmChartKind,
			release: func(name, version string) error { return up.PushChart(name, "app", version) },
			manifest: func(name, annotations, gates string) string {
				return chart(name, "", annotations, fmt.Sprintf("type: oci, insecure: true, url: '%s'", up.OCIURL(name)), gates, "")
			},
			inheriting: true,
		},
	}

	for i, kind := range kinds {
		for _, how := range []string{"spec", "annotation"} {
			name := fmt.Sprintf("kind-%d-%s", i, how)
			what := kind.kind
			if kind.inheriting {
				what += " of a gated HelmRepository"
			}
			var labels Labels
			if how == "annotation" && i > 0 && !kind.inheriting {
				labels = slow // covered by GitRepository
			}
			It(fmt.Sprintf("publishes what its gates let out: %s by %s (%d)", what, how, i), labels, func(ctx SpecContext) {
				obj := object(sourceAPI, kind.kind, flux, name)
				digest := field(obj, "status", "artifact", "digest")
				gate := func(suffix string, closed bool) {
					GinkgoHelper()
					apply(ctx, "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: %s, namespace: flux-system}, spec: {closed: %t}}", name+suffix, closed)
				}
				// gated applies the source with its gates.
				gated := func(require string, refs ...string) {
					GinkgoHelper()
					annotations, gates := "", ""
					list := ""
					for i, ref := range refs {
						if i > 0 {
							list += ","
						}
						list += name + ref
					}
					if how == "spec" {
						gates = fmt.Sprintf("gates: {require: %s, refs: [%s]}", require, list)
					} else {
						annotations = fmt.Sprintf("gating.toolkit.fluxcd.io/gates: '%s', gating.toolkit.fluxcd.io/require: %s", list, require)
					}
					apply(ctx, "%s", kind.manifest(name, annotations, gates))
				}
				// letsOut checks that an action publishes a new artifact.
				letsOut := func(do func()) {
					GinkgoHelper()
					before, err := digest(ctx)
					Expect(err).NotTo(HaveOccurred())
					do()
					Eventually(ctx, digest).ShouldNot(Or(BeNil(), BeEquivalentTo(fmt.Sprint(before))))
				}
				// staysBack checks that the artifact does not change.
				staysBack := func(ctx context.Context) {
					GinkgoHelper()
					Eventually(ctx, field(obj, "spec", "suspend")).Should(Equal(true))
					Eventually(ctx, condition(obj, gatingv1.GatesOpenCondition)).Should(HaveField("Status", BeEquivalentTo("False")))
					before, err := digest(ctx)
					Expect(err).NotTo(HaveOccurred())
					unchanged := BeNil()
					if before != nil {
						unchanged = Equal(before)
					}
					Consistently(ctx, digest, "3s").Should(unchanged)
				}

				By("creating it under a closed gate")
				gate("", true)
				Expect(kind.release(name, "1.0.0")).To(Succeed())
				gated("all", "")
				DeferCleanup(func(ctx SpecContext) {
					deleteAll(ctx, obj, object(sourceAPI, sourcev1.HelmRepositoryKind, flux, name))
				})
				staysBack(ctx)
				Expect(digest(ctx)).To(BeNil())

				By("opening the gate")
				letsOut(func() { gate("", false) })

				By("closing it again")
				gate("", true)
				Eventually(ctx, heldAndObserved(obj)).Should(BeTrue())
				Expect(kind.release(name, "1.1.0")).To(Succeed())
				staysBack(ctx)

				By("naming a second gate, which is open, with oneOf")
				gate("-b", false)
				letsOut(func() { gated("oneOf", "", "-b") })

				By("requiring both to be open")
				gated("all", "", "-b")
				Eventually(ctx, heldAndObserved(obj)).Should(BeTrue())
				Expect(kind.release(name, "1.2.0")).To(Succeed())
				staysBack(ctx)

				By("deleting the closed gate, which makes it a missing one")
				Expect(world.Client.Delete(ctx, object(gatingAPI, gatingv1.GateKind, flux, name))).To(Succeed())
				Eventually(ctx, condition(obj, gatingv1.GatesOpenCondition)).Should(HaveField("Reason", "GateNotFound"))
				staysBack(ctx)

				By("opening everything")
				letsOut(func() { gate("", false) })
				if kind.inheriting {
					Expect(field(obj, "metadata", "annotations", "gating.toolkit.fluxcd.io/inherited-gates")(ctx)).To(Equal(name + "," + name + "-b"))
				}
			})
		}
	}

	It("gets no new artifact, even if its suspension is removed", func(ctx SpecContext) {
		Expect(kinds[1].release("backstop", "1.0.0")).To(Succeed())
		apply(ctx, "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: backstop, namespace: flux-system}, spec: {closed: true}}")
		// Without the controller, nothing is held: the API server blocks the artifact.
		Expect(world.GateController.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			if err := world.GateController.Start(ctx); err != nil {
				GinkgoWriter.Println(err)
			}
		})
		apply(ctx, "%s", kinds[1].manifest("backstop", "", "gates: {refs: [backstop]}"))
		obj := object(sourceAPI, sourcev1.OCIRepositoryKind, flux, "backstop")
		DeferCleanup(func(ctx SpecContext) { deleteAll(ctx, obj) })
		Eventually(func() (string, error) { return logOf("source-controller") }).Should(
			MatchRegexp(`"backstop\\*" is forbidden:.* new artifact blocked: (GatesOpen is not True for this generation|gate flux-system/backstop is closed)`))
		Expect(field(obj, "spec", "suspend")(ctx)).To(BeNil())
		Consistently(ctx, field(obj, "status", "artifact"), "3s").Should(BeNil())

		Expect(world.GateController.Start(ctx)).To(Succeed())
		Eventually(ctx, field(obj, "spec", "suspend")).Should(Equal(true))
		apply(ctx, "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: backstop, namespace: flux-system}, spec: {closed: false}}")
		Eventually(ctx, field(obj, "status", "artifact", "digest")).ShouldNot(BeNil())
	})

	It("publishes when its annotation names no gates, even if it has blanks", func(ctx SpecContext) {
		Expect(kinds[1].release("blank", "1.0.0")).To(Succeed())
		apply(ctx, "%s", kinds[1].manifest("blank", "gating.toolkit.fluxcd.io/gates: ' '", ""))
		obj := object(sourceAPI, sourcev1.OCIRepositoryKind, flux, "blank")
		DeferCleanup(func(ctx SpecContext) { deleteAll(ctx, obj) })
		Eventually(ctx, field(obj, "status", "artifact", "digest")).ShouldNot(BeNil())
	})

	It("stays as it is when its CRD loses spec.gates, and says so", func(ctx SpecContext) {
		Expect(kinds[2].release("lost-field", "1.0.0")).To(Succeed())
		apply(ctx, "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: lost-field, namespace: flux-system}, spec: {closed: true}}")
		apply(ctx, "%s", kinds[2].manifest("lost-field", "", "gates: {refs: [lost-field]}"))
		obj := object(sourceAPI, sourcev1.BucketKind, flux, "lost-field")
		DeferCleanup(func(ctx SpecContext) { deleteAll(ctx, obj) })
		Eventually(ctx, field(obj, "spec", "suspend")).Should(Equal(true))
		Eventually(ctx, condition(obj, gatingv1.GatesOpenCondition)).Should(HaveField("Reason", "GateClosed"))

		By("removing the field from the CRD, as a plain flux install does")
		giveBack := loseGatesField(ctx, sourcev1.BucketKind)
		Eventually(ctx, condition(obj, gatingv1.GatesOpenCondition)).Should(And(HaveField("Status", BeEquivalentTo("False")),
			HaveField("Reason", "GatesFieldLost"), HaveField("Message", ContainSubstring("apply config/components/gated-sources"))))
		apply(ctx, "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: lost-field, namespace: flux-system}, spec: {closed: false}}")
		Consistently(ctx, field(obj, "spec", "suspend"), "3s").Should(Equal(true))

		By("restoring the field, which does not restore the gates")
		giveBack(ctx)
		Consistently(ctx, field(obj, "spec", "suspend"), "3s").Should(Equal(true))

		By("applying the source again")
		apply(ctx, "%s", kinds[2].manifest("lost-field", "", "gates: {refs: [lost-field]}"))
		Eventually(ctx, field(obj, "status", "artifact", "digest")).ShouldNot(BeNil())
	})
})
