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

// Package endpoint is the HTTP endpoint for approvals by machines and webhooks of Git hosts. It limits what strangers
// can make the controller do, and writes the responses. The requests are handled by other packages.
package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/approval"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/scm"
	"github.com/sluice-toolkit/sluice/runtime/endpoint"
)

// +kubebuilder:rbac:groups=pipelines.weave.works,resources=promotionapprovals,verbs=create
// +kubebuilder:rbac:groups=pipelines.weave.works,resources=pipelines,verbs=approve

const (
	approvalPath  = "/approval/"
	promotionPath = "/promotion/"
	webhookPath   = "/webhook/"

	maxBody        = 16 << 10
	maxHeader      = 16 << 10
	maxConnections = 256

	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	// requestTimeout is the timeout of all API server requests of one HTTP request.
	requestTimeout = 10 * time.Second
	writeTimeout   = readTimeout + requestTimeout + 5*time.Second
)

var (
	approvalRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_approval_requests_total",
		Help: "The number of approval requests, by HTTP status code of the response.",
	}, []string{"code"})
	webhookRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_webhook_requests_total",
		Help: "The number of webhook requests, by HTTP status code of the response.",
	}, []string{"code"})
)

// WebhookReceiver handles webhooks of Git hosts.
type WebhookReceiver interface {
	// Receive reports whether a webhook is signed with the key in that Secret. If so, it handles the webhook.
	Receive(ctx context.Context, header http.Header, body io.Reader, secret types.NamespacedName) (bool, error)
}

// Server is the endpoint. Every replica of the controller serves it, not only the leader.
type Server struct {
	// Addr is the address to listen on.
	Addr string
	// Approver creates the approvals. The endpoint uses its clock and its log too.
	approval.Approver
	// Webhooks handles the webhooks, which are sent to the same address.
	Webhooks WebhookReceiver

	limiter limiter
}

// NeedLeaderElection returns false: every replica serves the endpoint.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until the context is cancelled.
func (s *Server) Start(ctx context.Context) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return fmt.Errorf("listening for approvals: %w", err)
	}
	return s.serve(ctx, listener)
}

func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		MaxHeaderBytes:    maxHeader,
		// Otherwise net/http answers 'OPTIONS *' without this handler.
		DisableGeneralOptionsHandler: true,
	}
	return endpoint.Serve(ctx, listener, maxConnections, "approvals", server, s.Log)
}

// answer is the body of a response.
type answer struct {
	code   int
	header map[string]string
	body   details
}

type details struct {
	// Approval is the name of the PromotionApproval.
	Approval string `json:"approval,omitempty"`
	// Error message.
	Error string `json:"error,omitempty"`
	// Waiting is the revision that waits for approval, if any.
	Waiting string `json:"waiting,omitempty"`
}

func failure(code int, format string, args ...any) answer {
	return answer{code: code, body: details{Error: fmt.Sprintf(format, args...)}}
}

// unauthorized is the only response to unauthenticated requests.
func unauthorized() answer {
	refused := failure(http.StatusUnauthorized, "unauthorized")
	refused.header = map[string]string{"WWW-Authenticate": "Sluice-HMAC-SHA256"}
	return refused
}

// answerOf returns the response to a request for approval.
func answerOf(made approval.Made, err error) answer {
	var refused *approval.Refusal
	switch {
	case errors.As(err, &refused) && refused.Reason == approval.Unauthenticated:
		return unauthorized()
	case errors.As(err, &refused):
		return answer{code: codes[refused.Reason], body: details{Error: refused.Message, Waiting: refused.Waiting}}
	case made.New:
		return answer{code: http.StatusCreated, body: details{Approval: made.Name}}
	default:
		return answer{code: http.StatusOK, body: details{Approval: made.Name}}
	}
}

var codes = map[approval.Reason]int{
	approval.Unavailable: http.StatusServiceUnavailable,
	approval.Malformed:   http.StatusBadRequest,
	approval.Denied:      http.StatusForbidden,
	approval.NotWaiting:  http.StatusUnprocessableEntity,
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := s.route(w, r)
	requests := approvalRequests
	if strings.HasPrefix(r.RequestURI, webhookPath) {
		requests = webhookRequests
	}
	requests.WithLabelValues(strconv.Itoa(answer.code)).Inc()
	for name, value := range answer.header {
		w.Header().Set(name, value)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.code)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(answer.body) // the client may have disconnected
}

// route uses the request target as it was sent: http.ServeMux would clean the path and redirect.
func (s *Server) route(w http.ResponseWriter, r *http.Request) answer {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	switch {
	case strings.HasPrefix(path+"/", promotionPath):
		return failure(http.StatusGone, "Sluice watches what Pipelines target and needs no notifications: "+
			"the Alert and the Provider that send this can be removed")
	case strings.HasPrefix(path, webhookPath):
		return s.webhook(w, r, strings.TrimPrefix(path, webhookPath))
	case !strings.HasPrefix(path, approvalPath):
		return notFound()
	}
	asked, ok := parse(strings.TrimPrefix(path, approvalPath))
	if refused := s.admit(r, ok); refused != nil {
		return *refused
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return failure(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", maxBody)
	case err != nil:
		return failure(http.StatusBadRequest, "the body can't be read")
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	return answerOf(s.Approve(ctx, approval.Request{
		Promotion: asked, Method: r.Method, Target: r.RequestURI, Header: r.Header, Body: body, Client: r.RemoteAddr,
	}))
}

// parse splits the path '<namespace>/<pipeline>/<environment>/<revision>', and then decodes each part once. The
// revision is the rest of the path and may contain slashes.
func parse(path string) (approval.Promotion, bool) {
	parts := strings.SplitN(path, "/", 4)
	if len(parts) < 4 {
		return approval.Promotion{}, false
	}
	for i := range parts {
		decoded, err := url.PathUnescape(parts[i])
		if err != nil || decoded == "" {
			return approval.Promotion{}, false
		}
		parts[i] = decoded
	}
	return approval.Promotion{Namespace: parts[0], Pipeline: parts[1], Environment: parts[2], Revision: parts[3]}, true
}

// admit returns an error response if the method or the path is wrong, or if the request exceeds a rate limit.
func (s *Server) admit(r *http.Request, found bool) *answer {
	var refused answer
	switch {
	case r.Method != http.MethodPost:
		refused = failure(http.StatusMethodNotAllowed, "approvals and webhooks require POST")
		refused.header = map[string]string{"Allow": http.MethodPost}
	case !found:
		refused = notFound()
	default:
		wait := s.limiter.wait(clientOf(r.RemoteAddr), s.Now())
		if wait == 0 {
			return nil
		}
		refused = failure(http.StatusTooManyRequests, "too many requests")
		refused.header = map[string]string{"Retry-After": strconv.Itoa(int((wait + time.Second - 1) / time.Second))}
	}
	return &refused
}

func notFound() answer {
	return failure(http.StatusNotFound, "not found: approvals are POSTed to /approval/<namespace>/<pipeline>/<environment>/<revision>, webhooks to /webhook/<namespace>/<secret>")
}

// webhook handles a webhook of a Git host.
func (s *Server) webhook(w http.ResponseWriter, r *http.Request, path string) answer {
	namespace, name, ok := strings.Cut(path, "/")
	if refused := s.admit(r, ok && namespace != "" && name != "" && !strings.Contains(name, "/")); refused != nil {
		return *refused
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	secret := types.NamespacedName{Namespace: namespace, Name: name}
	signed, err := s.Webhooks.Receive(ctx, r.Header, http.MaxBytesReader(w, r.Body, scm.MaxWebhook), secret)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return failure(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", scm.MaxWebhook)
	case err != nil:
		s.Log.Error(err, "checking a webhook failed", "secret", secret.String(), "client", r.RemoteAddr)
		return failure(http.StatusServiceUnavailable, "checking the webhook failed")
	case !signed:
		s.Log.Info("refused a webhook", "secret", secret.String(), "client", r.RemoteAddr)
		return unauthorized()
	}
	return answer{code: http.StatusAccepted}
}
