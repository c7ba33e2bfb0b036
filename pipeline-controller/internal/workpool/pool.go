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

// Package workpool runs tasks that wait for Git hosts, separately from the reconciles that start them, so a slow host
// does not block reconciles. Limits per namespace and per host prevent one tenant's slow hosts from using all workers.
package workpool

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// afterPanic is the time after which the Pipeline of a task that panicked is queued: the task is likely to panic again.
const afterPanic = 30 * time.Second

// Limits are the maximum numbers of concurrent tasks.
type Limits struct {
	// Total of all tasks.
	Total int
	// PerNamespace is the limit for the Pipelines of one namespace.
	PerNamespace int
	// PerHost is the limit for one host.
	PerHost int
	// PerNamespaceAndHost is the limit for the Pipelines of one namespace on one host.
	PerNamespaceAndHost int
}

// Share returns limits under which one namespace, one host, or one host of a namespace leaves most of the workers to
// others.
func Share(total int) Limits {
	return Limits{Total: total, PerNamespace: max(total/3, 1), PerHost: max(total/2, 1), PerNamespaceAndHost: max(total/6, 1)}
}

// Task is a unit of work for a Pipeline.
type Task struct {
	// Key identifies the task. The pool never contains two tasks with the same key.
	Key string
	// Pipeline is queued when the task ends.
	Pipeline types.NamespacedName
	// Host that the task may wait for. If it is empty, no limit per host applies.
	Host string
	// Run does the work, and returns the time after which the Pipeline must be queued.
	Run func(ctx context.Context) (again time.Duration)
}

// Pool runs tasks. It is safe for concurrent use.
type Pool struct {
	limits Limits
	// ended waits for the goroutines.
	ended sync.WaitGroup

	mu sync.Mutex
	// ctx and queue of the controller. They are set by Start.
	ctx   context.Context
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	// running contains the cancel functions of running tasks.
	running map[string]context.CancelFunc
	// waiting contains the tasks that have not started, oldest first.
	waiting []waiting
	// busy counts the running tasks of each namespace, each host, and each host of a namespace.
	busy map[place]int
}

// waiting is a task that has not started.
type waiting struct {
	Task
	since time.Time
}

// place identifies a limit. Either part may be empty.
type place struct{ namespace, host string }

// limit is the maximum number of concurrent tasks of a place.
type limit struct {
	place
	most int
}

// New returns an empty Pool.
func New(limits Limits) *Pool {
	return &Pool{limits: limits, running: map[string]context.CancelFunc{}, busy: map[place]int{}}
}

// Start implements source.Source for the controller of Pipelines. Tasks are cancelled with the context.
func (p *Pool) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ctx, p.queue = ctx, queue
	return nil
}

// Drain waits until the context is cancelled, and then for the running tasks. It keeps the process alive until their
// outcome is recorded.
func (p *Pool) Drain(ctx context.Context) error {
	<-ctx.Done()
	p.ended.Wait()
	return nil
}

// Do runs the task, immediately or when its turn comes, unless there is a task with its key. It reports whether the
// task is running.
func (p *Pool) Do(task Task) (running bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.running[task.Key]; ok {
		return true
	}
	if p.indexLocked(task.Key) >= 0 {
		return false
	}
	if !p.fitsLocked(task) {
		p.waiting = append(p.waiting, waiting{task, time.Now()})
		return false
	}
	p.runLocked(task)
	return true
}

// Running reports whether the task with the key is running.
func (p *Pool) Running(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.running[key]
	return ok
}

// Waited returns how long the task with the key has waited to start.
func (p *Pool) Waited(key string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := p.indexLocked(key); i >= 0 {
		return time.Since(p.waiting[i].since)
	}
	return 0
}

// Cancel cancels the task with the key, or removes it if it has not started.
func (p *Pool) Cancel(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cancel, ok := p.running[key]; ok {
		cancel()
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(task waiting) bool { return task.Key == key })
}

// indexLocked returns the index of a waiting task, or -1.
func (p *Pool) indexLocked(key string) int {
	return slices.IndexFunc(p.waiting, func(task waiting) bool { return task.Key == key })
}

// fitsLocked reports whether a task may start now. No task starts while the controller stops.
func (p *Pool) fitsLocked(task Task) bool {
	if p.ctx.Err() != nil || p.busy[place{}] >= p.limits.Total {
		return false
	}
	return !slices.ContainsFunc(p.limitsOf(task), func(l limit) bool { return p.busy[l.place] >= l.most })
}

// limitsOf returns the limits that apply to a task.
func (p *Pool) limitsOf(task Task) []limit {
	namespace := task.Pipeline.Namespace
	limits := []limit{{place{}, p.limits.Total}, {place{namespace: namespace}, p.limits.PerNamespace}}
	if task.Host != "" {
		limits = append(limits, limit{place{host: task.Host}, p.limits.PerHost}, limit{place{namespace, task.Host}, p.limits.PerNamespaceAndHost})
	}
	return limits
}

func (p *Pool) runLocked(task Task) {
	ctx, cancel := context.WithCancel(p.ctx)
	p.running[task.Key] = cancel
	for _, l := range p.limitsOf(task) {
		p.busy[l.place]++
	}
	p.ended.Go(func() {
		defer cancel()
		p.end(task, run(ctx, task))
	})
}

// run recovers from a panic of the task.
func run(ctx context.Context, task Task) (again time.Duration) {
	defer func() {
		if reason := recover(); reason != nil {
			ctrl.Log.WithName("workpool").Error(fmt.Errorf("panic: %v", reason), "recovered from a panic", "pipeline", task.Pipeline, "stack", string(debug.Stack()))
			again = afterPanic
		}
	}()
	return task.Run(ctx)
}

// end starts the oldest waiting tasks that fit, and queues the Pipeline.
func (p *Pool) end(task Task, again time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, task.Key)
	for _, l := range p.limitsOf(task) {
		if p.busy[l.place]--; p.busy[l.place] == 0 {
			delete(p.busy, l.place)
		}
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(next waiting) bool {
		fits := p.fitsLocked(next.Task)
		if fits {
			p.runLocked(next.Task)
		}
		return fits
	})
	p.queue.AddAfter(reconcile.Request{NamespacedName: task.Pipeline}, again)
}
