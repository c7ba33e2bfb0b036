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
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
)

// TestRequests counts gate-controller's requests to the API server. source-controller does not run, so the counts are
// exact. The benchmarks include it.
func TestRequests(t *testing.T) {
	receiver := &silentReceiver{posts: map[string]int{}}
	server := httptest.NewServer(receiver)
	t.Cleanup(server.Close)
	// These are more events than gate-controller buffers for notification-controller.
	w := start(t.Context(), t, options{sources: 6 * block, args: []string{"--events-addr=" + server.URL}})

	for _, turn := range []struct {
		name   string
		closed bool
	}{{"closed", true}, {"opened", false}} {
		receiver.forget()
		result, err := w.measure(t.Context(), turn.closed)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		givenUp := receiver.givenUp()
		t.Run("sources follow a gate that is "+turn.name+" before Sluice stops waiting for notification-controller", func(t *testing.T) {
			g := NewWithT(t)
			g.Eventually(receiver.tried).Should(BeNumerically(">", 0))
			g.Expect(givenUp).To(BeNumerically("<", len(w.sources)/2))
		})
		t.Run("a gate that is "+turn.name+" takes two requests for each source, besides the event, and none of them reads", func(t *testing.T) {
			testRequests(t, w, result)
		})
		t.Run("a controller that starts after the gate was "+turn.name+" looks at everything and writes nothing", func(t *testing.T) {
			testRestart(t, w)
		})
	}
}

func testRequests(t *testing.T, w *world, result *turned) {
	g := NewWithT(t)
	g.Expect(result.bySource).To(HaveLen(len(w.sources)))
	for source, requests := range result.bySource {
		resource := resourceOf(source)
		g.Expect(texts(requests)).To(ConsistOf("patch "+resource+"/status: 200", "patch "+resource+": 200", "create events: 201"), source)
	}
	ofGate := slices.DeleteFunc(texts(result.others), func(text string) bool { return text == "patch gates/status: 200" })
	g.Expect(ofGate).To(Equal([]string{"create events: 201"}))
	// The Gate's status is written at the beginning, at the end, and at most once a second in between, for any number
	// of sources.
	seconds := result.conditions[len(result.conditions)-1].Seconds()
	g.Expect(len(result.others)-len(ofGate)).To(BeNumerically("<=", seconds+3), "writes of the Gate's status")
	g.Expect(w.failures(t.Context())).To(BeZero())
}

func testRestart(t *testing.T, w *world) {
	g := NewWithT(t)
	ctx := t.Context()
	g.Expect(w.gateController.Stop()).To(Succeed())
	position, err := w.audit.end()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.gateController.Start(ctx)).To(Succeed())
	g.Expect(w.reconciled(ctx)).To(Succeed())

	requests, err := w.audit.since(ctx, position)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(requests).NotTo(BeEmpty(), "it lists what there is")
	g.Expect(texts(slices.DeleteFunc(requests, func(r request) bool { return !r.writes() }))).To(BeEmpty())
	g.Expect(w.failures(ctx)).To(BeZero())
}

// silentReceiver replaces notification-controller and does not respond.
type silentReceiver struct {
	mu sync.Mutex
	// posts counts the events of each source. Guarded by mu.
	posts map[string]int
}

func (r *silentReceiver) ServeHTTP(_ http.ResponseWriter, request *http.Request) {
	var event struct {
		InvolvedObject struct {
			Name string `json:"name"`
		} `json:"involvedObject"`
	}
	if err := json.NewDecoder(request.Body).Decode(&event); err == nil {
		r.mu.Lock()
		r.posts[event.InvolvedObject.Name]++
		r.mu.Unlock()
	}
	<-request.Context().Done()
}

// tried returns the number of sources with an event.
func (r *silentReceiver) tried() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.posts)
}

// givenUp returns the number of sources whose event was posted for the last time. Flux's recorder posts an event five
// times within about 30 seconds.
func (r *silentReceiver) givenUp() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, posts := range r.posts {
		if posts >= 5 {
			n++
		}
	}
	return n
}

// forget resets the counts.
func (r *silentReceiver) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.posts)
}

// resourceOf returns the resource of a source. The source's name begins with its kind.
func resourceOf(name string) string {
	kind, _, _ := strings.Cut(name, "-")
	if singular, ok := strings.CutSuffix(kind, "y"); ok {
		return singular + "ies"
	}
	return kind + "s"
}

func texts(requests []request) []string {
	texts := make([]string, len(requests))
	for i, r := range requests {
		texts[i] = r.String()
	}
	return texts
}

// reconciled waits until gate-controller has reconciled all sources and the gate since its start.
func (w *world) reconciled(ctx context.Context) error {
	objects := map[string]int{"gate": 1}
	for _, source := range w.sources {
		kind, _, _ := strings.Cut(source, "-")
		objects[kind]++
	}
	err := poll(ctx, "all sources to be reconciled", func(ctx context.Context) error {
		metrics, err := w.gateControllerMetrics(ctx)
		if err != nil {
			return err
		}
		for controller, n := range objects {
			if looks := metrics.sum("controller_runtime_reconcile_total", `controller="`+controller+`"`); int(looks) < n {
				return fmt.Errorf("controller %s has looked %v times at %d objects", controller, looks, n)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.idle(ctx)
}

// failures returns the number of failed reconciliations since the start of gate-controller.
func (w *world) failures(ctx context.Context) (float64, error) {
	metrics, err := w.gateControllerMetrics(ctx)
	return metrics.sum("controller_runtime_reconcile_errors_total"), err
}
