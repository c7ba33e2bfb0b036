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
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
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
		transport, err := NewTransport(authority, func(*http.Request) int64 { return limit })
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
