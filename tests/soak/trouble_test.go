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
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-toolkit/sluice/tests/githost"
	"github.com/sluice-toolkit/sluice/tests/leafserver"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

// replica is a process that is restarted whenever it ends, as by a kubelet.
type replica struct {
	*localcluster.Process
	// controller is the name of Sluice's controller. It is empty for other processes.
	controller string
	// killed is true if the test causes its next end.
	killed atomic.Bool
	frozen atomic.Bool
}

func (r *replica) kill() error {
	r.killed.Store(true)
	return r.Kill()
}

// keep restarts a process until the crew is dismissed. It is a violation if one of Sluice's controllers ends by itself,
// unless it has lost its lease.
func (w *world) keep(c *crew, r *replica) {
	c.send(func(ctx context.Context) {
		for {
			select {
			case <-r.Ended():
			case <-ctx.Done():
				return
			}
			if !r.killed.Swap(false) {
				w.explain(r)
			}
			if !pause(ctx, w.random(r.Name), time.Second, time.Second) {
				return
			}
			if err := r.Start(ctx); err != nil && ctx.Err() == nil {
				w.count("failed start of %s", r.Name)
				r.killed.Store(true)
			}
		}
	})
}

func (w *world) explain(r *replica) {
	switch {
	case strings.Contains(r.LogTail(), "leader election lost"):
		w.count("%s has lost its lease, and was started again", r.Name)
	case r.controller == "":
		w.count("%s ended by itself, and was started again", r.Name)
	default:
		w.violation("%s has ended by itself:\n%s", r.Name, r.LogTail())
	}
}

// keepAll keeps all processes running, except those of the control plane.
func (w *world) keepAll(c *crew) {
	for _, name := range []string{"source-controller", "kustomize-controller", "notification-controller", "kube-controller-manager"} {
		w.flux = append(w.flux, &replica{Process: w.Cluster.Process(name)})
	}
	for _, r := range append(w.flux, w.controllers...) {
		w.keep(c, r)
	}
}

// harm kills and freezes controllers.
func (w *world) harm(c *crew) {
	c.every("kill a controller", 5*time.Second, 25*time.Second, func(_ context.Context, r *rand.Rand) error {
		return w.killReplica(c, w.controllers[r.IntN(len(w.controllers))])
	})
	c.every("freeze a controller", time.Minute, 3*time.Minute, func(ctx context.Context, r *rand.Rand) error {
		return w.freezeReplica(ctx, c, w.controllers[r.IntN(len(w.controllers))])
	})
}

// trouble causes failures of everything that Sluice's controllers depend on.
func (w *world) trouble(c *crew) {
	c.every("kill a controller of Flux", 30*time.Second, 2*time.Minute, func(_ context.Context, r *rand.Rand) error {
		victim := w.flux[r.IntN(2)]
		w.count("SIGKILL of %s", victim.Name)
		return victim.kill()
	})
	c.every("restart the API server", 40*time.Second, 3*time.Minute, w.restartAPIServer)
	c.every("trouble the Git host", 3*time.Second, 15*time.Second, w.troubleHost)
	c.every("trouble a leaf cluster", 5*time.Second, 20*time.Second, w.troubleLeaf)
}

// killReplica kills a controller with SIGKILL. For a leader, it measures the time until another one leads.
func (w *world) killReplica(c *crew, r *replica) error {
	wasLeader := w.leads(c, r)
	w.count("SIGKILL of a %s", r.controller)
	if err := r.kill(); err != nil {
		return err
	}
	if wasLeader {
		w.count("SIGKILL of the leader of %s", r.controller)
		w.awaitLeader(c, r.controller, "from the leader's death to the next leader")
	}
	return nil
}

// freezeReplica stops a controller at any point for longer than its lease lasts, and resumes it.
func (w *world) freezeReplica(ctx context.Context, c *crew, r *replica) error {
	pid := r.PID()
	if pid == 0 || r.frozen.Swap(true) {
		return nil
	}
	defer r.frozen.Store(false)
	wasLeader := w.leads(c, r)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	w.count("SIGSTOP of a %s, and SIGCONT", r.controller)
	if wasLeader {
		w.awaitLeader(c, r.controller, "from the leader's freezing to the next leader")
	}
	pause(ctx, w.random("freeze"), 40*time.Second, 50*time.Second)
	return syscall.Kill(pid, syscall.SIGCONT)
}

// awaitLeader measures in the background how long it takes until a replica becomes the leader.
func (w *world) awaitLeader(c *crew, controller, what string) {
	began := time.Now()
	c.send(func(ctx context.Context) {
		err := within(ctx, patience, func(ctx context.Context) error {
			for _, r := range w.controllers {
				if r.controller == controller && !r.frozen.Load() && w.leads(ctx, r) {
					return nil
				}
			}
			return fmt.Errorf("no replica of %s leads", controller)
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			w.violation("%s: %s after %s", what, err, patience)
		}
		w.took(what+" of "+controller, time.Since(began))
	})
}

func (w *world) leads(ctx context.Context, r *replica) bool {
	sample, err := scrape(ctx, r.Process)
	return err == nil && sample.leads
}

// restartAPIServer kills the API server and restarts it. Every second time, etcd's history is compacted.
func (w *world) restartAPIServer(ctx context.Context, r *rand.Rand) error {
	server := w.Cluster.Process("kube-apiserver")
	w.count("SIGKILL of kube-apiserver")
	if err := server.Kill(); err != nil {
		return err
	}
	if r.IntN(2) == 0 {
		w.count("compaction of etcd")
		if err := w.Cluster.Compact(context.WithoutCancel(ctx)); err != nil {
			w.violation("%s", err)
		}
	}
	pause(ctx, r, 0, 5*time.Second)
	return insist(context.WithoutCancel(ctx), func() error { return server.Start(context.WithoutCancel(ctx)) })
}

// troubleHost makes one request fail at the healthy Git host, before or after it has taken effect.
func (w *world) troubleHost(_ context.Context, r *rand.Rand) error {
	requests := []struct{ method, path string }{
		{http.MethodPost, createPull}, {http.MethodGet, "/pulls"}, {http.MethodPost, `/git-receive-pack$`}, {"", infoRefs},
		{http.MethodPost, uploadPack}, {http.MethodPatch, `/pulls/`}, {http.MethodPut, `/merge$`}, {http.MethodPost, `/comments$`}, {http.MethodPost, `/statuses/`},
	}
	faults := []struct {
		name  string
		fault githost.Fault
	}{
		{"was not carried out", githost.CutBefore()}, {"was carried out, without an answer", githost.CutAfter()},
		{"was answered with 500", githost.InternalServerError()}, {"was refused, by a rate limit", githost.SecondaryRateLimit(time.Second)},
	}
	request, fault := requests[r.IntN(len(requests))], faults[r.IntN(len(faults))]
	w.count("a request at the Git host %s", fault.name)
	w.github.FailNext(request.method, request.path, 1, fault.fault)
	return nil
}

// troubleLeaf disrupts a leaf cluster for some seconds.
func (w *world) troubleLeaf(ctx context.Context, r *rand.Rand) error {
	leaf := w.leaves[r.IntN(len(w.leaves))]
	leaf.server.Requests() // discards the recorded requests
	ways := []struct {
		name        string
		begin, stop func() error
	}{
		{"silent", done(leaf.line.Silence), done(leaf.line.Restore)},
		{"stopped", leaf.server.Stop, leaf.server.Resume},
		{"hung", done(leaf.server.Hang), done(leaf.server.Unhang)},
		{"with a history that is compacted", done(func() { leaf.server.Compact(); leaf.server.Disconnect() }), done(leaf.server.Disconnect)},
		{"refusing", done(func() { leaf.server.Refuse(refuseAll); leaf.server.Disconnect() }), done(func() { leaf.server.Refuse(nil) })},
		{"with tokens revoked", done(func() { leaf.server.Accept(); leaf.server.Disconnect() }), done(func() { leaf.server.Accept(leafserver.Token) })},
	}
	way := ways[r.IntN(len(ways))]
	w.count("leaf cluster %s", way.name)
	if err := way.begin(); err != nil {
		return err
	}
	pause(ctx, r, time.Second, 40*time.Second)
	return way.stop()
}

func done(do func()) func() error {
	return func() error {
		do()
		return nil
	}
}

func refuseAll(leafserver.Request) int { return http.StatusInternalServerError }
