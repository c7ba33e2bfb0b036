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

package leafcluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/apireader"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/kubeconfig"
)

// failure is the reason why targets are unknown.
type failure struct {
	// reason is one of the reasons of a pipelinesv1.TargetStatus.
	reason string
	// message is always the same for the same failure, so a status that quotes it does not change unnecessarily.
	message string
	// since is the start of the failure.
	since time.Time
}

func failed(reason, format string, args ...any) *failure {
	return &failure{reason: reason, message: fmt.Sprintf(format, args...)}
}

// sameAs reports whether both failures have the same reason and message.
func (f *failure) sameAs(before *failure) bool {
	return before != nil && before.reason == f.reason && before.message == f.message
}

// at sets the start of the failure: that of the previous failure if it is of the same kind, or the given time.
func (f *failure) at(before *failure, since time.Time) *failure {
	dated := *f
	dated.since = since
	if before != nil && before.reason == f.reason {
		dated.since = before.since
	}
	return &dated
}

// state returns the state of targets that are unknown because of the failure.
func (f *failure) state() application.State {
	message := f.message
	if f.reason == pipelinesv1.UnreachableReason {
		message = fmt.Sprintf("unreachable since %s: %s", f.since.UTC().Format(time.RFC3339), message)
	}
	return application.UnknownBecause(f.reason, message, f.since)
}

// failureOf classifies the error of a request to a server. It omits our own addresses, which differ each time, and
// everything from the server.
func failureOf(server string, err error) *failure {
	var refusal *kubeconfig.Refusal
	var status apierrors.APIStatus
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &refusal):
		return failed(refusal.Reason, "%s", refusal.Message)
	case errors.As(err, &status):
		return failureOfStatus(server, int(status.Status().Code))
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return failed(pipelinesv1.CertificateExpiredReason, "the certificate of %s has expired or is not valid yet", server)
	case isUntrusted(err):
		return failed(pipelinesv1.CertificateInvalidReason, "the certificate of %s is not trusted by the kubeconfig", server)
	}
	if alert := alertOf(err); strings.Contains(alert, "expired") {
		return failed(pipelinesv1.CertificateExpiredReason, "%s rejected the client certificate as expired", server)
	} else if strings.Contains(alert, "certificate") {
		return failed(pipelinesv1.UnauthorizedReason, "%s rejected the client certificate", server)
	}
	return failed(pipelinesv1.UnreachableReason, "%s: %s", server, causeOf(err))
}

func failureOfStatus(server string, code int) *failure {
	switch code {
	case http.StatusUnauthorized:
		return failed(pipelinesv1.UnauthorizedReason, "%s rejected the kubeconfig's credentials", server)
	case http.StatusForbidden:
		return failed(pipelinesv1.ForbiddenReason, "%s denied access to the kubeconfig's user", server)
	}
	return failed(pipelinesv1.UnreachableReason, "%s responded with %d %s", server, code, http.StatusText(code))
}

func isUntrusted(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		invalid      x509.CertificateInvalidError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
	)
	return errors.As(err, &verification) || errors.As(err, &invalid) || errors.As(err, &authority) || errors.As(err, &hostname)
}

// alertOf returns the alert of the other side of a TLS handshake. The type of alerts is not exported.
func alertOf(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" && op.Err != nil {
		return op.Err.Error()
	}
	return ""
}

// causeOfLookup does not quote the error, because it may contain the addresses of both sides.
func causeOfLookup(err *net.DNSError) string {
	switch {
	case err.IsNotFound:
		return "no such host"
	case err.IsTimeout:
		return "timed out"
	}
	return "DNS lookup failed"
}

func causeOf(err error) string {
	var (
		dns     *net.DNSError
		syscall *os.SyscallError
		timeout net.Error
		record  tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &dns):
		return fmt.Sprintf("looking up %s: %s", dns.Name, causeOfLookup(dns))
	case errors.As(err, &syscall):
		return syscall.Err.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timed out"
	case errors.As(err, &record):
		return "the server does not use TLS"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "the connection was closed"
	case errors.Is(err, apireader.ErrTooLarge), errors.Is(err, application.ErrTooLarge):
		return "the response is too large"
	case errors.Is(err, apireader.ErrMalformed), errors.Is(err, application.ErrMalformed):
		return "it is not a Kubernetes API server"
	}
	return "the connection failed"
}
