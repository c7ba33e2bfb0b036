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

package leafcluster

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
)

func TestAnApplicationThatFluxReconciles(t *testing.T) {
	ready := application.State{Known: true, Ready: true, Revision: "v1"}
	reconciling := application.State{Known: true, Reconciling: true, Revision: "v1", Message: "Reconciliation in progress"}
	failed := application.State{Known: true, Revision: "v1", Message: "health check failed"}
	suspended := ready
	suspended.Suspended = true
	type step struct {
		after  time.Duration
		put    application.State
		shown  application.State
		queued []time.Duration
	}
	now := []time.Duration{0}
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"counts as ready meanwhile, and nothing is queued when it is ready again", []step{
			{0, ready, ready, now},
			{time.Second, reconciling, ready, []time.Duration{flickerTime}},
			{time.Second, ready, ready, nil},
			{8 * time.Second, reconciling, ready, []time.Duration{flickerTime}},
		}},
		{"counts as not ready if it takes longer", []step{
			{0, ready, ready, now},
			{time.Second, reconciling, ready, []time.Duration{flickerTime}},
			{flickerTime, reconciling, reconciling, nil},
			{time.Second, ready, ready, now},
		}},
		{"counts as not ready as soon as it fails", []step{
			{0, ready, ready, now},
			{time.Second, reconciling, ready, []time.Duration{flickerTime}},
			{time.Second, failed, failed, now},
			{time.Second, reconciling, reconciling, now},
		}},
		{"counts as not ready if it reconciles another revision", []step{
			{0, ready, ready, now},
			{time.Second, application.State{Known: true, Reconciling: true, Revision: "v2"}, application.State{Known: true, Reconciling: true, Revision: "v2"}, now},
		}},
		{"counts as not ready if it was never seen ready", []step{{0, reconciling, reconciling, now}}},
		{"is queued if it returns with another change", []step{
			{0, ready, ready, now},
			{time.Second, reconciling, ready, []time.Duration{flickerTime}},
			{time.Second, suspended, suspended, now},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				var queued []time.Duration
				w := newWatch(watchKey{}, &server{}, func(_ types.NamespacedName, after time.Duration) { queued = append(queued, after) })
				name := types.NamespacedName{Namespace: "prod", Name: "app"}
				w.subscribe(name, subscriber{})
				w.replace(nil)
				for _, step := range test.steps {
					time.Sleep(step.after)
					queued = nil
					w.set(&application.Object{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, State: step.put})
					g.Expect(w.read(name)).To(Equal(step.shown))
					g.Expect(queued).To(Equal(step.queued))
				}
			})
		})
	}
}
