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
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// tenant is the namespace of Pipelines that are not measured.
const tenant = "tenant"

// silentHost is a Git host that accepts connections and never answers.
type silentHost struct {
	address     string
	connections atomic.Int64
}

func newSilentHost(t testing.TB) (*silentHost, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	host := &silentHost{address: listener.Addr().String()}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			host.connections.Add(1)
			t.Cleanup(func() { _ = connection.Close() })
		}
	}()
	return host, nil
}

// connected waits until somebody waits for an answer.
func (h *silentHost) connected(ctx context.Context) error {
	return poll(ctx, "a connection to the Git host", func(context.Context) error {
		if h.connections.Load() == 0 {
			return errors.New("there is none")
		}
		return nil
	})
}

// addTenant creates Pipelines that wait for the gate, and Pipelines that promote by pull request on the host.
func (f *fleet) addTenant(ctx context.Context, gate *gatingv1.Gate, host *silentHost, waiting, slow int) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "host"}, StringData: map[string]string{"token": "secret"}}
	if err := errors.Join(f.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}),
		f.client.Create(ctx, gate), f.client.Create(ctx, secret)); err != nil {
		return err
	}
	byGate := pipelinesv1.Promotion{
		Gates:    &gatingv1.GateReferences{Refs: []gatingv1.GateReference{gatingv1.GateReference(gate.Name)}},
		Strategy: pipelinesv1.Strategy{Notification: &pipelinesv1.NotificationPromotion{}},
	}
	byHost := pipelinesv1.Promotion{Strategy: pipelinesv1.Strategy{PullRequest: &pipelinesv1.PullRequestPromotion{
		Type: "gitea", URL: fmt.Sprintf("https://%s/tenant/fleet", host.address), BaseBranch: "main",
	}}}
	byHost.Strategy.PullRequest.SecretRef.Name = secret.Name
	for _, group := range []struct {
		name      string
		n         int
		promotion pipelinesv1.Promotion
	}{{"waiting", waiting, byGate}, {"slow", slow, byHost}} {
		names := make([]string, group.n)
		for i := range names {
			names[i] = fmt.Sprintf("%s-%04d", group.name, i)
		}
		if err := errors.Join(f.addPipelines(ctx, tenant, names, group.promotion), f.addApplications(ctx, names, revisionOf(1))); err != nil {
			return err
		}
	}
	return nil
}
