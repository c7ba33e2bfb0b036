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

package leafcluster_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/leafserver"
)

func TestManyUseClustersAtOnce(t *testing.T) {
	const users, rounds = 8, 40
	g := NewWithT(t)
	w := newWorld(t)
	// Two names of one cluster, one of another, and the management cluster: connections are shared, begun and ended all
	// the time.
	one, other := newAppLeaf(t), newAppLeaf(t)
	_, rotated := w.connect("eu", one)
	w.connect("eu-too", one)
	w.connect("us", other)
	w.management.Put(app("v1"))
	targets := []pipelinesv1.Target{inCluster("eu"), inCluster("eu-too"), inCluster("us"), {Namespace: "prod"}}

	var all sync.WaitGroup
	for user := range users {
		all.Go(func() {
			for n := range rounds {
				p := pipeline(fmt.Sprint("p-", user), targets[n%len(targets)], targets[(n+user)%len(targets)])
				w.Want(context.Background(), p)
				w.Refresh(client.ObjectKeyFromObject(p))
				for _, env := range p.Spec.Environments {
					w.Read(context.Background(), p, env.Targets[0])
				}
				testutil.CollectAndCount(w.Clusters)
				if n%3 == 0 {
					w.Forget(client.ObjectKeyFromObject(p))
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { defer close(done); all.Wait() }()
	for n := 0; ; n++ {
		select {
		case <-done:
			for _, target := range targets {
				w.watch(pipeline("p", target))
			}
			for user := range users {
				w.Forget(types.NamespacedName{Namespace: "default", Name: fmt.Sprint("p-", user)})
			}
			w.Forget(types.NamespacedName{Namespace: "default", Name: "p"})
			g.Eventually(func() int {
				first, _ := one.Connections()
				second, _ := other.Connections()
				return first + second
			}).Should(BeZero(), "nothing is left of what nobody wants any more")
			return
		default:
		}
		token := fmt.Sprint("token-", n)
		one.Accept(leafserver.Token, token)
		rotated.Data["value"] = one.Kubeconfig(token)
		w.update(rotated)
		one.Put(app("v1"))
		one.Disconnect()
	}
}
