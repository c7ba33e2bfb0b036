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

package announce

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	kuberecorder "k8s.io/client-go/tools/record"
)

// stuck is a recorder whose notification-controller does not respond.
type stuck struct {
	kuberecorder.EventRecorder
	recorded chan string
	answer   chan struct{}
}

func (s *stuck) AnnotatedEventf(_ runtime.Object, _ map[string]string, _, _, _ string, args ...any) {
	s.recorded <- fmt.Sprint(args...)
	<-s.answer
}

func TestNobodyWaitsForNotificationController(t *testing.T) {
	g := NewWithT(t)
	recorder := &stuck{recorded: make(chan string, 2*mostPending), answer: make(chan struct{})}
	kubernetes := kuberecorder.NewFakeRecorder(2 * mostPending)
	announcer := To(scheme.Scheme, kubernetes, recorder)
	for range mostPending + 10 {
		announcer.Event(&corev1.ConfigMap{}, corev1.EventTypeNormal, "Held", "held")
	}
	g.Eventually(recorder.recorded).Should(HaveLen(mostPending), "the others are not posted")
	g.Expect(kubernetes.Events).To(HaveLen(mostPending + 10))

	close(recorder.answer)
	g.Eventually(announcer.pending).Should(BeEmpty())
	announcer.Event(&corev1.ConfigMap{}, corev1.EventTypeNormal, "Released", "released")
	g.Eventually(recorder.recorded).Should(HaveLen(mostPending+1), "and it continues")
}

// posted records the metadata of events that are posted to notification-controller.
type posted struct {
	kuberecorder.EventRecorder
	metadata chan map[string]string
}

func (p *posted) AnnotatedEventf(_ runtime.Object, metadata map[string]string, _, _, _ string, _ ...any) {
	p.metadata <- metadata
}

func TestNotificationControllerTellsEventsOfTwoWritesApart(t *testing.T) {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}}
	for _, test := range []struct {
		name  string
		event func(*Announcer)
		want  map[string]string
	}{
		{"by the version of the object that was written", func(a *Announcer) {
			a.Event(deployment, corev1.EventTypeNormal, "Held", "held")
		}, map[string]string{"apps/token": "7"}},
		{"under the API group of the object that the event is on", func(a *Announcer) {
			on := &corev1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", ResourceVersion: "1"}
			a.Post(on, deployment, corev1.EventTypeNormal, "Held", "held")
		}, map[string]string{"batch/token": "7"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			recorder := &posted{metadata: make(chan map[string]string, 1)}
			test.event(To(scheme.Scheme, &kuberecorder.FakeRecorder{}, recorder))
			NewWithT(t).Eventually(recorder.metadata).Should(Receive(Equal(test.want)))
		})
	}
}
