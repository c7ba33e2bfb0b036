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

package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/net/html"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/rights"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/uitest"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/world"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
)

// hostile is what a stranger may write into an object.
var hostile = `</bdi></main><script>alert(1)</script><img src=x onerror=alert(1)>"'&` + "\u202e" + strings.Repeat("x", 4096)

// newPipeline returns a pipeline whose prod waits with a message.
func newPipeline(name, message string) *pipelinesv1.Pipeline {
	pipeline := &pipelinesv1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: name}}
	pipeline.Spec.AppRef.Kind = "Kustomization"
	pipeline.Spec.Promotion = &pipelinesv1.Promotion{Manual: true, Gates: &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"freeze"}}}
	pipeline.Status.Environments = map[string]*pipelinesv1.EnvironmentStatus{}
	for _, env := range []string{"dev", "prod"} {
		pipeline.Spec.Environments = append(pipeline.Spec.Environments, pipelinesv1.Environment{Name: env})
		pipeline.Status.Environments[env] = &pipelinesv1.EnvironmentStatus{State: "Current"}
	}
	pipeline.Status.Environments["prod"] = &pipelinesv1.EnvironmentStatus{
		State: "Waiting", Message: message, WaitingApproval: pipelinesv1.WaitingApproval{Revision: "v2"},
		Promotion: &pipelinesv1.PromotionRecord{
			Revision: "v2", State: "unapproved", Message: message, Approvers: []string{message}, PullRequest: &pipelinesv1.PullRequestStatus{URL: "javascript:alert(1)"},
			Preconditions: []pipelinesv1.PreconditionStatus{{Type: "Gates", Message: message}},
		},
		Targets: []pipelinesv1.TargetStatus{{Namespace: "prod", Revision: message, Error: message}},
	}
	return pipeline
}

func newGate(reason string) *gatingv1.Gate {
	gate := &gatingv1.Gate{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "freeze", Annotations: map[string]string{gatingv1.ReasonAnnotation: reason}}}
	gate.Spec.Closed = true
	gate.Status.Held = 2
	return gate
}

// serve serves the pages of a cluster.
func serve(t *testing.T, cluster *uitest.Cluster) (*Handler, *httptest.Server) {
	t.Helper()
	g := NewWithT(t)
	started, err := world.Start(t.Context(), t.Context(), world.Options{Kube: cluster, Now: time.Now})
	g.Expect(err).NotTo(HaveOccurred())
	handler := &Handler{World: started, Rights: rights.Of(cluster, time.Now), User: "ada", Cluster: "test", Streams: NewStreams()}
	server := httptest.NewServer(handler.Routes())
	t.Cleanup(server.Close)
	return handler, server
}

func get(t *testing.T, server *httptest.Server, path string) (*http.Response, string) {
	t.Helper()
	g := NewWithT(t)
	answer, err := server.Client().Get(server.URL + path)
	g.Expect(err).NotTo(HaveOccurred())
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return answer, string(content)
}

func TestPages(t *testing.T) {
	pipeline := newPipeline("shop", "v2 waits: gate freeze is closed (end of quarter)")
	_, server := serve(t, uitest.New(t, pipeline, newGate("end of quarter")))
	for _, tt := range []struct {
		path  string
		code  int
		shows []string
	}{
		{path: "/", code: http.StatusOK, shows: []string{"waits for your approval", "apps/freeze", "end of quarter", `id="app/apps/shop"`, "1 of 1 selected"}},
		{path: "/?state=failed", code: http.StatusOK, shows: []string{"No application is selected", "0 of 1 selected"}},
		{path: "/?app=SHO&namespace=apps&state=waiting", code: http.StatusOK, shows: []string{`id="app/apps/shop"`, `value="SHO"`}},
		// The sentences are those of the commands.
		{path: "/pipelines/apps/shop", code: http.StatusOK, shows: []string{why.Line(pipeline, "prod", time.Now()), "flux pipeline why shop -n apps", "kind: Pipeline", "<svg"}},
		{path: "/gates/apps/freeze", code: http.StatusOK, shows: []string{"end of quarter", "flux gate get freeze -n apps", "kind: Gate", "closed"}},
		{path: "/pipelines/apps/other", code: http.StatusNotFound, shows: []string{"There is no Pipeline apps/other that you may list."}},
		{path: "/gates/apps/other", code: http.StatusNotFound, shows: []string{"There is no Gate apps/other that you may list."}},
		{path: "/gates/apps", code: http.StatusNotFound, shows: []string{"There is no such page."}},
		{path: "/secrets/apps/token", code: http.StatusNotFound},
		{path: "/assets/style.css", code: http.StatusOK, shows: []string{"color-scheme", ".graph"}},
		{path: "/assets/page.js", code: http.StatusOK},
		{path: "/assets/templates.go", code: http.StatusNotFound},
	} {
		t.Run(tt.path, func(t *testing.T) {
			g := NewWithT(t)
			answer, content := get(t, server, tt.path)
			g.Expect(answer.StatusCode).To(Equal(tt.code))
			for _, text := range tt.shows {
				g.Expect(content).To(ContainSubstring(text))
			}
			header := answer.Header
			g.Expect(header.Get("Content-Security-Policy")).To(Equal("default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"))
			g.Expect(header.Get("X-Content-Type-Options")).To(Equal("nosniff"))
			g.Expect(header.Get("Referrer-Policy")).To(Equal("no-referrer"))
			g.Expect(header.Get("Cache-Control")).To(Equal("no-store"))
		})
	}
}

func TestTextsOfStrangersAreText(t *testing.T) {
	pipeline := newPipeline("shop", hostile)
	pipeline.Annotations = map[string]string{"note": hostile}
	gate := newGate(hostile)
	_, server := serve(t, uitest.New(t, pipeline, gate))
	for _, path := range []string{"/", "/pipelines/apps/shop", "/gates/apps/freeze", "/?app=" + strings.ReplaceAll("\"><script>alert(1)</script>", " ", "%20"), "/?state=%22%3E%3Cscript%3Ealert(1)"} {
		g := NewWithT(t)
		_, content := get(t, server, path)
		elements, attributes := elementsOf(content)
		g.Expect(elements["script"]).To(Equal(1), path)
		g.Expect(elements["main"]).To(Equal(1), path)
		g.Expect(elements).NotTo(HaveKey("img"), path)
		for _, attribute := range attributes {
			g.Expect(attribute.Key).NotTo(HavePrefix("on"), path)
			g.Expect(attribute.Key).NotTo(Equal("style"), "the policy would not apply it")
			if attribute.Key == "href" {
				g.Expect(attribute.Val).To(MatchRegexp(`^(/|#view|https?://)`), path)
			}
		}
		g.Expect(content).NotTo(ContainSubstring("\u202e"), path)
	}
}

// elementsOf counts the elements of a document, and returns all their attributes.
func elementsOf(content string) (elements map[string]int, attributes []html.Attribute) {
	elements = map[string]int{}
	for tokens := html.NewTokenizer(strings.NewReader(content)); tokens.Next() != html.ErrorToken; {
		if token := tokens.Token(); token.Type == html.StartTagToken || token.Type == html.SelfClosingTagToken {
			elements[token.Data]++
			attributes = append(attributes, token.Attr...)
		}
	}
	return elements, attributes
}

func TestPagesLoadNothingFromOtherHosts(t *testing.T) {
	g := NewWithT(t)
	_, server := serve(t, uitest.New(t, newPipeline("shop", "waits")))
	_, content := get(t, server, "/")
	for _, loaded := range regexp.MustCompile(`<(?:link|script|img)[^>]*(?:href|src)="([^"]*)"`).FindAllStringSubmatch(content, -1) {
		g.Expect(loaded[1]).To(HavePrefix("/assets/"))
	}
	_, style := get(t, server, "/assets/style.css")
	g.Expect(style).NotTo(ContainSubstring("url("))
	g.Expect(style).NotTo(ContainSubstring("@import"))
}

func TestEverythingThatIsEmbeddedIsSmall(t *testing.T) {
	g := NewWithT(t)
	size := 0
	for _, asset := range assets {
		size += len(asset.content)
	}
	entries, err := templateFiles.ReadDir("templates")
	g.Expect(err).NotTo(HaveOccurred())
	for _, entry := range entries {
		info, err := entry.Info()
		g.Expect(err).NotTo(HaveOccurred())
		size += int(info.Size())
	}
	g.Expect(size).To(BeNumerically("<", 200_000))
}

func TestAThousandApplicationsAreRenderedQuickly(t *testing.T) {
	g := NewWithT(t)
	var objects []client.Object
	for i := range 1000 {
		objects = append(objects, newPipeline(fmt.Sprintf("app-%04d", i), "waits"))
	}
	_, server := serve(t, uitest.New(t, objects...))
	began := time.Now()
	_, content := get(t, server, "/")
	g.Expect(time.Since(began)).To(BeNumerically("<", 2*time.Second))
	g.Expect(strings.Count(content, `id="app/`)).To(Equal(200))
	g.Expect(content).To(And(ContainSubstring("1000 of 1000 selected"), ContainSubstring(`href="/?show=all"`)))
	_, content = get(t, server, "/?show=all")
	g.Expect(strings.Count(content, `id="app/`)).To(Equal(1000))
	_, content = get(t, server, "/?app=app-0999")
	g.Expect(strings.Count(content, `id="app/`)).To(Equal(1))
}

// listen returns the changes of a page.
func listen(t *testing.T, server *httptest.Server, path, version string) <-chan change {
	t.Helper()
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/live"+path, nil)
	g.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Last-Event-ID", version)
	answer, err := server.Client().Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(answer.StatusCode).To(Equal(http.StatusOK))
	g.Expect(answer.Header.Get("Content-Type")).To(Equal("text/event-stream"))
	changes := make(chan change, 10)
	go func() {
		defer answer.Body.Close()
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 10<<20)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var made change
				if json.Unmarshal([]byte(data), &made) == nil {
					changes <- made
				}
			}
		}
	}()
	return changes
}

func versionOf(content string) string {
	return regexp.MustCompile(`data-version="(\w+)"`).FindStringSubmatch(content)[1]
}

func TestAChangeOfOnePipelineReplacesItsRow(t *testing.T) {
	g := NewWithT(t)
	cluster := uitest.New(t, newPipeline("shop", "waits"), newPipeline("search", "waits"))
	_, server := serve(t, cluster)
	_, content := get(t, server, "/")
	changes := listen(t, server, "/", versionOf(content))

	changed := &pipelinesv1.Pipeline{}
	g.Expect(cluster.Get(t.Context(), client.ObjectKey{Namespace: "apps", Name: "shop"}, changed)).To(Succeed())
	changed.Status.Environments["prod"].State = pipelinesv1.EnvironmentWaiting
	changed.Status.Environments["prod"].Promotion.Preconditions[0].Message = "gate sign-off is closed"
	g.Expect(cluster.Status().Update(t.Context(), changed)).To(Succeed())

	var made change
	g.Eventually(changes, time.Second).Should(Receive(&made))
	g.Expect(made.View).To(BeEmpty())
	g.Expect(made.Parts).To(ContainElement(HaveField("ID", "app/apps/shop")))
	g.Expect(made.Parts).NotTo(ContainElement(HaveField("ID", "app/apps/search")))
	g.Expect(made.Parts).NotTo(ContainElement(HaveField("ID", "apps")))
	g.Consistently(changes, time.Second).ShouldNot(Receive(), "nothing else changes, and nothing is repeated")
}

func TestANewApplicationReplacesTheTable(t *testing.T) {
	g := NewWithT(t)
	cluster := uitest.New(t, newPipeline("shop", "waits"))
	_, server := serve(t, cluster)
	_, content := get(t, server, "/")
	changes := listen(t, server, "/", versionOf(content))
	g.Expect(cluster.Create(t.Context(), newPipeline("search", "waits"))).To(Succeed())
	var made change
	g.Eventually(changes, time.Second).Should(Receive(&made))
	g.Expect(made.Parts).To(ContainElement(And(HaveField("ID", "apps"), HaveField("HTML", ContainSubstring("app/apps/search")))))
}

func TestABrowserThatMissedChangesGetsThePageAgain(t *testing.T) {
	g := NewWithT(t)
	_, server := serve(t, uitest.New(t, newPipeline("shop", "waits")))
	var made change
	g.Eventually(listen(t, server, "/pipelines/apps/shop", "earlier"), time.Second).Should(Receive(&made))
	g.Expect(made.View).To(ContainSubstring(`id="environments"`))
	g.Expect(made.Title).To(Equal("shop · Sluice"))
}

func TestADeletedObjectIsSaidToBeGone(t *testing.T) {
	g := NewWithT(t)
	gate := newGate("end of quarter")
	cluster := uitest.New(t, gate)
	_, server := serve(t, cluster)
	_, content := get(t, server, "/gates/apps/freeze")
	changes := listen(t, server, "/gates/apps/freeze", versionOf(content))
	g.Expect(cluster.Delete(t.Context(), gate)).To(Succeed())
	var made change
	g.Eventually(changes, time.Second).Should(Receive(&made))
	g.Expect(made.View).To(ContainSubstring("There is no Gate apps/freeze"))
}

func TestThePageSaysThatTheAPIServerIsAway(t *testing.T) {
	g := NewWithT(t)
	cluster := uitest.New(t, newPipeline("shop", "waits"))
	_, server := serve(t, cluster)
	_, content := get(t, server, "/")
	changes := listen(t, server, "/", versionOf(content))
	cluster.Leave(true)
	var made change
	g.Eventually(changes, "5s").Should(Receive(&made))
	g.Expect(made.Parts).To(ConsistOf(And(HaveField("ID", "status"), HaveField("HTML", ContainSubstring("The API server does not answer")))))
	cluster.Leave(false)
	g.Eventually(changes, "10s").Should(Receive(HaveField("Parts", ConsistOf(And(HaveField("ID", "status"), HaveField("HTML", Not(ContainSubstring("does not answer"))))))))
}

func TestTheNumberOfLivePagesIsLimited(t *testing.T) {
	g := NewWithT(t)
	handler, server := serve(t, uitest.New(t))
	for range cap(handler.Streams) {
		handler.Streams <- struct{}{}
	}
	answer, _ := get(t, server, "/live/")
	g.Expect(answer.StatusCode).To(Equal(http.StatusServiceUnavailable))
	<-handler.Streams
	listen(t, server, "/", "")
}

func TestOnlyReadsAreAnswered(t *testing.T) {
	g := NewWithT(t)
	_, server := serve(t, uitest.New(t))
	answer, err := server.Client().Post(server.URL+"/", "text/plain", nil)
	g.Expect(err).NotTo(HaveOccurred())
	defer answer.Body.Close()
	g.Expect(answer.StatusCode).To(Equal(http.StatusMethodNotAllowed))
}
