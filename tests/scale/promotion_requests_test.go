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

package scale

import (
	"context"
	"errors"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
)

// TestPromotionRequests counts pipeline-controller's requests to the API server for promotions by notification. The
// benchmarks include it.
func TestPromotionRequests(t *testing.T) {
	g := NewWithT(t)
	ctx, log := t.Context(), audited(t)
	f, err := startFleet(ctx, t, 20)
	g.Expect(err).NotTo(HaveOccurred())
	receiver, _ := f.receive(t)
	g.Expect(errors.Join(f.addApplications(ctx, f.names, revisionOf(0)), f.watch(ctx), f.startController(ctx, receiver), f.known(ctx), f.settled(ctx))).To(Succeed())
	for _, test := range []struct {
		name    string
		promote func(context.Context) error
	}{
		{"one at a time", func(ctx context.Context) error { _, _, err := f.promoteOneByOne(ctx); return err }},
		{"all at once", func(ctx context.Context) error { _, _, err := f.promoteAll(ctx); return err }},
	} {
		t.Run("a promotion is claimed, checked, recorded and announced, "+test.name, func(t *testing.T) {
			g := NewWithT(t)
			position, err := log.end()
			g.Expect(errors.Join(err, test.promote(ctx), f.known(ctx))).To(Succeed())
			g.Eventually(func() ([]string, error) {
				requests, err := log.since(ctx, position)
				return texts(slices.DeleteFunc(requests, func(r request) bool {
					// The first promotion starts the watch of sources.
					return r.User.Username != pipelineControllerUser || r.ObjectRef.Resource != "pipelines" && r.ObjectRef.Resource != "events"
				})), err
			}).Should(ConsistOf(slices.Repeat(
				[]string{"update pipelines/status: 200", "get pipelines: 200", "update pipelines/status: 200", "create events: 201"}, len(f.names))))
		})
	}
}
