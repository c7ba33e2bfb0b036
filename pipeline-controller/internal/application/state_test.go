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
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
)

func TestDecode(t *testing.T) {
	for _, test := range []struct {
		name, object string
		want         application.State
	}{
		{
			name: "a ready Kustomization runs its last applied revision",
			object: `{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {generation: 2},
				status: {observedGeneration: 2, lastAppliedRevision: "main@sha1:a", conditions: [{type: Ready, status: "True", observedGeneration: 2}]}}`,
			want: application.State{Known: true, Ready: true, Revision: "main@sha1:a"},
		},
		{
			name: "a Ready condition of an older generation does not count",
			object: `{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {generation: 3},
				status: {observedGeneration: 3, lastAppliedRevision: "main@sha1:a", conditions: [{type: Ready, status: "True", observedGeneration: 2}]}}`,
			want: application.State{Known: true, Revision: "main@sha1:a", Message: "the latest change is not reconciled yet"},
		},
		{
			name: "a status of an older generation does not count",
			object: `{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {generation: 3},
				status: {observedGeneration: 2, lastAppliedRevision: "main@sha1:a", conditions: [{type: Ready, status: "True"}]}}`,
			want: application.State{Known: true, Revision: "main@sha1:a", Message: "the latest change is not reconciled yet"},
		},
		{
			name: "an unready object says why",
			object: `{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {generation: 1},
				status: {observedGeneration: 1, conditions: [{type: Ready, status: "False", message: "build failed", observedGeneration: 1}]}}`,
			want: application.State{Known: true, Message: "build failed"},
		},
		{
			name:   "an object without status is known and runs nothing",
			object: `{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {generation: 1}}`,
			want:   application.State{Known: true, Message: "it has no Ready condition yet"},
		},
		{
			name: "a HelmRelease v2 runs the newest deployed chart of its history, not a failed upgrade",
			object: `{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, metadata: {generation: 1},
				status: {observedGeneration: 1, history: [{status: failed, chartVersion: 1.2.0}, {status: deployed, chartVersion: 1.1.0}, {status: superseded, chartVersion: 1.0.0}],
				conditions: [{type: Ready, status: "False", message: upgrade failed, observedGeneration: 1}]}}`,
			want: application.State{Known: true, Revision: "1.1.0", Message: "upgrade failed"},
		},
		{
			name: "a chart of an OCIRepository has the artifact's digest instead of the build that helm-controller derives from it",
			object: `{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, metadata: {generation: 1},
				status: {observedGeneration: 1, history: [{status: deployed, chartVersion: 6.5.4+0cdf2ab6ec12, ociDigest: "sha256:0cdf2ab6ec120000000000000000000000000000000000000000000000000000"}], conditions: [{type: Ready, status: "True"}]}}`,
			want: application.State{Known: true, Ready: true, Revision: "6.5.4@sha256:0cdf2ab6ec120000000000000000000000000000000000000000000000000000"},
		},
		{
			name: "one whose tag is no version is known by that",
			object: `{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, metadata: {generation: 1},
				status: {observedGeneration: 1, history: [{status: deployed, chartVersion: 6.5.4+0cdf2ab6ec12, ociDigest: "latest@sha256:0cdf2ab6ec120000000000000000000000000000000000000000000000000000"}], conditions: [{type: Ready, status: "True"}]}}`,
			want: application.State{Known: true, Ready: true, Revision: "latest@sha256:0cdf2ab6ec120000000000000000000000000000000000000000000000000000"},
		},
		{
			name: "a build of the chart's own is part of its version",
			object: `{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, metadata: {generation: 1},
				status: {observedGeneration: 1, history: [{status: deployed, chartVersion: 6.5.4+build.7, ociDigest: "sha256:0cdf2ab6ec120000000000000000000000000000000000000000000000000000"}], conditions: [{type: Ready, status: "True"}]}}`,
			want: application.State{Known: true, Ready: true, Revision: "6.5.4+build.7"},
		},
		{
			name: "a chart whose digest is not tracked is known by its version",
			object: `{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, metadata: {generation: 1},
				status: {observedGeneration: 1, history: [{status: deployed, chartVersion: 6.5.4, ociDigest: "sha256:0cdf2ab6ec120000000000000000000000000000000000000000000000000000"}], conditions: [{type: Ready, status: "True"}]}}`,
			want: application.State{Known: true, Ready: true, Revision: "6.5.4"},
		},
		{
			name: "a build beside something that is no digest is part of the version",
			object: `{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, metadata: {generation: 1},
				status: {observedGeneration: 1, history: [{status: deployed, chartVersion: 6.5.4+0cdf2ab6ec12, ociDigest: "0cdf2ab6ec12"}], conditions: [{type: Ready, status: "True"}]}}`,
			want: application.State{Known: true, Ready: true, Revision: "6.5.4+0cdf2ab6ec12"},
		},
		{
			name: "a HelmRelease v2beta2 runs its last applied revision",
			object: `{apiVersion: helm.toolkit.fluxcd.io/v2beta2, kind: HelmRelease, metadata: {generation: 1},
				status: {observedGeneration: 1, lastAppliedRevision: 1.1.0, conditions: [{type: Ready, status: "True"}]}}`,
			want: application.State{Known: true, Ready: true, Revision: "1.1.0"},
		},
		{
			name: "a kind that observes no generation is taken at its word",
			object: `{apiVersion: infra.contrib.fluxcd.io/v1alpha2, kind: Terraform, metadata: {generation: 4},
				status: {lastAppliedRevision: "main@sha1:b", conditions: [{type: Ready, status: "True"}]}}`,
			want: application.State{Known: true, Ready: true, Revision: "main@sha1:b"},
		},
		{
			name: "a hostile status is read as not ready",
			object: `{apiVersion: example.com/v1, kind: Odd, metadata: {generation: 1},
				status: {lastAppliedRevision: 7, observedGeneration: "x", conditions: [7, {type: Ready, status: True}]}}`,
			want: application.State{Known: true, Message: "not ready"},
		},
		{
			name: "a message gives no orders to the terminal that it is shown on, and is one line",
			object: `{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {generation: 1},
				status: {observedGeneration: 1, lastAppliedRevision: "main@sha1:a", conditions: [{type: Ready, status: "False", message: "\e[2Jhealth check failed:\n✔ all is well\u202e"}]}}`,
			want: application.State{Known: true, Revision: "main@sha1:a", Message: "[2Jhealth check failed: ✔ all is well"},
		},
		{
			name: "a controller at work on an object says so, and it isn't ready meanwhile",
			object: `{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {generation: 2},
				status: {observedGeneration: 2, lastAppliedRevision: main@sha1:a, conditions: [{type: Ready, status: Unknown, message: Reconciliation in progress}]}}`,
			want: application.State{Known: true, Reconciling: true, Revision: "main@sha1:a", Message: "Reconciliation in progress"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			json, err := yaml.YAMLToJSON([]byte(test.object))
			g.Expect(err).NotTo(HaveOccurred())
			obj := &unstructured.Unstructured{}
			g.Expect(obj.UnmarshalJSON(json)).To(Succeed())
			decoded, err := application.NewDecoder(obj.GroupVersionKind(), "").Decode(json)
			g.Expect(err).NotTo(HaveOccurred())
			state := decoded.State
			g.Expect(state.Object).To(Equal(corev1.ObjectReference{APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind()}))
			state.Object = corev1.ObjectReference{}
			g.Expect(state).To(Equal(test.want))
		})
	}
}

func TestARevisionThatIsNoneIsNotTaken(t *testing.T) {
	for _, test := range []struct{ name, revision, why string }{
		{"one that is too long", strings.Repeat("v", 501), "the revision in its status is too long"},
		{"a sentence", "v1 is broken, call 555-0100", "the revision in its status is not one word"},
		{"one with a line end", "v1\nSluice-Environment: prod", "the revision in its status is not one word"},
		{"one that gives orders to a terminal", "v1\x1b[2J", "the revision in its status is not one word"},
		{"one that is read in another order", "v1\u202e", "the revision in its status is not one word"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			json, err := json.Marshal(map[string]any{"status": map[string]any{"lastAppliedRevision": test.revision}})
			g.Expect(err).NotTo(HaveOccurred())
			decoded, err := application.NewDecoder(schema.GroupVersionKind{}, "").Decode(json)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(decoded.State).To(Equal(application.Unknown(test.why)))
		})
	}
}
