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

package inside

import (
	"context"
	"net"
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"
)

func TestNames(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = server.Close() })
	services := newServices(Names{"notification-controller.flux-system.svc.cluster.local": netip.MustParseAddr("10.0.0.2")})
	go lookup(services.find).serve(server)
	// Controllers in Pods use this resolver.
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
	}}

	t.Run("a name that is known has its address", func(t *testing.T) {
		g := NewWithT(t)
		found, err := resolver.LookupHost(t.Context(), "Notification-Controller.flux-system.svc.cluster.local.")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found).To(Equal([]string{"10.0.0.2"}))
	})
	t.Run("a name that is not known does not exist", func(t *testing.T) {
		_, err := resolver.LookupHost(t.Context(), "source-controller.flux-system.svc.cluster.local.")
		NewWithT(t).Expect(err).To(HaveField("IsNotFound", true))
	})
	t.Run("what is no question gets no answer", func(t *testing.T) {
		for _, message := range []string{"", "short", "twelve bytes", "twelve bytes\x09cut off", "twelve bytes\x01a\x00\x00"} {
			NewWithT(t).Expect(lookup(newServices(nil).find).answer([]byte(message))).To(BeNil(), message)
		}
	})
}
