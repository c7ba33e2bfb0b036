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
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

func TestGateCalendar(t *testing.T) {
	weekend := newGate("flux-system", "weekend", func(gate *gatingv1.Gate) {
		gate.Spec.ClosedDuring = []gatingv1.Window{
			{Name: "weekend", From: "15 15 * * 5", To: "0 7 * * 1", TimeZone: "Europe/Berlin"},
			{Name: "lunch", From: "0 12 5 3 *", To: "0 13 5 3 *", TimeZone: "Europe/Berlin"},
		}
	})
	testCommands(t, []commandTest{
		{
			name:    "calendar draws a month, whose clocks skip an hour",
			command: "flux-gate calendar weekend --month 2026-03",
			objects: []client.Object{weekend},
			wantOut: `
Gate/flux-system/weekend in March 2026 (Europe/Berlin)
        0     3     6     9     12    15    18    21
Sun 1   ████████████████████████████████████████████████
Mon 2   ██████████████··································  opens 07:00
Tue 3   ················································
Wed 4   ················································
Thu 5   ························██······················  closes 12:00, opens 13:00
Fri 6   ······························▒█████████████████  closes 15:15
Sat 7   ████████████████████████████████████████████████
Sun 8   ████████████████████████████████████████████████
Mon 9   ██████████████··································  opens 07:00
Tue 10  ················································
Wed 11  ················································
Thu 12  ················································
Fri 13  ······························▒█████████████████  closes 15:15
Sat 14  ████████████████████████████████████████████████
Sun 15  ████████████████████████████████████████████████
Mon 16  ██████████████··································  opens 07:00
Tue 17  ················································
Wed 18  ················································
Thu 19  ················································
Fri 20  ······························▒█████████████████  closes 15:15
Sat 21  ████████████████████████████████████████████████
Sun 22  ████████████████████████████████████████████████
Mon 23  ██████████████··································  opens 07:00
Tue 24  ················································
Wed 25  ················································
Thu 26  ················································
Fri 27  ······························▒█████████████████  closes 15:15
Sat 28  ████████████████████████████████████████████████
Sun 29  ████  ██████████████████████████████████████████
Mon 30  ██████████████··································  opens 07:00
Tue 31  ················································
· open   █ closed   ▒ both
`,
		},
		{
			name:    "calendar accepts a month and no day",
			command: "flux-gate calendar weekend --month 2026-03-01",
			objects: []client.Object{weekend},
			wantErr: "--month must be a year and a month, such as 2026-12",
		},
		{
			name:    "calendar finds no gate of another name",
			command: "flux-gate calendar weekday",
			objects: []client.Object{weekend},
			wantErr: "gate weekday not found in flux-system namespace, which has: weekend",
		},
	})
}

func TestACalendarFitsIntoALine(t *testing.T) {
	for _, test := range []struct{ name, from, to, want string }{
		{"of a gate that turns all the time", "* * * * *", "*/2 * * * *", "the gate"},
		{"of a gate that turns each hour", "0 * * * *", "30 * * * *", "…"},
		{"of a gate whose windows never happen", "0 0 30 2 *", "0 0 1 3 *", "window w is invalid: from never happens"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			gate := newGate("flux-system", "busy", func(gate *gatingv1.Gate) {
				gate.Spec.OpenDuring = []gatingv1.Window{{Name: "w", From: gatingv1.WallClock(test.from), To: gatingv1.WallClock(test.to)}}
			})
			out, _, err := cluster{objects: []client.Object{gate}}.run(t, "flux-gate", "calendar", "busy")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(out).To(ContainSubstring(test.want))
			for line := range strings.Lines(out) {
				g.Expect(utf8.RuneCountInString(line)).To(BeNumerically("<=", 101), line)
			}
		})
	}
}

func TestMonthsAreCompleted(t *testing.T) {
	g := NewWithT(t)
	out, _, err := cluster{unreachable: true}.run(t, "flux-gate", "__complete", "calendar", "--month", "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(HavePrefix("2026-05\n2026-06\n"))
	g.Expect(strings.Count(out, "\n")).To(Equal(13))
}
