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

package workpool

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// bench is a pool whose tasks run until they are released.
type bench struct {
	*Pool
	t     *testing.T
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	began chan string
	letGo map[string]chan struct{}
}

func newBench(t *testing.T, limits Limits) *bench {
	b := &bench{
		Pool: New(limits), t: t, began: make(chan string, 100), letGo: map[string]chan struct{}{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()),
	}
	NewWithT(t).Expect(b.Start(t.Context(), b.queue)).To(Succeed())
	return b
}

// do asks for a task, whose name is that of its Pipeline, and reports whether it runs.
func (b *bench) do(namespace, name, host string) bool {
	letGo := make(chan struct{})
	b.letGo[name] = letGo
	return b.Do(Task{
		Key: name, Pipeline: types.NamespacedName{Namespace: namespace, Name: name}, Host: host,
		Run: func(ctx context.Context) time.Duration {
			b.began <- name
			select {
			case <-letGo:
			case <-ctx.Done():
			}
			return 0
		},
	})
}

func (b *bench) end(name string) { close(b.letGo[name]) }

func TestLimits(t *testing.T) {
	type task struct{ namespace, host string }
	same := func(n int, of task) []task {
		var all []task
		for range n {
			all = append(all, of)
		}
		return all
	}
	limits := Limits{Total: 5, PerNamespace: 3, PerHost: 4, PerNamespaceAndHost: 2}
	for _, test := range []struct {
		name    string
		running []task
		next    task
		runs    bool
	}{
		{"the first task runs", nil, task{"a", "x"}, true},
		{"a namespace has its share on a host", same(1, task{"a", "x"}), task{"a", "x"}, true},
		{"a namespace has no more than its share on a host", same(2, task{"a", "x"}), task{"a", "x"}, false},
		{"a slow host of a namespace leaves it turns on other hosts", same(2, task{"a", "x"}), task{"a", "y"}, true},
		{"a namespace has no more than its share, whichever the host", append(same(2, task{"a", "x"}), task{"a", "y"}), task{"a", "z"}, false},
		{"what waits for no host counts for its namespace", same(3, task{"a", ""}), task{"a", ""}, false},
		{"what waits for no host is not kept from running by others that do", same(4, task{"a", ""})[:2], task{"a", ""}, true},
		{"a namespace leaves turns to others", same(3, task{"a", ""}), task{"b", "x"}, true},
		{"a host is shared by namespaces", same(2, task{"a", "x"}), task{"b", "x"}, true},
		{"a host has no more than its share", append(same(2, task{"a", "x"}), same(2, task{"b", "x"})...), task{"c", "x"}, false},
		{"a slow host leaves turns to others", append(same(2, task{"a", "x"}), same(2, task{"b", "x"})...), task{"c", "y"}, true},
		{"there are no more than in all", append(same(3, task{"a", ""}), same(2, task{"b", ""})...), task{"c", ""}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			g, b := NewWithT(t), newBench(t, limits)
			for i, task := range test.running {
				g.Expect(b.do(task.namespace, string(rune('0'+i)), task.host)).To(BeTrue())
			}
			g.Expect(b.do(test.next.namespace, "next", test.next.host)).To(Equal(test.runs))
			g.Expect(b.Running("next")).To(Equal(test.runs))
		})
	}
}

func TestTurns(t *testing.T) {
	limits := Limits{Total: 2, PerNamespace: 1, PerHost: 2, PerNamespaceAndHost: 1}

	t.Run("the longest waiting task that fits is next", func(t *testing.T) {
		g, b := NewWithT(t), newBench(t, limits)
		g.Expect(b.do("a", "a1", "x")).To(BeTrue())
		g.Expect(b.do("b", "b1", "x")).To(BeTrue())
		g.Expect(b.do("a", "a2", "x")).To(BeFalse())
		g.Expect(b.do("c", "c1", "y")).To(BeFalse())
		g.Expect(b.do("b", "b2", "x")).To(BeFalse())
		g.Eventually(b.began).Should(Receive())
		g.Eventually(b.began).Should(Receive())
		b.end("b1")
		g.Eventually(b.began).Should(Receive(Equal("c1")), "a2 waits for a1")
		b.end("a1")
		g.Eventually(b.began).Should(Receive(Equal("a2")))
		b.end("c1")
		g.Eventually(b.began).Should(Receive(Equal("b2")))
	})
	t.Run("there is one task of a key at a time", func(t *testing.T) {
		g, b := NewWithT(t), newBench(t, limits)
		g.Expect(b.do("a", "a1", "x")).To(BeTrue())
		letGo := b.letGo["a1"]
		g.Expect(b.do("a", "a1", "x")).To(BeTrue(), "it is running")
		g.Expect(b.do("a", "a2", "x")).To(BeFalse())
		g.Expect(b.do("a", "a2", "x")).To(BeFalse(), "it is waiting")
		g.Expect(b.waiting).To(HaveLen(1))
		g.Expect(b.Waited("a2")).To(BeNumerically(">", 0))
		g.Expect(b.Waited("a1")).To(BeZero())
		close(letGo)
		g.Eventually(b.Running).WithArguments("a2").Should(BeTrue())
	})
	t.Run("the Pipeline is queued when its task has ended", func(t *testing.T) {
		g, b := NewWithT(t), newBench(t, limits)
		b.do("a", "a1", "x")
		g.Expect(b.queue.Len()).To(BeZero())
		b.end("a1")
		g.Eventually(b.queue.Len).Should(Equal(1))
		g.Expect(b.Running("a1")).To(BeFalse())
		g.Expect(b.busy).To(BeEmpty())
	})
	t.Run("a panic ends the task alone", func(t *testing.T) {
		g, b := NewWithT(t), newBench(t, limits)
		b.Do(Task{Key: "a1", Pipeline: types.NamespacedName{Namespace: "a", Name: "a1"}, Run: func(context.Context) time.Duration { panic("oops") }})
		g.Eventually(b.Running).WithArguments("a1").Should(BeFalse())
		g.Expect(b.do("a", "a2", "x")).To(BeTrue())
	})
	t.Run("a task can be cancelled, running or waiting", func(t *testing.T) {
		g, b := NewWithT(t), newBench(t, limits)
		b.do("a", "a1", "x")
		b.do("a", "a2", "x")
		b.Cancel("a2")
		b.Cancel("a1")
		g.Eventually(b.Running).WithArguments("a1").Should(BeFalse())
		g.Expect(b.Running("a2")).To(BeFalse())
		g.Expect(b.waiting).To(BeEmpty())
	})
	t.Run("draining waits for what was cut off", func(t *testing.T) {
		g, b := NewWithT(t), newBench(t, limits)
		ctx, cancel := context.WithCancel(t.Context())
		g.Expect(b.Start(ctx, b.queue)).To(Succeed())
		recorded := make(chan struct{})
		b.Do(Task{Key: "a1", Run: func(ctx context.Context) time.Duration {
			<-ctx.Done()
			<-recorded
			return 0
		}})
		drained := make(chan error)
		go func() { drained <- b.Drain(ctx) }()
		cancel()
		g.Consistently(drained, "50ms").ShouldNot(Receive())
		close(recorded)
		g.Eventually(drained).Should(Receive(BeNil()))
	})
}
