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

// Package workpool runs tasks that wait for Git hosts, apart from the reconciles that ask for them, so that a slow host keeps no
// Pipeline from being reconciled. Limits per namespace and per host keep one tenant's slow hosts from taking every turn.
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

// afterPanic is how long after a task has panicked its Pipeline is queued: it is likely to panic again.
const afterPanic = 30 * time.Second

// Limits are how many tasks run at once.
type Limits struct {
	// Total is how many there are in all.
	Total int
	// PerNamespace is how many there are for Pipelines of one namespace.
	PerNamespace int
	// PerHost is how many there are on one host.
	PerHost int
	// PerNamespaceAndHost is how many there are on one host for Pipelines of one namespace.
	PerNamespaceAndHost int
}

// Share returns limits under which one namespace, one host, or one host of a namespace leaves most turns to others.
func Share(total int) Limits {
	return Limits{Total: total, PerNamespace: max(total/3, 1), PerHost: max(total/2, 1), PerNamespaceAndHost: max(total/6, 1)}
}

// Task is work for a Pipeline.
type Task struct {
	// Key identifies the task. No two tasks of one key are in the pool at once.
	Key string
	// Pipeline is queued when the task has ended.
	Pipeline types.NamespacedName
	// Host is what the task may have to wait for. If it is empty, no limit per host applies.
	Host string
	// Run does the work, and returns how long after that the Pipeline is to be queued.
	Run func(ctx context.Context) (again time.Duration)
}

// Pool runs tasks. It is safe for concurrent use.
type Pool struct {
	limits Limits
	// ended counts the goroutines down.
	ended sync.WaitGroup

	mu sync.Mutex
	// ctx and queue are those of the controller. They are set by Start.
	ctx   context.Context
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	// running has what ends each running task early.
	running map[string]context.CancelFunc
	// waiting are the tasks whose turn is yet to come, the longest waiting one first.
	waiting []Task
	// busy counts the running tasks of each namespace, each host, and each host of a namespace.
	busy map[place]int
}

// place is what has a limit of its own. One of its parts may be empty.
type place struct{ namespace, host string }

// New returns an empty Pool.
func New(limits Limits) *Pool {
	return &Pool{limits: limits, running: map[string]context.CancelFunc{}, busy: map[place]int{}}
}

// Start makes it a source of the controller of Pipelines. Tasks end with the context.
func (p *Pool) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ctx, p.queue = ctx, queue
	return nil
}

// Drain waits until the context has ended, and then for the tasks that were cut off by that. It keeps a process alive that has yet
// to record what it did.
func (p *Pool) Drain(ctx context.Context) error {
	<-ctx.Done()
	p.ended.Wait()
	return nil
}

// Do runs the task, now or when its turn comes, unless there is one of its key. It reports whether that is running.
func (p *Pool) Do(task Task) (running bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.running[task.Key]; ok {
		return true
	}
	if p.waitsLocked(task.Key) {
		return false
	}
	if !p.fitsLocked(task) {
		p.waiting = append(p.waiting, task)
		return false
	}
	p.runLocked(task)
	return true
}

// Running reports whether the task of a key is running.
func (p *Pool) Running(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.running[key]
	return ok
}

// Cancel ends the task of a key early, or removes it if its turn is yet to come.
func (p *Pool) Cancel(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cancel, ok := p.running[key]; ok {
		cancel()
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(task Task) bool { return task.Key == key })
}

func (p *Pool) waitsLocked(key string) bool {
	return slices.ContainsFunc(p.waiting, func(task Task) bool { return task.Key == key })
}

// fitsLocked reports whether a task may run now. None begins while the controller stops.
func (p *Pool) fitsLocked(task Task) bool {
	if p.ctx.Err() != nil {
		return false
	}
	for place, limit := range p.limitsOf(task) {
		if p.busy[place] >= limit {
			return false
		}
	}
	return true
}

// limitsOf returns the limits that apply to a task.
func (p *Pool) limitsOf(task Task) map[place]int {
	namespace := task.Pipeline.Namespace
	limits := map[place]int{{}: p.limits.Total, {namespace: namespace}: p.limits.PerNamespace}
	if task.Host != "" {
		limits[place{host: task.Host}] = p.limits.PerHost
		limits[place{namespace, task.Host}] = p.limits.PerNamespaceAndHost
	}
	return limits
}

func (p *Pool) runLocked(task Task) {
	ctx, cancel := context.WithCancel(p.ctx)
	p.running[task.Key] = cancel
	for place := range p.limitsOf(task) {
		p.busy[place]++
	}
	p.ended.Go(func() {
		defer cancel()
		p.end(task, run(ctx, task))
	})
}

// run keeps a panic to the task.
func run(ctx context.Context, task Task) (again time.Duration) {
	defer func() {
		if reason := recover(); reason != nil {
			ctrl.Log.WithName("workpool").Error(fmt.Errorf("panic: %v", reason), "a task failed", "pipeline", task.Pipeline, "stack", string(debug.Stack()))
			again = afterPanic
		}
	}()
	return task.Run(ctx)
}

// end makes room for the longest waiting tasks that fit, and queues the Pipeline.
func (p *Pool) end(task Task, again time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, task.Key)
	for place := range p.limitsOf(task) {
		if p.busy[place]--; p.busy[place] == 0 {
			delete(p.busy, place)
		}
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(next Task) bool {
		fits := p.fitsLocked(next)
		if fits {
			p.runLocked(next)
		}
		return fits
	})
	p.queue.AddAfter(reconcile.Request{NamespacedName: task.Pipeline}, again)
}
