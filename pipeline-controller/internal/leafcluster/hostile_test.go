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
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/target"
)

var someKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "App"}

// allocated returns how much memory a function asks for.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestWhatALeafSendsTakesNoMultipleOfItsSize(t *testing.T) {
	// What is the same for all sizes: as many objects as may be.
	const size, objects = 2 << 20, 64 << 20
	for _, element := range []string{"{}", "[]", "0", `{"a":0}`} {
		many := strings.Repeat(element+",", size/len(element)) + element
		t.Run("a page of "+element, func(t *testing.T) {
			page := []byte(`{"metadata":{"resourceVersion":"1"},"items":[` + many + `]}`)
			NewWithT(t).Expect(allocated(func() { _, _ = observeList(page, someKind, maxObjects) })).To(BeNumerically("<", 12*size+objects))
		})
		for _, where := range []string{`"spec":[%s]`, `"metadata":{"annotations":[%s]}`, `"status":{"conditions":[%s]}`, `"status":{"inventory":[%s]}`} {
			t.Run("an object of "+element+" in "+where, func(t *testing.T) {
				object := []byte("{" + fmt.Sprintf(where, many) + "}")
				NewWithT(t).Expect(allocated(func() { _, _ = observe(object, someKind) })).To(BeNumerically("<", 12*size))
			})
		}
	}
}

func TestANameThatIsNoneIsNotKept(t *testing.T) {
	for _, field := range []string{"name", "namespace"} {
		_, err := observe([]byte(`{"metadata":{"`+field+`":"`+strings.Repeat("x", 254)+`"}}`), someKind)
		NewWithT(t).Expect(err).To(MatchError(errNonsense))
	}
}

func TestWhatWasSeenBeforeAConnectionWasLostDoesNotCountAfterwards(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // what the new session starts doesn't run by itself
	g := NewWithT(t)
	api, err := newAPI(&rest.Config{Host: "https://127.0.0.1:1"})
	g.Expect(err).NotTo(HaveOccurred())
	connection := connectionTo(&Clusters{timing: Timing{}.withDefaults()}, api)
	connection.kubeconfig = &kubeconfig{}
	app := types.NamespacedName{Namespace: "prod", Name: "app"}
	w := newWatch(watchKey{kind: someKind, namespace: "prod"}, connection)
	w.states, w.synced = map[types.NamespacedName]target.State{app: {Known: true, Ready: true, Revision: "old"}}, true
	connection.watches[w.key] = w

	session, end := context.WithCancel(t.Context())
	running := connection.begin(session)
	state := w.read(app)
	end()
	running.Wait()
	g.Expect(state.Known).To(BeFalse())
}

func TestTheLastContactDoesNotDependOnTheWallClock(t *testing.T) {
	a := &api{}
	a.touch()
	// The reading of the monotonic clock is seen in no other way.
	NewWithT(t).Expect(a.lastContact().String()).To(ContainSubstring(" m=+"))
}

func TestTheMessageOfALookUpThatFailsIsTheSameEachTime(t *testing.T) {
	g := NewWithT(t)
	// Nobody is there any more: a Service without endpoints refuses, too.
	gone, err := net.ListenPacket("udp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(gone.Close()).To(Succeed())
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "udp", gone.LocalAddr().String())
	}}
	message := func() string {
		_, err := resolver.LookupHost(t.Context(), "leaf.example.com.")
		g.Expect(err).To(HaveOccurred())
		return failureOf("https://leaf.example.com", err).message
	}
	g.Expect(message()).To(Equal(message()))
	g.Expect(message()).To(ContainSubstring("looking up leaf.example.com.: no name server tells"))
}

func TestCompressionIsDisabledIfTheKubeconfigSaysSo(t *testing.T) {
	for _, disabled := range []bool{true, false} {
		g := NewWithT(t)
		accepted := make(chan string, 1)
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { accepted <- r.Header.Get("Accept-Encoding") }))
		defer server.Close()
		a, err := newAPI(&rest.Config{Host: server.URL, DisableCompression: disabled})
		g.Expect(err).NotTo(HaveOccurred())
		defer a.close()
		_, err = a.read(t.Context(), []string{"version"}, nil, maxDocument)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect((<-accepted) == "").To(Equal(disabled))
	}
}

func TestAnAPIServerDoesNotSayWhereToLook(t *testing.T) {
	g := NewWithT(t)
	asked := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		if r.URL.Path == "/leafs/eu/apis/example.com" {
			_, _ = w.Write([]byte(`{"versions":[{"version":"../../../us/api/v1/secrets"}]}`))
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	a, err := newAPI(&rest.Config{Host: server.URL + "/leafs/eu"})
	g.Expect(err).NotTo(HaveOccurred())
	defer a.close()
	_, err = (&kinds{api: a}).resource(t.Context(), someKind)
	g.Expect(err).To(MatchError(errNoKind))
	close(asked)
	for path := range asked {
		g.Expect(path).To(HavePrefix("/leafs/eu/apis/example.com"))
	}
}

func TestAKindThatIsKnownDoesNotWaitForOneThatIsLookedUp(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	}))
	defer server.Close()
	a, err := newAPI(&rest.Config{Host: server.URL})
	g.Expect(err).NotTo(HaveOccurred())
	defer a.close()
	k := &kinds{api: a, known: map[schema.GroupVersionKind]resource{someKind: {kind: someKind, name: "apps"}}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = k.resource(ctx, schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Slow"})
	}()
	defer func() { cancel(); <-done }()
	<-asked
	found := make(chan struct{})
	go func() { defer close(found); _, _ = k.resource(t.Context(), someKind) }()
	g.Eventually(found).Should(BeClosed())
	cancel()
}

func TestThereMayBeNoEndOfPages(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"metadata":{"resourceVersion":"1","continue":"more"},"items":[]}`))
	}))
	defer server.Close()
	a, err := newAPI(&rest.Config{Host: server.URL})
	g.Expect(err).NotTo(HaveOccurred())
	defer a.close()
	connection := connectionTo(&Clusters{}, a)
	connection.kubeconfig = &kubeconfig{}
	l := &listerWatcher{watch: newWatch(watchKey{kind: someKind, namespace: "prod"}, connection), resource: resource{kind: someKind, name: "apps"}}
	for pages, options := 0, (metav1.ListOptions{Limit: pageSize}); err == nil && pages < 2*maxObjects; pages++ {
		_, err = l.page(t.Context(), options)
		options.Continue = "more"
	}
	g.Expect(err).To(MatchError(errTooMany))
}

func TestRestartsBeforeAConnectionWasSharedAreNotCounted(t *testing.T) {
	g := NewWithT(t)
	clusters := &Clusters{clusters: map[clusterKey]*cluster{}, connections: map[fingerprint]*connection{}}
	shared := connectionTo(clusters, &api{})
	shared.kubeconfig, shared.sessions = &kubeconfig{}, 3
	clusters.connections[shared.kubeconfig.fingerprint] = shared
	joined := &cluster{clusters: clusters, key: clusterKey{kind: secretKind}}
	clusters.clusters[joined.key] = joined
	again := connectionTo(clusters, &api{})
	again.kubeconfig = shared.kubeconfig
	joined.connect(again)
	g.Expect(clusters.figures()[0].sessions).To(Equal(1))
	shared.sessions++
	g.Expect(clusters.figures()[0].sessions).To(Equal(2))
}
