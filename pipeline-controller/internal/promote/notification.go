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

package promote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	eventv1 "github.com/fluxcd/pkg/apis/event/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
)

// PromoteReason is the reason of the event that requests a promotion.
const PromoteReason = "Promote"

// Notifications promotes with events that are sent to Flux's notification-controller. It does not use Flux's event
// recorder, which sends them in the background and does not report whether that succeeded.
type Notifications struct {
	// Address of notification-controller's event endpoint.
	Address string
	// Controller is the reporting controller of events.
	Controller string
}

// Notify sends the promotion's event. The event was accepted if the status code is 2xx, or if the response says that it
// had been accepted before.
func (n *Notifications) Notify(ctx context.Context, promotion Promotion, confirm Confirm) plan.Outcome {
	if err := promotion.validate(); err != nil {
		return plan.Outcome{Err: err}
	}
	if n.Address == "" {
		return plan.Outcome{Err: errors.New("no address for events is configured: start the controller with --events-addr")}
	}
	if why, err := confirm(ctx); err != nil || why != "" {
		return plan.Outcome{Message: why, Err: err}
	}
	if err := n.post(ctx, promotion); err != nil {
		return plan.Outcome{Err: fmt.Errorf("notifying: %w", err)}
	}
	return plan.Outcome{State: pipelinesv1.PromotionSucceeded, Message: "the notification was accepted, which does not mean that anyone received it"}
}

func (n *Notifications) post(ctx context.Context, promotion Promotion) error {
	// notification-controller drops metadata without the API group of the involved object as prefix.
	prefix := pipelinesv1.GroupVersion.Group + "/"
	body, err := json.Marshal(eventv1.Event{
		InvolvedObject: corev1.ObjectReference{
			APIVersion: pipelinesv1.GroupVersion.String(),
			Kind:       pipelinesv1.PipelineKind,
			Namespace:  promotion.Pipeline.Namespace,
			Name:       promotion.Pipeline.Name,
		},
		Severity:  eventv1.EventSeverityInfo,
		Timestamp: metav1.Now(),
		Message:   plan.NotificationMessage(promotion.Pipeline, promotion.Environment, promotion.Revision),
		Reason:    PromoteReason,
		Metadata: map[string]string{
			prefix + "pipeline":    promotion.Pipeline.String(),
			prefix + "environment": promotion.Environment,
			prefix + "version":     promotion.Revision,
			// notification-controller uses the token to distinguish this event from that of an earlier promotion of the
			// same revision.
			prefix + eventv1.MetaTokenKey: promotion.Started.UTC().Format(time.RFC3339),
		},
		ReportingController: n.Controller,
	})
	if err != nil {
		return err
	}

	client := http.Client{Timeout: 15 * time.Second}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.Address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if acceptedBefore(response) {
		return nil
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		answer, _ := io.ReadAll(io.LimitReader(response.Body, 200))
		return fmt.Errorf("%s responded with %s: %q", n.Address, response.Status, answer)
	}
	return nil
}

// acceptedBefore reports whether notification-controller rejects the event as a duplicate: it accepts one event with
// the same message and token in five minutes. In that case the controller died after the event was accepted and before
// that was recorded. Other responses with the same status code do not have a limit of 1.
func acceptedBefore(response *http.Response) bool {
	return response.StatusCode == http.StatusTooManyRequests && response.Header.Get("X-RateLimit-Limit") == "1"
}
