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

package apireader

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
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

func TestAPageTakesNoMultipleOfItsSize(t *testing.T) {
	// What is the same for all sizes: as many objects as may be.
	const size, objects, most = 2 << 20, 64 << 20, 10000
	decoder := application.NewDecoder(someKind, "")
	for _, element := range []string{"{}", "[]", "0", `{"a":0}`} {
		many := strings.Repeat(element+",", size/len(element)) + element
		t.Run("a page of "+element, func(t *testing.T) {
			page := []byte(`{"metadata":{"resourceVersion":"1"},"items":[` + many + `]}`)
			decode := func(raw []byte) (apiruntime.Object, error) { return decoder.Decode(raw) }
			NewWithT(t).Expect(allocated(func() { _, _ = decodeList(page, most, decode) })).To(BeNumerically("<", 12*size+objects))
		})
	}
}

func TestTheLastContactDoesNotDependOnTheWallClock(t *testing.T) {
	a := &Reader{}
	a.touch()
	// The reading of the monotonic clock is seen in no other way.
	NewWithT(t).Expect(a.LastContact().String()).To(ContainSubstring(" m=+"))
}

func TestCompressionIsDisabledIfTheKubeconfigSaysSo(t *testing.T) {
	for _, disabled := range []bool{true, false} {
		g := NewWithT(t)
		accepted := make(chan string, 1)
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { accepted <- r.Header.Get("Accept-Encoding") }))
		defer server.Close()
		a, err := New(&rest.Config{Host: server.URL, DisableCompression: disabled})
		g.Expect(err).NotTo(HaveOccurred())
		defer a.Close()
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
	a, err := New(&rest.Config{Host: server.URL + "/leafs/eu"})
	g.Expect(err).NotTo(HaveOccurred())
	defer a.Close()
	_, err = a.Resource(t.Context(), someKind)
	g.Expect(err).To(MatchError(ErrNoKind))
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
	a, err := New(&rest.Config{Host: server.URL})
	g.Expect(err).NotTo(HaveOccurred())
	defer a.Close()
	a.resources.remember(someKind, Resource{Kind: someKind, Name: "apps"})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = a.Resource(ctx, schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Slow"})
	}()
	defer func() { cancel(); <-done }()
	<-asked
	found := make(chan struct{})
	go func() { defer close(found); _, _ = a.Resource(t.Context(), someKind) }()
	g.Eventually(found).Should(BeClosed())
	cancel()
}

func TestAConnectionThatIsBeingMadeWhenAllAreEndedForGoodIsEndedToo(t *testing.T) {
	g := NewWithT(t)
	ours, theirs := net.Pipe()
	dialing, goOn := make(chan struct{}), make(chan struct{})
	d := &dialer{Dialer: connrotation.NewDialer(func(context.Context, string, string) (net.Conn, error) {
		close(dialing)
		<-goOn
		return ours, nil
	})}
	r := &Reader{dialer: d, transport: &http.Transport{}}
	failed := make(chan error)
	go func() {
		_, err := d.dial(t.Context(), "tcp", "leaf:6443")
		failed <- err
	}()
	<-dialing
	r.Close()
	close(goOn)
	g.Expect(<-failed).To(MatchError(net.ErrClosed))
	_, err := theirs.Read(make([]byte, 1))
	g.Expect(err).To(HaveOccurred(), "nothing reads or writes any more")
}
