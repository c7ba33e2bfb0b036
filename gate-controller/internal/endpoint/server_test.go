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
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) // a Saturday

const gates = `
metadata: {name: open, namespace: apps}
spec: {closed: false}
---
metadata: {name: closed, namespace: apps, annotations: {gating.toolkit.fluxcd.io/reason: "end of\nquarter"}}
spec: {closed: true}
---
metadata: {name: weekend, namespace: apps}
spec: {closed: false, closedDuring: [{name: weekend, from: "0 15 * * 5", to: "0 7 * * 1"}]}
---
metadata: {name: ended, namespace: apps}
spec: {closed: false, closedDuring: [{name: maintenance, from: "2026-11-21T11:00", to: "2026-11-21T12:00"}]}
---
metadata: {name: overridden, namespace: apps}
spec: {closed: true, override: {closed: false, until: "2026-11-21T12:00:01Z", reason: INC-4711}}
---
metadata: {name: expired, namespace: apps}
spec: {closed: true, override: {closed: false, until: "2026-11-21T12:00:00Z", reason: INC-4711}}
---
metadata: {name: invalid, namespace: apps}
spec: {closed: false, closedDuring: [{name: weekend, from: "0 15 * * 8", to: "0 7 * * 1"}]}
`

func newReader(t *testing.T, funcs interceptor.Funcs) client.Reader {
	t.Helper()
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(gatingv1.AddToScheme(scheme)).To(Succeed())
	builder := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(funcs)
	for _, document := range strings.Split(gates, "---\n") {
		gate := &gatingv1.Gate{}
		g.Expect(yaml.UnmarshalStrict([]byte(document), gate)).To(Succeed())
		builder = builder.WithObjects(gate)
	}
	return builder.Build()
}

// serve runs the endpoint until the test ends, and returns its address.
func serve(t *testing.T, gates client.Reader) string {
	t.Helper()
	g := NewWithT(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	server := &Server{Gates: gates, Now: func() time.Time { return now }, Log: logr.Discard()}
	go func() { stopped <- server.serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		g.Expect(<-stopped).To(Succeed())
	})
	return listener.Addr().String()
}

// ask sends a request and returns the code and the body of the response.
func ask(t *testing.T, method, address, path string, body io.Reader) (int, string) {
	t.Helper()
	g := NewWithT(t)
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, body)
	g.Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultTransport.RoundTrip(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(answer)
}

func TestAGateIsConfirmedOnlyWhileItIsOpen(t *testing.T) {
	address := serve(t, newReader(t, interceptor.Funcs{}))
	for _, test := range []struct {
		name, path string
		code       int
		answer     string
	}{
		{"a gate that is open", "/gates/apps/open", 200, "gate apps/open is open\n"},
		{"a closed gate, with the reason on one line", "/gates/apps/closed", 403, "gate apps/closed is closed (end of quarter)\n"},
		{"a gate in its window", "/gates/apps/weekend", 403, "gate apps/weekend is closed by window weekend until 2026-11-23T07:00:00Z\n"},
		{"a gate whose window has ended, whatever its status says", "/gates/apps/ended", 200, "gate apps/ended is open\n"},
		{"a closed gate with an override", "/gates/apps/overridden", 200, "gate apps/overridden is open by override until 2026-11-21T12:00:01Z (INC-4711)\n"},
		{"a closed gate whose override has expired", "/gates/apps/expired", 403, "gate apps/expired is closed\n"},
		{"a gate with an invalid window", "/gates/apps/invalid", 403, "window weekend is invalid"},
		{"a gate that does not exist", "/gates/apps/none", 404, "gate apps/none not found\n"},
		{"the name of an open gate in another namespace", "/gates/other/open", 404, "gate other/open not found\n"},
		{"a query changes nothing", "/gates/apps/closed?name=open", 403, "gate apps/closed is closed"},
		{"an encoded slash leads to no other gate", "/gates/apps/other%2F..%2Fopen", 404, "not found\n"},
		{"an encoded slash in the namespace leads to no gate", "/gates/apps%2Fopen/", 404, "not found\n"},
		{"a path without a name", "/gates/apps", 404, "not found\n"},
		{"a path with more behind the name", "/gates/apps/open/", 404, "not found\n"},
		{"another path", "/", 404, "not found\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				g := NewWithT(t)
				code, answer := ask(t, method, address, test.path, strings.NewReader(`{"name":"shop","namespace":"apps","phase":"Waiting"}`))
				g.Expect(code).To(Equal(test.code), method)
				g.Expect(answer).To(ContainSubstring(test.answer), method)
			}
		})
	}
}

func TestOtherMethodsAreRefused(t *testing.T) {
	address := serve(t, newReader(t, interceptor.Funcs{}))
	for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions} {
		code, _ := ask(t, method, address, "/gates/apps/open", nil)
		NewWithT(t).Expect(code).To(Equal(http.StatusMethodNotAllowed), method)
	}
}

func TestAGateThatCannotBeReadIsNotConfirmed(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
	}{
		{"the cache is not started", &cache.ErrCacheNotStarted{}},
		{"the cache has not synced in time", context.DeadlineExceeded},
		{"the error has a secret in it", errors.New("s3cr3t")},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			address := serve(t, newReader(t, interceptor.Funcs{
				Get: func(ctx context.Context, _ client.WithWatch, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
					_, bounded := ctx.Deadline()
					g.Expect(bounded).To(BeTrue())
					return test.err
				},
			}))
			code, answer := ask(t, http.MethodPost, address, "/gates/apps/open", nil)
			g.Expect(code).To(Equal(http.StatusServiceUnavailable))
			g.Expect(answer).To(Equal("the state of the gate is unknown: reading it failed\n"))
		})
	}
}

func TestHeadersAreBounded(t *testing.T) {
	g := NewWithT(t)
	connection, err := net.Dial("tcp", serve(t, newReader(t, interceptor.Funcs{})))
	g.Expect(err).NotTo(HaveOccurred())
	defer connection.Close()
	// The server reads 4,096 bytes more than it allows, and not one byte more.
	start := "GET /gates/apps/open HTTP/1.1\r\nHost: gates\r\nX-Long: "
	_, err = io.WriteString(connection, start+strings.Repeat("a", maxHeader+4096-len(start)))
	g.Expect(err).NotTo(HaveOccurred())
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	g.Expect(response.StatusCode).To(Equal(http.StatusRequestHeaderFieldsTooLarge))
}

// A connection whose body has no end is answered, and closed.
func TestBodiesAreNotRead(t *testing.T) {
	g := NewWithT(t)
	address := serve(t, newReader(t, interceptor.Funcs{}))
	connection, err := net.Dial("tcp", address)
	g.Expect(err).NotTo(HaveOccurred())
	defer connection.Close()
	_, err = fmt.Fprintf(connection, "POST /gates/apps/open HTTP/1.1\r\nHost: gates\r\nContent-Length: %d\r\n\r\n{", 1<<40)
	g.Expect(err).NotTo(HaveOccurred())
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	g.Expect(response.Close).To(BeTrue())
}

// While all connections are taken, another one waits, and its gate is not confirmed.
func TestConnectionsAreBounded(t *testing.T) {
	g := NewWithT(t)
	address := serve(t, newReader(t, interceptor.Funcs{}))
	for range maxConnections {
		connection, err := net.Dial("tcp", address)
		g.Expect(err).NotTo(HaveOccurred())
		defer connection.Close()
		_, err = io.WriteString(connection, "GET /gates/apps/open HTTP/1.1\r\nHost: gates\r\n\r\n")
		g.Expect(err).NotTo(HaveOccurred())
		response, err := http.ReadResponse(bufio.NewReader(connection), nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	}
	one, err := net.Dial("tcp", address)
	g.Expect(err).NotTo(HaveOccurred())
	defer one.Close()
	_, err = io.WriteString(one, "GET /gates/apps/open HTTP/1.1\r\nHost: gates\r\n\r\n")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(one.SetReadDeadline(time.Now().Add(100 * time.Millisecond))).To(Succeed())
	_, err = one.Read(make([]byte, 1))
	g.Expect(err).To(MatchError(ContainSubstring("timeout")))
}
