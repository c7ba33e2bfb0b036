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
	"k8s.io/apimachinery/pkg/runtime"
	kuberecorder "k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
)

// mostPending is how many events may wait for notification-controller at a time.
const mostPending = 100

// Announcer records events without keeping its caller waiting. Flux's recorder, which also posts them to notification-controller,
// tries for half a minute when that doesn't answer; gates and promotions must not wait for that.
type Announcer struct {
	recorder kuberecorder.EventRecorder
	// pending has room for events that are being recorded.
	pending chan struct{}
}

// NewAnnouncer returns an Announcer that records events with the recorder.
func NewAnnouncer(recorder kuberecorder.EventRecorder) *Announcer {
	return &Announcer{recorder: recorder, pending: make(chan struct{}, mostPending)}
}

// Event records an event about an object, unless too many are waiting already.
func (a *Announcer) Event(obj runtime.Object, eventType, reason, message string) {
	select {
	case a.pending <- struct{}{}:
	default:
		ctrl.Log.WithName("events").Info("dropped an event: notification-controller does not answer", "reason", reason, "message", message)
		return
	}
	obj = obj.DeepCopyObject()
	go func() {
		defer func() { <-a.pending }()
		a.recorder.Event(obj, eventType, reason, message)
	}()
}
