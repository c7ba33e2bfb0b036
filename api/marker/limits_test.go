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

package marker

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
)

// live returns the bytes in use after the last run of the garbage collector.
func live() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// mostLive returns by how many bytes the memory in use grew at most while do ran.
func mostLive(do func()) int64 {
	// The garbage collector, and with it the measurement, runs whenever the heap has grown a little.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	before := live()
	var most atomic.Int64
	var done atomic.Bool
	var watch func(struct{})
	watch = func(struct{}) {
		most.Store(max(most.Load(), live()))
		if !done.Load() {
			runtime.AddCleanup(new([16]byte), watch, struct{}{})
		}
	}
	watch(struct{}{})
	do()
	done.Store(true)
	return most.Load() - before
}

// exactly is set for a process with a stop-the-world garbage collector, which does not count objects that are allocated
// during a collection as live.
const exactly = "gcstoptheworld=1"

func TestSettingMarkersTakesNoMoreMemoryThanEstimated(t *testing.T) {
	if os.Getenv("GODEBUG") != exactly {
		measure := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		measure.Env = append(os.Environ(), "GODEBUG="+exactly)
		out, err := measure.CombinedOutput()
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), string(out))
		return
	}
	rep := func(s string) string { return strings.Repeat(s, (256<<10)/len(s)) }
	numbered := func(format string) string {
		var s strings.Builder
		for i := 0; s.Len() < 256<<10; i++ {
			fmt.Fprintf(&s, format, i)
		}
		return s.String()
	}
	for _, tt := range []struct{ name, list string }{
		{"items of nothing", rep("-\n")},
		{"items", rep("- a\n")},
		{"items in brackets", "[" + rep("a,") + "]"},
		{"pairs in brackets", "[" + rep("? a,") + "]"},
		{"keys in braces", "{" + rep("a,") + "}"},
		{"keys of nothing", rep(" :\n")},
		{"keys in a set", rep(" ?\n")},
		{"lists in a list", "[" + rep("[],") + "]"},
		{"deep lists", rep("- " + strings.Repeat("- ", 9000) + "a\n")},
		{"anchors", numbered("- &%x\n")},
		{"aliases", "- &a b\n" + rep("- *a\n")},
		{"tags", rep("- !a b\n")},
		{"documents", "\n" + rep("---\n")},
		{"documents that end", "\n" + rep("--- a\n...\n")},
		{"documents with anchors", "\n" + numbered("--- &%x\n- a\n")},
		{"comments behind values", rep("- a #\n")},
		{"comments above values", rep("#\n- a\n")},
		{"comments of differing depth", "- - - a\n" + rep(" #\n#\n") + "- b\n"},
		{"empty lines", rep("\n")},
		{"empty lines of YAML 1.1", rep("\u2028\n")},
		{"one long text", "- " + rep("x ")},
		{"one long text in quotes", `- "` + rep("x\n ") + `"`},
		{"one long text that looks like markers", "- '" + rep("$promotion") + "'"},
		{"one long comment", "#" + rep("x")},
		{"one long tag", "- !" + rep("x") + " a"},
		{"markers", "\n" + strings.Repeat("- v0 # {\"$promotion\": \"default:podinfo:prod\"}\n", maxMarkers-1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			in, out := expand("tag: «v0» # M!\nlist:\n"+tt.list+"\n", "v1")
			estimate, err := Memory(strings.NewReader(in))
			g.Expect(err).NotTo(HaveOccurred())
			var got []byte
			took := mostLive(func() { got, _, err = Set("app.yaml", []byte(in), prod, "v1") })
			g.Expect(took).To(BeNumerically("<", estimate))
			if err == nil && !strings.HasPrefix(tt.name, "markers") {
				g.Expect(string(got) == out).To(BeTrue(), "only the value is changed")
			}
		})
	}
}

func TestSetInALargeFile(t *testing.T) {
	g := NewWithT(t)
	var values strings.Builder
	values.WriteString("tag: «v1.0.0» # M!\n")
	for i := 0; ; i++ {
		service := fmt.Sprintf("service-%d:\n  # Built from the main branch.\n  image: registry.example.com/team/service-%[1]d:1.2.3\n"+
			"  resources:\n    limits:\n      memory: 128Mi\n  args: [--level, info]\n", i)
		if values.Len()+len(service) > MaxSize-20 {
			break
		}
		values.WriteString(service)
	}
	in, out := expand(values.String(), "v1.1.0")
	g.Expect(len(in)).To(And(BeNumerically(">", MaxSize-1000), BeNumerically("<=", MaxSize)))
	got, n, err := Set("values.yaml", []byte(in), prod, "v1.1.0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(n).To(Equal(1))
	g.Expect(string(got) == out).To(BeTrue(), "only the value is changed")
}

func TestWhatIsTooLargeIsRefused(t *testing.T) {
	const marked = "tag: v1.0.0 # M!\n"
	for _, tt := range []struct {
		name string
		file string
		err  string
	}{
		{"more bytes than allowed", marked + strings.Repeat("#", MaxSize), "app.yaml:1: the file has a marker and 8388661 bytes, more than the limit of 8388608: split the file"},
		{"a list of more items than allowed", marked + "list:\n" + strings.Repeat("-\n", MaxSize/4), "app.yaml:1: setting its markers may take 568 MiB of memory, more than the limit of 320 MiB: split the file"},
		{"a mapping with two values for each two bytes", marked + "map: {" + strings.Repeat("a,", MaxSize/8) + "}\n", "more than the limit of 320 MiB"},
		{"pairs without a blank", marked + "map: {" + strings.Repeat("'':,", MaxSize/8) + "}\n", "more than the limit of 320 MiB"},
		{"documents", marked + strings.Repeat("---\n", MaxSize/8), "more than the limit of 320 MiB"},
		{"comments that the parser would compare with thousands of levels each", marked + "list:\n" + strings.Repeat("- ", 9000) + "a\n" + strings.Repeat(" #\n#\n", 20_000) + "- b\n", "more than the limit of 320 MiB"},
		{"tags that a directive makes long", "%TAG !e! tag:" + strings.Repeat("e", 1<<20) + "\n---\n" + marked + "list:\n" + strings.Repeat("- !e!x\n", 1000), "more than the limit of 320 MiB"},
		{"UTF-16, where indicators take two bytes", "\xff\xfe#{\"$promotion\":\"default:podinfo:prod\"}\n", "the file is in UTF-16"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			in, _ := expand(tt.file, "")
			_, _, err := Set("app.yaml", []byte(in), prod, "v1.1.0")
			g.Expect(err).To(MatchError(ContainSubstring(tt.err)))
			listed := List([]byte(in), Key{}, "v1.1.0")
			g.Expect(listed).To(HaveLen(1))
			g.Expect(bytes.Contains([]byte(err.Error()), []byte(listed[0].Err.Error()))).To(BeTrue(), listed[0].Err.Error())
		})
	}
}
