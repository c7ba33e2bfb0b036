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

package scale

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// figure is a measured value. Figures of two runs are the same if their name and size are.
type figure struct {
	// Name says what was measured, and its unit.
	Name string `json:"name"`
	// Size is what there was, such as "1,000 pipelines", or "" if that does not matter.
	Size  string  `json:"size,omitempty"`
	Value float64 `json:"value"`
	// Budget is the highest value that is good, or nil.
	Budget *float64 `json:"budget,omitempty"`
}

// report is the result of a run.
type report struct {
	Time    time.Time `json:"time"`
	Machine string    `json:"machine"`
	Figures []figure  `json:"figures"`
}

func newReport() *report {
	return &report{Time: time.Now().UTC().Truncate(time.Second), Machine: machine()}
}

// machine describes the machine that everything runs on: the control plane, the controllers and the benchmark.
func machine() string {
	model := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d cores of %s, %s, %s", runtime.NumCPU(), model, runtime.GOOS, runtime.Version())
}

// add adds a figure without a budget.
func (r *report) add(size, name string, value float64) {
	r.Figures = append(r.Figures, figure{Name: name, Size: size, Value: value})
}

// within adds a figure with a budget.
func (r *report) within(size, name string, value, budget float64) {
	r.Figures = append(r.Figures, figure{Name: name, Size: size, Value: value, Budget: &budget})
}

// ranks adds the median, the 90th and 99th percentiles and the maximum of times, in milliseconds. Budgets maps a rank
// to its budget.
func (r *report) ranks(size, name string, times []time.Duration, budgets map[string]float64) {
	times = slices.Sorted(slices.Values(times))
	for _, p := range []struct {
		name string
		part float64
	}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"last", 1}} {
		value, name := float64(rank(times, p.part).Microseconds())/1000, name+": "+p.name+", ms"
		if budget, ok := budgets[p.name]; ok {
			r.within(size, name, value, budget)
		} else {
			r.add(size, name, value)
		}
	}
}

// write writes the report to a file, as JSON.
func (r *report) write(path string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(content, '\n'), 0o600)
}

// table returns the report as a table. Before is an earlier report to compare it with, or nil. What exceeds its budget
// is bold.
func (r *report) table(before *report) string {
	var text strings.Builder
	row := func(cells ...string) {
		if before == nil {
			cells = cells[:4]
		}
		fmt.Fprintf(&text, "| %s |\n", strings.Join(cells, " | "))
	}
	fmt.Fprintf(&text, "%s: %s\n\n", r.Time.Format(time.DateOnly), r.Machine)
	row("", "", "measured", "budget", "before")
	row("---", "---", "---", "---", "---")
	for _, f := range r.Figures {
		value, budget := number(f.Value), ""
		if f.Budget != nil {
			budget = number(*f.Budget)
			if f.Value > *f.Budget {
				value = "**" + value + "**"
			}
		}
		row(f.Name, f.Size, value, budget, before.value(f))
	}
	return text.String()
}

// value returns the value of another report's figure in this one, or "". The report may be nil.
func (r *report) value(of figure) string {
	if r == nil {
		return ""
	}
	for _, f := range r.Figures {
		if f.Name == of.Name && f.Size == of.Size {
			return number(f.Value)
		}
	}
	return ""
}

// number formats a value with at most two decimals.
func number(value float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", value), "0"), ".")
}

// readReport reads a report that write has written.
func readReport(path string) (*report, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &report{}
	return r, json.Unmarshal(content, r)
}

// thousands formats a count of things, such as "1,000 pipelines".
func thousands(n int, what string) string {
	if n < 1000 {
		return fmt.Sprintf("%d %s", n, what)
	}
	return fmt.Sprintf("%d,%03d %s", n/1000, n%1000, what)
}

func TestTheTableHasBudgetsAndAnEarlierRun(t *testing.T) {
	g := NewWithT(t)
	earlier := newReport()
	earlier.add("1,000 pipelines", "CPU time, ms", 12.3456)
	path := filepath.Join(t.TempDir(), "bench.json")
	g.Expect(earlier.write(path)).To(Succeed())
	earlier, err := readReport(path)
	g.Expect(err).NotTo(HaveOccurred())

	r := newReport()
	r.add(thousands(1000, "pipelines"), "CPU time, ms", 0.5)
	r.within("", "writes", 0, 0)
	r.within("", "memory, MB", 1234.5, 70)
	lines := func(table string) []string { return strings.Split(strings.TrimSpace(table), "\n")[4:] }
	g.Expect(lines(r.table(nil))).To(Equal([]string{
		"| CPU time, ms | 1,000 pipelines | 0.5 |  |",
		"| writes |  | 0 | 0 |",
		"| memory, MB |  | **1234.5** | 70 |",
	}))
	g.Expect(lines(r.table(earlier))).To(Equal([]string{
		"| CPU time, ms | 1,000 pipelines | 0.5 |  | 12.35 |",
		"| writes |  | 0 | 0 |  |",
		"| memory, MB |  | **1234.5** | 70 |  |",
	}))
}
