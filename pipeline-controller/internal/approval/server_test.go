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

package approval

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

const (
	unauthorizedBody = `{"error":"unauthorized"}` + "\n"
	encoded          = "feature%2Fa%2Bb%40sha1%3A6fd5f2a5b1c34c6e2b1d4f6a8c0e2f4a6b8c0d1e"
)

func TestApprovalsAreTakenOnlyAsTheyAreSigned(t *testing.T) {
	approved := func(comment string) []pipelinesv1.PromotionApprovalSpec {
		return []pipelinesv1.PromotionApprovalSpec{spec("app", "prod", waiting, comment)}
	}
	with := func(name, value string) func(*ask, *Server) {
		return func(a *ask, _ *Server) { a.header[http.CanonicalHeaderKey(name)] = strings.Fields(value) }
	}
	signedAt := func(offset time.Duration) func(*ask, *Server) {
		return func(a *ask, _ *Server) { a.sign(key, now.Add(offset)) }
	}
	signedWith := func(key string) func(*ask, *Server) {
		return func(a *ask, _ *Server) { a.sign(key, now) }
	}
	legacy := func(allowed bool, key string) func(*ask, *Server) {
		return func(a *ask, s *Server) {
			s.AllowLegacySignatures = allowed
			a.header = http.Header{SignatureHeader: {"sha256=" + macOf(key, a.body)}}
		}
	}
	for _, test := range []struct {
		name         string
		target, body string
		// change is made to the request after it was signed.
		change func(*ask, *Server)
		code   int
		answer string
		made   []pipelinesv1.PromotionApprovalSpec
	}{
		{name: "a signed request with nothing in it approves", target: prodPath, code: 201, made: approved("by HTTP request")},
		{name: "a comment is kept", target: prodPath, body: `{"comment":"looked at it, „gut“"}`, code: 201, made: approved("looked at it, „gut“")},
		{name: "an empty comment is none", target: prodPath, body: `{}`, code: 201, made: approved("by HTTP request")},
		{name: "a percent-encoded revision is the same", target: "/approval/shop/app/prod/" + encoded, code: 201, made: approved("by HTTP request")},
		{name: "a digest of another name is the same revision, which is approved as status tells it",
			target: "/approval/shop/app/prod/v1@sha1:6fd5f2a5b1c34c6e2b1d4f6a8c0e2f4a6b8c0d1e", code: 201, made: approved("by HTTP request")},
		{name: "a chart's version with a plus sign", target: "/approval/shop/app/chart/1.2.3+build.4", code: 201,
			made: []pipelinesv1.PromotionApprovalSpec{spec("app", "chart", "1.2.3+build.4", "by HTTP request")}},
		{name: "an environment with a slash, a blank and a percent sign, encoded", target: "/approval/shop/app/EU%2Fwest%20100%25/" + encoded, code: 201,
			made: []pipelinesv1.PromotionApprovalSpec{spec("app", "EU/west 100%", waiting, "by HTTP request")}},
		{name: "a query is signed as a part of the target", target: prodPath + "?from=ci", code: 201, made: approved("by HTTP request")},
		{name: "a signature in capitals", target: prodPath, code: 201, made: approved("by HTTP request"),
			change: func(a *ask, _ *Server) {
				a.header.Set(SignatureHeader, "sha256="+strings.ToUpper(strings.TrimPrefix(a.header.Get(SignatureHeader), "sha256=")))
			}},
		{name: "five minutes old", target: prodPath, change: signedAt(-5 * time.Minute), code: 201, made: approved("by HTTP request")},
		{name: "five minutes early", target: prodPath, change: signedAt(5 * time.Minute), code: 201, made: approved("by HTTP request")},

		{name: "older", target: prodPath, change: signedAt(-5*time.Minute - time.Second), code: 401},
		{name: "earlier", target: prodPath, change: signedAt(5*time.Minute + time.Second), code: 401},
		{name: "no signature", target: prodPath, change: with("X-Signature", ""), code: 401},
		{name: "no timestamp", target: prodPath, change: with("X-Sluice-Timestamp", ""), code: 401},
		{name: "two signatures, one of them right", target: prodPath, code: 401,
			change: func(a *ask, _ *Server) { a.header.Add(SignatureHeader, a.header.Get(SignatureHeader)) }},
		{name: "two timestamps", target: prodPath, change: with("X-Sluice-Timestamp", "1790000000 1790000000"), code: 401},
		{name: "a timestamp that isn't signed", target: prodPath, change: with("X-Sluice-Timestamp", "1790000001"), code: 401},
		{name: "a timestamp with a sign", target: prodPath, change: with("X-Sluice-Timestamp", "+1790000000"), code: 401},
		{name: "a timestamp that is no number", target: prodPath, change: with("X-Sluice-Timestamp", "now"), code: 401},
		{name: "a timestamp that is too large for a number", target: prodPath, change: with("X-Sluice-Timestamp", "99999999999999999999"), code: 401},
		{name: "the least timestamp there is", target: prodPath, change: with("X-Sluice-Timestamp", "-9223372036854775808"), code: 401},
		{name: "a signature without its algorithm", target: prodPath, code: 401,
			change: func(a *ask, _ *Server) {
				a.header.Set(SignatureHeader, strings.TrimPrefix(a.header.Get(SignatureHeader), "sha256="))
			}},
		{name: "another algorithm", target: prodPath, change: with("X-Signature", "sha1="+strings.Repeat("0", 40)), code: 401},
		{name: "a signature that is cut off", target: prodPath, code: 401,
			change: func(a *ask, _ *Server) { a.header.Set(SignatureHeader, a.header.Get(SignatureHeader)[:30]) }},
		{name: "no hexadecimal digits", target: prodPath, change: with("X-Signature", "sha256="+strings.Repeat("z", 64)), code: 401},
		{name: "another key", target: prodPath, change: signedWith("guessed"), code: 401},
		{name: "the decoy's key", target: "/approval/shop/nonexistent/prod/" + waiting, change: signedWith(string(decoyKey)), code: 401},
		{name: "the decoy's key, for an environment whose Secret has none", target: "/approval/shop/app/keyless/" + waiting, change: signedWith(string(decoyKey)), code: 401},
		{name: "a body that isn't signed", target: prodPath, change: func(a *ask, _ *Server) { a.body = `{"comment":"forged"}` }, code: 401},
		{name: "a query that isn't signed", target: prodPath, change: func(a *ask, _ *Server) { a.target += "?x" }, code: 401},
		{name: "another spelling of the path than the signed one", target: prodPath, change: func(a *ask, _ *Server) { a.target = "/approval/shop/app/prod/" + encoded }, code: 401},
		{name: "replayed on another environment", target: prodPath, change: func(a *ask, _ *Server) { a.target = "/approval/shop/app/canary/" + waiting }, code: 401},
		{name: "replayed on another Pipeline with the same key", target: prodPath, change: func(a *ask, _ *Server) { a.target = "/approval/shop/other/prod/" + waiting }, code: 401},
		{name: "replayed for another revision", target: prodPath, change: func(a *ask, _ *Server) { a.target = "/approval/shop/app/prod/" + running }, code: 401},
		{name: "signed for another method", target: prodPath, code: 401,
			change: func(a *ask, _ *Server) { a.method = http.MethodPut; a.sign(key, now); a.method = http.MethodPost }},
		{name: "an unknown namespace", target: "/approval/nowhere/app/prod/" + waiting, code: 401},
		{name: "a namespace that is a path", target: "/approval/..%2F..%2Fapi/app/prod/" + waiting, code: 401},
		{name: "an unknown Pipeline", target: "/approval/shop/nonexistent/prod/" + waiting, code: 401},
		{name: "an unknown environment", target: "/approval/shop/app/nonexistent/" + waiting, code: 401},
		{name: "a path is decoded once", target: "/approval/shop/app/EU%252Fwest%2520100%2525/" + waiting, code: 401},
		{name: "a Pipeline without promotions", target: "/approval/shop/unpromoted/prod/" + waiting, code: 401},
		{name: "a promotion without strategy.secretRef", target: "/approval/shop/app/unsigned/" + waiting, code: 401},
		{name: "a Secret that doesn't exist", target: "/approval/shop/app/lost/" + waiting, code: 401},
		{name: "a Secret without the key", target: "/approval/shop/app/keyless/" + waiting, code: 401},
		{name: "a Secret whose key is empty, and a signature with that", target: "/approval/shop/app/empty/" + waiting, change: signedWith(""), code: 401},
		{name: "a Secret's name that is no name", target: "/approval/shop/app/slashed/" + waiting, code: 401},
		{name: "a Secret's name that is empty", target: "/approval/shop/app/nameless/" + waiting, code: 401},

		{name: "a legacy signature of the empty body, not allowed", target: prodPath, change: legacy(false, key), code: 401},
		{name: "a legacy signature of the empty body, allowed", target: prodPath, change: legacy(true, key), code: 201, made: approved("by HTTP request")},
		{name: "a legacy signature of a comment, allowed", target: prodPath, body: `{"comment":"old"}`, change: legacy(true, key), code: 201, made: approved("old")},
		{name: "a legacy signature with another key", target: prodPath, change: legacy(true, "guessed"), code: 401},
		{name: "a legacy signature beside a timestamp", target: prodPath, code: 401,
			change: func(a *ask, s *Server) { legacy(true, key)(a, s); a.header.Set(TimestampHeader, "1790000000") }},
		{name: "a legacy signature of an event of Flux", target: prodPath, body: `{"involvedObject":{},"message":"x"}`, change: legacy(true, key),
			code: 400, answer: `the body must be empty or {\"comment\": \"...\"}`},
		{name: "a legacy signature of what was signed for another environment", target: prodPath, code: 400, answer: "the body must be empty",
			body: "sluice-approval-v1\nPOST\n/approval/shop/app/canary/" + waiting + "\n1790000000\n", change: legacy(true, key)},
		{name: "a full signature where legacy ones are allowed", target: prodPath, code: 201, made: approved("by HTTP request"),
			change: func(_ *ask, s *Server) { s.AllowLegacySignatures = true }},

		{name: "a body that is no JSON", target: prodPath, body: "yes", code: 400, answer: "the body must be empty"},
		{name: "a body of blanks", target: prodPath, body: " ", code: 400, answer: "the body must be empty"},
		{name: "a body that is null", target: prodPath, body: "null", code: 400, answer: "the body must be empty"},
		{name: "a body with another field", target: prodPath, body: `{"comment":"x","approvedBy":"ada"}`, code: 400, answer: "the body must be empty"},
		{name: "a body with something behind it", target: prodPath, body: `{"comment":"x"} {}`, code: 400, answer: "something follows"},
		{name: "the longest comment", target: prodPath, body: `{"comment":"` + strings.Repeat("ü", 1024) + `"}`, code: 201, made: approved(strings.Repeat("ü", 1024))},
		{name: "a longer comment", target: prodPath, body: `{"comment":"` + strings.Repeat("ü", 1025) + `"}`, code: 400, answer: "longer than 1024 characters"},
		{name: "a large body", target: prodPath, body: strings.Repeat(" ", maxBody) + "x", code: 413, answer: "larger than 16384 bytes"},
		{name: "a large body that isn't signed", target: prodPath, body: strings.Repeat(" ", maxBody) + "x", change: signedWith("guessed"), code: 413, answer: "larger than 16384 bytes"},

		{name: "a revision that isn't the waiting one", target: "/approval/shop/app/prod/" + running, code: 422,
			answer: `"waiting":"` + waiting + `"`},
		{name: "an environment in which nothing waits", target: "/approval/shop/app/idle/" + waiting, code: 422, answer: "nothing waits for approval in environment idle"},
		{name: "an environment without status", target: "/approval/shop/app/dev/" + waiting, code: 422, answer: "nothing waits for approval in environment dev"},
		{name: "a Pipeline that is being deleted", target: "/approval/shop/leaving/prod/" + waiting, code: 422, answer: "is being deleted"},

		{name: "no revision", target: "/approval/shop/app/prod/", code: 404, answer: "/approval/<namespace>/<pipeline>/<environment>/<revision>"},
		{name: "too few parts", target: "/approval/shop/app/prod", code: 404, answer: "not found"},
		{name: "an empty part", target: "/approval/shop//prod/" + waiting, code: 404, answer: "not found"},
		{name: "another path", target: "/", code: 404, answer: "not found"},
		{name: "a path that begins alike", target: "/approvals/shop/app/prod/" + waiting, code: 404, answer: "not found"},
		{name: "a path that would be cleaned into the right one", target: "/x/../approval/shop/app/prod/" + waiting, code: 404, answer: "not found"},
		{name: "an encoded prefix", target: "/%61pproval/shop/app/prod/" + waiting, code: 404, answer: "not found"},
		{name: "the address of another server", target: "http://example.com" + prodPath, code: 404, answer: "not found"},
		{name: "a notification of the old kind", target: "/promotion/shop/app/prod", code: 410, answer: "needs no notifications"},
		{name: "a notification of the old kind, to nothing", target: "/promotion", code: 410, answer: "can be removed"},
		{name: "a notification of the old kind, by GET", target: "/promotion/shop/app/prod", change: func(a *ask, _ *Server) { a.method = http.MethodGet }, code: 410, answer: "can be removed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			c := newClient(t)
			server := newServer(c)
			request := posted(test.target, test.body)
			if test.change != nil {
				test.change(request, server)
			}
			before := testutil.ToFloat64(requests.WithLabelValues(http.StatusText(0)))
			answer := request.to(server)
			g.Expect(answer.Code).To(Equal(test.code), answer.Body.String())
			g.Expect(testutil.ToFloat64(requests.WithLabelValues(http.StatusText(0)))).To(Equal(before))
			g.Expect(answer.Header()).To(HaveKeyWithValue("Content-Type", []string{"application/json"}))
			g.Expect(strings.ReplaceAll(strings.ReplaceAll(answer.Body.String(), `\u003c`, "<"), `\u003e`, ">")).To(ContainSubstring(test.answer))
			g.Expect(approvals(t, c)).To(ConsistOf(test.made))
			if test.code == http.StatusUnauthorized {
				g.Expect(answer.Body.String()).To(Equal(unauthorizedBody))
				g.Expect(answer.Header()).To(Equal(http.Header{
					"Content-Type": {"application/json"}, "Www-Authenticate": {"Sluice-HMAC-SHA256"},
				}))
			}
		})
	}
}
