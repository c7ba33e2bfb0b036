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

// Package hosthttp contains the common part of Git and API clients that connect to a Git host by HTTP. The host may be
// slow or hostile, or include our own credentials in its responses.
package hosthttp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"unicode"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hostnet"
)

const (
	// maxErrorBody is the maximum number of bytes that are read of an error response.
	maxErrorBody = 64 << 10
	// maxErrorText is the maximum length of an error message in bytes, because it is written to a status.
	maxErrorText = 1 << 10

	redacted = "[redacted]"
)

// ErrTooLarge is the error for reading a response body beyond its limit.
var ErrTooLarge = errors.New("the response is larger than allowed")

// Transport is an http.RoundTripper for one Git host. Like the standard library, it uses the proxy of the environment.
type Transport struct {
	base    *http.Transport
	network hostnet.Network
	maxBody func(*http.Request) int64
}

// NewTransport returns a Transport that connects through network, and trusts the system's certificate authorities and
// those in caBundle (PEM, may be empty). Reading more than maxBody bytes of a response returns ErrTooLarge.
func NewTransport(network hostnet.Network, caBundle []byte, maxBody func(*http.Request) int64) (*Transport, error) {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.DialContext = func(ctx context.Context, via, address string) (net.Conn, error) {
		if ctx.Value(proxied{}) != nil {
			return hostnet.DialProxy(ctx, via, address)
		}
		return network.Dial(ctx, via, address)
	}
	base.ResponseHeaderTimeout = hostnet.Window
	base.MaxResponseHeaderBytes = 1 << 20

	if len(caBundle) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("reading the system's certificate authorities: %w", err)
		}
		if !pool.AppendCertsFromPEM(caBundle) {
			return nil, errors.New("the CA bundle holds no certificate in PEM")
		}
		if base.TLSClientConfig == nil {
			base.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		base.TLSClientConfig.RootCAs = pool
	}
	return &Transport{base: base, network: network, maxBody: maxBody}, nil
}

// proxied is the context key that marks a request whose connection is to a proxy.
type proxied struct{}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(request.Context())
	response, err := t.roundTrip(ctx, request)
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = &pacedBody{ReadCloser: response.Body, cancel: cancel}
	if _, err := url.Parse(response.Header.Get("Location")); err != nil {
		// Otherwise the client's error would quote parts of the header, which may contain parts of the request.
		response.Header.Del("Location")
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		response.Body = cutBody{io.LimitReader(response.Body, maxErrorBody), response.Body}
		return response, nil
	}
	response.Body = &boundedBody{ReadCloser: response.Body, left: t.maxBody(request)}
	return response, nil
}

func (t *Transport) roundTrip(ctx context.Context, request *http.Request) (*http.Response, error) {
	proxy, err := t.base.Proxy(request)
	if err != nil {
		return nil, err
	}
	if proxy != nil {
		ctx = context.WithValue(ctx, proxied{}, true)
		// The proxy resolves names itself.
		if address, err := netip.ParseAddr(request.URL.Hostname()); err == nil {
			if err := t.network.Check(address); err != nil {
				return nil, err
			}
		}
	}
	return t.base.RoundTrip(request.WithContext(ctx))
}

// CloseIdleConnections closes idle connections.
func (t *Transport) CloseIdleConnections() { t.base.CloseIdleConnections() }

// pacedBody cancels the request if the host sends its response too slowly.
type pacedBody struct {
	io.ReadCloser
	pace   hostnet.Pace
	cancel func()
}

func (b *pacedBody) Read(p []byte) (int, error) {
	return b.pace.Read(func() (int, error) { return b.ReadCloser.Read(p) }, b.cancel)
}

func (b *pacedBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel()
	return err
}

type cutBody struct {
	io.Reader
	io.Closer
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, ErrTooLarge
	}
	return n, err
}

// NewError returns an error that wraps kind, which may be nil. Its message is text, shortened to one line of limited
// length, with all secrets redacted. It does not refer to the original error, whose fields may contain the request with
// its credentials.
func NewError(kind error, text string, secrets ...string) error {
	return &cleanError{kind: kind, text: clean(text, secrets)}
}

type cleanError struct {
	kind error
	text string
}

func (e *cleanError) Error() string { return e.text }

func (e *cleanError) Unwrap() error { return e.kind }

func clean(text string, secrets []string) string {
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		for _, spelling := range []string{
			secret,
			url.QueryEscape(secret),
			url.PathEscape(secret),
			url.UserPassword("", secret).String()[1:],
			base64.StdEncoding.EncodeToString([]byte(secret)),
		} {
			text = strings.ReplaceAll(text, spelling, redacted)
		}
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }), " ")
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "…"
	}
	return strings.ToValidUTF8(text, "�")
}
