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
	"github.com/fluxcd/pkg/runtime/events"
	"k8s.io/apimachinery/pkg/runtime"
	kuberecorder "k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
)

// mostPending is how many events may wait for notification-controller at a time.
const mostPending = 1000

// Announcer records Kubernetes' events, and posts them to notification-controller, without keeping its caller waiting. Flux's
// recorder tries for half a minute when that doesn't answer; gates and promotions must not wait for it.
type Announcer struct {
	kubernetes, flux kuberecorder.EventRecorder
	// pending has room for events that are being posted.
	pending chan struct{}
}

// NewAnnouncer returns an Announcer for a controller, and the address of notification-controller, which may be empty.
func NewAnnouncer(mgr ctrl.Manager, address, controller string) (*Announcer, error) {
	kubernetes, err := events.NewRecorder(mgr, ctrl.Log, "", controller)
	if err != nil {
		return nil, err
	}
	// The fake one drops what it is given: Kubernetes' own events are recorded already.
	flux, err := events.NewRecorderForScheme(mgr.GetScheme(), &kuberecorder.FakeRecorder{}, ctrl.Log, address, controller)
	return &Announcer{kubernetes: kubernetes, flux: flux, pending: make(chan struct{}, mostPending)}, err
}

// Event records an event about an object. It isn't posted if too many are waiting already.
func (a *Announcer) Event(obj runtime.Object, eventType, reason, message string) {
	a.kubernetes.Event(obj, eventType, reason, message)
	select {
	case a.pending <- struct{}{}:
	default:
		ctrl.Log.WithName("events").Info("an event was not posted: notification-controller does not answer", "reason", reason, "message", message)
		return
	}
	obj = obj.DeepCopyObject()
	go func() {
		defer func() { <-a.pending }()
		a.flux.Event(obj, eventType, reason, message)
	}()
}
