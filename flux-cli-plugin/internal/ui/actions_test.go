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
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/uitest"
)

// serveActions serves the pages of a cluster. Commands are sent to the channel, and print "done", or fail.
func serveActions(t *testing.T, cluster *uitest.Cluster, failure error) (*httptest.Server, <-chan []string) {
	t.Helper()
	handler, _ := serve(t, cluster)
	commands := make(chan []string, 1)
	handler.Run = func(_ context.Context, args []string) (string, error) {
		commands <- args
		return "✔ done\n", failure
	}
	server := httptest.NewServer(handler.Routes())
	t.Cleanup(server.Close)
	return server, commands
}

func post(t *testing.T, server *httptest.Server, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	g := NewWithT(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader(body))
	g.Expect(err).NotTo(HaveOccurred())
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	answer, err := server.Client().Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return answer, string(content)
}

var confirmation = []string{"Content-Type", "application/json", confirmedHeader, confirmed}

func TestAConfirmedActionRunsTheCommand(t *testing.T) {
	g := NewWithT(t)
	server, commands := serveActions(t, uitest.New(t, newGate("")), nil)
	answer, content := post(t, server, "/actions/close", `{"namespace":"apps","name":"freeze","for":"2h","reason":"INC-1"}`, confirmation...)
	g.Expect(answer.StatusCode).To(Equal(http.StatusOK))
	g.Expect(commands).To(Receive(Equal([]string{"close", "gate", "freeze", "--namespace=apps", "--for=2h", "--reason=INC-1", "--wait=false"})))
	var made outcome
	g.Expect(json.Unmarshal([]byte(content), &made)).To(Succeed())
	g.Expect(made).To(Equal(outcome{Done: true, Output: "$ flux close gate freeze --namespace=apps --for=2h --reason=INC-1\n✔ done"}))
}

func TestTheAnswerOfTheAPIServerIsShownAsItIs(t *testing.T) {
	g := NewWithT(t)
	refusal := `gates.gating.toolkit.fluxcd.io "freeze" is forbidden: User "kim" cannot patch resource "gates" in the namespace "apps" <script>`
	server, _ := serveActions(t, uitest.New(t, newGate("")), errors.New(refusal))
	_, content := post(t, server, "/actions/close", `{"namespace":"apps","name":"freeze"}`, confirmation...)
	var made outcome
	g.Expect(json.Unmarshal([]byte(content), &made)).To(Succeed())
	g.Expect(made.Done).To(BeFalse())
	g.Expect(made.Output).To(HaveSuffix("✗ " + refusal))
}

func TestWhatWasNotConfirmedOnThePageRunsNothing(t *testing.T) {
	body := `{"namespace":"apps","name":"freeze"}`
	for _, tt := range []struct {
		name   string
		path   string
		body   string
		header []string
		want   int
	}{
		{name: "a form", header: []string{"Content-Type", "application/x-www-form-urlencoded"}, want: http.StatusForbidden},
		{name: "JSON without the header", header: []string{"Content-Type", "application/json"}, want: http.StatusForbidden},
		{name: "the header without JSON", header: []string{confirmedHeader, confirmed, "Content-Type", "text/plain"}, want: http.StatusUnsupportedMediaType},
		{name: "another verb", path: "/actions/uninstall", header: confirmation, want: http.StatusBadRequest},
		{name: "a body that is too large", body: `{"reason":"` + strings.Repeat("x", 20<<10) + `"}`, header: confirmation, want: http.StatusBadRequest},
		{name: "a body that is no JSON", body: "name=freeze", header: confirmation, want: http.StatusBadRequest},
		{name: "a name that is a flag", body: `{"namespace":"apps","name":"--kubeconfig"}`, header: confirmation, want: http.StatusBadRequest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			server, commands := serveActions(t, uitest.New(t, newGate("")), nil)
			if tt.path == "" {
				tt.path = "/actions/close"
			}
			if tt.body == "" {
				tt.body = body
			}
			answer, _ := post(t, server, tt.path, tt.body, tt.header...)
			g.Expect(answer.StatusCode).To(Equal(tt.want))
			g.Expect(commands).NotTo(Receive())
		})
	}
}

func TestAReadOnlyPageHasNoActions(t *testing.T) {
	g := NewWithT(t)
	_, server := serve(t, uitest.New(t, newGate(""), newPipeline("shop", "waits")))
	for _, path := range []string{"/", "/pipelines/apps/shop", "/gates/apps/freeze"} {
		_, content := get(t, server, path)
		g.Expect(content).NotTo(ContainSubstring("<button"))
	}
	answer, _ := post(t, server, "/actions/close", `{"namespace":"apps","name":"freeze"}`, confirmation...)
	g.Expect(answer.StatusCode).To(Equal(http.StatusMethodNotAllowed))
}

func TestButtons(t *testing.T) {
	g := NewWithT(t)
	server, _ := serveActions(t, uitest.New(t, newGate(""), newPipeline("shop", "waits")), nil)
	for path, buttons := range map[string][]string{
		"/":                    {"Approve…", "Open…"},
		"/pipelines/apps/shop": {"Reconcile…", "Suspend…", "Approve…"},
		"/gates/apps/freeze":   {"Open…", "Let a revision pass…"},
	} {
		_, content := get(t, server, path)
		for _, button := range buttons {
			g.Expect(content).To(ContainSubstring(">"+button+"</button>"), path)
		}
		g.Expect(content).NotTo(ContainSubstring("aria-disabled"), path)
	}
}

func TestQuestionsSayWhatWillHappen(t *testing.T) {
	g := NewWithT(t)
	server, _ := serveActions(t, uitest.New(t, newGate("end of quarter"), newPipeline("shop", "gate freeze is closed")), nil)
	for path, says := range map[string][]string{
		"/actions/approve?namespace=apps&name=shop&environment=prod&revision=v2": {
			"v2 is promoted into prod", "in your name, ada", "It also waits for: gate freeze is closed", `name="revision" value="v2"`,
			"flux approve promotion shop --namespace=apps --env=prod --revision=v2",
		},
		"/actions/open?namespace=apps&name=freeze":  {"It is closed", "end of quarter", "They continue", `name="reason"`, `name="for"`},
		"/actions/pass?namespace=apps&name=freeze":  {"Only this revision passes", `value="v2"`},
		"/actions/suspend?namespace=apps&name=shop": {"Nothing is promoted until the pipeline is resumed"},
	} {
		answer, content := get(t, server, path)
		g.Expect(answer.StatusCode).To(Equal(http.StatusOK), path)
		for _, text := range says {
			g.Expect(content).To(ContainSubstring(text), path)
		}
	}
	answer, _ := get(t, server, "/actions/open?namespace=apps&name=other")
	g.Expect(answer.StatusCode).To(Equal(http.StatusNotFound))
	answer, _ = get(t, server, "/actions/uninstall?namespace=apps&name=shop")
	g.Expect(answer.StatusCode).To(Equal(http.StatusNotFound))
}

func TestAButtonThatIsNotAllowedExplainsItself(t *testing.T) {
	g := NewWithT(t)
	cluster := uitest.New(t, newGate(""), newPipeline("shop", "waits"))
	cluster.Grant(authorizationv1.ResourceRule{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{"*"}, Resources: []string{"*"}})
	server, _ := serveActions(t, cluster, nil)
	_, content := get(t, server, "/gates/apps/freeze")
	g.Expect(content).To(ContainSubstring(`aria-disabled="true" title="You may not change it: that needs the verb &#39;patch&#39; on gate freeze in namespace apps."`))
	_, content = get(t, server, "/actions/approve?namespace=apps&name=shop&environment=prod&revision=v2")
	g.Expect(content).To(ContainSubstring("You may not approve it: that needs the verbs &#39;approve&#39; on pipeline shop and &#39;create&#39; on promotionapprovals in namespace apps."))
	g.Expect(content).NotTo(ContainSubstring(`type="submit"`))
}
