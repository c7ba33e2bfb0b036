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

package controller

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/hold"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

const (
	recorded  = "1.2.3@sha256:abc"
	chartPath = "/helmchart/default/app/app-1.2.3.tgz"
)

// stored is a storage that answers requests with a status.
type stored struct {
	*httptest.Server
	status   int
	requests []string
}

func newStored(t *testing.T) *stored {
	t.Helper()
	s := &stored{status: http.StatusOK}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(s.status)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *stored) host() string { return strings.TrimPrefix(s.URL, "http://") }

// heldChart returns a world with a closed gate that holds a chart, whose artifact is in the storage.
func heldChart(t *testing.T, s *stored) (*world, *gatingv1.Gate, *source.HelmChart, *SourceReconciler) {
	t.Helper()
	freeze, chart := gate("freeze", true), chart()
	chart.Annotations = map[string]string{gatingv1.GatesAnnotation: "freeze"}
	chart.Status.Artifact = &source.Artifact{Revision: "1.2.3", Digest: "sha256:abc", URL: s.URL + chartPath}
	w := newWorld(t, freeze, chart)
	w.now = func() time.Time { return noon }
	w.neverOpen = true
	w.Expect(hold.On(w.reconcile(t, chart)).Suspend).To(BeTrue())
	r := w.reconciler(t, chart)
	r.ArtifactHosts = []string{s.host()}
	return w, freeze, chart, r
}

func TestALostArtifactIsRestoredWhileTheGatesAreClosed(t *testing.T) {
	s := newStored(t)
	w, _, chart, r := heldChart(t, s)
	w.Expect(r.checkArtifacts(t.Context())).To(Succeed())
	w.Expect(conditions.Has(w.reconcile(t, chart), gatingv1.ArtifactLostCondition)).To(BeFalse(), "it is there")
	for _, s.status = range []int{http.StatusFound, http.StatusInternalServerError, http.StatusForbidden} {
		w.Expect(r.checkArtifacts(t.Context())).To(Succeed())
		w.Expect(conditions.Has(w.reconcile(t, chart), gatingv1.ArtifactLostCondition)).To(BeFalse(), "nobody knows after %d", s.status)
	}

	s.status = http.StatusNotFound
	w.Expect(r.checkArtifacts(t.Context())).To(Succeed())
	w.Expect(w.Get(t.Context(), client.ObjectKeyFromObject(chart), chart)).To(Succeed())
	w.Expect(hold.On(chart).Suspend).To(BeTrue(), "it is recorded before the release")
	w.Expect(conditions.GetMessage(chart, gatingv1.ArtifactLostCondition)).To(Equal(recorded + " was lost by source-controller; it is being restored until 2026-11-25T12:05:00Z"))
	w.Expect(hold.On(w.reconcile(t, chart)).Suspend).To(BeFalse())
	w.Expect(conditions.IsFalse(chart, gatingv1.GatesOpenCondition)).To(BeTrue())
	w.Expect(w.again).To(Equal(restoreTimeout))

	w.Expect(r.checkArtifacts(t.Context())).To(Succeed())
	w.Expect(hold.On(w.reconcile(t, chart)).Suspend).To(BeFalse(), "it is not back yet")
	s.status = http.StatusOK
	w.Expect(r.checkArtifacts(t.Context())).To(Succeed())
	w.Expect(hold.On(w.reconcile(t, chart)).Suspend).To(BeTrue())
	w.Expect(conditions.Has(chart, gatingv1.ArtifactLostCondition)).To(BeFalse())
	w.Expect(s.requests).To(HaveEach("HEAD "+chartPath), "redirects are not followed")
	w.Expect(w.events.Events).To(Receive(ContainSubstring("held: ")))
	w.Expect(w.events.Events).To(Receive(Equal("Warning Restoring " + recorded + " was lost by source-controller; it is being restored until 2026-11-25T12:05:00Z")))
	w.Expect(w.events.Events).To(Receive(Equal("Normal Restored " + recorded + " was restored")))
}

func TestAnArtifactThatIsNotRestoredIsTriedAgainLessAndLessOften(t *testing.T) {
	s := newStored(t)
	s.status = http.StatusNotFound
	w, freeze, chart, r := heldChart(t, s)
	w.Expect(r.checkArtifacts(t.Context())).To(Succeed())
	w.Expect(w.Get(t.Context(), client.ObjectKeyFromObject(chart), chart)).To(Succeed())
	apimeta.FindStatusCondition(chart.Status.Conditions, gatingv1.ArtifactLostCondition).LastTransitionTime = metav1.NewTime(noon)
	w.Expect(w.Status().Update(t.Context(), chart)).To(Succeed())
	w.Expect(hold.On(w.reconcile(t, chart)).Suspend).To(BeFalse())

	for _, minutes := range []int{5, 15, 20, 40, 45, 90} {
		now := noon.Add(time.Duration(minutes) * time.Minute)
		w.now = func() time.Time { return now }
		released := !hold.On(chart).Suspend
		w.Expect(hold.On(w.reconcile(t, chart)).Suspend).To(Equal(released), "after %d minutes", minutes)
		w.Expect(conditions.GetMessage(chart, gatingv1.ArtifactLostCondition)).To(HavePrefix(recorded + " was lost by source-controller; "))
	}

	w.neverOpen = false
	w.edit(t, freeze, func() { freeze.Spec.Closed = false })
	w.reconcile(t, chart)
	w.Expect(conditions.IsTrue(chart, gatingv1.GatesOpenCondition)).To(BeTrue())
	w.Expect(conditions.Has(chart, gatingv1.ArtifactLostCondition)).To(BeFalse(), "an open gate lets every artifact pass")
}

func TestALossIsForgottenWhenAnotherArtifactIsPublished(t *testing.T) {
	s := newStored(t)
	s.status = http.StatusNotFound
	w, _, chart, r := heldChart(t, s)
	w.Expect(r.checkArtifacts(t.Context())).To(Succeed())
	w.Expect(w.Get(t.Context(), client.ObjectKeyFromObject(chart), chart)).To(Succeed())
	chart.Status.Artifact = &source.Artifact{Revision: "1.2.4", Digest: "sha256:def", URL: "http://elsewhere" + chartPath}
	w.Expect(w.Status().Update(t.Context(), chart)).To(Succeed())

	w.Expect(hold.On(w.reconcile(t, chart)).Suspend).To(BeTrue())
	w.Expect(conditions.Has(chart, gatingv1.ArtifactLostCondition)).To(BeFalse())
}

func TestASourceIsHeldAgainIfItOffersAnotherArtifact(t *testing.T) {
	s := newStored(t)
	s.status = http.StatusNotFound
	w, _, chart, r := heldChart(t, s)
	w.Expect(r.checkArtifacts(t.Context())).To(Succeed())
	w.Expect(hold.On(w.reconcile(t, chart)).Suspend).To(BeFalse())

	offer := func(generation int64) {
		chart.Status.Artifact = nil
		apimeta.SetStatusCondition(&chart.Status.Conditions, metav1.Condition{Type: sourcev1.ArtifactInStorageCondition, Status: metav1.ConditionTrue, Reason: "Succeeded", Message: "pulled 'app' chart with version '1.2.4'"})
		apimeta.SetStatusCondition(&chart.Status.Conditions, metav1.Condition{Type: meta.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Succeeded", ObservedGeneration: generation})
		w.Expect(w.Status().Update(t.Context(), chart)).To(Succeed())
	}
	offer(chart.Generation - 1)
	w.Expect(hold.On(w.reconcile(t, chart)).Suspend).To(BeFalse(), "source-controller has not looked since")
	offer(chart.Generation)
	w.Expect(hold.On(w.reconcile(t, chart)).Suspend).To(BeTrue())
	loss := conditions.Get(chart, gatingv1.ArtifactLostCondition)
	w.Expect(loss.Reason).To(Equal(NotRestoredReason))
	w.Expect(loss.Message).To(HavePrefix(recorded + " was lost by source-controller; the source offers another artifact: pulled 'app' chart with version '1.2.4': "))
	w.Expect(conditions.IsFalse(chart, gatingv1.GatesOpenCondition)).To(BeTrue())
	w.Expect(w.again).To(BeNumerically(">=", restoreAgain-time.Minute))

	w.reconcile(t, chart)
	w.Expect(conditions.Get(chart, gatingv1.ArtifactLostCondition)).To(Equal(loss), "nothing happens until then")
}

func TestASourceStaysHeldIfTheBackstopDoesNotRefuseOtherArtifacts(t *testing.T) {
	for _, test := range []struct {
		name     string
		backstop error
		want     string
	}{
		{"because it is disabled", nil, "the backstop does not refuse other artifacts; enable it, or open the gate; next attempt at "},
		{"because nobody knows", errors.New("timeout\nof a webhook"), "the backstop does not refuse other artifacts: timeout of a webhook; enable it, or open the gate; next attempt at "},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStored(t)
			s.status = http.StatusNotFound
			w, _, chart, r := heldChart(t, s)
			w.Expect(r.checkArtifacts(t.Context())).To(Succeed())
			w.backstop = test.backstop
			generation := chart.Generation
			w.Expect(hold.On(w.reconcile(t, chart)).Suspend).To(BeTrue())
			w.Expect(chart.Generation).To(Equal(generation))
			w.Expect(conditions.GetMessage(chart, gatingv1.ArtifactLostCondition)).To(HavePrefix(recorded + " was lost by source-controller; " + test.want))
		})
	}
}

func TestOnlyTheSourcesOwnPathInTheStorageIsRequested(t *testing.T) {
	g := NewWithT(t)
	r := &SourceReconciler{Kind: source.HelmCharts, ArtifactHosts: []string{"source-controller.flux-system.svc.cluster.local."}}
	const host = "http://source-controller.flux-system.svc.cluster.local."
	for _, test := range []struct{ name, url, want, revision string }{
		{name: "its own path", url: host + chartPath, want: host + chartPath},
		{name: "without a query", url: host + chartPath + "?a=b#c", want: host + chartPath},
		{name: "without a user", url: "http://a:b@source-controller.flux-system.svc.cluster.local." + chartPath, want: host + chartPath},
		{name: "another host", url: "http://169.254.169.254" + chartPath},
		{name: "a host that ends like it", url: "http://evil.source-controller.flux-system.svc.cluster.local." + chartPath},
		{name: "another port", url: host + ":9440" + chartPath},
		{name: "another scheme", url: "https://source-controller.flux-system.svc.cluster.local." + chartPath},
		{name: "another source", url: host + "/helmchart/default/application/app-1.2.3.tgz"},
		{name: "another kind", url: host + "/bucket/default/app/app-1.2.3.tgz"},
		{name: "out of its directory", url: host + "/helmchart/default/app/../../../x"},
		{name: "out of its directory, escaped", url: host + "/helmchart/default/app/%2e%2e/x"},
		{name: "its directory", url: host + "/helmchart/default/app/"},
		{name: "a long path", url: host + chartPath + strings.Repeat("x", longestArtifact)},
		{name: "a revision of two words", url: host + chartPath, revision: "1.2.3@sha256:def 1.2.3"},
		{name: "a long revision", url: host + chartPath, revision: strings.Repeat("x", longestArtifact)},
		{name: "no URL", url: "://"},
		{name: "none"},
	} {
		chart := chart()
		chart.Status.Artifact = &source.Artifact{Revision: test.revision, Digest: "sha256:abc", URL: test.url}
		var got string
		if address := r.artifactAddress(chart); address != nil {
			got = address.String()
		}
		g.Expect(got).To(Equal(test.want), test.name)
	}
}

func TestOnlyHeldSourcesAreCheckedAndAHostThatIsDownIsAskedOnce(t *testing.T) {
	s := newStored(t)
	w, freeze, held, r := heldChart(t, s)
	w.neverOpen = false
	w.edit(t, freeze, func() { freeze.Spec.Closed = false })
	w.reconcile(t, held)
	s.status = http.StatusNotFound
	w.Expect(r.checkArtifacts(t.Context())).To(Succeed())
	w.Expect(s.requests).To(BeEmpty())

	w.edit(t, freeze, func() { freeze.Spec.Closed = true })
	w.reconcile(t, held)
	second := chart()
	second.Name, second.Annotations = "second", held.Annotations
	second.Status.Artifact = &source.Artifact{Revision: "1.2.3", Digest: "sha256:abc", URL: s.URL + "/helmchart/default/second/a.tgz"}
	w.Expect(w.Create(t.Context(), second)).To(Succeed())
	w.Expect(w.Status().Update(t.Context(), second)).To(Succeed())
	w.Expect(hold.On(w.reconcile(t, second)).Suspend).To(BeTrue())
	s.Close()
	err := r.checkArtifacts(t.Context())
	w.Expect(strings.Count(err.Error(), "connection refused")).To(Equal(1))
	w.Expect(conditions.Has(w.reconcile(t, held), gatingv1.ArtifactLostCondition)).To(BeFalse())
}
