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

// Package announce records events, both in Kubernetes and with Flux's notification-controller.
package announce

import (
	eventv1 "github.com/fluxcd/pkg/apis/event/v1beta1"
	"github.com/fluxcd/pkg/runtime/events"
	"k8s.io/apimachinery/pkg/runtime"
	kuberecorder "k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mostPending is the maximum number of events that wait to be posted to notification-controller.
const mostPending = 1000

// Announcer records events in Kubernetes and posts them to notification-controller, without blocking its caller. Flux's
// recorder retries for half a minute if notification-controller does not respond, and gates and promotions must not
// wait for that.
type Announcer struct {
	scheme           *runtime.Scheme
	kubernetes, flux kuberecorder.EventRecorder
	// pending limits the events that are being posted.
	pending chan struct{}
}

// New returns an Announcer for a controller. address is that of notification-controller, and may be empty.
func New(mgr ctrl.Manager, address, controller string) (*Announcer, error) {
	kubernetes, err := events.NewRecorder(mgr, ctrl.Log, "", controller)
	if err != nil {
		return nil, err
	}
	// The fake recorder drops its events: they are already recorded in Kubernetes.
	flux, err := events.NewRecorderForScheme(mgr.GetScheme(), &kuberecorder.FakeRecorder{}, ctrl.Log, address, controller)
	return To(mgr.GetScheme(), kubernetes, flux), err
}

// To returns an Announcer that records events about objects of the scheme with these recorders. It waits only for the
// first one.
func To(scheme *runtime.Scheme, kubernetes, flux kuberecorder.EventRecorder) *Announcer {
	return &Announcer{scheme: scheme, kubernetes: kubernetes, flux: flux, pending: make(chan struct{}, mostPending)}
}

// Event records an event about the last write of an object, and posts it.
func (a *Announcer) Event(obj client.Object, eventType, reason, message string) {
	a.kubernetes.Event(obj, eventType, reason, message)
	a.Post(obj, obj, eventType, reason, message)
}

// Post posts an event on an object about the last write of another one, unless too many are pending. It does not record
// it in Kubernetes, which would cost a request to the API server.
func (a *Announcer) Post(obj runtime.Object, written client.Object, eventType, reason, message string) {
	select {
	case a.pending <- struct{}{}:
	default:
		ctrl.Log.WithName("events").Info("dropped an event: notification-controller does not respond", "reason", reason, "message", message)
		return
	}
	obj, metadata := obj.DeepCopyObject(), a.metadata(obj, written)
	go func() {
		defer func() { <-a.pending }()
		a.flux.AnnotatedEventf(obj, metadata, eventType, reason, "%s", message)
	}()
}

// metadata contains the token by which notification-controller distinguishes an event from an earlier one with the same
// message. It drops the second of two events with the same token within five minutes. Without the token, a gate that is
// closed, opened and closed again would be reported as open.
func (a *Announcer) metadata(obj runtime.Object, written client.Object) map[string]string {
	ref, err := reference.GetReference(a.scheme, obj)
	if err != nil {
		return nil // the recorder reports it
	}
	// notification-controller looks it up under the API group of the object, without the version.
	return map[string]string{ref.GroupVersionKind().Group + "/" + eventv1.MetaTokenKey: written.GetResourceVersion()}
}
