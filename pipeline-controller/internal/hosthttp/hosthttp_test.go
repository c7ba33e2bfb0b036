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

package hosthttp

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hostnet"
)

func TestTransport(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/error":
			w.WriteHeader(http.StatusInternalServerError)
		case "/elsewhere":
			w.Header().Set("Location", "https://user:pass/word@host:port/")
			w.WriteHeader(http.StatusFound)
		}
		_, _ = io.Copy(w, io.LimitReader(endless{}, 1<<20))
	}))
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	read := func(limit int64, path string) ([]byte, error) {
		transport, err := NewTransport(hostnet.Network{AllowLoopback: true}, authority, func(*http.Request) int64 { return limit })
		if err != nil {
			return nil, err
		}
		defer transport.CloseIdleConnections()
		response, err := (&http.Client{Transport: transport}).Get(server.URL + path)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		return io.ReadAll(response.Body)
	}

	t.Run("a body as large as allowed is read whole", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(read(1<<20, "/")).To(HaveLen(1 << 20))
	})
	t.Run("a body beyond its limit is an error", func(t *testing.T) {
		g := NewWithT(t)
		_, err := read(1<<20-1, "/")
		g.Expect(err).To(MatchError(ErrTooLarge))
	})
	t.Run("the body of an error is cut off", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(read(1, "/error")).To(HaveLen(maxErrorBody))
	})
	t.Run("where a redirect leads to is not told if it is no URL", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(read(1, "/elsewhere")).To(HaveLen(maxErrorBody), "it is an answer like any other")
	})
}

// servedBy returns a transport whose connections are all to a handler.
func servedBy(t *testing.T, handler http.HandlerFunc) *Transport {
	t.Helper()
	transport, err := NewTransport(hostnet.Network{}, nil, func(*http.Request) int64 { return 1 << 20 })
	if err != nil {
		t.Fatal(err)
	}
	connections := make(pipes)
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(connections) }()
	t.Cleanup(func() { _ = server.Close() })
	transport.base.DialContext = func(context.Context, string, string) (net.Conn, error) {
		host, conn := net.Pipe()
		connections <- host
		return conn, nil
	}
	return transport
}

// pipes is a listener that accepts what it is sent.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, open := <-p
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func TestAHostThatAnswersTooSlowly(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		says   string
		after  time.Duration
	}{
		{name: "with a body of a byte a second", says: hostnet.ErrTooSlow.Error(), after: hostnet.Window, answer: func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte(" "))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Second)
			}
		}},
		{name: "with a body that ends midway", says: hostnet.ErrTooSlow.Error(), after: hostnet.Window, answer: func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}},
		{name: "with a header of a byte a second", says: "timeout", after: hostnet.Window, answer: func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			for line := "HTTP/1.1 200 OK\r\nX-Slow: "; err == nil; line = "x" {
				_, err = io.WriteString(conn, line)
				time.Sleep(time.Second)
			}
		}},
		{name: "but in time", after: 30 * time.Second, answer: func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(30 * time.Second)
			_, _ = w.Write([]byte("hello"))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				transport := servedBy(t, test.answer)
				began := time.Now()
				response, err := (&http.Client{Transport: transport}).Get("http://git.example.com/")
				if err == nil {
					_, err = io.ReadAll(response.Body)
					g.Expect(response.Body.Close()).To(Succeed())
				}
				if test.says == "" {
					g.Expect(err).NotTo(HaveOccurred())
				} else {
					g.Expect(err).To(MatchError(ContainSubstring(test.says)))
				}
				g.Expect(time.Since(began)).To(Equal(test.after))
				transport.CloseIdleConnections()
				time.Sleep(time.Hour) // until the host has noticed
			})
		})
	}
}

func TestAddressesThatARequestMayNotGoTo(t *testing.T) {
	served := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served++
		if r.URL.Path == "/elsewhere" {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
		}
	}))
	t.Cleanup(server.Close)
	for _, test := range []struct {
		name    string
		network hostnet.Network
		proxy   func(*http.Request) (*url.URL, error)
		url     string
		says    string
		served  int
	}{
		{name: "loopback", url: server.URL, says: "loopback address"},
		{name: "loopback, with the flag", network: hostnet.Network{AllowLoopback: true}, url: server.URL, served: 1},
		{name: "the address that a host redirects to", network: hostnet.Network{AllowLoopback: true}, url: server.URL + "/elsewhere",
			says: "169.254.169.254 is not allowed as the address of a Git host", served: 1},
		{name: "a proxy on loopback, for a host elsewhere", proxy: proxyAt(server.URL), url: "http://git.example.com/", served: 1},
		{name: "a proxy on loopback, for a link-local address", proxy: proxyAt(server.URL), url: "http://169.254.169.254/", says: "is not allowed"},
		{name: "a proxy on loopback, for loopback", proxy: proxyAt(server.URL), url: "http://[::1]/", says: "loopback address"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			transport, err := NewTransport(test.network, nil, func(*http.Request) int64 { return 1 << 20 })
			g.Expect(err).NotTo(HaveOccurred())
			defer transport.CloseIdleConnections()
			if test.proxy != nil {
				transport.base.Proxy = test.proxy
			}
			served = 0
			response, err := (&http.Client{Transport: transport}).Get(test.url)
			if test.says == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(response.Body.Close()).To(Succeed())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring(test.says)))
			}
			g.Expect(served).To(Equal(test.served))
		})
	}
}

func proxyAt(address string) func(*http.Request) (*url.URL, error) {
	parsed, err := url.Parse(address)
	return func(*http.Request) (*url.URL, error) { return parsed, err }
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestNewError(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a secret is redacted wherever it stands", "a p@ss/1 b p@ss/1", "a [redacted] b [redacted]"},
		{"a secret is redacted in the spelling of a query", "x?token=p%40ss%2F1", "x?token=[redacted]"},
		{"a secret is redacted in the spelling of a URL's user", "https://u:p%40ss%2F1@host", "https://u:[redacted]@host"},
		{"a secret is redacted in base64", "Basic cEBzcy8x", "Basic [redacted]"},
		{"lines and control characters become spaces", "a\r\n\tb\x1b[0m\x00c", "a b [0m c"},
		{"bytes that are no UTF-8 are replaced", "a\xffb", "a�b"},
		{"a long text is cut", strings.Repeat("x", 5000), strings.Repeat("x", maxErrorText) + "…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			err := NewError(context.Canceled, c.text, "p@ss/1", "")
			g.Expect(err.Error()).To(Equal(c.want))
			g.Expect(errors.Is(err, context.Canceled)).To(BeTrue())
		})
	}
}
