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

package endpoint

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestAClientThatAsksTooOftenHasToWait(t *testing.T) {
	const client = "192.0.2.1:1111"
	for _, test := range []struct {
		name    string
		another string
		header  string
		after   time.Duration
		code    int
	}{
		{name: "the same client, at once", another: client, code: 429},
		{name: "from another port", another: "192.0.2.1:2222", code: 429},
		{name: "with a forged header", another: client, header: "X-Forwarded-For", code: 429},
		{name: "with another forged header", another: client, header: "X-Real-Ip", code: 429},
		{name: "with a forged standard header", another: client, header: "Forwarded", code: 429},
		{name: "by its IPv4 address written as an IPv6 one", another: "[::ffff:192.0.2.1]:1111", code: 429},
		{name: "when its time has come", another: client, after: 200 * time.Millisecond, code: 401},
		{name: "just before its time has come", another: client, after: 199 * time.Millisecond, code: 429},
		{name: "another client", another: "192.0.2.2:1111", code: 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			server := newServer(newClient(t))
			// Unsigned requests are refused and still count.
			request := posted(prodPath, "")
			request.header = http.Header{}
			request.remote = client
			for range clientBurst {
				g.Expect(request.to(server).Code).To(Equal(http.StatusUnauthorized))
			}
			request.remote = test.another
			if test.header != "" {
				request.header.Set(test.header, "198.51.100.7")
			}
			later := now.Add(test.after)
			server.Now = func() time.Time { return later }
			answer := request.to(server)
			g.Expect(answer.Code).To(Equal(test.code))
			if test.code == http.StatusTooManyRequests {
				g.Expect(answer.Header().Get("Retry-After")).To(Equal("1"))
			}
		})
	}
}

func TestWhatCostsNothingIsNotCounted(t *testing.T) {
	g := NewWithT(t)
	server := newServer(newClient(t))
	request := posted("/promotion/shop/app/prod", "")
	for range 2 * totalBurst {
		g.Expect(request.to(server).Code).To(Equal(http.StatusGone))
	}
	g.Expect(posted(prodPath, "").to(server).Code).To(Equal(http.StatusCreated))
}

func TestAllClientsTogetherHaveALimit(t *testing.T) {
	g := NewWithT(t)
	var l limiter
	for i := range totalBurst {
		g.Expect(l.wait(address(i), now)).To(BeZero())
	}
	g.Expect(l.wait(address(totalBurst), now)).To(Equal(time.Second / totalRate))
	g.Expect(l.wait(address(totalBurst), now.Add(time.Second/totalRate))).To(BeZero())
}

func TestWaitingInVainCostsNothing(t *testing.T) {
	g := NewWithT(t)
	var l limiter
	for range clientBurst {
		g.Expect(l.wait(address(1), now)).To(BeZero())
	}
	for range 3 * totalBurst {
		g.Expect(l.wait(address(1), now)).To(Equal(time.Second / clientRate))
	}
	g.Expect(l.wait(address(2), now)).To(BeZero(), "others have what is left of the total")
}

func TestOnlySoManyClientsAreRemembered(t *testing.T) {
	g := NewWithT(t)
	var l limiter
	for i := range 3 * maxClients {
		l.wait(address(i), now.Add(time.Duration(i)*time.Second))
		l.wait(address(0), now.Add(time.Duration(i)*time.Second))
	}
	g.Expect(l.clients).To(HaveLen(maxClients))
	g.Expect(l.recent.Len()).To(Equal(maxClients))
	g.Expect(l.clients).To(HaveKey(address(0)), "it has asked all the time")
	g.Expect(l.clients).NotTo(HaveKey(address(1)))
}

func address(i int) netip.Prefix {
	return clientOf(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255))
}

func TestClientsAreToldApartByTheirConnection(t *testing.T) {
	for _, test := range []struct {
		name, remote, client string
	}{
		{"an IPv4 address", "192.0.2.1:1234", "192.0.2.1/32"},
		{"an IPv4 address written as an IPv6 one", "[::ffff:192.0.2.1]:1234", "192.0.2.1/32"},
		{"an IPv6 address is one of its network", "[2001:db8:1:2:3:4:5:6]:1234", "2001:db8:1:2::/64"},
		{"another address of the same network", "[2001:db8:1:2::1]:1234", "2001:db8:1:2::/64"},
		{"a link-local address", "[fe80::1%eth0]:1234", "fe80::/64"},
		{"no address", "@", "invalid Prefix"},
	} {
		t.Run(test.name, func(t *testing.T) {
			NewWithT(t).Expect(clientOf(test.remote).String()).To(Equal(test.client))
		})
	}
}
