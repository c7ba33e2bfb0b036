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

package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// alerted is an event as notification-controller posts it to a generic Provider.
type alerted struct {
	InvolvedObject      struct{ Kind, Namespace, Name string }
	Severity            string
	Reason              string
	Message             string
	ReportingController string
}

// alertOf makes notification-controller post the events of an object, and returns them. The Alert is in the object's
// namespace.
func alertOf(ctx context.Context, namespace, name, kind, of string) <-chan alerted {
	GinkgoHelper()
	received := make(chan alerted, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var posted alerted
		if err := json.NewDecoder(r.Body).Decode(&posted); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		received <- posted
	}))
	DeferCleanup(receiver.Close)
	apply(ctx, `
apiVersion: notification.toolkit.fluxcd.io/v1beta3
kind: Provider
metadata: {name: %[2]s, namespace: %[1]s}
spec: {type: generic, address: '%[3]s'}
---
apiVersion: notification.toolkit.fluxcd.io/v1beta3
kind: Alert
metadata: {name: %[2]s, namespace: %[1]s}
spec: {providerRef: {name: %[2]s}, eventSources: [{kind: %[4]s, name: %[5]s}]}
`, namespace, name, receiver.URL, kind, of)
	DeferCleanup(func(ctx SpecContext) {
		for _, kind := range []string{"Alert", "Provider"} {
			Expect(world.Client.Delete(ctx, object("notification.toolkit.fluxcd.io/v1beta3", kind, namespace, name))).To(Succeed())
		}
	})
	return received
}
