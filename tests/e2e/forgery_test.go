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
	"encoding/json"
	"strings"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// serviceAccount creates a ServiceAccount in Flux's namespace with a ClusterRole there, and returns its client.
func serviceAccount(ctx context.Context, name, clusterRole string) client.Client {
	GinkgoHelper()
	apply(ctx, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s, namespace: flux-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[1]s, namespace: flux-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[2]s}
subjects: [{kind: ServiceAccount, name: %[1]s, namespace: flux-system}]
`, name, clusterRole)
	Eventually(ctx, may(name, authorizationv1.ResourceAttributes{
		Verb: "patch", Group: sourcev1.GroupVersion.Group, Resource: "gitrepositories", Subresource: "status", Namespace: flux})).Should(BeTrue())
	return actingAs("system:serviceaccount:flux-system:" + name)
}

// actingAs returns a client of a user.
func actingAs(user string) client.Client {
	GinkgoHelper()
	config := rest.CopyConfig(world.Cluster.Config)
	config.Impersonate.UserName = user
	as, err := client.New(config, client.Options{Scheme: world.Client.Scheme(), Mapper: world.Client.RESTMapper()})
	Expect(err).NotTo(HaveOccurred())
	return as
}

// fluxEditor has the rights on sources that Flux's role flux-edit grants in a namespace.
func fluxEditor(ctx context.Context) client.Client {
	GinkgoHelper()
	apply(ctx, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-flux-edit}
rules: [{apiGroups: [source.toolkit.fluxcd.io], resources: ["*"], verbs: [create, delete, deletecollection, patch, update]}]
`)
	return serviceAccount(ctx, "flux-editor", "e2e-flux-edit")
}

// forgery writes the status of a source. It receives the current source and the wanted one.
type forgery struct {
	name  string
	write func(ctx context.Context, as client.Client, is, should *unstructured.Unstructured) error
}

var forgeries = []forgery{
	{"an update", func(ctx context.Context, as client.Client, _, should *unstructured.Unstructured) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			updated := now(ctx, []*unstructured.Unstructured{should})[0]
			updated.Object["status"] = should.Object["status"]
			return as.Status().Update(ctx, updated)
		})
	}},
	{"a merge patch", func(ctx context.Context, as client.Client, is, should *unstructured.Unstructured) error {
		return as.Status().Patch(ctx, should.DeepCopy(), client.MergeFrom(is))
	}},
	{"a JSON patch", func(ctx context.Context, as client.Client, _, should *unstructured.Unstructured) error {
		patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/status", "value": should.Object["status"]}})
		if err != nil {
			return err
		}
		return as.Status().Patch(ctx, should.DeepCopy(), client.RawPatch(types.JSONPatchType, patch))
	}},
	{"a server-side apply", func(ctx context.Context, as client.Client, _, should *unstructured.Unstructured) error {
		applied := object(should.GetAPIVersion(), should.GetKind(), should.GetNamespace(), should.GetName())
		applied.Object["status"] = should.Object["status"]
		return as.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("forger"), client.ForceOwnership)
	}},
}

// withArtifact returns a source that has published a revision.
func withArtifact(source *unstructured.Unstructured, revision string) *unstructured.Unstructured {
	GinkgoHelper()
	source = source.DeepCopy()
	Expect(unstructured.SetNestedMap(source.Object, map[string]any{
		"revision": revision, "digest": "sha256:" + strings.Repeat("0", 64), "path": "forged.tar.gz",
		"url": "http://127.0.0.1/forged.tar.gz", "lastUpdateTime": "2026-01-01T00:00:00Z",
	}, "status", "artifact")).To(Succeed())
	return source
}

// withGatesOpen returns a source with another condition GatesOpen, in addition to or instead of its own.
func withGatesOpen(source *unstructured.Unstructured, beside bool, status metav1.ConditionStatus, message string) *unstructured.Unstructured {
	GinkgoHelper()
	return withCondition(source, gatingv1.GatesOpenCondition, beside, status, message)
}

// withCondition returns a source with another condition, in addition to or instead of its own of that type.
func withCondition(source *unstructured.Unstructured, name string, beside bool, status metav1.ConditionStatus, message string) *unstructured.Unstructured {
	GinkgoHelper()
	source = source.DeepCopy()
	before, _, err := unstructured.NestedSlice(source.Object, "status", "conditions")
	Expect(err).NotTo(HaveOccurred())
	var after []any
	for _, condition := range before {
		if beside || condition.(map[string]any)["type"] != name {
			after = append(after, condition)
		}
	}
	if status != "" {
		after = append(after, map[string]any{
			"type": name, "status": string(status), "reason": "AllGatesOpen", "message": message,
			"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": source.GetGeneration(),
		})
	}
	Expect(unstructured.SetNestedSlice(source.Object, after, "status", "conditions")).To(Succeed())
	return source
}

// withoutRight matches the error for users without the right to release.
var withoutRight = MatchError(And(ContainSubstring("denied request: access denied: "), ContainSubstring("the verb release on gates")))

// refuses tries all ways to write a source's status, and expects each to be refused because the right is missing.
func refuses(ctx context.Context, as client.Client, is, should *unstructured.Unstructured) {
	GinkgoHelper()
	refusesWith(ctx, as, is, should, withoutRight)
}

func refusesWith(ctx context.Context, as client.Client, is, should *unstructured.Unstructured, refusal OmegaMatcher) {
	GinkgoHelper()
	for _, forgery := range forgeries {
		Expect(forgery.write(ctx, as, is, should)).To(refusal, "%s of %s", forgery.name, key(is))
	}
}

// byStatusWrite makes an editor set GatesOpen=True on each source: with an artifact, in addition to gate-controller's
// condition, and alone. It does the same with RevisionPasses=True and ArtifactLost=True, and points the artifact that
// is published to another path.
func byStatusWrite(ctx context.Context, g *group, round int) []*unstructured.Unstructured {
	GinkgoHelper()
	editor := fluxEditor(ctx)
	sources := now(ctx, g.sources())
	// The policy that the API server evaluates first refuses the artifact.
	blocked := MatchError(ContainSubstring("denied request: new artifact blocked: "))
	refusal := Or(withoutRight, blocked)
	for _, source := range sources {
		forged := withArtifact(source, "forged-"+version(round))
		refusesWith(ctx, editor, source, withGatesOpen(forged, false, metav1.ConditionTrue, ""), refusal)
		refusesWith(ctx, editor, source, withGatesOpen(forged, true, metav1.ConditionTrue, ""), refusal)
		refuses(ctx, editor, source, withGatesOpen(source, false, metav1.ConditionTrue, ""))
		passes := "forged-" + version(round) + " until 2099-01-01T00:00:00Z"
		refusesWith(ctx, editor, source, withCondition(forged, gatingv1.RevisionPassesCondition, false, metav1.ConditionTrue, passes), refusal)
		refuses(ctx, editor, source, withCondition(source, gatingv1.RevisionPassesCondition, false, metav1.ConditionTrue, passes))
		lost := "forged-" + version(round) + "@sha256:" + strings.Repeat("0", 64) + " was lost"
		refusesWith(ctx, editor, source, withCondition(forged, gatingv1.ArtifactLostCondition, false, metav1.ConditionTrue, lost), refusal)
		refuses(ctx, editor, source, withCondition(source, gatingv1.ArtifactLostCondition, false, metav1.ConditionTrue, lost))
		if _, published, _ := unstructured.NestedMap(source.Object, "status", "artifact"); published {
			moved := source.DeepCopy()
			Expect(unstructured.SetNestedField(moved.Object, "forged.tar.gz", "status", "artifact", "path")).To(Succeed())
			refusesWith(ctx, editor, source, moved, blocked)
		}
	}
	return sources
}

var _ = Describe("The condition GatesOpen", func() {
	// open returns a source whose gates are open, and a function that returns its state.
	open := func(ctx context.Context, name string) (source *unstructured.Unstructured, gatesAre func(context.Context) (metav1.Condition, error)) {
		GinkgoHelper()
		turnGate(ctx, name, false)
		source = ungatedSource(ctx, name)
		annotate(ctx, source, "gating.toolkit.fluxcd.io/gates", name)
		gatesAre = condition(source, gatingv1.GatesOpenCondition)
		Eventually(ctx, gatesAre).Should(HaveField("Status", BeEquivalentTo("True")))
		return source, gatesAre
	}

	It("is made True, and changed while it is, by gate-controller alone", func(ctx SpecContext) {
		editor := fluxEditor(ctx)
		source, gatesAre := open(ctx, "reworded")
		is := now(ctx, []*unstructured.Unstructured{source})[0]
		refuses(ctx, editor, is, withGatesOpen(is, false, metav1.ConditionTrue, "forged"))
		Expect(gatesAre(ctx)).To(HaveField("Message", Not(ContainSubstring("forged"))))
	})

	It("is not made True before a source has gates", func(ctx SpecContext) {
		editor := fluxEditor(ctx)
		source := ungatedSource(ctx, "forged-early")
		is := now(ctx, []*unstructured.Unstructured{source})[0]
		refuses(ctx, editor, is, withGatesOpen(is, false, metav1.ConditionTrue, ""))
	})

	It("is not made True by a tenant who is an administrator of the source's namespace only", func(ctx SpecContext) {
		tenant := serviceAccount(ctx, "tenant", "cluster-admin")
		source, _ := open(ctx, "forged-by-tenant")
		is := now(ctx, []*unstructured.Unstructured{source})[0]
		refuses(ctx, tenant, is, withGatesOpen(is, false, metav1.ConditionTrue, "forged"))
	})

	It("is made False or removed by everyone who may write the status, and corrected again", func(ctx SpecContext) {
		editor := fluxEditor(ctx)
		source, gatesAre := open(ctx, "forged-closed")
		for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, ""} {
			for _, forgery := range forgeries {
				is := now(ctx, []*unstructured.Unstructured{source})[0]
				Expect(forgery.write(ctx, editor, is, withGatesOpen(is, false, status, "closed by hand"))).To(Succeed(), forgery.name)
				Eventually(ctx, gatesAre).Should(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Message", Not(Equal("closed by hand")))))
			}
		}
	})

	It("exists once, so none stays True beside the one that gate-controller sets to False", func(ctx SpecContext) {
		editor := fluxEditor(ctx)
		source, _ := open(ctx, "forged-twice")
		for _, forgery := range forgeries {
			is := now(ctx, []*unstructured.Unstructured{source})[0]
			Expect(forgery.write(ctx, editor, is, withGatesOpen(is, true, metav1.ConditionFalse, "beside"))).
				To(MatchError(ContainSubstring("denied request: access denied: ")), forgery.name)
		}
	})

	It("is kept by everyone who writes other parts of the status", func(ctx SpecContext) {
		editor := fluxEditor(ctx)
		source, _ := open(ctx, "forged-other")
		for _, forgery := range forgeries {
			is := now(ctx, []*unstructured.Unstructured{source})[0]
			should := withArtifact(is, forgery.name)
			Expect(forgery.write(ctx, editor, is, should)).To(Succeed(), forgery.name)
		}
	})
})
