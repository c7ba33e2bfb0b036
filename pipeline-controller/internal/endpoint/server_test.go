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
	"bytes"
	"context"
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
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/approval"
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
			a.header = http.Header{approval.SignatureHeader: {"sha256=" + macOf(key, a.body)}}
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
		{name: "a comment is kept", target: prodPath, body: `{"comment":"reviewed, „gut“"}`, code: 201, made: approved("reviewed, „gut“")},
		{name: "an empty comment is none", target: prodPath, body: `{}`, code: 201, made: approved("by HTTP request")},
		{name: "a percent-encoded revision is the same", target: "/approval/shop/app/prod/" + encoded, code: 201, made: approved("by HTTP request")},
		{name: "the digest alone approves what waits by that digest, as status names it",
			target: "/approval/shop/app/prod/sha1:6fd5f2a5b1c34c6e2b1d4f6a8c0e2f4a6b8c0d1e", code: 201, made: approved("by HTTP request")},
		{name: "a chart's version with a plus sign", target: "/approval/shop/app/chart/1.2.3+build.4", code: 201,
			made: []pipelinesv1.PromotionApprovalSpec{spec("app", "chart", "1.2.3+build.4", "by HTTP request")}},
		{name: "an environment with a slash, a blank and a percent sign, encoded", target: "/approval/shop/app/EU%2Fwest%20100%25/" + encoded, code: 201,
			made: []pipelinesv1.PromotionApprovalSpec{spec("app", "EU/west 100%", waiting, "by HTTP request")}},
		{name: "a query is signed as a part of the target", target: prodPath + "?from=ci", code: 201, made: approved("by HTTP request")},
		{name: "a signature in capitals", target: prodPath, code: 201, made: approved("by HTTP request"),
			change: func(a *ask, _ *Server) {
				a.header.Set(approval.SignatureHeader, "sha256="+strings.ToUpper(strings.TrimPrefix(a.header.Get(approval.SignatureHeader), "sha256=")))
			}},
		{name: "five minutes old", target: prodPath, change: signedAt(-5 * time.Minute), code: 201, made: approved("by HTTP request")},
		{name: "five minutes early", target: prodPath, change: signedAt(5 * time.Minute), code: 201, made: approved("by HTTP request")},

		{name: "older", target: prodPath, change: signedAt(-5*time.Minute - time.Second), code: 401},
		{name: "earlier", target: prodPath, change: signedAt(5*time.Minute + time.Second), code: 401},
		{name: "no signature", target: prodPath, change: with("X-Signature", ""), code: 401},
		{name: "no timestamp", target: prodPath, change: with("X-Sluice-Timestamp", ""), code: 401},
		{name: "two signatures, one of them right", target: prodPath, code: 401,
			change: func(a *ask, _ *Server) {
				a.header.Add(approval.SignatureHeader, a.header.Get(approval.SignatureHeader))
			}},
		{name: "two timestamps", target: prodPath, change: with("X-Sluice-Timestamp", "1790000000 1790000000"), code: 401},
		{name: "a timestamp that isn't signed", target: prodPath, change: with("X-Sluice-Timestamp", "1790000001"), code: 401},
		{name: "a timestamp with a sign", target: prodPath, change: with("X-Sluice-Timestamp", "+1790000000"), code: 401},
		{name: "a timestamp that is no number", target: prodPath, change: with("X-Sluice-Timestamp", "now"), code: 401},
		{name: "a timestamp that is too large for a number", target: prodPath, change: with("X-Sluice-Timestamp", "99999999999999999999"), code: 401},
		{name: "the least timestamp there is", target: prodPath, change: with("X-Sluice-Timestamp", "-9223372036854775808"), code: 401},
		{name: "a signature without its algorithm", target: prodPath, code: 401,
			change: func(a *ask, _ *Server) {
				a.header.Set(approval.SignatureHeader, strings.TrimPrefix(a.header.Get(approval.SignatureHeader), "sha256="))
			}},
		{name: "another algorithm", target: prodPath, change: with("X-Signature", "sha1="+strings.Repeat("0", 40)), code: 401},
		{name: "a signature that is cut off", target: prodPath, code: 401,
			change: func(a *ask, _ *Server) {
				a.header.Set(approval.SignatureHeader, a.header.Get(approval.SignatureHeader)[:30])
			}},
		{name: "no hexadecimal digits", target: prodPath, change: with("X-Signature", "sha256="+strings.Repeat("z", 64)), code: 401},
		{name: "another key", target: prodPath, change: signedWith("guessed"), code: 401},
		{name: "the decoy's key", target: "/approval/shop/nonexistent/prod/" + waiting, change: signedWith(string(make([]byte, 32))), code: 401},
		{name: "the decoy's key, for an environment whose Secret has none", target: "/approval/shop/app/keyless/" + waiting, change: signedWith(string(make([]byte, 32))), code: 401},
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
			change: func(a *ask, s *Server) { legacy(true, key)(a, s); a.header.Set(approval.TimestampHeader, "1790000000") }},
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
		{name: "a body with something behind it", target: prodPath, body: `{"comment":"x"} {}`, code: 400, answer: "has text after"},
		{name: "the longest comment", target: prodPath, body: `{"comment":"` + strings.Repeat("ü", 1024) + `"}`, code: 201, made: approved(strings.Repeat("ü", 1024))},
		{name: "a longer comment", target: prodPath, body: `{"comment":"` + strings.Repeat("ü", 1025) + `"}`, code: 400, answer: "longer than 1024 characters"},
		{name: "a large body", target: prodPath, body: strings.Repeat(" ", maxBody) + "x", code: 413, answer: "larger than 16384 bytes"},
		{name: "a large body that isn't signed", target: prodPath, body: strings.Repeat(" ", maxBody) + "x", change: signedWith("guessed"), code: 413, answer: "larger than 16384 bytes"},

		{name: "a revision that isn't the waiting one", target: "/approval/shop/app/prod/" + running, code: 422,
			answer: `"waiting":"` + waiting + `"`},
		{name: "another name of the waiting one's digest", target: "/approval/shop/app/prod/v1@sha1:6fd5f2a5b1c34c6e2b1d4f6a8c0e2f4a6b8c0d1e", code: 422,
			answer: `"waiting":"` + waiting + `"`},
		{name: "an environment in which nothing waits", target: "/approval/shop/app/idle/" + waiting, code: 422, answer: "nothing waits for approval in environment idle"},
		{name: "an environment without status", target: "/approval/shop/app/dev/" + waiting, code: 422, answer: "nothing waits for approval in environment dev"},
		{name: "a promotion for which approvals by HTTP don't count", target: "/approval/shop/app/people/" + waiting, code: 403,
			answer: "approvals by HTTP don't count for promotions into environment people: approvals.http is false"},
		{name: "the same without a right signature", target: "/approval/shop/app/people/" + waiting, change: signedWith("guessed"), code: 401},
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
			answer := request.to(server)
			g.Expect(answer.Code).To(Equal(test.code), answer.Body.String())
			g.Expect(answer.Header()).To(HaveKeyWithValue("Content-Type", []string{"application/json"}))
			g.Expect(answer.Body.String()).To(ContainSubstring(test.answer))
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

func TestOnlyPostApproves(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, "BREW"} {
		t.Run(method, func(t *testing.T) {
			g := NewWithT(t)
			c := newClient(t)
			request := posted(prodPath, "")
			request.method = method
			request.sign(key, now)
			answer := request.to(newServer(c))
			g.Expect(answer.Code).To(Equal(http.StatusMethodNotAllowed))
			g.Expect(answer.Header().Get("Allow")).To(Equal(http.MethodPost))
			g.Expect(approvals(t, c)).To(BeEmpty())
		})
	}
}

func TestApprovingTwiceIsApprovingOnce(t *testing.T) {
	g := NewWithT(t)
	c := newClient(t)
	server := newServer(c)
	first := posted(prodPath, "").to(server)
	g.Expect(first.Code).To(Equal(http.StatusCreated))
	g.Expect(first.Body.String()).To(MatchRegexp(`^\{"approval":"app-[0-9a-v]{20}"\}\n$`))

	again := posted("/approval/shop/app/prod/"+encoded, `{"comment":"once more"}`).to(server)
	g.Expect(again.Code).To(Equal(http.StatusOK))
	g.Expect(again.Body.String()).To(Equal(first.Body.String()))

	pipeline := &pipelinesv1.Pipeline{}
	g.Expect(c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "app"}, pipeline)).To(Succeed())
	pipeline.Status.Environments["prod"].WaitingApproval.Revision = ""
	g.Expect(c.Update(t.Context(), pipeline)).To(Succeed())
	late := posted(prodPath, "").to(server)
	g.Expect(late.Code).To(Equal(http.StatusOK), "the promotion has gone on, by this approval")
	g.Expect(late.Body.String()).To(Equal(first.Body.String()))

	pipeline.Status.Revision = "v1" + waiting[strings.Index(waiting, "@"):]
	pipeline.Status.Environments["prod"].Promotion = &pipelinesv1.PromotionRecord{Revision: waiting, State: pipelinesv1.PromotionFailed, Attempts: 1}
	g.Expect(c.Update(t.Context(), pipeline)).To(Succeed())
	later := posted(prodPath, "").to(server)
	g.Expect(later.Code).To(Equal(http.StatusOK), "the run's revision has another name now")
	g.Expect(later.Body.String()).To(Equal(first.Body.String()))
	g.Expect(posted("/approval/shop/app/prod/"+pipeline.Status.Revision, "").to(server).Code).To(Equal(http.StatusUnprocessableEntity))
	g.Expect(approvals(t, c)).To(ConsistOf(spec("app", "prod", waiting, "by HTTP request")))
}

// The steps are counted, not timed.
func TestStrangersAreAnsweredAlikeAfterTheSameSteps(t *testing.T) {
	for _, test := range []struct {
		name, target string
	}{
		{"a promotion that waits", prodPath},
		{"a promotion that doesn't wait", "/approval/shop/app/idle/" + waiting},
		{"a Pipeline that doesn't exist", "/approval/shop/nonexistent/prod/" + waiting},
		{"a namespace that doesn't exist", "/approval/nowhere/app/prod/" + waiting},
		{"an environment that doesn't exist", "/approval/shop/app/nonexistent/" + waiting},
		{"a promotion without strategy.secretRef", "/approval/shop/app/unsigned/" + waiting},
		{"a Secret that doesn't exist", "/approval/shop/app/lost/" + waiting},
		{"a Secret without a key", "/approval/shop/app/keyless/" + waiting},
		{"a Secret's name that is no name", "/approval/shop/app/slashed/" + waiting},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			c := newClient(t)
			server := newServer(c)
			pipelines, secrets := 0, 0
			server.Reader = counting(c, &pipelines, nil)
			server.Secrets = counting(c, &secrets, nil)
			request := posted(test.target, "")
			request.sign("guessed", now)
			answer := request.to(server)
			g.Expect(answer.Code).To(Equal(http.StatusUnauthorized))
			g.Expect(answer.Body.String()).To(Equal(unauthorizedBody))
			g.Expect([]int{pipelines, secrets}).To(Equal([]int{1, 1}))

			request.header.Del(approval.SignatureHeader)
			g.Expect(request.to(server).Code).To(Equal(http.StatusUnauthorized))
			g.Expect([]int{pipelines, secrets}).To(Equal([]int{1, 1}), "what can't be right is refused without a look")

			server.Secrets = counting(c, &secrets, apierrors.NewServiceUnavailable("etcd is gone"))
			request.sign("guessed", now)
			g.Expect(request.to(server).Code).To(Equal(http.StatusServiceUnavailable), "the same for what exists and what doesn't")

			server.Secrets = counting(c, &secrets, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "x", nil))
			g.Expect(request.to(server).Code).To(Equal(http.StatusUnauthorized))

			server.Secrets = counting(c, &secrets, nil)
			server.Reader = counting(c, &pipelines, errors.New("unable to get: unknown namespace for the cache"))
			g.Expect(request.to(server).Code).To(Equal(http.StatusUnauthorized), "a namespace that the controller doesn't watch")
		})
	}
}

// counting counts the reads of a client, and has them fail if there is an error.
func counting(c client.WithWatch, reads *int, err error) client.Reader {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, name client.ObjectKey, obj client.Object, options ...client.GetOption) error {
			*reads++
			if err != nil {
				return err
			}
			return c.Get(ctx, name, obj, options...)
		},
	})
}

func TestAFailingAPIServerIsTold(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Server)
		log    string
	}{
		{"the controller can't learn its name", func(s *Server) {
			s.Username = func(context.Context) (string, error) { return "", errors.New("etcd is gone") }
		}, "looking up the controller's own username failed"},
		{"the approval is refused", func(s *Server) {
			s.Creator = creator(func(client.Object) error { return errors.New("denied by policy") })
		}, "denied by policy"},
		{"the request's time is over", func(s *Server) {
			reader := s.Reader.(client.WithWatch)
			s.Reader = interceptor.NewClient(reader, interceptor.Funcs{
				Get: func(ctx context.Context, _ client.WithWatch, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
					return context.Cause(ctx)
				},
			})
		}, "context canceled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			c := newClient(t)
			server := newServer(c)
			var log strings.Builder
			server.Log = funcr.New(func(_, args string) { log.WriteString(args + "\n") }, funcr.Options{})
			test.change(server)
			asked := posted(prodPath, "")
			request := httptest.NewRequest(asked.method, asked.target, nil)
			request.Header, request.RemoteAddr = asked.header, asked.remote
			if test.log == "context canceled" {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				request = request.WithContext(ctx)
			}
			recorder := httptest.NewRecorder()
			server.ServeHTTP(recorder, request)
			g.Expect(recorder.Code).To(Equal(http.StatusServiceUnavailable), recorder.Body.String())
			g.Expect(recorder.Body.String()).NotTo(ContainSubstring("etcd"))
			g.Expect(recorder.Body.String()).NotTo(ContainSubstring("denied"))
			g.Expect(log.String()).To(ContainSubstring(test.log))
			g.Expect(approvals(t, c)).To(BeEmpty())
		})
	}
}

// creator creates objects by a function.
type creator func(client.Object) error

func (c creator) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	return c(obj)
}

func TestABodyThatBreaksOffApprovesNothing(t *testing.T) {
	g := NewWithT(t)
	c := newClient(t)
	asked := posted(prodPath, "")
	request := httptest.NewRequest(asked.method, asked.target, broken{})
	request.Header, request.RemoteAddr = asked.header, asked.remote
	recorder := httptest.NewRecorder()
	newServer(c).ServeHTTP(recorder, request)
	g.Expect(recorder.Code).To(Equal(http.StatusBadRequest))
	g.Expect(approvals(t, c)).To(BeEmpty())
}

func TestTheLogSaysWhyAndNothingSecret(t *testing.T) {
	for _, test := range []struct {
		name, target, key, log string
	}{
		{"approved", prodPath, key, `"approval"="app-`},
		{"another key", prodPath, "guessed", "the signature does not match: it is for another request or made with another key"},
		{"no such Pipeline", "/approval/shop/nonexistent/prod/" + waiting, key, `"nonexistent\" not found`},
		{"no such environment", "/approval/shop/app/nonexistent/" + waiting, key, "the Pipeline has no such environment"},
		{"no key", "/approval/shop/app/keyless/" + waiting, key, "Secret shop/keyless has no 'hmac-key'"},
		{"out of time", prodPath, "", "X-Sluice-Timestamp is more than 5m0s from now"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			server := newServer(newClient(t))
			var log strings.Builder
			server.Log = funcr.New(func(_, args string) { log.WriteString(args + "\n") }, funcr.Options{Verbosity: 10})
			request := posted(test.target, "")
			expected := strings.TrimPrefix(request.header.Get(approval.SignatureHeader), "sha256=")
			at := now
			if test.key == "" {
				at = now.Add(time.Hour)
			}
			request.sign(test.key, at)
			given := strings.TrimPrefix(request.header.Get(approval.SignatureHeader), "sha256=")
			answer := request.to(server)
			g.Expect(log.String()).To(ContainSubstring(test.log))
			for _, secret := range []string{key, expected, given} {
				g.Expect(log.String()).NotTo(ContainSubstring(secret))
				g.Expect(answer.Body.String()).NotTo(ContainSubstring(secret))
			}
		})
	}
}

func TestAnApprovalOfADeletedPipelineOfThatNameIsNotTakenForOneOfToday(t *testing.T) {
	g := NewWithT(t)
	c := newClient(t)
	server := newServer(c)
	g.Expect(posted(prodPath, "").to(server).Code).To(Equal(http.StatusCreated))
	var all pipelinesv1.PromotionApprovalList
	g.Expect(c.List(t.Context(), &all)).To(Succeed())
	made := &all.Items[0]
	made.OwnerReferences = []metav1.OwnerReference{{APIVersion: pipelinesv1.GroupVersion.String(), Kind: pipelinesv1.PipelineKind, Name: "app", UID: "deleted"}}
	g.Expect(c.Update(t.Context(), made)).To(Succeed())

	answer := posted(prodPath, "").to(server)
	g.Expect(answer.Code).To(Equal(http.StatusServiceUnavailable))
	g.Expect(answer.Body.String()).To(ContainSubstring("is not garbage-collected yet"))
}

func TestRequestsAreCountedByTheirCodeWebhooksApart(t *testing.T) {
	g := NewWithT(t)
	server := newServer(newClient(t))
	count := func(requests *prometheus.CounterVec, code string) func() float64 {
		before := testutil.ToFloat64(requests.WithLabelValues(code))
		return func() float64 { return testutil.ToFloat64(requests.WithLabelValues(code)) - before }
	}
	created, refused := count(approvalRequests, "201"), count(approvalRequests, "401")
	unknown, unknownWebhooks := count(approvalRequests, "404"), count(webhookRequests, "404")
	posted(prodPath, "").to(server)
	posted("/approval/shop/nonexistent/prod/"+waiting, "").to(server)
	posted("/webhook/shop", "").to(server)
	g.Expect(created()).To(Equal(1.0))
	g.Expect(refused()).To(Equal(1.0))
	g.Expect(unknown()).To(BeZero())
	g.Expect(unknownWebhooks()).To(Equal(1.0))
}

func TestServesOverTCPUntilItIsTold(t *testing.T) {
	g := NewWithT(t)
	c := newClient(t)
	server := newServer(c)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.serve(ctx, listener) }()

	post := func(asked *ask) (int, string) {
		t.Helper()
		address := &url.URL{Scheme: "http", Host: listener.Addr().String()}
		var err error
		address.Path, err = url.PathUnescape(asked.target)
		g.Expect(err).NotTo(HaveOccurred())
		address.RawPath = asked.target
		request := (&http.Request{Method: asked.method, URL: address, Header: asked.header, Body: io.NopCloser(bytes.NewBufferString(asked.body)),
			ContentLength: int64(len(asked.body))}).WithContext(t.Context())
		response, err := http.DefaultClient.Do(request)
		g.Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		g.Expect(err).NotTo(HaveOccurred())
		return response.StatusCode, string(body)
	}
	code, body := post(posted("/approval/shop/app/EU%2fwest%20100%25/"+encoded, `{"comment":"over TCP"}`))
	g.Expect(code).To(Equal(http.StatusCreated), body)
	g.Expect(approvals(t, c)).To(ConsistOf(spec("app", "EU/west 100%", waiting, "over TCP")))
	forged := posted(prodPath, "")
	forged.sign("guessed", now)
	code, body = post(forged)
	g.Expect(code).To(Equal(http.StatusUnauthorized))
	g.Expect(body).To(Equal(unauthorizedBody))

	cancel()
	g.Eventually(ended).Should(Receive(BeNil()))
	_, err = net.Dial("tcp", listener.Addr().String())
	g.Expect(err).To(HaveOccurred())
}

func TestAnAddressThatIsTakenIsAnError(t *testing.T) {
	g := NewWithT(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	server := newServer(newClient(t))
	server.Addr = listener.Addr().String()
	g.Expect(server.Start(t.Context())).To(MatchError(ContainSubstring("listening for approvals")))
}

func TestTheControllerAsksForItsNameUntilItKnows(t *testing.T) {
	g := NewWithT(t)
	asked, answer := 0, errors.New("etcd is gone")
	name := approval.OwnName(creator(func(obj client.Object) error {
		asked++
		obj.(*authenticationv1.SelfSubjectReview).Status.UserInfo.Username = self
		return answer
	}))
	_, err := name(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("etcd is gone")))
	answer = nil
	for range 2 {
		g.Expect(name(t.Context())).To(Equal(self))
	}
	g.Expect(asked).To(Equal(2))
}

func TestARequestThatWasSeenInAnEarlierRunApprovesNothing(t *testing.T) {
	g := NewWithT(t)
	c := newClient(t)
	server := newServer(c)
	captured := posted(prodPath, "")
	g.Expect(captured.to(server).Code).To(Equal(http.StatusCreated))

	// Another revision runs for a while, so the approval is deleted. Then the same revision is promoted again.
	g.Expect(c.DeleteAllOf(t.Context(), &pipelinesv1.PromotionApproval{}, client.InNamespace("shop"))).To(Succeed())
	pipeline := &pipelinesv1.Pipeline{}
	g.Expect(c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "app"}, pipeline)).To(Succeed())
	pipeline.Status.Environments["prod"].Promotion.StartTime = metav1.NewTime(now.Add(time.Second))
	g.Expect(c.Update(t.Context(), pipeline)).To(Succeed())
	server.Now = func() time.Time { return now.Add(time.Minute) }

	replayed := captured.to(server)
	g.Expect(replayed.Code).To(Equal(http.StatusUnprocessableEntity))
	g.Expect(replayed.Body.String()).To(ContainSubstring("signed at 2026-09-21T14:13:20Z, before this promotion began at 2026-09-21T14:13:21Z"))
	g.Expect(approvals(t, c)).To(BeEmpty())

	again := posted(prodPath, "")
	again.sign(key, now.Add(time.Second))
	g.Expect(again.to(server).Code).To(Equal(http.StatusCreated), "one that is signed in the second in which the promotion began counts")
}

func TestAnApprovalOfSomethingElseUnderTheNameOfThisOneIsNotTakenForIt(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*pipelinesv1.PromotionApprovalSpec)
		code   int
	}{
		{"by someone else", func(s *pipelinesv1.PromotionApprovalSpec) { s.ApprovedBy = "eve" }, http.StatusServiceUnavailable},
		{"of another revision", func(s *pipelinesv1.PromotionApprovalSpec) { s.Revision = running }, http.StatusServiceUnavailable},
		{"for another environment", func(s *pipelinesv1.PromotionApprovalSpec) { s.Environment = "canary" }, http.StatusServiceUnavailable},
		{"with another comment, which is the same approval", func(s *pipelinesv1.PromotionApprovalSpec) { s.Comment = "before" }, http.StatusOK},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			c := newClient(t)
			other := pipelinesv1.NewPromotionApproval("shop", spec("app", "prod", waiting, ""))
			test.change(&other.Spec)
			g.Expect(c.Create(t.Context(), other)).To(Succeed())
			answer := posted(prodPath, "").to(newServer(c))
			g.Expect(answer.Code).To(Equal(test.code), answer.Body.String())

			pipeline := &pipelinesv1.Pipeline{}
			g.Expect(c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "app"}, pipeline)).To(Succeed())
			pipeline.Status.Environments["prod"].WaitingApproval.Revision = ""
			g.Expect(c.Update(t.Context(), pipeline)).To(Succeed())
			late := posted(prodPath, "").to(newServer(c))
			g.Expect(late.Code == http.StatusOK).To(Equal(test.code == http.StatusOK), late.Body.String())
		})
	}
}
