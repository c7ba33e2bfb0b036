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

package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// fix is the commit of an urgent fix.
var fix = "sha1:" + strings.Repeat("f", 40)

// byTwo requires two people for a pass.
func byTwo(gate *gatingv1.Gate) { gate.Spec.Passes = &gatingv1.Passes{Required: 2} }

// passBy is a pass of the gate change-freeze.
func passBy(by, rev string, expires time.Duration) *gatingv1.GatePass {
	pass := &gatingv1.GatePass{Spec: gatingv1.GatePassSpec{Revision: rev, Expires: *at(expires), GrantedBy: by, Reason: "INC-4711"}}
	pass.Namespace, pass.Name, pass.Spec.GateRef.Name = "flux-system", "change-freeze-"+by, "change-freeze"
	return pass
}

// imageUpdates returns an ImageUpdateAutomation with the gate change-freeze.
func imageUpdates(t *testing.T) client.Object {
	t.Helper()
	automation := sourceOf(t, `{kind: ImageUpdateAutomation, metadata: {namespace: flux-system, name: app, annotations: {gating.toolkit.fluxcd.io/gates: change-freeze}}}`, "")
	automation.(*unstructured.Unstructured).SetAPIVersion(gatingv1.ImageGroupVersion.String())
	return automation
}

func TestPassGate(t *testing.T) {
	closedGate := newGate("flux-system", "change-freeze", frozen)
	gatedApp := waiting(gated)
	gatedApp.Spec.Promotion.Gates = &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"change-freeze"}}
	onMain := func(revision string) client.Object {
		return sourceOf(t, `{kind: GitRepository, metadata: {namespace: flux-system, name: app}, spec: {ref: {branch: main}, gates: {refs: [change-freeze]}},
			status: {artifact: {revision: "`+revision+`"}}}`, "")
	}
	const (
		start = `► granting a pass of gate change-freeze in flux-system namespace
`
		until = `  until:          Mon 2026-05-04 14:00 UTC
`
		revoke = `  to revoke it:   kubectl -n flux-system delete gatepass NAME
`
	)
	refuse := func(kind client.ObjectList) func(string, any) error {
		return func(verb string, obj any) error {
			if _, same := obj.(*gatingv1.GatePassList); same && verb == "list" && kind != nil {
				return forbidden("gatepasses", "", `User "ada" cannot list resource`)
			}
			return nil
		}
	}

	for _, tt := range []struct {
		name    string
		command string
		objects []client.Object
		refuse  func(string, any) error
		want    string
		wantErr string
		// wantRevision is that of the pass, if one is made.
		wantRevision string
		wantExpires  time.Duration
	}{
		{
			name:         "a fix passes for two hours, and the command prints what gets it",
			command:      "flux-pass gate change-freeze --reason INC-4711 --revision main@" + fix,
			objects:      []client.Object{closedGate, onMain("main@sha1:" + strings.Repeat("a", 40))},
			wantRevision: "main@" + fix,
			wantExpires:  2 * time.Hour,
			want: start + "  revision:       main@" + fix + "\n" + until + `  source:         GitRepository/flux-system/app: runs main@sha1:aaaaaaaa, and gets this revision only if branch main resolves to it
✔ pass granted by ada
` + revoke,
		},
		{
			name:         "a whole commit is completed to a digest",
			command:      "flux-pass gate change-freeze --reason INC-4711 --for 30m --revision " + fix[len("sha1:"):],
			objects:      []client.Object{closedGate, onMain("main@" + fix)},
			wantRevision: fix,
			wantExpires:  30 * time.Minute,
			want: start + "  revision:       " + fix + `
  until:          Mon 2026-05-04 12:30 UTC
  source:         GitRepository/flux-system/app: already runs this revision
✔ pass granted by ada
` + revoke,
		},
		{
			name:    "sources that follow something else, or that another gate holds too, are printed",
			command: "flux-pass gate change-freeze --reason INC-4711 --revision v1.0.1@" + fix,
			objects: []client.Object{
				closedGate, onMain(""),
				sourceOf(t, `{kind: GitRepository, metadata: {namespace: flux-system, name: by-tag}, spec: {ref: {tag: v1.0.1}, gates: {refs: [change-freeze, sign-off]}}}`, ""),
				sourceOf(t, `{kind: GitRepository, metadata: {namespace: flux-system, name: one-is-enough}, spec: {ref: {tag: v1.0.1}, gates: {require: oneOf, refs: [change-freeze, sign-off]}}}`, ""),
				sourceOf(t, `{kind: GitRepository, metadata: {namespace: flux-system, name: pinned}, spec: {ref: {branch: main, commit: `+strings.Repeat("b", 40)+`}, gates: {refs: [change-freeze]}}}`, ""),
				sourceOf(t, `{kind: HelmChart, metadata: {namespace: flux-system, name: inherits, annotations: {gating.toolkit.fluxcd.io/gates: own, gating.toolkit.fluxcd.io/inherited-gates: change-freeze}}, spec: {version: 1.x}}`, ""),
			},
			wantRevision: "v1.0.1@" + fix,
			wantExpires:  2 * time.Hour,
			want: start + "  revision:       v1.0.1@" + fix + "\n" + until + `  source:         GitRepository/flux-system/app: has no artifact and stays held: it follows branch main
  source:         GitRepository/flux-system/by-tag: has no artifact, and gets this revision only if tag v1.0.1 resolves to it; also needs sign-off
  source:         GitRepository/flux-system/one-is-enough: has no artifact, and gets this revision only if tag v1.0.1 resolves to it
  source:         GitRepository/flux-system/pinned: has no artifact and stays held: it follows commit sha1:bbbbbbbb
  source:         HelmChart/flux-system/inherits: has no artifact, and gets this revision only if version 1.x resolves to it; also needs own
✔ pass granted by ada
` + revoke,
		},
		{
			name:         "the promotion that waits with the revision is printed",
			command:      "flux-pass gate change-freeze --reason INC-4711 --revision " + current,
			objects:      []client.Object{closedGate, gatedApp},
			wantRevision: current,
			wantExpires:  2 * time.Hour,
			want: start + "  revision:       " + current + "\n" + until + `  promotion:      Pipeline/flux-system/app: staging: does not wait
  promotion:      Pipeline/flux-system/app: prod: waits to promote this revision
✔ pass granted by ada
` + revoke,
		},
		{
			name:         "so is one that waits with another",
			command:      "flux-pass gate change-freeze --reason INC-4711 --revision " + next,
			objects:      []client.Object{closedGate, gatedApp},
			wantRevision: next,
			wantExpires:  2 * time.Hour,
			want: start + "  revision:       " + next + "\n" + until + `  promotion:      Pipeline/flux-system/app: staging: does not wait
  promotion:      Pipeline/flux-system/app: prod: waits to promote v1.2.3@sha1:cccccccc, which stays held
✔ pass granted by ada
` + revoke,
		},
		{
			name:         "the first of two people sees that another one is needed",
			command:      "flux-pass gate change-freeze --reason INC-4711 --revision " + fix,
			objects:      []client.Object{newGate("flux-system", "change-freeze", frozen, byTwo), passBy("bob", "main@"+fix, time.Hour), passBy("eve", fix, -time.Hour)},
			wantRevision: fix,
			wantExpires:  2 * time.Hour,
			want: start + "  revision:       " + fix + "\n" + until + `⚠️ no source and no pipeline names the gate
✔ pass granted by ada
◎ 1 of 2 people have granted it; another person must run: flux pass gate change-freeze -n flux-system --revision ` + fix + ` --reason TEXT
⚠️ bob has granted main@` + fix + `, which is counted separately: everyone must use the same --revision
` + revoke,
		},
		{
			name:         "the second of two people completes it",
			command:      "flux-pass gate change-freeze --reason INC-4711 --revision " + fix,
			objects:      []client.Object{newGate("flux-system", "change-freeze", frozen, byTwo), passBy("bob", fix, time.Hour)},
			wantRevision: fix,
			wantExpires:  2 * time.Hour,
			want: start + "  revision:       " + fix + "\n" + until + `⚠️ no source and no pipeline names the gate
✔ pass granted by ada
✔ 2 of 2 people have granted it: bob, ada
` + revoke,
		},
		{
			name:         "one person counts once",
			command:      "flux-pass gate change-freeze --reason INC-4711 --revision " + fix,
			objects:      []client.Object{newGate("flux-system", "change-freeze", frozen, byTwo), passBy("ada", fix, time.Hour)},
			wantRevision: fix,
			wantExpires:  2 * time.Hour,
			want: start + "  revision:       " + fix + "\n" + until + `⚠️ no source and no pipeline names the gate
✔ pass granted by ada
◎ 1 of 2 people have granted it; another person must run: flux pass gate change-freeze -n flux-system --revision ` + fix + ` --reason TEXT
` + revoke,
		},
		{
			name:         "a user who may not list passes sees how many people are needed",
			command:      "flux-pass gate change-freeze --reason INC-4711 --revision " + fix,
			objects:      []client.Object{newGate("flux-system", "change-freeze", frozen, byTwo), passBy("bob", fix, time.Hour)},
			refuse:       refuse(&gatingv1.GatePassList{}),
			wantRevision: fix,
			wantExpires:  2 * time.Hour,
			want: start + "  revision:       " + fix + "\n" + until + `⚠️ you may not list GatePass in flux-system namespace
✔ pass granted by ada
◎ 2 people must grant it; each of them must run: flux pass gate change-freeze -n flux-system --revision ` + fix + ` --reason TEXT
` + revoke,
		},
		{
			name:         "the version of a chart is a whole revision",
			command:      "flux-pass gate change-freeze --reason INC-4711 --revision 1.2.4",
			objects:      []client.Object{closedGate, sourceOf(t, `{kind: HelmChart, metadata: {namespace: flux-system, name: app, annotations: {gating.toolkit.fluxcd.io/gates: change-freeze}}, status: {artifact: {revision: 1.2.3}}}`, "")},
			wantRevision: "1.2.4",
			wantExpires:  2 * time.Hour,
			want: start + "  revision:       1.2.4\n" + until + `  source:         HelmChart/flux-system/app: runs 1.2.3
✔ pass granted by ada
` + revoke,
		},
		{
			name:    "objects to which no pass applies are printed",
			command: "flux-pass gate change-freeze --reason INC-4711 --revision " + fix,
			objects: []client.Object{
				closedGate,
				sourceOf(t, `{kind: ExternalArtifact, metadata: {namespace: flux-system, name: prod, annotations: {gating.toolkit.fluxcd.io/gates: change-freeze}}}`, ""),
				imageUpdates(t),
			},
			wantRevision: fix,
			wantExpires:  2 * time.Hour,
			want: start + "  revision:       " + fix + "\n" + until + `  source:         ExternalArtifact/flux-system/prod: stays held: passes do not apply to kind ExternalArtifact
  source:         ImageUpdateAutomation/flux-system/app: stays held: passes do not apply to kind ImageUpdateAutomation
✔ pass granted by ada
` + revoke,
		},
		{
			name:    "a branch or tag alone is refused",
			command: "flux-pass gate change-freeze --reason INC-4711 --revision main",
			objects: []client.Object{closedGate, onMain("")},
			wantErr: "--revision main has no digest: a branch or tag can move, so name the commit or digest, such as main@sha1:… or sha1:…",
		},
		{
			name:    "a commit as Git abbreviates it is refused",
			command: "flux-pass gate change-freeze --reason INC-4711 --revision 2e5d000",
			objects: []client.Object{closedGate, onMain("")},
			wantErr: "--revision 2e5d000 is abbreviated: name the whole commit or digest",
		},
		{
			name:    "an abbreviated commit is refused",
			command: "flux-pass gate change-freeze --reason INC-4711 --revision main@sha1:ffffffff",
			wantErr: "--revision main@sha1:ffffffff is abbreviated: name the whole commit or digest",
		},
		{
			name:    "an open gate needs no pass",
			command: "flux-pass gate change-freeze --reason INC-4711 --revision " + fix,
			objects: []client.Object{newGate("flux-system", "change-freeze")},
			wantErr: "gate change-freeze is open: it holds nothing that needs a pass",
		},
		{
			name:    "the error for a missing gate names the existing ones",
			command: "flux-pass gate freeze --reason INC-4711 --revision " + fix,
			objects: []client.Object{closedGate},
			wantErr: "gate freeze not found in flux-system namespace, which has: change-freeze",
		},
		{
			name:    "a revision is asked for",
			command: "flux-pass gate change-freeze --reason INC-4711",
			wantErr: "--revision is required: the only revision that may pass",
		},
		{
			name:    "a reason is asked for",
			command: "flux-pass gate change-freeze --revision " + fix,
			wantErr: "--reason is required: say why this revision may pass",
		},
		{
			name:    "a reason without visible characters is none",
			command: "flux-pass gate change-freeze --reason \u200b --revision " + fix,
			wantErr: "--reason is required: say why this revision may pass",
		},
		{
			name:    "no time is too short",
			command: "flux-pass gate change-freeze --reason INC-4711 --for 0s --revision " + fix,
			wantErr: "--for must be between 1s and 168h, such as 2h",
		},
		{
			name:    "more than a week is too long",
			command: "flux-pass gate change-freeze --reason INC-4711 --for 168h1s --revision " + fix,
			wantErr: "--for must be between 1s and 168h, such as 2h",
		},
		{
			name:    "a user who may not let it pass gets the API server's error",
			command: "flux-pass gate change-freeze --reason INC-4711 --revision " + fix,
			objects: []client.Object{closedGate},
			refuse: func(verb string, obj any) error {
				if _, ok := obj.(*gatingv1.GatePass); ok && verb == "create" {
					return errors.New("ada may not let revisions pass Gate flux-system/change-freeze")
				}
				return nil
			},
			want:    start + "  revision:       " + fix + "\n" + until + "⚠️ no source and no pipeline names the gate\n",
			wantErr: "granting the pass failed: ada may not let revisions pass Gate flux-system/change-freeze",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			var made *gatingv1.GatePass
			world := cluster{objects: tt.objects, refuse: tt.refuse, after: func(_ context.Context, _ client.Client, obj client.Object) {
				g.Expect(made).To(BeNil())
				made = obj.(*gatingv1.GatePass)
			}}
			stdout, stderr, err := world.run(t, strings.Fields(tt.command)...)
			if tt.wantErr == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tt.wantErr))
			}
			g.Expect(stdout).To(BeEmpty())
			if tt.wantRevision == "" {
				g.Expect(made).To(BeNil())
				g.Expect(stderr).To(Equal(tt.want))
				return
			}
			g.Expect(stderr).To(Equal(strings.ReplaceAll(tt.want, "NAME", made.Name)))
			g.Expect(made.Name).To(HavePrefix("change-freeze-"))
			g.Expect(made.Spec.GateRef.Name).To(Equal("change-freeze"))
			g.Expect(made.Spec.Revision).To(Equal(tt.wantRevision))
			g.Expect(made.Spec.Expires.Time).To(BeTemporally("==", now.Add(tt.wantExpires)))
			g.Expect(made.Spec.GrantedBy).To(Equal("ada"))
			g.Expect(made.Spec.Reason).To(Equal("INC-4711"))
		})
	}
}

func TestRevisionsThatWaitForAGateAreCompleted(t *testing.T) {
	g := NewWithT(t)
	pipeline := waiting(gated, func(p *pipelinesv1.Pipeline) {
		p.Spec.Promotion.Gates = &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"change-freeze"}}
	})
	stdout, _, err := cluster{objects: []client.Object{newGate("flux-system", "change-freeze", frozen), pipeline}}.run(
		t, "flux-pass", "__complete", "gate", "change-freeze", "--revision", "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stdout).To(Equal(current + "\twaits in Pipeline/flux-system/app: prod\n:4\n"))
}
