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

package killproxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/sluice-toolkit/sluice/tests/killproxy"
)

func TestKillAt(t *testing.T) {
	for _, test := range []struct {
		name    string
		moment  killproxy.Moment
		arrives []string
	}{
		{"before a write, which then never arrives", killproxy.Moment{Call: 2}, []string{"/one"}},
		{"after a write, which has arrived", killproxy.Moment{Call: 2, Done: true}, []string{"/one", "/two"}},
		{"at the first write", killproxy.Moment{Call: 1, Done: true}, []string{"/one"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			arrivals := make(chan string, 10)
			api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet && !strings.HasPrefix(r.URL.Path, "/uncounted") {
					arrivals <- r.URL.Path
				}
			}))
			defer api.Close()
			proxy := &killproxy.Proxy{}
			defer proxy.Close()
			server, err := proxy.Kubernetes(&rest.Config{Host: api.URL}, func(r *http.Request) bool { return !strings.HasPrefix(r.URL.Path, "/uncounted") })
			g.Expect(err).NotTo(HaveOccurred())

			var kills atomic.Int32
			dead := proxy.KillAt(test.moment, func() error {
				kills.Add(1)
				return nil
			})
			controller := newClient(g, server)
			for _, path := range []string{"/one", "/two", "/three"} {
				g.Expect(send(controller, http.MethodGet, server.Host+path)).To(Succeed(), "reading continues")
				g.Expect(send(controller, http.MethodPost, server.Host+"/uncounted"+path)).To(Succeed())
				if err := send(controller, http.MethodPatch, server.Host+path); err != nil {
					break
				}
			}
			for _, path := range test.arrives {
				g.Expect(arrivals).To(Receive(Equal(path)))
			}
			g.Expect(arrivals).To(BeEmpty())
			g.Expect(dead).To(Receive(HaveField("Call", "PATCH "+[]string{"/one", "/two"}[test.moment.Call-1])))

			again := newClient(g, server)
			g.Expect(send(again, http.MethodPatch, server.Host+"/again")).To(Succeed(), "the next controller is left alone")
			g.Expect(arrivals).To(Receive(Equal("/again")))
			g.Expect(kills.Load()).To(BeEquivalentTo(1))
		})
	}
}

// newClient returns a client with connections of its own.
func newClient(g *WithT, server *rest.Config) *http.Client {
	config, err := rest.TLSConfigFor(server)
	g.Expect(err).NotTo(HaveOccurred())
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
}

func send(client *http.Client, method, url string) error {
	request, err := http.NewRequest(method, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
