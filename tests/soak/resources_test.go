//go:build soak && linux

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

package soak

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

const (
	sampleInterval = 5 * time.Second

	// memoryLimit is the memory limit of the containers in config/.
	memoryLimit = 1 << 30
	// warmUp is the divisor for the first part of a process' life, which is not compared.
	warmUp = 4
	// fewest is the minimum number of samples in each compared third.
	fewest = 6
)

// margins limit the growth of the median from the first third to the last: by a factor, and then by an amount.
var margins = []struct {
	what   string
	of     func(sample) float64
	factor float64
	amount float64
}{
	{"memory (MiB)", func(s sample) float64 { return s.memory / (1 << 20) }, 1.25, 32},
	{"goroutines", func(s sample) float64 { return s.goroutines }, 1.2, 50},
	{"file descriptors", func(s sample) float64 { return s.descriptors }, 1.2, 32},
}

// sample is the resource use of a process at one time.
type sample struct {
	at                              time.Time
	started                         float64 // of the process, in seconds since 1970
	memory, goroutines, descriptors float64
	// peak is the maximum memory of the process.
	peak  float64
	leads bool
}

// age returns the age of the process.
func (s sample) age() time.Duration {
	return s.at.Sub(time.Unix(int64(s.started), 0)).Round(time.Second)
}

// scrape reads a controller's own metrics.
func scrape(ctx context.Context, p *localcluster.Process) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.MetricsAddr+"/metrics", nil)
	if err != nil {
		return sample{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return sample{}, err
	}
	defer response.Body.Close()
	s := sample{at: time.Now(), peak: peakMemory(p.PID())}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		metric, _, _ := strings.Cut(name, "{")
		switch metric {
		case "process_start_time_seconds":
			s.started = value
		case "process_resident_memory_bytes":
			s.memory = value
		case "go_goroutines":
			s.goroutines = value
		case "process_open_fds":
			s.descriptors = value
		case "leader_election_master_status":
			s.leads = value == 1
		}
	}
	return s, cmp.Or(lines.Err(), ctx.Err())
}

// peakMemory returns the maximum memory of a process, as reported by Linux.
func peakMemory(pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib * 1024
		}
	}
	return 0
}

// gauge samples the controllers until its crew is dismissed.
type gauge struct {
	*world
	samples map[*replica][]sample
	// peak is the maximum memory of any replica, by controller.
	peak map[string]float64
}

func (w *world) measure(c *crew, table time.Duration) *gauge {
	g := &gauge{world: w, samples: map[*replica][]sample{}, peak: map[string]float64{}}
	c.send(func(ctx context.Context) {
		last := time.Now()
		r := w.random("measure")
		for pause(ctx, r, sampleInterval, sampleInterval) {
			g.sample(ctx)
			if time.Since(last) >= table {
				last = time.Now()
				g.print()
			}
		}
	})
	return g
}

func (g *gauge) sample(ctx context.Context) {
	for _, r := range g.controllers {
		if r.frozen.Load() {
			continue
		}
		s, err := scrape(ctx, r.Process)
		if err != nil {
			continue // it is being started
		}
		g.samples[r] = append(g.samples[r], s)
		g.peak[r.controller] = max(g.peak[r.controller], s.peak)
		if s.peak > memoryLimit {
			// The kernel would have killed it.
			g.violation("%s is killed at %.0f MiB, more than its container may have", r.Name, s.peak/(1<<20))
			_ = r.kill()
		}
	}
}

func (g *gauge) print() {
	fmt.Printf("%8s  %-24s %6s %9s %9s %10s %6s %9s\n", "", "", "age", "MiB", "peak MiB", "goroutines", "fds", "disk MiB")
	for _, r := range g.controllers {
		samples := g.samples[r]
		if len(samples) == 0 {
			continue
		}
		s, role := samples[len(samples)-1], ""
		if s.leads {
			role = "leader"
		}
		fmt.Printf("%8s  %-24s %6s %9.0f %9.0f %10.0f %6.0f %9.1f %s\n", time.Since(g.began).Round(time.Second), r.Name, s.age(),
			s.memory/(1<<20), s.peak/(1<<20), s.goroutines, s.descriptors, diskUse(filepath.Join(g.Cluster.Dir, "home", r.Name), r.PID())/(1<<20), role)
	}
}

// diskUse returns the size of a process' files below a directory. Files of its predecessors are not counted: a
// container always has the same process ID, and removes them at its start.
func diskUse(dir string, pid int) float64 {
	var size float64
	_ = filepath.WalkDir(filepath.Join(dir, fmt.Sprintf("sluice-git-%d", pid)), func(_ string, entry os.DirEntry, err error) error {
		if err != nil {
			return nil // it has ended
		}
		if info, err := entry.Info(); err == nil && !entry.IsDir() {
			size += float64(info.Size())
		}
		return nil
	})
	return size
}

// compare expects that the resource use of each controller did not grow between two times. It compares the longest life
// of each.
func (g *gauge) compare(from, to time.Time) {
	fmt.Printf("\nFirst and last third of the steady part (medians), and the most that the last may be:\n")
	for _, r := range g.controllers {
		lived := longestLife(g.samples[r], from, to)
		third := (len(lived) - len(lived)/warmUp) / 3
		if third < fewest {
			g.violation("%s: has lived in one role for no more than %d samples: they can't be compared", r.Name, len(lived))
			continue
		}
		first, last := lived[len(lived)/warmUp:][:third], lived[len(lived)-third:]
		for _, m := range margins {
			before, after := median(first, m.of), median(last, m.of)
			most := before*m.factor + m.amount
			fmt.Printf("  %-24s %-18s %8.0f %8.0f %8.0f\n", r.Name, m.what, before, after, most)
			if after > most {
				g.violation("%s: %s have grown from %.0f to %.0f", r.Name, m.what, before, after)
			}
		}
	}
	for controller, peak := range g.peak {
		fmt.Printf("  %-24s %-18s %8.0f MiB of %d\n", controller, "peak of all lives", peak/(1<<20), memoryLimit>>20)
	}
}

// life identifies a process in one role, because a process uses more once it is the leader.
type life struct {
	started float64
	leads   bool
}

// longestLife returns the samples of the life with the most samples between two times.
func longestLife(samples []sample, from, to time.Time) []sample {
	lives := map[life][]sample{}
	var longest []sample
	for _, s := range samples {
		if s.at.Before(from) || s.at.After(to) {
			continue
		}
		of := life{s.started, s.leads}
		lives[of] = append(lives[of], s)
		if len(lives[of]) > len(longest) {
			longest = lives[of]
		}
	}
	return longest
}

func median(samples []sample, of func(sample) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
