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
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// labelled sets the labels and the condition Open of a gate.
func labelled(team string, open metav1.ConditionStatus) func(*gatingv1.Gate) {
	return func(gate *gatingv1.Gate) {
		gate.Labels = map[string]string{"team": team}
		gate.Status.Conditions = []metav1.Condition{{Type: "Open", Status: open}}
	}
}

func TestListFlags(t *testing.T) {
	gates := []client.Object{
		newGate("flux-system", "change-freeze", frozen, labelled("a", "False")),
		newGate("flux-system", "nightly", atNight, labelled("b", "True")),
		newGate("flux-system", "new"),
		newGate("team", "other", labelled("a", "True")),
	}
	const headings = "NAME            STATE    SINCE   UNTIL   HELD   REASON\n"
	const changeFreeze = "change-freeze   closed   3h      -       2      end of quarter\n"

	testCommands(t, []commandTest{
		{
			name:    "a name limits the list to one object",
			command: "flux-gate list change-freeze",
			objects: gates,
			wantOut: headings + changeFreeze,
		},
		{
			name:    "a name is found in all namespaces",
			command: "flux-gate list other -A --no-header",
			objects: gates,
			wantOut: "team   other   open   <unknown>   -     <unknown>   -\n",
		},
		{
			name:    "a name that does not exist is an error",
			command: "flux-gate list sign-off",
			objects: gates,
			wantErr: "gate sign-off not found in flux-system namespace",
		},
		{
			name:    "so is one that exists in another namespace",
			command: "flux-pipeline list app -n team",
			objects: []client.Object{waiting()},
			wantErr: "pipeline app not found in team namespace",
		},
		{
			name:    "labels select objects",
			command: "flux-gate list -l team=a",
			objects: gates,
			wantOut: headings + changeFreeze,
		},
		{
			name:    "labels that no object has are an error",
			command: "flux-gate list -l team=c",
			objects: gates,
			wantErr: "no gates found in flux-system namespace",
		},
		{
			name:    "an invalid label selector is refused",
			command: "flux-gate list -l a=b=c",
			wantErr: "--label-selector: found '=', expected: ',' or 'end of string'",
		},
		{
			name:    "a status selects objects, in any case",
			command: "flux-gate list --status-selector open=false",
			objects: gates,
			wantOut: headings + changeFreeze,
		},
		{
			name:    "a status excludes objects",
			command: "flux-gate list --status-selector Open!=False --no-header",
			objects: gates,
			wantOut: "" +
				"new       open   <unknown>   -                          <unknown>   -\n" +
				"nightly   open   <unknown>   Mon 2026-05-04 18:00 UTC   <unknown>   -\n",
		},
		{
			name:    "a status that no object has leaves the headings, as flux does",
			command: "flux-gate list --status-selector ready=true",
			objects: gates,
			wantOut: "NAME   STATE   SINCE   UNTIL   HELD   REASON\n",
		},
		{
			name:    "an invalid status selector is refused",
			command: "flux-gate list --status-selector ready",
			wantErr: "--status-selector must be a condition and its status, such as ready=false or ready!=true",
		},
		{
			name:    "a status selector has one of the statuses of conditions, not a label's syntax",
			command: "flux-gate list --status-selector ready==true",
			objects: gates,
			wantErr: "--status-selector must be a condition and its status, such as ready=false or ready!=true",
		},
		{
			name:    "names are printed for other programs",
			command: "flux-gate list -o name",
			objects: gates,
			wantOut: "gate.gating.toolkit.fluxcd.io/change-freeze\ngate.gating.toolkit.fluxcd.io/new\ngate.gating.toolkit.fluxcd.io/nightly\n",
		},
		{
			name:    "get also prints names",
			command: "flux-pipeline get app -o name",
			objects: []client.Object{waiting()},
			wantOut: "pipeline.pipelines.weave.works/app\n",
		},
		{
			name:    "one object is printed as YAML",
			command: "flux-gate list new -o yaml",
			objects: gates,
			wantOut: `
apiVersion: gating.toolkit.fluxcd.io/v1alpha1
kind: Gate
metadata:
  generation: 1
  name: new
  namespace: flux-system
  resourceVersion: "999"
spec:
  closed: false
status:
  held: 0
  heldPromotions: 0
  lost: 0
  pending: 0
  pipelines: 0
  refused: 0
  sources: 0
`,
		},
		{
			name:    "several are printed as a List",
			command: "flux-gate list -l team=b -o yaml",
			objects: gates,
			wantOut: `
apiVersion: v1
items:
- apiVersion: gating.toolkit.fluxcd.io/v1alpha1
  kind: Gate
  metadata:
    generation: 1
    labels:
      team: b
    name: nightly
    namespace: flux-system
    resourceVersion: "999"
  spec:
    closed: false
    closedDuring:
    - from: 0 20 * * *
      name: night
      timeZone: Europe/Berlin
      to: 0 8 * * *
  status:
    conditions:
    - lastTransitionTime: null
      message: ""
      reason: ""
      status: "True"
      type: Open
    held: 0
    heldPromotions: 0
    lost: 0
    pending: 0
    pipelines: 0
    refused: 0
    sources: 0
kind: List
metadata: {}
`,
		},
		{
			name:    "the wide list has further columns",
			command: "flux-gate list -o wide",
			objects: gates[:1],
			wantOut: `
NAME            STATE    SINCE   UNTIL   HELD   SOURCES   PIPELINES   TURNED BY   REASON
change-freeze   closed   3h      -       2      0         0           -           end of quarter
`,
		},
		{
			name:    "get prints the line of the wide list",
			command: "flux-gate get change-freeze -o wide",
			objects: gates,
			wantOut: `
NAME            STATE    SINCE   UNTIL   HELD   SOURCES   PIPELINES   TURNED BY   REASON
change-freeze   closed   3h      -       2      0         0           -           end of quarter
`,
		},
		{
			name:    "another format is refused",
			command: "flux-gate list -o table",
			objects: gates,
			wantErr: "--output must be json, name, wide or yaml",
		},
	})
}

func TestTheNameOfAListIsNotEmpty(t *testing.T) {
	for _, test := range []struct {
		command []string
		want    string
	}{
		// As of a variable of a script that is not set.
		{[]string{"flux-gate", "list", ""}, "gate name is required"},
		{[]string{"flux-gate", "sources", ""}, "gated source name is required"},
		{[]string{"flux-pipeline", "list", ""}, "pipeline name is required"},
		{[]string{"flux-pipeline", "events", ""}, "pipeline name is required"},
	} {
		t.Run(strings.Join(test.command, " "), func(t *testing.T) {
			_, _, err := cluster{unreachable: true}.run(t, test.command...)
			NewWithT(t).Expect(err).To(MatchError(test.want))
		})
	}
}

func TestTheListOfANamespaceSelectsGatesOfOthersToo(t *testing.T) {
	objects := []client.Object{
		newGate("flux-system", "change-freeze", frozen, labelled("a", "False")), newGate("team", "own"),
		promotedBy("team", "flux-system/change-freeze"), sourceOf(t, "{kind: Bucket, metadata: {namespace: team, name: c}, spec: {gates: {refs: [flux-system/gone]}}}", ""),
	}
	const changeFreeze = "flux-system/change-freeze   closed   3h    -     2     end of quarter\n"
	testCommands(t, []commandTest{
		{name: "by name", command: "flux-gate list change-freeze -n team --no-header", objects: objects, wantOut: changeFreeze},
		{name: "by namespace and name", command: "flux-gate list flux-system/change-freeze -n team --no-header", objects: objects, wantOut: changeFreeze},
		{name: "by labels", command: "flux-gate list -l team=a -n team --no-header", objects: objects, wantOut: changeFreeze},
		{name: "by status", command: "flux-gate list --status-selector open=false -n team --no-header", objects: objects, wantOut: changeFreeze},
	})
}

func TestStatesHaveColoursOnATerminal(t *testing.T) {
	objects := []client.Object{newGate("flux-system", "change-freeze", frozen), newGate("flux-system", "sign-off"), waiting()}
	for _, tt := range []struct {
		name     string
		command  string
		noColour string
		want     string
	}{
		{
			name:    "in lists",
			command: "flux-gate list --no-header",
			want: "change-freeze   \x1b[31mclosed\x1b[39m   3h          -     2           end of quarter\n" +
				"sign-off        \x1b[32mopen\x1b[39m     <unknown>   -     <unknown>   -\n",
		},
		{
			name:    "in trees",
			command: "flux-gate get sign-off",
			want:    "Gate/flux-system/sign-off: \x1b[32mopen\x1b[39m\n├── no source names it\n└── no pipeline names it\n",
		},
		{
			name:    "in the matrix of environments",
			command: "flux-pipeline list -o wide",
			want: "NAME   \x1b[39mdev\x1b[39m                            \x1b[39mstaging\x1b[39m                        \x1b[39mprod\x1b[39m\n" +
				"app    \x1b[32mv1.2.3@sha1:cccccccc Current\x1b[39m   \x1b[32mv1.2.3@sha1:cccccccc Current\x1b[39m   \x1b[33mv1.2.2@sha1:bbbbbbbb Waiting\x1b[39m\n",
		},
		{
			name:     "unless NO_COLOR is set",
			command:  "flux-gate get sign-off",
			noColour: "1",
			want:     "Gate/flux-system/sign-off: open\n├── no source names it\n└── no pipeline names it\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			t.Setenv("TERM", "xterm")
			t.Setenv("NO_COLOR", tt.noColour)
			stdout, _, err := cluster{objects: objects, colours: true}.run(t, strings.Fields(tt.command)...)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(stdout).To(Equal(tt.want))
		})
	}
}

func TestAWatchPrintsWhatChanges(t *testing.T) {
	g := NewWithT(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	open, closed := newGate("flux-system", "change-freeze"), newGate("flux-system", "change-freeze", frozen)
	open.ResourceVersion, closed.ResourceVersion = "1", "2"
	reads := []*gatingv1.Gate{open, open, closed}

	var out bytes.Buffer
	list := &gateListCommand{listCommand{cluster: &clusterFlags{outside: outside{isTerminal: func(any) bool { return false }, now: func() time.Time { return now }, watchInterval: time.Millisecond}}}}
	list.read = func(context.Context, client.Client, selection) (*table, error) {
		found := list.tableOf()
		list.add(found, reads[0].Name, reads[0])
		if reads = reads[1:]; len(reads) == 0 {
			interrupt()
		}
		return found, nil
	}
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	scheme, err := newScheme()
	g.Expect(err).NotTo(HaveOccurred())
	kube := withFields(fake.NewClientBuilder().WithScheme(scheme)).Build()
	show, err := list.cluster.newShow(cmd, kube, "", false)
	g.Expect(err).NotTo(HaveOccurred())

	g.Expect(list.follow(t.Context(), ctx, kube, selection{}, func(row) bool { return true }, show)).To(Succeed(), "an interrupt is no error")
	g.Expect(out.String()).To(Equal("" +
		"NAME            STATE   SINCE       UNTIL   HELD        REASON\n" +
		"change-freeze   open    <unknown>   -       <unknown>   -\n" +
		"change-freeze   closed   3h          -       2           end of quarter\n"))
}
