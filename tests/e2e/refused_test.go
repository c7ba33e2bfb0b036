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
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/killproxy"
)

var _ = Describe("A hold that is refused", func() {
	for _, test := range []struct{ name, by, refusal, message string }{
		{
			name: "refused-policy", by: "a ValidatingAdmissionPolicy", message: "nobody changes this source",
			refusal: `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [source.toolkit.fluxcd.io], apiVersions: ["*"], operations: [UPDATE], resources: [gitrepositories]}
    objectSelector: {matchLabels: {%[2]s: %[1]s}}
  validations:
  - {expression: object.spec == oldObject.spec, message: nobody changes this source}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`,
		},
		{
			name: "refused-webhook", by: "an admission webhook that is down", message: "failed calling webhook",
			refusal: `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %[1]s}
webhooks:
- name: sources.example.com
  clientConfig: {url: 'https://127.0.0.1:1/'}
  rules:
  - {apiGroups: [source.toolkit.fluxcd.io], apiVersions: ["*"], operations: [UPDATE], resources: [gitrepositories]}
  objectSelector: {matchLabels: {%[2]s: %[1]s}}
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
`,
		},
	} {
		It("publishes nothing new, reports the error, and is retried: by "+test.by, func(ctx SpecContext) {
			g := newGroup(ctx, test.name, lines(startUpstream(ctx))[:1])
			source := g.sources()[0]
			gate := object(gatingAPI, gatingv1.GateKind, flux, g.name)
			g.publish(ctx, 0)
			g.establish(ctx)
			edit := func(ctx context.Context, patch string, options ...client.PatchOption) error {
				return world.Client.Patch(ctx, source.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)), options...)
			}
			Expect(edit(ctx, `{"spec":{"interval":"1s"}}`)).To(Succeed())
			edited := now(ctx, g.sources())[0].GetGeneration()
			Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(And(HaveField("Status", BeEquivalentTo("True")), HaveField("ObservedGeneration", edited)))

			By("having the API server refuse changes of the source")
			apply(ctx, test.refusal, g.name, groupLabel)
			refuse := []*unstructured.Unstructured{
				object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "", g.name),
				object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "", g.name),
				object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", g.name),
			}
			allow := func(ctx SpecContext) {
				for _, obj := range refuse {
					Expect(client.IgnoreNotFound(world.Client.Delete(ctx, obj))).To(Succeed())
				}
			}
			DeferCleanup(allow)
			Eventually(ctx, func(ctx context.Context) error {
				return edit(ctx, `{"spec":{"interval":"2s"}}`, client.DryRunAll)
			}).Should(MatchError(ContainSubstring(test.message)))

			By("closing the gate")
			turnGate(ctx, g.name, true)
			Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "HoldFailed"),
				HaveField("Message", And(ContainSubstring(test.message), ContainSubstring("gate %s is closed", g.name)))))
			g.sentinel.close()
			Expect(field(source, "spec", "suspend")(ctx)).To(BeNil())
			Eventually(ctx, condition(gate, meta.ReadyCondition)).Should(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "HoldFailed")))
			Expect(run(ctx, "kubectl", "--namespace", flux, "get", "gate", g.name)).To(And(
				MatchRegexp(`STATE +SINCE +UNTIL +HELD +REFUSED`), MatchRegexp(`Closed +\S+ +0 +1\b`)))
			Eventually(ctx, func(ctx context.Context) (string, error) {
				return run(ctx, "kubectl", "events", "--namespace", flux, "--for", "gitrepository/"+source.GetName())
			}).Should(MatchRegexp(`Warning +HoldFailed +\S+ +refused: setting spec.suspend failed: .*%s`, test.message))

			By("releasing a new revision, which source-controller fetches")
			g.publish(ctx, 1)
			Eventually(func() (string, error) { return logOf("source-controller") }).Should(
				MatchRegexp(`\\"%s\\" is forbidden:.* new artifact blocked: (GatesOpen is not True|gate flux-system/%s is closed)`, source.GetName(), g.name))
			Expect(g.sentinel.leaks()).To(BeEmpty())

			By("reporting that Ready names what was refused")
			Eventually(ctx, condition(source, meta.ReadyCondition)).Should(HaveField("Status", BeEquivalentTo("True")))
			refused := `stored artifact for .* was refused; \S+ is still published`
			Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(HaveField("Message", MatchRegexp("; new artifacts are blocked: %s$", refused)))
			Eventually(ctx, func(ctx context.Context) (string, error) {
				return run(ctx, "kubectl", "events", "--namespace", flux, "--for", "gitrepository/"+source.GetName())
			}).Should(MatchRegexp(`Normal +ArtifactBlocked +.* blocked: %s: .*gate %s is closed`, refused, g.name))

			By("having the API server allow it again")
			allow(ctx)
			g.expectHeld(ctx, now(ctx, g.sources())...)
			Eventually(ctx, field(gate, "status", "refused")).Should(BeEquivalentTo(0))
			Eventually(ctx, field(gate, "status", "held")).Should(BeEquivalentTo(1))
			Eventually(ctx, condition(gate, meta.ReadyCondition)).Should(HaveField("Status", BeEquivalentTo("True")))
			Expect(g.sentinel.leaks()).To(BeEmpty())

			g.sentinel.open()
			turnGate(ctx, g.name, false)
			Eventually(ctx, content(source)).Should(ContainSubstring(version(1)))
		})
	}
})

var _ = Describe("Holds that hang", func() {
	It("do not keep other gates from closing", func(ctx SpecContext) {
		const hanging = 32 // gate-controller handles 10 at a time
		ended := make(chan struct{})
		webhook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// A dry run shows that the webhook is called, and need not hang.
			if review, _ := io.ReadAll(r.Body); !strings.Contains(string(review), `"dryRun":true`) {
				<-ended
			}
			http.Error(w, "not now", http.StatusServiceUnavailable)
		}))
		DeferCleanup(webhook.Close)
		DeferCleanup(func() { close(ended) })

		g := newGroup(ctx, "hanging", nil)
		manifest := func(name, gate string) string {
			return fmt.Sprintf("{apiVersion: %s, kind: GitRepository, metadata: {name: %s, namespace: flux-system, labels: {%s: %s}}, spec: {interval: 24h, url: '%s', ref: {branch: main}, gates: {refs: [%s]}}}",
				sourceAPI, name, groupLabel, g.name, world.RepositoryURL("app"), gate)
		}
		other := object(sourceAPI, sourcev1.GitRepositoryKind, flux, "hanging-other")
		sources := []*unstructured.Unstructured{}
		turnGate(ctx, "hanging", false)
		turnGate(ctx, "hanging-other", false)
		apply(ctx, "%s", manifest(other.GetName(), "hanging-other"))
		for i := range hanging {
			sources = append(sources, object(sourceAPI, sourcev1.GitRepositoryKind, flux, fmt.Sprintf("hanging-%02d", i)))
			apply(ctx, "%s", manifest(sources[i].GetName(), "hanging"))
		}
		for _, source := range append(sources, other) {
			Eventually(ctx, field(source, "status", "artifact", "digest")).ShouldNot(BeNil())
		}
		apply(ctx, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hanging}
webhooks:
- name: sources.example.com
  clientConfig: {url: '%s', caBundle: %s}
  rules:
  - {apiGroups: [source.toolkit.fluxcd.io], apiVersions: ["*"], operations: [UPDATE], resources: [gitrepositories]}
  objectSelector: {matchLabels: {%s: %s}}
  failurePolicy: Fail
  timeoutSeconds: 10
  sideEffects: None
  admissionReviewVersions: [v1]
`, webhook.URL, base64.StdEncoding.EncodeToString(killproxy.CA(webhook)), groupLabel, g.name)
		configuration := object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "hanging")
		DeferCleanup(func(ctx SpecContext) { Expect(world.Client.Delete(ctx, configuration)).To(Succeed()) })
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"interval":"12h"}}`))
		Eventually(ctx, func(ctx context.Context) error {
			return world.Client.Patch(ctx, other.DeepCopy(), patch, client.DryRunAll)
		}).Should(MatchError(ContainSubstring("failed calling webhook")))

		By("closing a gate whose sources can't be suspended, and then another one")
		turnGate(ctx, "hanging", true)
		for _, source := range sources {
			Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(HaveField("Status", BeEquivalentTo("False")))
		}
		turnGate(ctx, "hanging-other", true)
		Eventually(ctx, condition(other, gatingv1.GatesOpenCondition)).Should(HaveField("Status", BeEquivalentTo("False")))
		waiting := 0
		for _, source := range now(ctx, sources) {
			suspended, _, _ := unstructured.NestedBool(source.Object, "spec", "suspend")
			if gatesOpen(source).Reason == gatingv1.GateClosedReason && !suspended { // the attempt to hold it has not ended
				waiting++
			}
		}
		Expect(waiting).To(BeNumerically(">", hanging/2), "the other gate did not wait for these holds")
	})
})

var _ = Describe("Gates that are changed during a release", func() {
	for _, test := range []struct {
		name, of string
		held     bool
	}{
		{"changed-held", "of a source that is held", true},
		{"changed-new", "of a source that was never held", false},
	} {
		It("are the ones that count: "+test.of, func(ctx SpecContext) {
			proxy := behindProxy(ctx, world.GateController)
			g := newGroup(ctx, test.name, lines(startUpstream(ctx))[:1])
			source := g.sources()[0]
			g.publish(ctx, 0)
			turnGate(ctx, g.name, test.held)
			turnGate(ctx, g.name+"-other", true)
			create := func() {
				GinkgoHelper()
				apply(ctx, "%s", g.manifest(g.lines[0], source.GetName(), ""))
			}
			if test.held {
				create()
				g.expectHeld(ctx, now(ctx, g.sources())...)
			}
			g.sentinel.close()

			changed := make(chan error, 1)
			proxy.Before(func(r *http.Request) bool {
				return r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/gitrepositories/"+source.GetName())
			}, func(*http.Request) {
				patch := fmt.Appendf(nil, `{"spec":{"gates":{"refs":["%s-other"]}}}`, g.name)
				changed <- world.Client.Patch(context.Background(), source.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
			})
			if test.held {
				turnGate(ctx, g.name, false)
			} else {
				create()
			}
			Eventually(ctx, changed).Should(Receive(Succeed()))
			g.expectHeld(ctx, now(ctx, g.sources())...)
			Expect(condition(source, gatingv1.GatesOpenCondition)(ctx)).To(HaveField("Message", HavePrefix("gate %s-other is closed; new artifacts are blocked", g.name)))
			Expect(g.sentinel.opened()).To(BeEmpty())
			Expect(g.sentinel.leaks()).To(BeEmpty())

			By("opening those")
			g.sentinel.open()
			turnGate(ctx, g.name+"-other", false)
			Eventually(ctx, content(source)).Should(ContainSubstring(version(0)))
		})
	}
})

var _ = Describe("A source with more gates than a condition can name", func() {
	It("publishes when they are open", func(ctx SpecContext) {
		up := startUpstream(ctx)
		Expect(up.PublishChart("many-gates", "app", "1.0.0")).To(Succeed())
		turnGate(ctx, "many-gates", false)
		refs := []string{"many-gates"}
		for i := range 63 {
			refs = append(refs, fmt.Sprintf("%s/%s%02d", strings.Repeat("n", 63), strings.Repeat("g", 251), i))
		}
		gates := fmt.Sprintf("gates: {require: oneOf, refs: [%s]}", strings.Join(refs, ", "))
		apply(ctx, `
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: many-gates, namespace: flux-system}
spec: {interval: 24h, url: '%[1]s', %[2]s}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmChart
metadata: {name: many-gates, namespace: flux-system}
spec: {interval: 24h, chart: app, sourceRef: {kind: HelmRepository, name: many-gates}, %[2]s}
`, up.HelmURL("many-gates"), gates)
		for _, kind := range []string{sourcev1.HelmChartKind, sourcev1.HelmRepositoryKind} {
			source := object(sourceAPI, kind, flux, "many-gates")
			DeferCleanup(func(ctx SpecContext) { Expect(world.Client.Delete(ctx, source)).To(Succeed()) })
			Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(And(HaveField("Status", BeEquivalentTo("True")),
				HaveField("Message", MatchRegexp(`^gate many-gates is open; .*; and \d+ more`))))
			Eventually(ctx, field(source, "status", "artifact", "digest")).ShouldNot(BeNil())
		}
	})
})
