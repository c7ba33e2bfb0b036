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
package application_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
)

// decode takes the state of an object, written as YAML.
func decode(t *testing.T, object, expr string) application.State {
	t.Helper()
	g := NewWithT(t)
	json, err := yaml.YAMLToJSON([]byte(object))
	g.Expect(err).NotTo(HaveOccurred())
	obj := &unstructured.Unstructured{}
	g.Expect(obj.UnmarshalJSON(json)).To(Succeed())
	decoded, err := application.NewDecoder(obj.GroupVersionKind(), expr).Decode(json)
	g.Expect(err).NotTo(HaveOccurred())
	return decoded.State
}

const monorepo = `{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {namespace: prod, name: shop, generation: 2},
	spec: {images: [{name: shop, newTag: 1.2.0}], postBuild: {substitute: {version: 7.0.1, port: 8080}}, path: ./prod},
	status: {observedGeneration: 2, lastAppliedRevision: main@sha1:a, conditions: [{type: Ready, status: "True"}]}}`

func TestAnExpressionFindsTheRevision(t *testing.T) {
	for _, test := range []struct{ name, object, expr, want string }{
		{"the tag that a Kustomization sets", monorepo, "object.spec.images[0].newTag", "1.2.0"},
		{"a variable that it substitutes", monorepo, "object.spec.postBuild.substitute.version", "7.0.1"},
		{"one of several images, by its name", monorepo, "object.spec.images.filter(i, i.name == 'shop')[0].newTag", "1.2.0"},
		{"a field that may be missing, and another in its place", monorepo, "object.?spec.?version.orValue(object.status.lastAppliedRevision)", "main@sha1:a"},
		{"the tag of a Deployment's image", deployment, "object.spec.template.spec.containers[0].image.split(':')[1]", "1.2.0"},
		{"what follows the last colon", deployment, "object.spec.template.spec.containers[0].image.substring(object.spec.template.spec.containers[0].image.lastIndexOf(':') + 1)", "1.2.0"},
		{"nothing yet", monorepo, "object.?spec.?version.orValue('')", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			state := decode(t, test.object, test.expr)
			g.Expect(state.Message).To(BeEmpty())
			g.Expect(state).To(And(HaveField("Known", true), HaveField("Ready", true), HaveField("Revision", test.want)))
		})
	}
}

func TestATargetIsUnknownWhereTheExpressionMakesNoRevision(t *testing.T) {
	long := strings.Repeat("x", 5000)
	object := `{apiVersion: example.com/v1, kind: App, metadata: {name: app}, spec: {version: 7, long: ` + long + `, longer: ` + long[:501] + `, words: two words, line: "a\nb"}}`
	for _, test := range []struct{ name, object, expr, why string }{
		{"of a field that is missing", object, "object.spec.missing", "no such key: missing"},
		{"of a number", object, "object.spec.version", "it evaluated to type int, but must be a string"},
		{"of several words", object, "object.spec.words", "the revision from the expression is not one word"},
		{"of several lines", object, "object.spec.line", "the revision from the expression is not one word"},
		{"longer than any revision", object, "object.spec.longer", "the revision from the expression is too long"},
		{"of a text that is too long to look at", object, "object.spec.long", "it evaluated to type null_type, but must be a string"},
		{"which takes too long to find", object, "[1,2,3,4,5,6,7,8,9].map(a, [1,2,3,4,5,6,7,8,9].map(b, [1,2,3,4,5,6,7,8,9].map(c, [1,2,3,4,5,6,7,8,9].map(d, object)))).size() > 0 ? 'a' : 'b'", "actual cost limit exceeded"},
		{"of an object that is too large", `{apiVersion: example.com/v1, kind: App, spec: {long: ` + strings.Repeat("x", 1<<20) + `}}`, "object.kind", "the object is larger than 1024 KiB"},
		{"which takes many pieces to find", object, "[1,2,3,4,5,6,7,8,9].map(a, [1,2,3,4,5,6,7,8,9].map(b, object.spec.longer.split(''))).size() > 0 ? 'a' : 'b'", "actual cost limit exceeded"},
		{"by something that is no expression", object, "object.", "Syntax error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			state := decode(t, test.object, test.expr)
			g.Expect(state).To(And(HaveField("Known", false), HaveField("Revision", ""), HaveField("Reason", pipelinesv1.RevisionExpressionFailedReason)))
			g.Expect(state.Message).To(And(HavePrefix("spec.revision.expr: "), ContainSubstring(test.why)))
		})
	}
}

func TestAnExpressionIsRefused(t *testing.T) {
	for _, test := range []struct{ name, expr, why string }{
		{"that can't be parsed", "object.spec.", "Syntax error"},
		{"that uses what is not there", "secret.data", "undeclared reference to 'secret'"},
		{"that can't make a string", "object.spec == 1", "it evaluates to type bool, but must be a string"},
		{"that may make more text than there is memory", "object.kind.replace('', object.kind)", "function replace is not available"},
		{"that may take for ever to match", "object.a.matches(object.b) ? 'a' : 'b'", "function matches is not available"},
		{"that joins texts", "['a', 'b'].join(',')", "function join is not available"},
		{"that adds texts", "object.kind + 'a'", "adding anything but integers is not available"},
		{"that takes itself for a macro", "[object.a].map(a, __result__ + __result__)[0]", "undeclared reference"},
		{"that adds lists", "[[1]].map(l, l + l)[0] == [1] ? 'a' : 'b'", "adding anything but integers is not available"},
		{"that adds what may be a text", "[object.a].map(a, a + a)[0]", "adding anything but integers is not available"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := application.CompileRevision(test.expr)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(test.why)))
		})
	}
}

const deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: prod, name: shop, generation: 2},
	spec: {replicas: 1, template: {spec: {containers: [{name: shop, image: "registry.example.com/shop:1.2.0"}]}}},
	status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: "True"}]}}`

func TestAWorkloadIsReadyAsKstatusSays(t *testing.T) {
	for _, test := range []struct {
		name, object       string
		ready, reconciling bool
	}{
		{"all its pods are available", deployment, true, false},
		{"a rollout has yet to be observed", strings.Replace(deployment, "generation: 2", "generation: 3", 1), false, true},
		{"a pod is not available yet", strings.Replace(deployment, "availableReplicas: 1", "availableReplicas: 0", 1), false, true},
		{"the rollout has taken too long", strings.Replace(deployment, `[{type: Available, status: "True"}]`, `[{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]`, 1), false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			state := decode(t, test.object, "object.spec.template.spec.containers[0].image.split(':')[1]")
			g.Expect(state).To(And(HaveField("Revision", "1.2.0"), HaveField("Ready", test.ready), HaveField("Reconciling", test.reconciling)))
			g.Expect(state.Message == "").To(Equal(test.ready), state.Message)
		})
	}
}
