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

package controller

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "the seed of the one world that TestModel runs in; without it, many worlds with fixed seeds")
	freshFlag = flag.Bool("fresh", false, "take seeds from the time, to look for what nobody has seen yet")
	stepsFlag = flag.Int("steps", 600_000, "how many steps TestModel takes")
)

// profile is a mix of failures.
type profile struct {
	name string
	// replicas is the number of replicas of the controller. Each acts as the leader.
	replicas int
	// stale lets caches lag behind the cluster.
	stale bool
	// faults is the share of calls that fail, or whose response is lost.
	faults float64
	// crashes is the share of calls at which a process dies.
	crashes float64
	// skew is the maximum error of a clock.
	skew time.Duration
}

var profiles = []profile{
	{name: "people alone", replicas: 1},
	{name: "calls fail", replicas: 1, faults: 0.08},
	{name: "processes crash", replicas: 1, crashes: 0.05},
	{name: "caches are stale", replicas: 1, stale: true},
	{name: "everything at once", replicas: 1, stale: true, faults: 0.06, crashes: 0.03, skew: time.Second},
	{name: "two replicas", replicas: 2, stale: true, faults: 0.03, crashes: 0.03, skew: time.Second},
}

// TestModel drives the reconciler through random sequences of events: people, clusters, Git hosts and crashes. After
// each step, it checks the guarantees of docs/architecture.md. Now and then, all failures end. Then the reconciler must
// reach the result of the algorithm, triggered only by its own watches and timers.
//
// A step is a call of the reconciler to the outside, or something that happens between two of them. A failure prints
// the seed of its world. To see that world again: go test ./internal/controller -run 'TestModel$/<profile>' -seed
// <seed>
func TestModel(t *testing.T) {
	withoutTheWorld(t)
	all := map[string]int{}
	for _, profile := range profiles {
		t.Run(profile.name, func(t *testing.T) {
			seed, steps := uint64(1), *stepsFlag/len(profiles)
			if *freshFlag {
				seed = uint64(time.Now().UnixNano())
			}
			if *seedFlag != 0 {
				seed, steps = *seedFlag, 1
			}
			t.Logf("seeds from %d", seed)
			counts := map[string]int{}
			for counts["steps"] < steps {
				runWorld(t, newModel(profile, seed, counts))
				seed++
			}
			for _, what := range slices.Sorted(maps.Keys(counts)) {
				t.Logf("%8d %s", counts[what], what)
			}
			for what, n := range counts {
				all[what] += n
			}
		})
	}
	if *seedFlag == 0 && !t.Failed() {
		checkCoverage(t, all)
	}
}

// TestModelRepeatsItself checks that a seed is enough to reproduce a failure.
func TestModelRepeatsItself(t *testing.T) {
	withoutTheWorld(t)
	for _, profile := range profiles {
		t.Run(profile.name, func(t *testing.T) {
			for seed := range uint64(20) {
				first, second := newModel(profile, seed, map[string]int{}), newModel(profile, seed, map[string]int{})
				runWorld(t, first)
				runWorld(t, second)
				NewWithT(t).Expect(second.lastNotes()).To(Equal(first.lastNotes()), "seed %d", seed)
				NewWithT(t).Expect(second.counts).To(Equal(first.counts), "seed %d", seed)
			}
		})
	}
}

// withoutTheWorld isolates the model: it has its own clock, and its processes end with a panic that is not logged.
func withoutTheWorld(t *testing.T) {
	backoff, handlers := recordBackoff, utilruntime.PanicHandlers
	t.Cleanup(func() { recordBackoff, utilruntime.PanicHandlers = backoff, handlers })
	recordBackoff.Duration, utilruntime.PanicHandlers = 0, nil
}

// checkCoverage checks that the situations that the rules are about have occurred. Otherwise, the model proves nothing.
func checkCoverage(t *testing.T, counts map[string]int) {
	expected := []string{
		"pull requests created", "pull requests adopted", "pull requests withdrawn", "events accepted", "events refused as duplicates",
		"commits renewed", "pull requests that the base has made obsolete", "commit statuses set", "pull requests merged by Sluice",
		"actions called off", "actions overtaken by another process", "conflicts", "crashes", "interrupted attempts repeated", "rate limits",
	}
	for from, all := range transitions {
		for _, to := range all {
			expected = append(expected, fmt.Sprintf("%s → %s", from, to))
		}
	}
	for reason := range readyStatus {
		if reason != "PullRequestUnknown" { // which is rare
			expected = append(expected, "at rest: "+reason)
		}
	}
	for _, what := range expected {
		if counts[what] == 0 {
			t.Errorf("never seen: %s", what)
		}
	}
}

// runWorld runs a world from start to end.
func runWorld(t *testing.T, m *model) {
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case modelFailure:
			t.Fatalf("%s\nseed %d, step %d. The last steps:\n%s", reason, m.seed, m.steps, m.lastNotes())
		default:
			t.Errorf("seed %d, step %d. The last steps:\n%s", m.seed, m.steps, m.lastNotes())
			panic(reason)
		}
	}()
	for range 4 {
		m.trouble(150)
		m.rest()
	}
}

// model is a world: a cluster, a host, the processes of the controller, and all events.
type model struct {
	profile profile
	seed    uint64
	random  *rand.Rand
	counts  map[string]int

	steps     int
	now       time.Time
	cluster   *modelCluster
	host      *modelHost
	processes []*process
	revisions []string
	// pullRequestShare is the number of promotions by pull request.
	pullRequestShare float64
	// settling is true while there are no failures.
	settling bool
	// outage makes all calls fail.
	outage bool

	// pasts are the promotions into each environment.
	pasts map[string]*past
	// everReady contains each revision that a target was ready on.
	everReady map[string]bool
	// overlapped are promotions that a process acted on after another process had taken them over.
	overlapped map[promotionID]bool

	notes [40]note
	noted int
}

// note is one line of the trace. Its text is made when it is needed.
type note struct {
	step   int
	after  time.Duration
	format string
	args   []any
}

// modelFailure ends a world that has broken a rule.
type modelFailure string

var modelStart = time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC)

func newModel(profile profile, seed uint64, counts map[string]int) *model {
	scheme := runtime.NewScheme()
	utilruntime.Must(pipelinesv1.AddToScheme(scheme))
	utilruntime.Must(gatingv1.AddToScheme(scheme))
	m := &model{
		profile: profile, seed: seed, counts: counts, random: rand.New(rand.NewPCG(seed, 0)),
		now: modelStart, cluster: newModelCluster(scheme), host: newModelHost(),
		pasts: map[string]*past{}, everReady: map[string]bool{},
		overlapped: map[promotionID]bool{},
	}
	m.revisions = []string{"1.0.0", "1.0.1", "1.1.0"}
	if m.chance(0.5) {
		m.revisions = nil
		for _, digit := range []string{"a", "b", "c"} {
			digest := "@sha1:" + strings.Repeat(digit, 40)
			m.revisions = append(m.revisions, "main"+digest, "v"+digit+digest)
		}
	}
	m.pullRequestShare = pick(m, []float64{0.3, 0.6, 0.9, 1})
	for _, name := range modelGates {
		m.setGate(name, false)
	}
	m.createPipeline()
	for i := range profile.replicas {
		m.processes = append(m.processes, newProcess(m, fmt.Sprintf("replica %d", i)))
	}
	return m
}

func (m *model) fail(format string, args ...any) {
	panic(modelFailure(fmt.Sprintf(format, args...)))
}

func (m *model) note(format string, args ...any) {
	m.notes[m.noted%len(m.notes)] = note{m.steps, m.now.Sub(modelStart), format, args}
	m.noted++
}

func (m *model) lastNotes() string {
	var text strings.Builder
	for i := max(0, m.noted-len(m.notes)); i < m.noted; i++ {
		n := m.notes[i%len(m.notes)]
		fmt.Fprintf(&text, "%6d %10s %s\n", n.step, n.after, fmt.Sprintf(n.format, n.args...))
	}
	return text.String()
}

func (m *model) count(what string) { m.counts[what]++ }

func (m *model) chance(share float64) bool { return m.random.Float64() < share }

func pick[T any](m *model, from []T) T { return from[m.random.IntN(len(from))] }

// nothingIsLost reports whether every process receives all responses, and survives to record them.
func (m *model) nothingIsLost() bool {
	return m.profile.faults == 0 && m.profile.crashes == 0 && m.profile.replicas == 1
}

func (m *model) faults() float64 {
	if m.outage {
		return 1
	}
	return m.profile.faults
}

// trouble runs random events and failures.
func (m *model) trouble(steps int) {
	m.settling = false
	for range steps {
		m.tick()
		p := pick(m, m.processes)
		switch {
		case m.chance(0.35):
			m.happens()
		case p.running():
			m.proceed(p)
		case !p.due.IsZero() && !p.due.After(m.now) || m.chance(0.1):
			m.note("%s: reconciles", p.name)
			p.begin()
		default:
			m.happens()
		}
		m.checkOpen()
	}
}

// tick starts a step.
func (m *model) tick() {
	m.steps++
	m.count("steps")
	m.now = m.now.Add(time.Duration(m.random.IntN(300)) * time.Millisecond)
}

// proceed lets a process make its next call, or kills it.
func (m *model) proceed(p *process) {
	v, call := m.judge(), p.standsBefore
	if m.chance(m.profile.crashes) {
		if m.chance(0.5) {
			m.note("%s: dies before: %s", p.name, call)
			p.kill()
			return
		}
		v = die
	}
	m.note("%s: %s%s", p.name, call, v)
	p.resume(v)
}

// judge decides on the outcome of a call.
func (m *model) judge() verdict {
	switch {
	case m.settling || !m.chance(m.faults()):
		return proceed
	case m.outage:
		return refuse
	}
	return pick(m, []verdict{refuse, refuse, limit, lost, lost})
}

// rest ends all failures, waits until nothing changes, and checks the result.
func (m *model) rest() {
	m.heal()
	m.settling, m.outage = true, false
	m.note("all trouble ends")
	m.settle()
	for range 4 {
		// From now on, only this event or a requested requeue triggers the controller.
		m.happens()
		m.settle()
	}
}

// heal removes most causes that would block the run.
func (m *model) heal() {
	for _, env := range modelEnvironments {
		for i := range 3 {
			namespace := fmt.Sprintf("%s-%d", env, i)
			if state := m.cluster.application(namespace); !state.Known && m.chance(0.7) || !state.Ready && m.chance(0.5) {
				m.setApplication(namespace, ready(pick(m, append(m.revisions[:1:1], state.Revision, m.desired(env)))))
			}
		}
	}
	for _, name := range modelGates {
		if m.chance(0.6) {
			m.setGate(name, false)
		}
	}
}

// settle lets processes finish, and then reconcile whenever they are queued, until nothing changes any more.
func (m *model) settle() {
	lookedAgain := m.now.Add(latestPoll + time.Minute)
	for quiet, passes := 0, 0; quiet < 2*len(m.processes) || m.now.Before(lookedAgain); passes++ {
		if passes > 2000 {
			m.fail("the controller does not come to rest")
		}
		for _, p := range m.processes {
			p.catchUpEntirely()
		}
		p := m.nextDue()
		if p == nil {
			break
		}
		if m.pass(p) || m.waits() {
			quiet = 0
		} else {
			quiet++
		}
	}
	m.checkFixedPoint()
	for _, p := range m.processes {
		if m.pass(p) {
			m.fail("%s still writes, though everything was done", p.name)
		}
	}
}

// nextDue returns the process that is running, or else the one that is due next, or nil if none is. It advances the
// clock to that time.
func (m *model) nextDue() *process {
	var next *process
	for _, p := range m.processes {
		switch {
		case p.running():
			return p
		case !p.due.IsZero() && (next == nil || p.due.Before(next.due)):
			next = p
		}
	}
	if next != nil && next.due.After(m.now) {
		m.now = next.due
	}
	return next
}

// pass runs a reconcile of a process, or the rest of it. It reports whether that has changed anything.
func (m *model) pass(p *process) bool {
	before := m.footprint()
	if !p.running() {
		m.note("%s: reconciles", p.name)
		p.begin()
	}
	for calls := 0; p.running(); calls++ {
		if calls > 300 {
			m.fail("%s does not end its reconcile", p.name)
		}
		m.tick()
		m.note("%s: %s", p.name, p.standsBefore)
		p.resume(proceed)
		m.checkOpen()
	}
	return m.footprint() != before
}

// footprint changes with every write of a process to the cluster or to a host.
func (m *model) footprint() string {
	return fmt.Sprint(m.cluster.version, m.counts["events accepted"], m.counts["pull requests created"], m.counts["pull requests withdrawn"])
}

// waits reports whether some promotion waits for the time of its next attempt.
func (m *model) waits() bool {
	pipeline := m.cluster.pipeline()
	if pipeline == nil {
		return false
	}
	if pipeline.DeletionTimestamp != nil {
		return true
	}
	for _, status := range pipeline.Status.Environments {
		record := status.Promotion
		if record == nil || record.State.Ended() {
			continue
		}
		for _, at := range []*metav1.Time{record.NextAttemptTime, record.RateLimitedUntil} {
			if at != nil && m.now.Before(at.Add(2*time.Second)) {
				return true
			}
		}
	}
	return false
}
