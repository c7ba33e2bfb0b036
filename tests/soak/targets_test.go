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
	"math/rand/v2"
	"sync"
	"time"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-toolkit/sluice/tests/leafserver"
	"github.com/sluice-toolkit/sluice/tests/standin"
)

var kustomizeAPI = kustomizev1.GroupVersion.String()

// target is a suspended Kustomization. The test writes its status.
type target struct {
	namespace, name string
	// leaf is the target's cluster. It is nil for the management cluster.
	leaf *leafserver.Server

	mu sync.Mutex // guards revision, and orders writes
	// revision is the revision that it runs between disruptions.
	revision string
}

// deploy sets the target's revision.
func (t *target) deploy(ctx context.Context, in client.Client, revision string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revision = revision
	return t.put(ctx, in, revision, metav1.ConditionTrue)
}

// restore restores the target after a disruption.
func (t *target) restore(ctx context.Context, in client.Client) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.put(ctx, in, t.revision, metav1.ConditionTrue)
}

func (t *target) runs() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.revision
}

// flap disrupts the target for some seconds: it is not ready, missing, or on another revision. The first environment's
// revision stays, because that would start a run.
func (t *target) flap(ctx context.Context, in client.Client, r *rand.Rand, first bool) error {
	choices := 3
	if first {
		choices = 2
	}
	if err := t.spoil(ctx, in, r.IntN(choices)); err != nil {
		return err
	}
	pause(ctx, r, 0, 5*time.Second)
	return within(context.WithoutCancel(ctx), patience, func(ctx context.Context) error { return t.restore(ctx, in) })
}

func (t *target) spoil(ctx context.Context, in client.Client, how int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch how {
	case 0:
		return t.put(ctx, in, t.revision, metav1.ConditionFalse)
	case 1:
		return t.remove(ctx, in)
	default:
		return t.put(ctx, in, "by-hand", metav1.ConditionTrue)
	}
}

// put writes the object.
func (t *target) put(ctx context.Context, in client.Client, revision string, ready metav1.ConditionStatus) error {
	if t.leaf != nil {
		t.leaf.Put(leafserver.Object{Namespace: t.namespace, Name: t.name, Revision: revision, Ready: string(ready)})
		return nil
	}
	return standin.Application{Key: client.ObjectKey{Namespace: t.namespace, Name: t.name}, Revision: revision, Ready: ready}.Put(ctx, in)
}

func (t *target) remove(ctx context.Context, in client.Client) error {
	if t.leaf != nil {
		t.leaf.Delete(leafserver.Object{Namespace: t.namespace, Name: t.name})
		return nil
	}
	app := &kustomizev1.Kustomization{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: t.name}}
	return client.IgnoreNotFound(in.Delete(ctx, app))
}
