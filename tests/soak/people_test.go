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
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"

	"code.gitea.io/sdk/gitea"
	"github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/githost"
	"github.com/sluice-toolkit/sluice/tests/playground"
)

// patience is the timeout of everything that must happen while controllers are being killed.
const patience = 5 * time.Minute

// work starts the usual work of people: they merge and approve what waits for them, and deploy what is merged or
// notified.
func (w *world) work(c *crew) {
	w.accepted.deploy = func(p *pipeline, env, revision string) {
		c.send(func(ctx context.Context) { w.deploy(ctx, p, env, revision) })
	}
	seen := map[string]bool{}
	c.every("merge pull requests", time.Second, 3*time.Second, func(_ context.Context, r *rand.Rand) error { return w.tendPulls(c, r, seen) })
	c.every("merge the fleet's pull requests", 2*time.Second, 8*time.Second, func(context.Context, *rand.Rand) error { return w.mergeFleet() })
	c.every("approve", time.Second, 3*time.Second, w.approve)
}

// hurry starts disruptive work of people: they release, turn gates, and close pull requests.
func (w *world) hurry(c *crew) {
	c.every("release", 500*time.Millisecond, 3*time.Second, func(ctx context.Context, r *rand.Rand) error {
		return w.release(ctx, w.pipelines[r.IntN(len(w.pipelines))])
	})
	version := 0
	c.every("release the playground's application", 20*time.Second, time.Minute, func(context.Context, *rand.Rand) error {
		version++
		c.count("release of the playground's application")
		return w.Release("app", fmt.Sprintf("v1.0.%d", version))
	})
	c.every("commit to the sources", 3*time.Second, 8*time.Second, func(context.Context, *rand.Rand) error { return w.commit() })
	c.every("turn a tenant's gate", 5*time.Second, 20*time.Second, func(ctx context.Context, r *rand.Rand) error {
		return w.turn(ctx, tenants[r.IntN(len(tenants))], "freeze", r.IntN(2) == 0)
	})
	c.every("freeze the sources", 10*time.Second, 30*time.Second, w.freeze)
	c.every("close a pull request", 20*time.Second, time.Minute, func(_ context.Context, r *rand.Rand) error { return w.closePull(r) })
	c.every("ask for a look", 500*time.Millisecond, 2*time.Second, w.askForLook)
	c.every("replace a Pipeline", 5*time.Second, 20*time.Second, w.replace)
	c.every("flap", time.Second, 5*time.Second, func(ctx context.Context, r *rand.Rand) error {
		p, i := w.pipelines[r.IntN(len(w.pipelines))], r.IntN(len(environments))
		c.count("target made unready, deleted or changed")
		return p.targets[i].flap(ctx, w.Client, r, i == 0)
	})
}

// release makes the first environment of a Pipeline run a new revision.
func (w *world) release(ctx context.Context, p *pipeline) error {
	w.count("release")
	revision := p.next()
	return within(ctx, patience, func(ctx context.Context) error { return p.targets[0].deploy(ctx, w.Client, revision) })
}

// commit changes the repository of the gated sources.
func (w *world) commit() error {
	_, err := w.github.CommitFiles(repositoryOwner, "held", "main", map[string]string{"version": time.Now().String()}, "Change")
	return err
}

// turn closes or opens a gate.
func (w *world) turn(ctx context.Context, namespace, name string, closed bool) error {
	gate := &gatingv1.Gate{}
	gate.Namespace, gate.Name = namespace, name
	w.count("gate turned")
	return w.Client.Patch(ctx, gate, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"closed":%t}}`, closed)))
}

// deploy makes an environment run a promoted revision, after a short delay.
func (w *world) deploy(ctx context.Context, p *pipeline, env, revision string) {
	if pause(ctx, w.random(p.name+env+revision), 0, 3*time.Second) {
		_ = insist(ctx, func() error { return p.target(env).deploy(ctx, w.Client, revision) })
	}
}

var trailer = regexp.MustCompile(`(?m)^Sluice-(Pipeline|Environment|Revision): (.*?)\r?$`)

// madeFor returns what a pull request promotes.
func (w *world) madeFor(pull githost.PullRequest) (p *pipeline, env, revision string) {
	said := map[string]string{}
	for _, found := range trailer.FindAllStringSubmatch(pull.Body, -1) {
		said[found[1]] = found[2]
	}
	for _, candidate := range w.pipelines {
		if candidate.String() == said["Pipeline"] {
			p = candidate
		}
	}
	return p, said["Environment"], said["Revision"]
}

// repositories returns the names of the repositories on the healthy Git host.
func (w *world) repositories() []string {
	var names []string
	for _, p := range w.pipelines {
		if p.host == w.github && !slices.Contains(names, p.repository) {
			names = append(names, p.repository)
		}
	}
	return names
}

// tendPulls merges some of the pull requests and deploys what was merged. It remembers the pull requests that it has
// seen.
func (w *world) tendPulls(c *crew, r *rand.Rand, seen map[string]bool) error {
	first := func(format string, args ...any) bool {
		key := fmt.Sprintf(format, args...)
		before := seen[key]
		seen[key] = true
		return !before
	}
	for _, repository := range w.repositories() {
		pulls, err := w.github.PullRequests(repositoryOwner, repository)
		if err != nil {
			return err
		}
		for _, pull := range pulls {
			p, env, revision := w.madeFor(pull)
			if p == nil {
				w.violation("nobody knows for whom pull request %d of %s is: %s", pull.Number, repository, pull.Body)
				continue
			}
			if first("%s#%d", repository, pull.Number) {
				w.count("pull request opened")
				w.tookTo(p, env, revision, pull.CreatedAt)
			}
			if pull.Merged && first("%s#%d merged", repository, pull.Number) {
				w.count("pull request merged by %s", pull.MergedBy)
				c.send(func(ctx context.Context) { w.deployMerged(ctx, p, env) })
			}
			if pull.State == "open" && p.pullRequest == "" && r.IntN(3) == 0 {
				// It may conflict until Sluice renews it.
				_, _ = w.github.Merge(repositoryOwner, repository, pull.Number)
			}
		}
	}
	return nil
}

// deployMerged deploys the version on the base branch, which a later merge may have changed.
func (w *world) deployMerged(ctx context.Context, p *pipeline, env string) {
	version, err := p.version(env)
	if err != nil {
		w.violation("%s: %s", p, err)
		return
	}
	w.deploy(ctx, p, env, version)
}

// tookTo records how long the first promotion of a revision took. Only promotions that wait for nobody are compared.
func (w *world) tookTo(p *pipeline, env, revision string, then time.Time) {
	how := "pull request"
	if p.host == nil {
		how = "notification"
	}
	if since, known := p.since(revision, then); known && env == environments[1] && p.promotion == "" && p.clusterRefs == nil {
		w.took("from release to "+how, since)
	}
}

// closePull closes an open pull request without merging it.
func (w *world) closePull(r *rand.Rand) error {
	repositories := w.repositories()
	repository := repositories[r.IntN(len(repositories))]
	pulls, err := w.github.PullRequests(repositoryOwner, repository)
	if err != nil {
		return err
	}
	for _, pull := range pulls {
		if pull.State == "open" {
			w.count("pull request closed by a person")
			return w.github.ClosePullRequest(repositoryOwner, repository, pull.Number)
		}
	}
	return nil
}

func (w *world) mergeFleet() error {
	pulls, _, err := w.Git.Client.ListRepoPullRequests(w.Git.Username, "fleet", gitea.ListPullRequestsOptions{State: gitea.StateOpen})
	if err != nil || len(pulls) == 0 {
		return err
	}
	if err := w.Merge("fleet", pulls[0].Index); err != nil {
		return nil // not mergeable yet
	}
	w.count("pull request of the playground merged")
	return nil
}

// approve approves promotions that wait for approval.
func (w *world) approve(ctx context.Context, r *rand.Rand) error {
	var pipelines pipelinesv1.PipelineList
	if err := w.Client.List(ctx, &pipelines); err != nil {
		return err
	}
	for _, p := range pipelines.Items {
		for env, status := range p.Status.Environments {
			if status.WaitingApproval.Revision == "" || r.IntN(3) == 0 {
				continue
			}
			spec := pipelinesv1.PromotionApprovalSpec{Environment: env, Revision: status.WaitingApproval.Revision, ApprovedBy: "admin"}
			spec.PipelineRef.Name = p.Name
			if err := w.Client.Create(ctx, pipelinesv1.NewPromotionApproval(p.Namespace, spec)); client.IgnoreAlreadyExists(err) != nil {
				return err
			}
			w.count("approval")
		}
	}
	return nil
}

// askForLook requests a reconciliation, so a Pipeline on a hostile host makes its next attempt now.
func (w *world) askForLook(ctx context.Context, r *rand.Rand) error {
	obj := &pipelinesv1.Pipeline{}
	p := w.anyDoomed(r)
	obj.Namespace, obj.Name = p.namespace, p.name
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, meta.ReconcileRequestAnnotation, time.Now().Format(time.RFC3339Nano))
	return client.IgnoreNotFound(w.Client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, patch)))
}

// replace deletes a Pipeline on a hostile host and creates it again. The deletion must not take too long.
func (w *world) replace(ctx context.Context, r *rand.Rand) error {
	p := w.anyDoomed(r)
	obj := &pipelinesv1.Pipeline{}
	obj.Namespace, obj.Name = p.namespace, p.name
	w.count("Pipeline on a hostile host replaced")
	err := within(context.WithoutCancel(ctx), patience, func(ctx context.Context) error {
		if err := w.Client.Delete(ctx, obj); err == nil {
			return errors.New("it is there still")
		} else if client.IgnoreNotFound(err) != nil {
			return err
		}
		return nil
	})
	if err != nil {
		w.violation("%s could not be deleted in %s: %s", p, patience, err)
	}
	return insist(ctx, func() error { return w.apply(ctx, "%s", p.manifest()) })
}

func (w *world) anyDoomed(r *rand.Rand) *pipeline {
	doomed := slices.DeleteFunc(slices.Clone(w.pipelines), func(p *pipeline) bool { return !p.doomed })
	return doomed[r.IntN(len(doomed))]
}

// freeze closes the gate of the sources for a while. Once they are held, they must not publish anything new.
func (w *world) freeze(ctx context.Context, r *rand.Rand) error {
	// A freeze is always completed.
	going := context.WithoutCancel(ctx)
	for _, gate := range []string{"held", playground.GateName} {
		if err := insist(ctx, func() error { return w.turn(going, "flux-system", gate, true) }); err != nil {
			return err
		}
	}
	began := time.Now()
	published := map[string]string{}
	err := within(going, patience, func(ctx context.Context) error { return w.heldBack(ctx, published) })
	if err != nil {
		w.violation("the sources are not held %s after their gate was closed: %s", patience, err)
	}
	w.took("from a closed gate to all sources held", time.Since(began))
	pause(ctx, r, 5*time.Second, 40*time.Second)
	w.expectUnchanged(going, published)
	w.count("freeze of the sources")
	for _, gate := range []string{"held", playground.GateName} {
		if err := insist(going, func() error { return w.turn(going, "flux-system", gate, false) }); err != nil {
			return err
		}
	}
	return nil
}

// heldBack returns nil once all sources are held for their current generation, and records the revision that each has
// published.
func (w *world) heldBack(ctx context.Context, published map[string]string) error {
	for _, name := range w.gated() {
		source, err := w.source(ctx, name)
		if err != nil {
			return err
		}
		if !source.held() {
			return fmt.Errorf("%s is not held: %+v", name, source)
		}
		published[name] = source.revision()
	}
	return nil
}

// expectUnchanged expects that no source has published another revision.
func (w *world) expectUnchanged(ctx context.Context, published map[string]string) {
	for name, before := range published {
		var now *source
		err := within(ctx, patience, func(ctx context.Context) (err error) {
			now, err = w.source(ctx, name)
			return err
		})
		if err != nil {
			w.violation("source %s: %s", name, err)
		} else if now.revision() != before {
			w.violation("source %s has published %s while its gate was closed; it had %s", name, now.revision(), before)
		}
	}
}

// promotionToken identifies a promotion by notification.
type promotionToken struct{ pipeline, env, revision, token string }

// acceptances counts the notifications that notification-controller accepts.
type acceptances struct {
	*journal
	world  *world
	deploy func(p *pipeline, env, revision string)

	mu     sync.Mutex
	counts map[promotionToken]int
}

// before forwards events to notification-controller, even if the sender has died meanwhile.
func (a *acceptances) before(address string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		response, err := http.Post(address, r.Header.Get("Content-Type"), bytes.NewReader(body))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer response.Body.Close()
		if response.StatusCode < 300 {
			a.take(body)
		}
		for name, values := range response.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(response.StatusCode)
		_, _ = io.Copy(w, response.Body)
	})
}

// take counts the event if it is about a promotion.
func (a *acceptances) take(body []byte) {
	var event struct {
		Reason   string
		Metadata map[string]string
	}
	if json.Unmarshal(body, &event) != nil || event.Reason != "Promote" {
		return
	}
	said := func(key string) string { return event.Metadata[pipelinesv1.GroupVersion.Group+"/"+key] }
	token := promotionToken{pipeline: said("pipeline"), env: said("environment"), revision: said("version"), token: said("token")}
	a.mu.Lock()
	a.counts[token]++
	times := a.counts[token]
	a.mu.Unlock()
	if times > 1 {
		a.violation("a notification was accepted %d times: %+v", times, token)
	}
	a.count("notification accepted")
	for _, p := range a.world.pipelines {
		if p.String() == token.pipeline {
			a.world.tookTo(p, token.env, token.revision, time.Now())
			a.deploy(p, token.env, token.revision)
		}
	}
}
