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
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	eventv1 "github.com/fluxcd/pkg/apis/event/v1beta1"
	. "github.com/onsi/gomega"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

func TestNotify(t *testing.T) {
	goAhead := func(context.Context) (string, error) { return "", nil }

	for _, test := range []struct {
		name    string
		answer  int
		limit   string
		confirm Confirm
		posted  int
		state   pipelinesv1.PromotionState
		wantErr string
	}{
		{name: "accepted is delivered", answer: http.StatusAccepted, confirm: goAhead, posted: 1, state: "succeeded"},
		{name: "an error of the server is a failed attempt", answer: http.StatusInternalServerError, confirm: goAhead, posted: 1, wantErr: "500"},
		{name: "a redirect is no delivery", answer: http.StatusNotModified, confirm: goAhead, posted: 1, wantErr: "304"},
		{name: "a duplicate was delivered by an attempt before it", answer: http.StatusTooManyRequests, limit: "1", confirm: goAhead, posted: 1, state: "succeeded"},
		{name: "too many requests are a failed attempt", answer: http.StatusTooManyRequests, confirm: goAhead, posted: 1, wantErr: "429"},
		{
			name: "a gate that has just closed calls it off", answer: http.StatusAccepted,
			confirm: func(context.Context) (string, error) { return "gate freeze is closed", nil },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			var events []eventv1.Event
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var event eventv1.Event
				g.Expect(json.NewDecoder(r.Body).Decode(&event)).To(Succeed())
				events = append(events, event)
				w.Header().Set("X-RateLimit-Limit", test.limit)
				w.WriteHeader(test.answer)
			}))
			defer server.Close()

			notifications := Notifications{Address: server.URL, Controller: "pipeline-controller"}
			outcome := notifications.Notify(t.Context(), promotion("default", "app", "prod", "v1@sha1:abc"), test.confirm)
			g.Expect(events).To(HaveLen(test.posted))
			g.Expect(outcome.State).To(Equal(test.state))
			if test.wantErr != "" {
				g.Expect(outcome.Err).To(MatchError(ContainSubstring(test.wantErr)))
			} else {
				g.Expect(outcome.Err).NotTo(HaveOccurred())
			}
			if test.posted > 0 {
				g.Expect(events[0].Message).To(Equal("Promote pipeline default/app to prod with version v1@sha1:abc"))
				g.Expect(events[0].InvolvedObject.Kind).To(Equal("Pipeline"))
				g.Expect(events[0].Metadata).To(HaveKeyWithValue("pipelines.weave.works/environment", "prod"))
				g.Expect(events[0].Metadata).To(HaveKey("pipelines.weave.works/token"))
			}
		})
	}
}
