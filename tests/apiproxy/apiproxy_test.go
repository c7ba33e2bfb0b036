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

package apiproxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/sluice-toolkit/sluice/tests/apiproxy"
)

func TestInterrupt(t *testing.T) {
	g := NewWithT(t)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer api.Close()
	proxy, err := apiproxy.Start(&rest.Config{Host: api.URL})
	g.Expect(err).NotTo(HaveOccurred())
	defer proxy.Close()
	controller, err := rest.HTTPClientFor(proxy.Config())
	g.Expect(err).NotTo(HaveOccurred())
	get := func(path string) *http.Response {
		response, err := controller.Get(proxy.Config().Host + path)
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}

	watch, other := get("/gates?watch=true"), get("/other?watch=true")
	proxy.Interrupt(func(r *http.Request) bool { return r.URL.Path == "/gates" })
	_, err = io.ReadAll(watch.Body)
	g.Expect(err).To(MatchError(io.ErrUnexpectedEOF), "it ends")
	g.Expect(get("/gates?watch=true&resourceVersion=7").StatusCode).To(Equal(http.StatusGone), "and can't continue")
	g.Expect(get("/other").StatusCode).To(Equal(http.StatusOK))

	listed := make(chan int, 2)
	for _, path := range []string{"/gates", "/gates?watch=true&sendInitialEvents=true"} {
		go func() { listed <- get(path).StatusCode }()
	}
	g.Consistently(listed, "100ms").ShouldNot(Receive())
	proxy.Resume()
	g.Eventually(listed).Should(Receive(Equal(http.StatusOK)))
	g.Eventually(listed).Should(Receive(Equal(http.StatusOK)))
	g.Expect(other.StatusCode).To(Equal(http.StatusOK))
}

func TestBefore(t *testing.T) {
	g := NewWithT(t)
	arrivals := make(chan string, 10)
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrivals <- r.URL.Path }))
	defer api.Close()
	proxy, err := apiproxy.Start(&rest.Config{Host: api.URL})
	g.Expect(err).NotTo(HaveOccurred())
	defer proxy.Close()
	controller, err := rest.HTTPClientFor(proxy.Config())
	g.Expect(err).NotTo(HaveOccurred())

	proxy.Before(func(r *http.Request) bool { return r.URL.Path == "/two" }, func(*http.Request) { arrivals <- "before" })
	for _, path := range []string{"/one", "/two", "/two"} {
		response, err := controller.Post(proxy.Config().Host+path, "", nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
	}
	for _, path := range []string{"/one", "before", "/two", "/two"} {
		g.Expect(arrivals).To(Receive(Equal(path)))
	}
}
