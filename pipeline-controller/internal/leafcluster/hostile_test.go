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
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/apireader"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/kubeconfig"
)

var someKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "App"}

// leafAt returns a leaf's API server at an address.
func leafAt(t *testing.T, address string) *server {
	t.Helper()
	s, err := leafServer(&kubeconfig.Kubeconfig{Config: &rest.Config{Host: address}, Server: address}, Timing{}.withDefaults())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(s.Close)
	return s
}

func TestWhatWasSeenBeforeAConnectionWasLostDoesNotCountAfterwards(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // what the new session starts doesn't run by itself
	g := NewWithT(t)
	connection := newConnection(leafAt(t, "https://127.0.0.1:1"), newAttempts(1), nil)
	app := types.NamespacedName{Namespace: "prod", Name: "app"}
	w := newWatch(watchKey{kind: someKind, namespace: "prod"}, connection.server, connection.enqueue)
	w.states, w.synced = map[types.NamespacedName]application.State{app: {Known: true, Ready: true, Revision: "old"}}, true
	connection.watches[w.key] = &watched{watch: w}

	session, end := context.WithCancel(t.Context())
	running := connection.begin(session)
	state := w.read(app)
	end()
	running.Wait()
	g.Expect(state.Known).To(BeFalse())
}

func TestTheMessageOfALookUpThatFailsIsTheSameEachTime(t *testing.T) {
	g := NewWithT(t)
	// Nobody is there any more: a Service without endpoints refuses, too.
	gone, err := net.ListenPacket("udp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(gone.Close()).To(Succeed())
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", gone.LocalAddr().String())
	}}
	message := func() string {
		_, err := resolver.LookupHost(t.Context(), "leaf.example.com.")
		g.Expect(err).To(HaveOccurred())
		return failureOf("https://leaf.example.com", err).message
	}
	g.Expect(message()).To(Equal(message()))
	g.Expect(message()).To(ContainSubstring("looking up leaf.example.com.: DNS lookup failed"))
}

func TestThereMayBeNoEndOfPages(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"metadata":{"resourceVersion":"1","continue":"more"},"items":[]}`))
	}))
	defer server.Close()
	l := &listerWatcher{
		watch:    newWatch(watchKey{kind: someKind, namespace: "prod"}, leafAt(t, server.URL), nil),
		resource: apireader.Resource{Kind: someKind, Name: "apps"},
		decoder:  application.NewDecoder(someKind, ""),
	}
	var err error
	for pages, options := 0, (metav1.ListOptions{Limit: pageSize}); err == nil && pages < 2*maxObjects; pages++ {
		_, err = l.page(t.Context(), options)
		options.Continue = "more"
	}
	g.Expect(err).To(MatchError(apireader.ErrTooMany))
}

func TestRestartsBeforeAConnectionWasSharedAreNotCounted(t *testing.T) {
	g := NewWithT(t)
	never := func(func(context.Context)) context.CancelFunc { return func() {} }
	connections := newConnections(nil, never, Timing{})
	shared := newConnection(leafAt(t, "https://leaf"), connections.attempts, connections.enqueue)
	shared.sessions = 3
	connections.acquire(shared, &cluster{})
	joined := &cluster{connections: connections}
	joined.connect(newConnection(leafAt(t, "https://leaf"), connections.attempts, connections.enqueue))
	g.Expect(joined.figures().sessions).To(Equal(1))
	shared.sessions++
	g.Expect(joined.figures().sessions).To(Equal(2))
}

func TestACertificateOfAUserThatHasExpiredIsTheReason(t *testing.T) {
	g := NewWithT(t)
	s := leafAt(t, "https://leaf")
	s.kubeconfig.Expires = time.Now().Add(-time.Minute)
	refusal := func(code int) error {
		return apierrors.NewGenericServerResponse(code, http.MethodGet, schema.GroupResource{}, "", "", 0, false)
	}
	c := newConnection(s, newAttempts(1), nil)
	c.fail(t.Context(), refusal(http.StatusUnauthorized), time.Now())
	expires := And(HaveField("Reason", "CertificateExpired"), HaveField("Message", ContainSubstring("the kubeconfig's certificate expired at ")))
	g.Expect(c.failure.state()).To(expires)
	g.Expect(s.failedTo("list", watchKey{}, refusal(http.StatusForbidden)).state()).To(expires, "the server may take the user for nobody")
}
