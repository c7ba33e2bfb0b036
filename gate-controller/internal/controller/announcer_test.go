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

package controller

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kuberecorder "k8s.io/client-go/tools/record"
)

// stuck is a recorder whose notification-controller doesn't answer.
type stuck struct {
	kuberecorder.EventRecorder
	recorded chan string
	answer   chan struct{}
}

func (s *stuck) Event(_ runtime.Object, _, _, message string) {
	s.recorded <- message
	<-s.answer
}

func TestNobodyWaitsForNotificationController(t *testing.T) {
	g := NewWithT(t)
	recorder := &stuck{recorded: make(chan string, 2*mostPending), answer: make(chan struct{})}
	kubernetes := kuberecorder.NewFakeRecorder(2 * mostPending)
	announcer := &Announcer{kubernetes: kubernetes, flux: recorder, pending: make(chan struct{}, mostPending)}
	for range mostPending + 10 {
		announcer.Event(&corev1.ConfigMap{}, corev1.EventTypeNormal, "Held", "held")
	}
	g.Eventually(recorder.recorded).Should(HaveLen(mostPending), "the others are not posted")
	g.Expect(kubernetes.Events).To(HaveLen(mostPending + 10))

	close(recorder.answer)
	g.Eventually(announcer.pending).Should(BeEmpty())
	announcer.Event(&corev1.ConfigMap{}, corev1.EventTypeNormal, "Released", "released")
	g.Eventually(recorder.recorded).Should(HaveLen(mostPending+1), "and it goes on")
}
