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
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/killproxy"
)

// newPass returns a pass of a gate, granted by the administrator.
func newPass(gate, revision string, expires time.Time) *gatingv1.GatePass {
	pass := &gatingv1.GatePass{ObjectMeta: metav1.ObjectMeta{Namespace: flux, GenerateName: gate + "-"}}
	pass.Spec = gatingv1.GatePassSpec{Revision: revision, Expires: metav1.NewTime(expires), GrantedBy: "admin", Reason: "INC-4711"}
	pass.Spec.GateRef.Name = gate
	return pass
}

// grant lets a revision pass a gate.
func grant(ctx context.Context, gate, revision string, expires time.Time) *gatingv1.GatePass {
	GinkgoHelper()
	pass := newPass(gate, revision, expires)
	Expect(world.Client.Create(ctx, pass)).To(Succeed())
	return pass
}

// artifacts records what a source publishes. A watch misses no state of it.
type artifacts struct {
	mu         sync.Mutex
	all        []string
	violations []string
}

// watchArtifacts records the artifacts of a source until the spec ends.
func watchArtifacts(ctx context.Context, source *unstructured.Unstructured) *artifacts {
	GinkgoHelper()
	recorded := &artifacts{}
	options := &client.ListOptions{Namespace: source.GetNamespace(), FieldSelector: fields.OneTermEqualSelector("metadata.name", source.GetName())}
	watcher, err := world.Client.Watch(context.WithoutCancel(ctx), &sourcev1.GitRepositoryList{}, options)
	Expect(err).NotTo(HaveOccurred())
	stopped := make(chan struct{})
	DeferCleanup(func() {
		close(stopped)
		watcher.Stop()
	})
	go func() {
		for event := range watcher.ResultChan() {
			if source, ok := event.Object.(*sourcev1.GitRepository); ok {
				recorded.see(source)
			}
		}
		select {
		case <-stopped:
		default:
			recorded.violated("the watch ended")
		}
	}()
	return recorded
}

// see records a new artifact. It must be allowed by a condition in the same state of the source.
func (a *artifacts) see(source *sourcev1.GitRepository) {
	artifact := source.Status.Artifact
	if published := a.published(); artifact == nil || len(published) > 0 && published[len(published)-1] == artifact.Revision {
		return
	}
	open := apimeta.FindStatusCondition(source.Status.Conditions, gatingv1.GatesOpenCondition)
	passes := apimeta.FindStatusCondition(source.Status.Conditions, gatingv1.RevisionPassesCondition)
	allowed := open != nil && open.Status == metav1.ConditionTrue
	if passes != nil && passes.Status == metav1.ConditionTrue && passes.ObservedGeneration == source.Generation {
		for pass := range strings.SplitSeq(passes.Message, "; ") {
			revision, until, _ := strings.Cut(pass, " until ")
			expires, err := time.Parse(time.RFC3339, until)
			allowed = allowed || err == nil && artifact.LastUpdateTime.Time.Before(expires) && (revision == artifact.Revision || strings.HasSuffix(artifact.Revision, "@"+revision))
		}
	}
	if !allowed {
		a.violated(fmt.Sprintf("%s was published, and not allowed by %v or %v", artifact.Revision, open, passes))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, artifact.Revision)
}

func (a *artifacts) violated(how string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.violations = append(a.violations, how)
}

// published returns the revisions, in their order.
func (a *artifacts) published() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.all)
}

// expect checks that exactly these revisions were published.
func (a *artifacts) expect(revisions ...string) {
	GinkgoHelper()
	Expect(a.published()).To(Equal(revisions))
	a.expectNoViolations()
}

func (a *artifacts) expectNoViolations() {
	GinkgoHelper()
	a.mu.Lock()
	defer a.mu.Unlock()
	Expect(a.violations).To(BeEmpty())
}

// consume makes Flux apply a source of the same name in a namespace of that name, and returns the applied version.
func (w *windowed) consume(ctx context.Context) (app *unstructured.Unstructured, version func(context.Context) (any, error)) {
	GinkgoHelper()
	name := w.source.GetName()
	apply(ctx, `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: app, namespace: %[1]s}
spec: {interval: 2s, path: ./deploy, targetNamespace: %[1]s, prune: true, sourceRef: {kind: GitRepository, name: %[1]s, namespace: flux-system}}
`, name)
	DeferCleanup(func(ctx SpecContext) {
		deleteAll(ctx, object(kustomizeAPI, kustomizev1.KustomizationKind, name, "app"))
	})
	app = object("v1", "ConfigMap", name, "app")
	return app, field(app, "data", "version")
}

// hold closes the gate, and waits until the source is held.
func (w *windowed) hold(ctx context.Context) {
	GinkgoHelper()
	turnGate(ctx, w.gate.GetName(), true)
	w.expectHeld(ctx)
}

func (w *windowed) expectHeld(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, condition(w.source, gatingv1.GatesOpenCondition)).Should(HaveField("Status", BeEquivalentTo("False")))
	Eventually(ctx, heldAndObserved(w.source)).Should(BeTrue())
	Expect(condition(w.source, gatingv1.RevisionPassesCondition)(ctx)).To(HaveField("Type", BeEmpty()))
}

// release publishes a version in Git, and returns its revision.
func (w *windowed) release(version string) string {
	GinkgoHelper()
	Expect(world.Release(w.source.GetName(), version)).To(Succeed())
	return w.head()
}

var _ = Describe("A pass", func() {
	It("lets one revision through a closed gate, and nothing before or after it", func(ctx SpecContext) {
		w := newWindowed(ctx, "passed")
		app, version := w.consume(ctx)
		Eventually(ctx, version).Should(Equal("v1.0.0"))
		observer, before := watchArtifacts(ctx, w.source), w.head()
		w.hold(ctx)

		By("pushing a fix, which is held until it has a pass")
		fix := w.release("v2.0.0")
		annotate(ctx, w.source, meta.ReconcileRequestAnnotation, "fix")
		Eventually(ctx, field(w.source, "status", "lastHandledReconcileAt")).Should(Equal("fix"))
		Expect(w.published()(ctx)).To(Equal(before))
		grant(ctx, w.gate.GetName(), fix, time.Now().Add(time.Hour))
		Eventually(ctx, w.published()).Should(Equal(fix))
		Eventually(ctx, version).Should(Equal("v2.0.0"))

		By("holding the source again")
		w.expectHeld(ctx)
		Expect(field(w.gate, "status", "passes")(ctx)).To(ContainElement(HaveKeyWithValue("revision", fix)))
		w.release("v3.0.0")
		_, err := run(ctx, "flux", "resume", "source", "git", w.source.GetName(), "--wait=false")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, w.gatesOpen()).Should(ContainSubstring("was refused; " + fix + " is still published"))
		w.expectHeld(ctx)

		By("changing what was applied, which Flux must still correct")
		Expect(world.Client.Patch(ctx, app.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"data":{"version":"tampered"}}`)))).To(Succeed())
		Eventually(ctx, version).Should(Equal("v2.0.0"))
		observer.expect(before, fix)
	})

	It("has no effect on a branch that has moved past the revision, as the source says, until the source names the tag", func(ctx SpecContext) {
		w := newWindowed(ctx, "passed-late")
		observer, before := watchArtifacts(ctx, w.source), w.head()
		w.hold(ctx)
		fix := w.release("v2.0.0")
		_, commit, _ := strings.Cut(fix, "@")
		newer := w.release("v3.0.0")
		grant(ctx, w.gate.GetName(), commit, time.Now().Add(time.Hour))
		Eventually(ctx, w.gatesOpen()).Should(And(ContainSubstring(newer), ContainSubstring("was refused; "+before+" is still published"),
			ContainSubstring("; passes in force are for other revisions ("+commit+" until "), ContainSubstring("): set spec.ref to one of them")))

		Expect(world.Client.Patch(ctx, w.source.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"ref":{"tag":"v2.0.0","branch":null}}}`)))).To(Succeed())
		Eventually(ctx, w.published()).Should(Equal("v2.0.0@" + commit))
		w.expectHeld(ctx)
		observer.expect(before, "v2.0.0@"+commit)
	})

	It("lets revisions of all kinds of sources through", func(ctx SpecContext) {
		g := newGroup(ctx, "passed-kinds", lines(startUpstream(ctx)))
		g.publish(ctx, 0)
		g.establish(ctx)
		g.hold(ctx)
		g.publish(ctx, 1)
		turnGate(ctx, "passed-kinds-open", false)
		for i, line := range g.lines {
			By(line.slug)
			revision := version(1) // of a chart
			if line.repository == nil {
				// A source of the same upstream shows the revision.
				name := g.upstreamOf(line) + "-open"
				open := object(sourceAPI, line.kind, flux, name)
				apply(ctx, "%s", line.manifest(name, g.upstreamOf(line), "passed-kinds-open", ""))
				DeferCleanup(func(ctx SpecContext) { deleteAll(ctx, open) })
				Eventually(ctx, content(open)).Should(ContainSubstring(version(1)))
				found, err := field(open, "status", "artifact", "revision")(ctx)
				Expect(err).NotTo(HaveOccurred())
				revision = fmt.Sprint(found)
			}
			pass := grant(ctx, g.name, revision, inSeconds(3600))
			Eventually(ctx, content(g.sources()[i])).Should(ContainSubstring(version(1)), revision)
			Expect(world.Client.Delete(ctx, pass)).To(Succeed())
		}

		g.publish(ctx, 2)
		g.expectHeld(ctx, now(ctx, g.sources())...)
		for _, source := range g.sources() {
			Expect(content(source)(ctx)).To(And(ContainSubstring(version(1)), Not(ContainSubstring(version(2)))), key(source))
		}
	})

	It("lets through nothing else while fixes, newer tags, expiries and revocations race", func(ctx SpecContext) {
		w := newWindowed(ctx, "passed-race")
		observer, granted := watchArtifacts(ctx, w.source), []string{w.head()}
		w.hold(ctx)
		for round := range 12 {
			fix := w.release(fmt.Sprintf("v2.%d.0", round))
			// Expired when it is granted, or soon.
			pass := grant(ctx, w.gate.GetName(), fix, inSeconds(round%4))
			granted = append(granted, fix)
			annotate(ctx, w.source, meta.ReconcileRequestAnnotation, fix)
			switch round % 3 {
			case 0:
				Expect(world.Client.Delete(ctx, pass)).To(Succeed())
			case 1:
				w.release(fmt.Sprintf("v2.%d.1", round))
			}
			_, err := run(ctx, "flux", "resume", "source", "git", w.source.GetName(), "--wait=false")
			Expect(err).NotTo(HaveOccurred())
		}

		By("granting a last one, when all others have ended")
		Eventually(ctx, field(w.gate, "status", "passes")).Should(BeNil())
		w.expectHeld(ctx)
		last := w.release("v3.0.0")
		grant(ctx, w.gate.GetName(), last, time.Now().Add(time.Hour))
		Eventually(ctx, w.published()).Should(Equal(last))
		w.expectHeld(ctx)
		Expect(append(granted, last)).To(ContainElements(observer.published()))
		observer.expectNoViolations()
	})

	It("ends in the right state if gate-controller is killed at any of its calls", func(ctx SpecContext) {
		controller, killAt := killableController(ctx)
		w := newWindowed(ctx, "passed-crash")
		observer, want := watchArtifacts(ctx, w.source), []string{w.head()}
		w.hold(ctx)
		// settles waits until a revision is published, the source is held and the gate has no passes, and starts
		// gate-controller again when it was killed.
		settles := func(dead <-chan killproxy.Death, published string, passes int) {
			GinkgoHelper()
			Eventually(ctx, func(g Gomega, ctx context.Context) {
				select {
				case death := <-dead:
					Expect(death.Err).NotTo(HaveOccurred())
					GinkgoWriter.Println("killed at", death.Call)
					Expect(controller.Start(ctx)).To(Succeed())
				default:
				}
				g.Expect(w.published()(ctx)).To(Equal(published))
				g.Expect(heldAndObserved(w.source)(ctx)).To(BeTrue())
				g.Expect(condition(w.source, gatingv1.RevisionPassesCondition)(ctx)).To(HaveField("Type", BeEmpty()))
				gate := &gatingv1.Gate{}
				g.Expect(world.Client.Get(ctx, client.ObjectKeyFromObject(w.gate), gate)).To(Succeed())
				g.Expect(gate.Status.Held).To(BeEquivalentTo(1))
				g.Expect(gate.Status.Passes).To(HaveLen(passes))
			}).Should(Succeed())
		}
		settles(nil, want[0], 0)
		versions := 0
		release := func() string {
			GinkgoHelper()
			versions++
			return w.release(fmt.Sprintf("v2.%d.0", versions))
		}
		for call := range 7 {
			for _, done := range []bool{false, true} {
				By(fmt.Sprintf("killing it at call %d, done %t, after a pass was granted", call+1, done))
				fix := release()
				dead := killAt(killproxy.Moment{Call: call + 1, Done: done})
				pass := grant(ctx, w.gate.GetName(), fix, time.Now().Add(time.Hour))
				settles(dead, fix, 1)
				want = append(want, fix)
				Expect(world.Client.Delete(ctx, pass)).To(Succeed())
				settles(dead, fix, 0)
			}
		}
		for call := range 3 {
			for _, done := range []bool{false, true} {
				By(fmt.Sprintf("killing it at call %d, done %t, after a pass was revoked that the branch had moved past", call+1, done))
				fix := release()
				release()
				pass := grant(ctx, w.gate.GetName(), fix, time.Now().Add(time.Hour))
				Eventually(ctx, condition(w.source, gatingv1.RevisionPassesCondition)).Should(HaveField("Message", HavePrefix(fix+" until ")))
				Eventually(ctx, field(w.gate, "status", "held")).Should(BeEquivalentTo(0))
				dead := killAt(killproxy.Moment{Call: call + 1, Done: done})
				Expect(world.Client.Delete(ctx, pass)).To(Succeed())
				settles(dead, want[len(want)-1], 0)
			}
		}
		observer.expect(want...)
	})

	It("is enforced by the API server alone: for its revision and digest, before its end, and while nobody edits the gate or the source", func(ctx SpecContext) {
		w := newWindowed(ctx, "passed-alone")
		w.hold(ctx)
		digest := "sha1:" + strings.Repeat("a", 40)
		expires := inSeconds(3600)
		grant(ctx, w.gate.GetName(), digest, expires)
		Eventually(ctx, condition(w.source, gatingv1.RevisionPassesCondition)).Should(HaveField("Message", digest+" until "+expires.UTC().Format(time.RFC3339)))
		Eventually(ctx, field(w.gate, "status", "held")).Should(BeEquivalentTo(0))
		Expect(world.GateController.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(world.GateController.Start(ctx)).To(Succeed()) })

		publishAs := func(as client.Client, revision string, at time.Time) error {
			GinkgoHelper()
			is := now(ctx, []*unstructured.Unstructured{w.source})[0]
			should := withArtifact(is, revision)
			Expect(unstructured.SetNestedField(should.Object, at.UTC().Format(time.RFC3339), "status", "artifact", "lastUpdateTime")).To(Succeed())
			return as.Status().Patch(ctx, should, client.MergeFrom(is))
		}
		publish := func(revision string, at time.Time) error {
			GinkgoHelper()
			return publishAs(world.Client, revision, at)
		}
		blocked := MatchError(ContainSubstring("denied request: new artifact blocked: "))
		early := expires.Add(-time.Second)
		Expect(publish("main@sha1:"+strings.Repeat("b", 40), early)).To(blocked)
		Expect(publish("main@sha1:"+strings.Repeat("a", 39), early)).To(blocked)
		Expect(publish("aaaa"+digest, early)).To(blocked)
		Expect(publish(digest+" until 2099-01-01T00:00:00Z", early)).To(blocked)
		Expect(publish("main@"+digest, expires)).To(blocked)
		Expect(publishAs(fluxEditor(ctx), "main@"+digest, early)).To(blocked)
		Expect(publish("main@"+digest, early)).To(Succeed())
		Expect(publish(digest, early)).To(Succeed())

		By("editing the source")
		edit := func(obj *unstructured.Unstructured, spec string) {
			GinkgoHelper()
			Expect(world.Client.Patch(ctx, obj.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":`+spec+`}`)))).To(Succeed())
		}
		edit(w.source, `{"timeout":"50s"}`)
		Expect(publish("v2@"+digest, early)).To(blocked)
		edit(w.source, `{"timeout":null}`)

		By("letting gate-controller confirm the pass, and editing the gate")
		Expect(world.GateController.Start(ctx)).To(Succeed())
		Eventually(ctx, func(ctx context.Context) error { return publish("v3@"+digest, early) }).Should(Succeed())
		Expect(world.GateController.Stop()).To(Succeed())
		edit(w.gate, `{"override":{"closed":true,"until":"2099-01-01T00:00:00Z"}}`)
		Eventually(ctx, func(ctx context.Context) error { return publish("v4@"+digest, early) }).Should(blocked)
	})

	It("is granted only by those who may, in their own name, and by as many people as the gate requires", func(ctx SpecContext) {
		apply(ctx, `
apiVersion: gating.toolkit.fluxcd.io/v1alpha1
kind: Gate
metadata: {name: passed-by-two, namespace: flux-system}
spec: {closed: true, passes: {required: 2}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: pass-two, namespace: flux-system}
rules:
- {apiGroups: [gating.toolkit.fluxcd.io], resources: [gates], resourceNames: [passed-by-two], verbs: [pass]}
- {apiGroups: [gating.toolkit.fluxcd.io], resources: [gatepasses], verbs: [create, update, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: pass-two, namespace: flux-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: pass-two}
subjects: [{kind: User, name: ada}, {kind: User, name: bob}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: grant-only, namespace: flux-system}
rules: [{apiGroups: [gating.toolkit.fluxcd.io], resources: [gatepasses], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: grant-only, namespace: flux-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: grant-only}
subjects: [{kind: User, name: mallory}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: edit-gates, namespace: flux-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: User, name: eve}]
`)
		gate := object(gatingAPI, gatingv1.GateKind, flux, "passed-by-two")
		DeferCleanup(func(ctx SpecContext) { Expect(world.Client.Delete(ctx, gate)).To(Succeed()) })
		grant := func(user, by, gate string) (*gatingv1.GatePass, error) {
			pass := newPass(gate, "v1", inSeconds(3600))
			pass.Spec.GrantedBy = by
			return pass, actingAs(user).Create(ctx, pass)
		}
		passes := field(gate, "status", "passes")

		By("refusing those who may not")
		Eventually(ctx, func() error { _, err := grant("mallory", "mallory", "passed-by-two"); return err }).
			Should(MatchError(ContainSubstring("mallory may not let revisions pass Gate flux-system/passed-by-two")))
		_, err := grant("eve", "eve", "passed-by-two")
		Expect(err).To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("cannot create resource \"gatepasses\""))))
		_, err = grant("ada", "ada", "another")
		Expect(err).To(MatchError(ContainSubstring("ada may not let revisions pass Gate flux-system/another")))
		_, err = grant("ada", "bob", "passed-by-two")
		Expect(err).To(MatchError(ContainSubstring("spec.grantedBy must be your own name: ada")))

		By("refusing times that Go can't parse, which would keep the controllers from reading any pass")
		for _, expires := range []string{"2026-12-24t06:00:00z", "9999-12-31T23:59:59-12:00"} {
			pass := object(gatingAPI, gatingv1.GatePassKind, flux, "untimely")
			pass.Object["spec"] = map[string]any{"gateRef": map[string]any{"name": "passed-by-two"}, "revision": "v1", "expires": expires,
				"grantedBy": "ada", "reason": "INC-4711"}
			Expect(actingAs("ada").Create(ctx, pass)).To(MatchError(ContainSubstring("spec.expires")))
		}

		By("counting one person once")
		first, err := grant("ada", "ada", "passed-by-two")
		Expect(err).NotTo(HaveOccurred())
		_, err = grant("ada", "ada", "passed-by-two")
		Expect(err).NotTo(HaveOccurred())
		changed := first.DeepCopy()
		changed.Spec.GrantedBy = "bob"
		Expect(actingAs("ada").Update(ctx, changed)).To(MatchError(ContainSubstring("a pass is immutable")))
		Consistently(ctx, passes).WithTimeout(2 * time.Second).Should(BeNil())

		By("counting two")
		second, err := grant("bob", "bob", "passed-by-two")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, passes).Should(ContainElement(HaveKeyWithValue("revision", "v1")))
		Eventually(ctx, func(ctx context.Context) (string, error) {
			return run(ctx, "kubectl", "events", "--namespace", flux, "--for", "gate/passed-by-two")
		}).Should(ContainSubstring("granted by ada (INC-4711), bob (INC-4711)"))
		Expect(actingAs("bob").Delete(ctx, second)).To(Succeed())
		Eventually(ctx, passes).Should(BeNil())
	})

	It("may be long, unless a policy with the expression of the page limits it", func(ctx SpecContext) {
		page, err := os.ReadFile(filepath.Join("..", "..", "docs", "spec", "v1alpha1", "gates.md"))
		Expect(err).NotTo(HaveOccurred())
		expression := regexp.MustCompile("`(timestamp\\(object.spec.expires\\)[^`]*)`").FindSubmatch(page)
		Expect(expression).To(HaveLen(2))
		year := grant(ctx, "passed-long", "v1", inSeconds(365*24*3600))
		Expect(world.Client.Delete(ctx, year)).To(Succeed())
		apply(ctx, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: e2e-long-passes}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [gating.toolkit.fluxcd.io], apiVersions: ["*"], operations: [CREATE], resources: [gatepasses]}]
  validations: [{expression: "%s", message: too long}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: e2e-long-passes}
spec: {policyName: e2e-long-passes, validationActions: [Deny]}
`, expression[1])
		DeferCleanup(func(ctx SpecContext) {
			for _, kind := range []string{"ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"} {
				Expect(world.Client.Delete(ctx, object("admissionregistration.k8s.io/v1", kind, "", "e2e-long-passes"))).To(Succeed())
			}
		})
		Eventually(ctx, func(ctx context.Context) error {
			return world.Client.Create(ctx, newPass("passed-long", "v1", inSeconds(25*3600)), client.DryRunAll)
		}).Should(MatchError(ContainSubstring("too long")))
		Expect(world.Client.Create(ctx, newPass("passed-long", "v1", inSeconds(23*3600)), client.DryRunAll)).To(Succeed())
	})

	It("can't be forged on a source, nor in the status of its gate", func(ctx SpecContext) {
		w := newWindowed(ctx, "passed-forged")
		w.hold(ctx)
		forged := "forged until 2099-01-01T00:00:00Z"
		for _, as := range []client.Client{fluxEditor(ctx), serviceAccount(ctx, "pass-tenant", "cluster-admin")} {
			is := now(ctx, []*unstructured.Unstructured{w.source})[0]
			refuses(ctx, as, is, withCondition(is, gatingv1.RevisionPassesCondition, false, metav1.ConditionTrue, forged))
		}

		By("letting a revision pass that the source does not offer, so that the condition stays")
		commit := "sha1:" + strings.Repeat("a", 40)
		grant(ctx, w.gate.GetName(), commit, inSeconds(3600))
		Eventually(ctx, condition(w.source, gatingv1.RevisionPassesCondition)).Should(HaveField("Message", HavePrefix(commit)))
		editor, is := fluxEditor(ctx), now(ctx, []*unstructured.Unstructured{w.source})[0]
		refuses(ctx, editor, is, withCondition(is, gatingv1.RevisionPassesCondition, false, metav1.ConditionTrue, forged))
		refuses(ctx, editor, is, withCondition(is, gatingv1.RevisionPassesCondition, true, metav1.ConditionTrue, forged))

		By("writing the status of the gate")
		apply(ctx, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-gates-status}
rules:
- {apiGroups: [gating.toolkit.fluxcd.io], resources: [gates, gates/status], verbs: ["*"]}
- {apiGroups: [source.toolkit.fluxcd.io], resources: [gitrepositories/status], verbs: [patch]}
`)
		forger := serviceAccount(ctx, "gate-forger", "e2e-gates-status")
		gate := now(ctx, []*unstructured.Unstructured{w.gate})[0]
		forgedGate := gate.DeepCopy()
		Expect(unstructured.SetNestedSlice(forgedGate.Object, []any{map[string]any{"revision": "forged", "expires": "2099-01-01T00:00:00Z"}}, "status", "passes")).To(Succeed())
		refuses(ctx, forger, gate, forgedGate)
		confirmed := gate.DeepCopy()
		Expect(unstructured.SetNestedField(confirmed.Object, gate.GetGeneration()+1, "status", "observedGeneration")).To(Succeed())
		refuses(ctx, forger, gate, confirmed)
	})

	It("lets promotions of its revision continue, while others wait", func(ctx SpecContext) {
		turnGate(ctx, "passed-promotion", true)
		for _, namespace := range []string{"passed-one", "passed-two"} {
			apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", namespace)
		}
		runs(ctx, world.Client, "passed-one", "v2")
		runs(ctx, world.Client, "passed-two", "v1")
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: passed, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: leafapp}
  environments:
  - {name: one, targets: [{namespace: passed-one}]}
  - {name: two, targets: [{namespace: passed-two}]}
  promotion: {gates: {refs: [passed-promotion]}, strategy: {notification: {}}}
`)
		DeferCleanup(func(ctx SpecContext) {
			deleteAll(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "passed"), object(gatingAPI, gatingv1.GateKind, flux, "passed-promotion"))
		})
		Eventually(ctx, ready("passed")).Should(HaveField("Reason", "WaitingForPreconditions"))
		gate := object(gatingAPI, gatingv1.GateKind, flux, "passed-promotion")
		Eventually(ctx, field(gate, "status", "heldPromotions")).Should(BeEquivalentTo(1))
		grant(ctx, "passed-promotion", "v2", inSeconds(3600))
		Eventually(ctx, record("passed", "two")).Should(And(haveState("succeeded"), HaveField("Revision", "v2"),
			HaveField("Preconditions", ConsistOf(HaveField("Reason", "RevisionPasses")))))
		Eventually(ctx, field(gate, "status", "heldPromotions")).Should(BeEquivalentTo(0))

		runs(ctx, world.Client, "passed-two", "v2")
		runs(ctx, world.Client, "passed-one", "v3")
		Eventually(ctx, record("passed", "two")).Should(HaveField("Revision", "v3"))
		Eventually(ctx, ready("passed")).Should(And(HaveField("Reason", "WaitingForPreconditions"), HaveField("Message", ContainSubstring("gate passed-promotion is closed"))))
		Expect(record("passed", "two")(ctx)).To(haveState("unapproved"))
	})
})
