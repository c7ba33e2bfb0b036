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

package main

import (
	"bufio"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// browser has opened the page of a running 'flux pipeline ui'.
type browser struct {
	*http.Client
	origin string
}

// openUI starts the program and opens its page.
func openUI(t *testing.T, args ...string) (*gexec.Session, browser) {
	t.Helper()
	g := NewWithT(t)
	session := start(t, append([]string{"flux-pipeline", "ui", "--no-browser"}, args...))
	g.Eventually(session.Out).Should(gbytes.Say(`\?token=\w+\n`))
	address := strings.TrimSpace(string(session.Out.Contents()))
	origin, _, _ := strings.Cut(address, "/?")
	jar, err := cookiejar.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	opened := browser{&http.Client{Jar: jar}, origin}
	answer, err := opened.Get(address)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(answer.Body.Close()).To(Succeed())
	g.Expect(answer.StatusCode).To(Equal(http.StatusOK))
	return session, opened
}

// page returns the text of a page.
func (b browser) page(t *testing.T, path string) string {
	t.Helper()
	g := NewWithT(t)
	answer, err := b.Get(b.origin + path)
	g.Expect(err).NotTo(HaveOccurred())
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return string(content)
}

func TestUIShowsAGateThatIsClosedElsewhereWithinASecond(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	gate := newGate(t, namespace, "freeze")
	session, opened := openUI(t)
	g.Expect(opened.page(t, "/")).NotTo(ContainSubstring("/gates/" + namespace + "/freeze"))

	answer, err := opened.Get(opened.origin + "/live/")
	g.Expect(err).NotTo(HaveOccurred())
	defer answer.Body.Close()
	lines := make(chan string, 100)
	go func() {
		for scanner := bufio.NewReader(answer.Body); ; {
			line, err := scanner.ReadString('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()
	g.Eventually(lines).Should(Receive(ContainSubstring("data: ")), "the stream begins with the page")

	gate.Spec.Closed = true
	g.Expect(kube.Update(t.Context(), gate)).To(Succeed())
	g.Eventually(lines, time.Second).Should(Receive(ContainSubstring("/gates/" + namespace + "/freeze")))

	session.Interrupt()
	g.Eventually(session).Should(gexec.Exit(0))
}

func TestUIShowsWhatTheUserMayListAndNamesTheRest(t *testing.T) {
	g := NewWithT(t)
	mine, other := newNamespace(t), newNamespace(t)
	for _, namespace := range []string{mine, other} {
		newGate(t, namespace, "freeze", func(gate *gatingv1.Gate) { gate.Spec.Closed = true })
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: mine, Name: "viewer"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"pipelines.weave.works", "gating.toolkit.fluxcd.io"}, Resources: []string{"pipelines", "gates", "gatepasses"}, Verbs: []string{"list", "watch"}},
	}}
	g.Expect(kube.Create(t.Context(), role)).To(Succeed())
	g.Expect(kube.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: mine, Name: "viewer"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "viewer"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "kim"}},
	})).To(Succeed())

	_, opened := openUI(t, "--as", "kim", "-n", mine)
	content := opened.page(t, "/")
	g.Expect(content).To(ContainSubstring("/gates/" + mine + "/freeze"))
	g.Expect(content).NotTo(ContainSubstring("/gates/" + other + "/freeze"))
	g.Expect(content).To(ContainSubstring("you may not list and watch Pipelines, Gates, GatePasses in all namespaces: showing namespace " + mine + " only"))
	g.Expect(content).To(ContainSubstring("you may not list and watch events of Pipelines, events of Gates in namespace " + mine))
	g.Expect(content).To(ContainSubstring(`<section id="needs" class="panel" hidden>`), "kim may not open the gate")
}

func TestUIWithoutAnAPIServerEnds(t *testing.T) {
	g := NewWithT(t)
	session := start(t, []string{"flux-sluice", "ui", "--no-browser", "--server", "https://127.0.0.1:1"})
	g.Eventually(session).Should(gexec.Exit(1))
	g.Expect(string(session.Err.Contents())).To(ContainSubstring("connection refused"))
}

// act confirms an action.
func (b browser) act(t *testing.T, verb, body string) string {
	t.Helper()
	g := NewWithT(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.origin+"/actions/"+verb, strings.NewReader(body))
	g.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Sluice-Action", "confirmed")
	answer, err := b.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return string(content)
}

func TestUITurnsGatesInTheNameOfItsUser(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	gate := newGate(t, namespace, "freeze")
	_, opened := openUI(t)
	outcome := opened.act(t, "close", `{"namespace":"`+namespace+`","name":"freeze","for":"2h","reason":"INC-1"}`)
	g.Expect(outcome).To(And(ContainSubstring(`"done":true`), ContainSubstring("gate closed")))
	reread(t, gate)
	g.Expect(gate.Spec.Override).To(And(Not(BeNil()), HaveField("Closed", true), HaveField("Reason", "INC-1")))
	g.Expect(gate.StateAt(time.Now()).By.User).To(Equal(user))
}

func TestUIShowsTheRefusalOfTheAPIServer(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	gate := newGate(t, namespace, "freeze")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "viewer"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"pipelines.weave.works", "gating.toolkit.fluxcd.io"}, Resources: []string{"pipelines", "gates", "gatepasses"}, Verbs: []string{"get", "list", "watch"}},
	}}
	g.Expect(kube.Create(t.Context(), role)).To(Succeed())
	g.Expect(kube.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "viewer"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "viewer"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "kim"}},
	})).To(Succeed())
	_, opened := openUI(t, "--as", "kim", "-n", namespace)
	g.Expect(opened.page(t, "/gates/"+namespace+"/freeze")).To(ContainSubstring("You may not change it"))
	outcome := opened.act(t, "close", `{"namespace":"`+namespace+`","name":"freeze"}`)
	g.Expect(outcome).To(And(ContainSubstring(`"done":false`), ContainSubstring(`User \"kim\" cannot patch resource \"gates\"`)))
	reread(t, gate)
	g.Expect(gate.Spec.Closed).To(BeFalse())
}

func TestUIThatOnlyReadsRefusesActions(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	gate := newGate(t, namespace, "freeze")
	_, opened := openUI(t, "--read-only")
	opened.act(t, "close", `{"namespace":"`+namespace+`","name":"freeze"}`)
	reread(t, gate)
	g.Expect(gate.Spec.Closed).To(BeFalse())
}
