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

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/githost"
	"github.com/sluice-toolkit/sluice/tests/standin"
)

const notificationAPI = "notification.toolkit.fluxcd.io/v1beta3"

// slackMessage is an attachment in a message that notification-controller posts to Slack.
type slackMessage struct {
	Author string `json:"author_name"`
	Text   string `json:"text"`
	Color  string `json:"color"`
}

// slack makes an Alert with these eventSources send events to a fake of Slack's webhook, and returns the messages.
func slack(ctx context.Context, name, eventSources string) <-chan slackMessage {
	GinkgoHelper()
	messages := make(chan slackMessage, 100)
	webhook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var posted struct {
			Attachments []slackMessage `json:"attachments"`
		}
		if err := json.NewDecoder(r.Body).Decode(&posted); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for _, message := range posted.Attachments {
			GinkgoWriter.Printf("#deployments %-6s %s: %s\n", message.Color, message.Author, message.Text)
			messages <- message
		}
	}))
	DeferCleanup(webhook.Close)
	apply(ctx, `
apiVersion: v1
kind: Secret
metadata: {name: %[1]s, namespace: flux-system}
stringData: {address: '%[2]s'}
---
apiVersion: notification.toolkit.fluxcd.io/v1beta3
kind: Provider
metadata: {name: %[1]s, namespace: flux-system}
spec: {type: slack, channel: deployments, secretRef: {name: %[1]s}}
---
apiVersion: notification.toolkit.fluxcd.io/v1beta3
kind: Alert
metadata: {name: %[1]s, namespace: flux-system}
spec: {providerRef: {name: %[1]s}, eventSources: %[3]s}
`, name, webhook.URL, eventSources)
	DeferCleanup(func(ctx SpecContext) {
		for _, kind := range []string{"Alert", "Provider"} {
			Expect(world.Client.Delete(ctx, object(notificationAPI, kind, flux, name))).To(Succeed())
		}
	})
	return messages
}

var _ = Describe("Slack", func() {
	runs := func(ctx context.Context, namespace, revision string) {
		GinkgoHelper()
		key := client.ObjectKey{Namespace: namespace, Name: "chat"}
		Expect(standin.Application{Key: key, Revision: revision, Ready: metav1.ConditionTrue}.Put(ctx, world.Client)).To(Succeed())
	}
	begin := func(ctx context.Context) {
		GinkgoHelper()
		for _, namespace := range []string{"chat-dev", "chat-prod"} {
			apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", namespace)
			runs(ctx, namespace, "v1")
		}
	}
	remove := func(ctx context.Context, kind, apiVersion, name string) {
		Expect(client.IgnoreNotFound(world.Client.Delete(ctx, object(apiVersion, kind, flux, name)))).To(Succeed())
	}

	It("shows who turned a gate, what waits and how to approve it, and what failed, each time", func(ctx SpecContext) {
		for _, resource := range []authorizationv1.ResourceAttributes{
			{Verb: "watch", Group: gatingv1.GroupVersion.Group, Resource: "gates"},
			{Verb: "watch", Group: pipelinesv1.GroupVersion.Group, Resource: "pipelines"},
		} {
			Eventually(ctx, may("notification-controller", resource)).Should(BeTrue(), "for matchLabels")
		}
		begin(ctx)
		By("promoting in a repository without markers, where every attempt fails")
		github.AddToken(githost.Token{Value: token, Login: "sluice-bot"})
		Expect(github.AddRepository(owner, "chat")).To(Succeed())
		_, err := github.CommitFiles(owner, "chat", "main", map[string]string{"app.yaml": "tag: v1\n"}, "Begin")
		Expect(err).NotTo(HaveOccurred())
		messages := slack(ctx, "chat", "[{kind: Gate, name: '*', matchLabels: {team: chat}}, {kind: Pipeline, name: chat}]")
		apply(ctx, `
apiVersion: v1
kind: Secret
metadata: {name: chat-git, namespace: flux-system}
stringData: {token: %[2]s}
data: {ca.crt: %[3]s}
---
apiVersion: gating.toolkit.fluxcd.io/v1alpha1
kind: Gate
metadata: {name: chat-freeze, namespace: flux-system, labels: {team: chat}}
spec: {closed: false}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: chat, namespace: flux-system}
spec: {interval: 24h, url: '%[1]s', ref: {tag: v1.0.0}, gates: {refs: [chat-freeze]}}
---
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: chat, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: chat}
  environments: [{name: dev, targets: [{namespace: chat-dev}]}, {name: prod, targets: [{namespace: chat-prod}]}]
  promotion: {manual: true, gates: {refs: [chat-freeze]}, strategy: {pull-request: {type: github, url: '%[4]s', baseBranch: main, secretRef: {name: chat-git}}}}
`, world.RepositoryURL("app"), token, base64.StdEncoding.EncodeToString(github.CA()), github.RepositoryURL(owner, "chat"))
		DeferCleanup(func(ctx SpecContext) {
			remove(ctx, pipelinesv1.PipelineKind, pipelinesAPI, "chat")
			remove(ctx, sourcev1.GitRepositoryKind, sourceAPI, "chat")
			remove(ctx, gatingv1.GateKind, gatingAPI, "chat-freeze")
		})
		Eventually(ctx, ready("chat")).Should(HaveField("Reason", "UpToDate"))
		Eventually(ctx, field(object(gatingAPI, gatingv1.GateKind, flux, "chat-freeze"), "status", "sources")).Should(BeEquivalentTo(1))

		// next waits for the message, and ignores others.
		next := func(author, color, text string) slackMessage {
			GinkgoHelper()
			var message slackMessage
			Eventually(messages).Should(Receive(&message, And(HaveField("Author", author), HaveField("Color", color), HaveField("Text", MatchRegexp(text)))))
			return message
		}
		turn := func(args ...string) {
			GinkgoHelper()
			_, err := run(ctx, "flux", append(args, "gate", "chat-freeze")...)
			Expect(err).NotTo(HaveOccurred())
		}
		const ofGate, ofPipeline = "gate/chat-freeze.flux-system", "pipeline/chat.flux-system"
		for _, revision := range []string{"v2", "v3"} {
			turn("close", "--reason=INC-4711")
			next(ofGate, "good", `^closed by admin: INC-4711; holds 1 of 1 source`)

			By("running " + revision + " in dev")
			runs(ctx, "chat-dev", revision)
			waits := next(ofPipeline, "good", `^prod: `+revision+` waits: gate chat-freeze is closed by admin \(INC-4711\); waiting for approval; to approve: flux approve `)

			turn("open")
			next(ofGate, "good", `^opened by admin; released 1 of 1 source`)
			turn("close")
			next(ofPipeline, "good", `^prod: `+revision+` waits: gate chat-freeze is closed by admin; waiting for approval; to approve: `)
			turn("open")
			next(ofGate, "good", `^opened by admin; released 1 of 1 source`)

			By("approving it as the message says")
			command := regexp.MustCompile(`to approve: flux (.*)$`).FindStringSubmatch(waits.Text)[1]
			_, err := run(ctx, "flux", append(strings.Fields(command), "--yes", "--wait=false")...)
			Expect(err).NotTo(HaveOccurred())
			next(ofPipeline, "danger", `^prod: promoting `+revision+` failed, next attempt at .*: no field is marked for this promotion`)
		}
	})

	It("receives a promotion by notification, and the Pipeline warns while no Alert matches it", func(ctx SpecContext) {
		begin(ctx)
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: chat-notified, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: chat}
  environments: [{name: dev, targets: [{namespace: chat-dev}]}, {name: prod, targets: [{namespace: chat-prod}]}]
  promotion: {strategy: {notification: {}}}
`)
		DeferCleanup(func(ctx SpecContext) { remove(ctx, pipelinesv1.PipelineKind, pipelinesAPI, "chat-notified") })
		missing := condition(object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "chat-notified"), pipelinesv1.AlertMissingCondition)
		Eventually(ctx, missing).Should(And(HaveField("Status", BeEquivalentTo("True")),
			HaveField("Message", "no Alert matches the notifications for prod: create an Alert for this Pipeline")))

		messages := slack(ctx, "chat-notified", "[{kind: Pipeline, name: chat-notified}]")
		Eventually(ctx, missing).Should(Equal(metav1.Condition{}), "the condition is gone")
		runs(ctx, "chat-dev", "v4")
		Eventually(messages).Should(Receive(HaveField("Text", "Promote pipeline flux-system/chat-notified to prod with version v4")))
	})
})
