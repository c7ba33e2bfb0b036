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
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

// windowed is an open gate with a source that has published something.
type windowed struct {
	gate, source *unstructured.Unstructured
}

func newWindowed(ctx context.Context, name string) *windowed {
	GinkgoHelper()
	w := &windowed{object(gatingAPI, gatingv1.GateKind, flux, name), object(sourceAPI, sourcev1.GitRepositoryKind, flux, name)}
	_, err := world.Git.CreateRepository(name)
	Expect(err).NotTo(HaveOccurred())
	Expect(world.Release(name, "v1.0.0")).To(Succeed())
	apply(ctx, `
apiVersion: gating.toolkit.fluxcd.io/v1alpha1
kind: Gate
metadata: {name: %[1]s, namespace: flux-system}
spec: {closed: false}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: %[1]s, namespace: flux-system}
spec: {interval: 24h, url: '%[2]s', ref: {branch: main}, gates: {refs: [%[1]s]}}
`, name, world.RepositoryURL(name))
	DeferCleanup(func(ctx SpecContext) {
		Expect(world.Client.Delete(ctx, w.source)).To(Succeed())
		Expect(world.Client.Delete(ctx, w.gate)).To(Succeed())
	})
	Eventually(ctx, w.published()).Should(Equal(w.head()))
	return w
}

func (w *windowed) published() func(context.Context) (any, error) {
	return field(w.source, "status", "artifact", "revision")
}

func (w *windowed) head() string {
	GinkgoHelper()
	branch, _, err := world.Git.Client.GetRepoBranch(world.Git.Username, w.source.GetName(), "main")
	Expect(err).NotTo(HaveOccurred())
	return "main@sha1:" + branch.Commit.ID
}

func (w *windowed) gatesOpen() func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		found, err := condition(w.source, gatingv1.GatesOpenCondition)(ctx)
		return string(found.Status) + " " + found.Message, err
	}
}

// closeDuring gives the gate one window.
func (w *windowed) closeDuring(ctx context.Context, from, to time.Time) {
	GinkgoHelper()
	const clock = "2006-01-02T15:04:05"
	patch := fmt.Sprintf(`{"spec":{"closedDuring":[{"name":"freeze","from":%q,"to":%q}]}}`, from.UTC().Format(clock), to.UTC().Format(clock))
	Expect(world.Client.Patch(ctx, w.gate.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// refusedBy returns a function that counts how often an artifact was refused because of a gate.
func refusedBy(gate string) func() (int, error) {
	return func() (int, error) {
		log, err := logOf("source-controller")
		return strings.Count(log, "new artifact blocked: gate "+flux+"/"+gate+" is closed"), err
	}
}

// inSeconds returns a whole second in the future.
func inSeconds(n int) time.Time {
	return time.Now().Add(time.Duration(n) * time.Second).Truncate(time.Second)
}

var _ = Describe("A gate with windows", func() {
	It("holds its sources when a window begins, and releases them when it ends, by itself", func(ctx SpecContext) {
		w := newWindowed(ctx, "windowed")
		from, end := inSeconds(4), inSeconds(3600)
		w.closeDuring(ctx, from, end)
		Eventually(ctx, w.gatesOpen()).Should(Equal("True gate windowed is open until " + from.UTC().Format(time.RFC3339)))
		Eventually(ctx, heldAndObserved(w.source)).Should(BeTrue())
		Eventually(ctx, w.gatesOpen()).Should(HavePrefix("False gate windowed is closed by window freeze until " + end.UTC().Format(time.RFC3339)))
		gates := func(ctx context.Context) (string, error) {
			return run(ctx, "kubectl", "-n", flux, "get", "gates", "windowed")
		}
		Eventually(ctx, gates).Should(MatchRegexp(`windowed +false +Closed +\S+ +%s +1 `, end.UTC().Format(time.RFC3339)))
		before, err := w.published()(ctx)
		Expect(err).NotTo(HaveOccurred())

		Expect(world.Release("windowed", "v2.0.0")).To(Succeed())
		Expect(w.head()).NotTo(Equal(before))
		request(ctx, w.source)
		Consistently(ctx, w.published()).Should(Equal(before))

		By("ending the window")
		w.closeDuring(ctx, from, inSeconds(4))
		Eventually(ctx, w.published()).Should(Equal(w.head()))
		Eventually(ctx, w.gatesOpen()).Should(Equal("True gate windowed is open"))
		Eventually(ctx, func(ctx context.Context) (string, error) {
			return run(ctx, "kubectl", "events", "--namespace", flux, "--for", "gate/windowed")
		}).Should(And(ContainSubstring("closed by window freeze until"), MatchRegexp(`Open .* opened; released 1 of 1 source`)))
	})

	It("needs no controller: what is pushed after a window has begun is refused while gate-controller is down", func(ctx SpecContext) {
		w := newWindowed(ctx, "unattended")
		before, err := w.published()(ctx)
		Expect(err).NotTo(HaveOccurred())
		from := inSeconds(20)
		w.closeDuring(ctx, from, inSeconds(3600))
		Eventually(ctx, field(w.gate, "status", "nextTransitionTime")).Should(Equal(from.UTC().Format(time.RFC3339)))
		Expect(world.GateController.Kill()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			if err := world.GateController.Start(ctx); err != nil {
				GinkgoWriter.Println(err)
			}
		})
		Eventually(ctx, time.Now).Should(BeTemporally(">", from))
		Expect(world.Release("unattended", "v2.0.0")).To(Succeed())
		annotate(ctx, w.source, meta.ReconcileRequestAnnotation, "after-the-push")
		Eventually(ctx, refusedBy("unattended")).Should(BeNumerically(">", 0))
		Consistently(ctx, w.published()).Should(Equal(before))
		Expect(field(w.source, "spec", "suspend")(ctx)).To(BeNil(), "nobody holds it")

		By("starting gate-controller again")
		Expect(world.GateController.Start(ctx)).To(Succeed())
		Eventually(ctx, heldAndObserved(w.source)).Should(BeTrue())
		Eventually(ctx, w.gatesOpen()).Should(HavePrefix("False gate unattended is closed by window freeze"))
		Expect(w.published()(ctx)).To(Equal(before))

		By("ending the window")
		w.closeDuring(ctx, from, inSeconds(4))
		Eventually(ctx, w.published()).Should(Equal(w.head()))
	})

	It("counts as closed while its status is not of its generation", func(ctx SpecContext) {
		w := newWindowed(ctx, "outdated")
		before, err := w.published()(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(world.GateController.Kill()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			if err := world.GateController.Start(ctx); err != nil {
				GinkgoWriter.Println(err)
			}
		})
		w.closeDuring(ctx, inSeconds(3600), inSeconds(7200))
		Expect(world.Release("outdated", "v2.0.0")).To(Succeed())
		annotate(ctx, w.source, meta.ReconcileRequestAnnotation, "after-the-push")
		Eventually(ctx, refusedBy("outdated")).Should(BeNumerically(">", 0))
		Expect(w.published()(ctx)).To(Equal(before))

		By("starting gate-controller again, which says that the gate is open")
		Expect(world.GateController.Start(ctx)).To(Succeed())
		Eventually(ctx, w.published()).Should(Equal(w.head()))
	})

	It("lets a promotion continue when its window ends, and holds one when its open window ends, by itself", func(ctx SpecContext) {
		for namespace, revision := range map[string]string{"timed-one": "v2", "timed-two": "v1"} {
			apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", namespace)
			runs(ctx, world.Client, namespace, revision)
		}
		gate := object(gatingAPI, gatingv1.GateKind, flux, "timed")
		apply(ctx, "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: timed, namespace: flux-system}, spec: {closed: true}}")
		DeferCleanup(func(ctx SpecContext) { Expect(world.Client.Delete(ctx, gate)).To(Succeed()) })
		for name, manual := range map[string]bool{"timed": false, "timed-manual": true} {
			apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %s, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: leafapp}
  environments:
  - {name: one, targets: [{namespace: timed-one}]}
  - {name: two, targets: [{namespace: timed-two}]}
  promotion: {manual: %t, gates: {refs: [timed]}, strategy: {notification: {}}}
`, name, manual)
			DeferCleanup(func(ctx SpecContext) {
				Expect(world.Client.Delete(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name))).To(Succeed())
			})
		}
		// precondition returns a precondition of a promotion.
		precondition := func(pipeline, of string) func(context.Context) (pipelinesv1.PreconditionStatus, error) {
			return func(ctx context.Context) (pipelinesv1.PreconditionStatus, error) {
				promotion, err := record(pipeline, "two")(ctx)
				for _, is := range promotion.Preconditions {
					if is.Type == of {
						return is, err
					}
				}
				return pipelinesv1.PreconditionStatus{}, err
			}
		}
		set := func(field, other string, to time.Time) {
			GinkgoHelper()
			patch := fmt.Sprintf(`{"spec":{"closed":false,%q:[{"name":"shift","from":"2026-01-01T00:00","to":%q}],%q:null}}`, field, to.UTC().Format("2006-01-02T15:04:05"), other)
			Expect(world.Client.Patch(ctx, gate.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
		}

		for _, pipeline := range []string{"timed", "timed-manual"} {
			Eventually(ctx, precondition(pipeline, pipelinesv1.GatesPrecondition)).Should(HaveField("Message", "gate timed is closed"))
		}
		end := inSeconds(4)
		set("closedDuring", "openDuring", end)
		Eventually(ctx, record("timed", "two")).Should(And(haveState("succeeded"), HaveField("LastAttemptTime.Time", BeTemporally(">=", end))))
		Eventually(ctx, precondition("timed-manual", pipelinesv1.GatesPrecondition)).Should(HaveField("Met", true))

		By("ending an open window")
		set("openDuring", "closedDuring", inSeconds(4))
		Eventually(ctx, precondition("timed-manual", pipelinesv1.GatesPrecondition)).Should(And(
			HaveField("Met", false), HaveField("Message", "gate timed is closed outside its open windows")))
		approve(ctx, "timed-manual", "v2")
		Eventually(ctx, precondition("timed-manual", pipelinesv1.ApprovalPrecondition)).Should(HaveField("Met", true))
		Expect(record("timed-manual", "two")(ctx)).To(haveState("unapproved"))
	})

	It("is overridden by flux open gate and flux close gate", func(ctx SpecContext) {
		w := newWindowed(ctx, "overridden")
		w.closeDuring(ctx, inSeconds(-60), inSeconds(3600))
		Eventually(ctx, heldAndObserved(w.source)).Should(BeTrue())

		said, err := run(ctx, "flux", "open", "gate", "overridden")
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(ContainSubstring("is still closed by window freeze until"))

		said, err = run(ctx, "flux", "open", "gate", "overridden", "--for", "30m", "--reason", "INC-4711")
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(MatchRegexp(`gate overridden is open by override until \S+: released 1 of 1 source\n$`))
		Eventually(ctx, w.gatesOpen()).Should(MatchRegexp(`^True gate overridden is open by override until \S+ \(INC-4711\)$`))
		said, err = run(ctx, "flux", "gate", "get", "overridden")
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(And(ContainSubstring("open by override until"), ContainSubstring("next changes"), ContainSubstring("INC-4711")))

		said, err = run(ctx, "flux", "close", "gate", "overridden", "--reason", "end of quarter")
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(HaveSuffix("gate overridden is closed: held 1 of 1 source\n"))
		Expect(field(w.gate, "spec", "override")(ctx)).To(BeNil())
		said, err = run(ctx, "flux", "gate", "calendar", "overridden", "--month", "2026-12")
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(ContainSubstring("Gate/flux-system/overridden in December 2026 (UTC)"))
	})

	It("is Stalled, and closed, while a window never happens", func(ctx SpecContext) {
		w := newWindowed(ctx, "never")
		Expect(world.Client.Patch(ctx, w.gate.DeepCopy(), client.RawPatch(types.MergePatchType,
			[]byte(`{"spec":{"closedDuring":[{"name":"leap","from":"0 0 30 2 *","to":"0 0 1 3 *"}]}}`)))).To(Succeed())
		Eventually(ctx, condition(w.gate, meta.StalledCondition)).Should(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Reason", gatingv1.InvalidWindowsReason),
			HaveField("Message", "window leap is invalid: from never happens: none of its months has such a day")))
		Eventually(ctx, heldAndObserved(w.source)).Should(BeTrue())
		Expect(world.Client.Patch(ctx, w.gate.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"closedDuring":null}}`)))).To(Succeed())
		Eventually(ctx, condition(w.gate, meta.StalledCondition)).Should(HaveField("Type", BeEmpty()))
		Eventually(ctx, w.gatesOpen()).Should(HavePrefix("True"))
	})

	DescribeTable("is refused with", func(ctx SpecContext, spec, want string) {
		gate := object(gatingAPI, gatingv1.GateKind, flux, "refused-windows")
		fields := map[string]any{}
		Expect(yaml.Unmarshal([]byte("{closed: false, "+spec+"}"), &fields)).To(Succeed())
		gate.Object["spec"] = fields
		err := world.Client.Create(ctx, gate, client.DryRunAll)
		if want == "" {
			Expect(err).NotTo(HaveOccurred())
			return
		}
		Expect(err).To(MatchError(ContainSubstring(want)))
	},
		Entry("nothing that the guide shows", `closedDuring: [{name: weekend, from: "0 15 * * 5", to: "0 7 * * 1", timeZone: Europe/Berlin},
			{name: year-end, from: "2026-12-23T00:00", to: "2027-01-02T00:00:30"}], override: {closed: false, until: "2026-12-24T06:00:00Z", reason: INC-4711}`, ""),
		Entry("a zone in the expression", `closedDuring: [{name: a, from: "CRON_TZ=UTC 0 0 * * 1", to: "0 0 * * 2"}]`, "should match"),
		Entry("an interval", `closedDuring: [{name: a, from: "@every 1h", to: "0 0 * * 2"}]`, "should match"),
		Entry("an expression of six fields", `closedDuring: [{name: a, from: "0 0 0 * * 1", to: "0 0 * * 2"}]`, "should match"),
		Entry("a date and an expression", `openDuring: [{name: a, from: "2026-12-23T00:00", to: "0 0 * * 2"}]`, "from and to must both be cron expressions, or both dates"),
		Entry("an end that is its beginning", `openDuring: [{name: a, from: "0 0 * * 2", to: "0 0 * * 2"}]`, "from and to must not be the same"),
		Entry("an end before its beginning", `openDuring: [{name: a, from: "2026-12-23T00:00", to: "2026-12-22T23:59:59"}]`, "to must be after from"),
		Entry("a date that no calendar has", `openDuring: [{name: a, from: "2026-02-30T00:00", to: "2026-12-22T00:00"}]`, "from and to must be dates that exist"),
		Entry("a zone that does not exist", `openDuring: [{name: a, from: "0 0 * * 1", to: "0 0 * * 2", timeZone: Mars/Phobos}]`, "timeZone must be a name of the tz database"),
		Entry("the zone of whoever looks", `openDuring: [{name: a, from: "0 0 * * 1", to: "0 0 * * 2", timeZone: Local}]`, "timeZone must be a name of the tz database"),
		Entry("two windows of a name", `openDuring: [{name: a, from: "0 0 * * 1", to: "0 0 * * 2"}, {name: a, from: "0 0 * * 3", to: "0 0 * * 4"}]`, "Duplicate value"),
		Entry("an end that is no RFC 3339 time", `override: {closed: true, until: "2026-12-24t06:00:00z"}`, "until"),
		Entry("an end after the last year", `override: {closed: true, until: "9999-12-31T23:59:59-12:00"}`, "until"),
		Entry("an override without an end", `override: {closed: true}`, "until: Required value"),
	)
})

// install is a cluster without controllers, in which the status of sources can be written.
type install struct {
	*localcluster.Cluster
	client.Client
	writes int
}

func newInstall(ctx context.Context) *install {
	GinkgoHelper()
	cluster, err := localcluster.Start(ctx, localcluster.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(cluster.Stop()).To(Succeed()) })
	kube, err := client.New(cluster.Config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	i := &install{Cluster: cluster, Client: kube}
	Expect(kube.Create(ctx, i.source())).To(Succeed())
	return i
}

func (i *install) source() *unstructured.Unstructured {
	source := object(sourceAPI, sourcev1.GitRepositoryKind, flux, "ungated")
	source.Object["spec"] = map[string]any{"interval": "1h", "url": "https://example.com/app"}
	return source
}

// publish writes an artifact into the status, as source-controller does.
func (i *install) publish(ctx context.Context) error {
	i.writes++
	patch := fmt.Sprintf(`{"status":{"artifact":{"digest":"sha256:%064d","lastUpdateTime":"2026-01-01T00:00:00Z","path":"p","revision":"r","url":"u"}}}`, i.writes)
	return i.Status().Patch(ctx, i.source(), client.RawPatch(types.MergePatchType, []byte(patch)))
}

// refusal is the error of a publication, unless the API server is only listing the Gates. It does so up to a second
// after it has the policy, and refuses what waits longer than a second for the list (package generic in
// k8s.io/apiserver).
func (i *install) refusal(ctx context.Context) error {
	if err := i.publish(ctx); err != nil && !strings.Contains(err.Error(), "not yet synced") {
		return err
	}
	return nil
}

// during publishes repeatedly while a function runs, and returns the first refusal.
func (i *install) during(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	for {
		if err := i.refusal(ctx); err != nil {
			<-done
			return err
		}
		select {
		case err := <-done:
			return err
		default:
		}
	}
}

func (i *install) kubectl(ctx context.Context, args ...string) error {
	kubectl, err := i.Program("kubectl")
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, kubectl, append([]string{"--kubeconfig", i.Kubeconfig}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

var _ = Describe("The policy that reads Gates", func() {
	const sluice = "../../config/default"

	It("refuses no source's status once the Gates are listed, while Sluice is installed, upgraded and removed as the guide says", func(ctx SpecContext) {
		i := newInstall(ctx)
		By("installing, and upgrading")
		for range 2 {
			Expect(i.during(ctx, func() error {
				return errors.Join(
					i.kubectl(ctx, "apply", "--server-side", "-k", "../../config/crd"),
					i.kubectl(ctx, "wait", "--for", "condition=Established", "crd/gates.gating.toolkit.fluxcd.io"),
					i.kubectl(ctx, "apply", "--server-side", "-k", sluice),
				)
			})).To(Succeed())
			Consistently(ctx, i.refusal).WithTimeout(2 * time.Second).Should(Succeed())
			Eventually(ctx, i.publish).Should(Succeed())
		}
		By("removing, the policies first")
		Expect(i.during(ctx, func() error {
			return i.kubectl(ctx, "delete", "validatingadmissionpolicybindings,validatingadmissionpolicies", "--selector", "app.kubernetes.io/part-of=sluice")
		})).To(Succeed())
		Expect(i.during(ctx, func() error { return i.kubectl(ctx, "delete", "-k", sluice, "--ignore-not-found") })).To(Succeed())
	})

	It("refuses every source's status without the Gates' CRD, until it is removed", func(ctx SpecContext) {
		i := newInstall(ctx)
		Expect(i.kubectl(ctx, "apply", "-f", "../../config/gate-controller/closed-gates.yaml")).To(Succeed())
		Eventually(ctx, i.publish).Should(MatchError(ContainSubstring("sluice-closed-gates")))
		Expect(i.kubectl(ctx, "delete", "validatingadmissionpolicybindings", "sluice-closed-gates", "sluice-closed-gates-of-flux-system")).To(Succeed())
		Eventually(ctx, i.publish).Should(Succeed())
	})
})
