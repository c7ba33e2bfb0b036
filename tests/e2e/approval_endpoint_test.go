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
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

var servingApprovals = regexp.MustCompile(`"msg":"serving approvals","address":"([^"]+)"`)

// approvalAddress returns the address for approvals since the last start of pipeline-controller.
func approvalAddress() (string, error) {
	log, err := logOf("pipeline-controller")
	if err != nil {
		return "", err
	}
	starts := servingApprovals.FindAllStringSubmatch(log, -1)
	if len(starts) == 0 {
		return "", fmt.Errorf("pipeline-controller's log has no %s", servingApprovals)
	}
	return starts[len(starts)-1][1], nil
}

var _ = Describe("An approval by HTTP", Ordered, func() {
	const (
		namespace    = "by-http"
		key          = "not-a-real-key"
		self         = "system:serviceaccount:flux-system:pipeline-controller"
		unauthorized = `{"error":"unauthorized"}` + "\n"
	)
	var (
		address string
		waiting string
		// began is the start of the promotion that the first approval was for.
		began time.Time
	)

	// postAt sends a request for approval. It is signed at the given time if there is a key.
	postAt := func(ctx context.Context, at time.Time, target, key, body string) (int, string) {
		GinkgoHelper()
		path, err := url.PathUnescape(target)
		Expect(err).NotTo(HaveOccurred())
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address, strings.NewReader(body))
		Expect(err).NotTo(HaveOccurred())
		request.URL.Path, request.URL.RawPath = path, target
		if key != "" {
			timestamp := strconv.FormatInt(at.Unix(), 10)
			mac := hmac.New(sha256.New, []byte(key))
			fmt.Fprintf(mac, "sluice-approval-v1\nPOST\n%s\n%s\n%s", target, timestamp, body)
			request.Header.Set("X-Sluice-Timestamp", timestamp)
			request.Header.Set("X-Signature", fmt.Sprintf("sha256=%x", mac.Sum(nil)))
		}
		response, err := http.DefaultClient.Do(request)
		Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		Expect(err).NotTo(HaveOccurred())
		return response.StatusCode, string(answer)
	}
	post := func(ctx context.Context, target, key, body string) (int, string) {
		GinkgoHelper()
		return postAt(ctx, time.Now(), target, key, body)
	}
	approvals := func(ctx context.Context) []pipelinesv1.PromotionApproval {
		GinkgoHelper()
		var list pipelinesv1.PromotionApprovalList
		Expect(world.Client.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
		return list.Items
	}

	BeforeAll(func(ctx SpecContext) {
		_, err := world.Git.CreateRepository("by-http")
		Expect(err).NotTo(HaveOccurred())
		for _, version := range []string{"v1.0.0", "v2.0.0"} {
			Expect(world.Release("by-http", version)).To(Succeed())
		}
		apply(ctx, `
apiVersion: v1
kind: Namespace
metadata: {name: by-http}
---
apiVersion: v1
kind: Secret
metadata: {name: approvals, namespace: by-http}
stringData: {hmac-key: %s}
`, key)
		for env, version := range map[string]string{"dev": "v2.0.0", "prod": "v1.0.0"} {
			apply(ctx, `
apiVersion: v1
kind: Namespace
metadata: {name: by-http-%[1]s}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: by-http-%[1]s, namespace: flux-system}
spec: {interval: 24h, url: '%[2]s', ref: {tag: %[3]s}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: shop, namespace: by-http-%[1]s}
spec: {interval: 24h, path: ./deploy, prune: true, targetNamespace: by-http-%[1]s, sourceRef: {kind: GitRepository, name: by-http-%[1]s, namespace: flux-system}}
`, env, world.RepositoryURL("by-http"), version)
		}
		for _, name := range []string{"shop", "other"} {
			apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %s, namespace: by-http}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: shop}
  environments:
  - {name: dev, targets: [{namespace: by-http-dev}]}
  - {name: prod, targets: [{namespace: by-http-prod}]}
  promotion: {manual: true, strategy: {notification: {}, secretRef: {name: approvals}}}
`, name)
			revision := field(object(pipelinesAPI, pipelinesv1.PipelineKind, namespace, name),
				"status", "environments", "prod", "waitingApproval", "revision")
			Eventually(ctx, revision).Should(HavePrefix("v2.0.0@sha1:"))
			now, err := revision(ctx)
			Expect(err).NotTo(HaveOccurred())
			waiting = now.(string)
		}
		Eventually(approvalAddress).ShouldNot(BeEmpty())
		address, err = approvalAddress()
		Expect(err).NotTo(HaveOccurred())
	})

	It("is refused to strangers with the same message, regardless of what they name", func(ctx SpecContext) {
		for _, target := range []string{
			"/approval/by-http/shop/prod/" + waiting,
			"/approval/by-http/shop/nonexistent/" + waiting,
			"/approval/by-http/nonexistent/prod/" + waiting,
			"/approval/nowhere/shop/prod/" + waiting,
		} {
			for _, key := range []string{"", "guessed"} {
				code, answer := post(ctx, target, key, "")
				Expect(code).To(Equal(http.StatusUnauthorized), target)
				Expect(answer).To(Equal(unauthorized), target)
			}
		}
		Expect(approvals(ctx)).To(BeEmpty())
	})

	It("is refused for a revision that doesn't wait", func(ctx SpecContext) {
		code, answer := post(ctx, "/approval/by-http/shop/prod/v1.0.0", key, "")
		Expect(code).To(Equal(http.StatusUnprocessableEntity))
		Expect(answer).To(ContainSubstring(`"waiting":"` + waiting + `"`))
		Expect(approvals(ctx)).To(BeEmpty())
	})

	It("promotes, in the name of the controller", func(ctx SpecContext) {
		shop := &pipelinesv1.Pipeline{}
		Expect(world.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "shop"}, shop)).To(Succeed())
		began = shop.Status.Environments["prod"].Promotion.StartTime.Time
		code, answer := postAt(ctx, began, "/approval/by-http/shop/prod/"+waiting, key, `{"comment":"smoke tests passed"}`)
		Expect(code).To(Equal(http.StatusCreated), answer)
		Expect(approvals(ctx)).To(ConsistOf(HaveField("Spec", pipelinesv1.PromotionApprovalSpec{
			PipelineRef: meta.LocalObjectReference{Name: "shop"}, Environment: "prod", Revision: waiting, ApprovedBy: self, Comment: "smoke tests passed",
		})))
		Eventually(ctx, func(ctx context.Context) (*pipelinesv1.PromotionRecord, error) {
			err := world.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "shop"}, shop)
			return shop.Status.Environments["prod"].Promotion, err
		}).Should(And(HaveField("State", pipelinesv1.PromotionSucceeded), HaveField("Approvers", Equal([]string{self}))))

		By("receiving the same request once more")
		code, again := post(ctx, "/approval/by-http/shop/prod/"+url.PathEscape(waiting), key, "")
		Expect(code).To(Equal(http.StatusOK))
		Expect(again).To(Equal(answer))

		By("reporting it in metrics")
		Expect(metrics(ctx, world.PipelineController)).To(And(
			ContainSubstring("sluice_approval_requests_total{code=\"201\"} 1\n"),
			ContainSubstring("sluice_approval_requests_total{code=\"401\"} 8\n")))
	})

	It("leaves the other Pipeline with that key alone", func(ctx SpecContext) {
		other := &pipelinesv1.Pipeline{}
		Expect(world.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "other"}, other)).To(Succeed())
		Expect(other.Status.Environments["prod"].WaitingApproval.Revision).To(Equal(waiting))
	})

	It("does not count for the next run of the same revision, even if someone who has seen the request repeats it", func(ctx SpecContext) {
		source := object(sourceAPI, sourcev1.GitRepositoryKind, flux, "by-http-dev")
		release := func(version string) {
			GinkgoHelper()
			patch := fmt.Sprintf(`{"spec":{"ref":{"tag":%q}}}`, version)
			Expect(world.Client.Patch(ctx, source, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
			Eventually(ctx, field(object(pipelinesAPI, pipelinesv1.PipelineKind, namespace, "shop"), "status", "revision")).Should(HavePrefix(version))
		}
		release("v1.0.0")
		Expect(approvals(ctx)).To(BeEmpty())
		release("v2.0.0")

		// The run starts a moment before its promotion into prod.
		Eventually(ctx, func(ctx context.Context) string {
			code, answer := postAt(ctx, began, "/approval/by-http/shop/prod/"+waiting, key, `{"comment":"smoke tests passed"}`)
			Expect(code).To(Equal(http.StatusUnprocessableEntity))
			return answer
		}).Should(And(ContainSubstring("before this promotion began at"), ContainSubstring(`"waiting":"`+waiting+`"`)))
		Expect(approvals(ctx)).To(BeEmpty())
		code, answer := post(ctx, "/approval/by-http/shop/prod/"+waiting, key, "")
		Expect(code).To(Equal(http.StatusCreated), answer)
	})

	It("does not count as a second person's if the promotion says so", func(ctx SpecContext) {
		patch := `{"spec":{"promotion":{"approvals":{"required":2,"http":false}}}}`
		other := object(pipelinesAPI, pipelinesv1.PipelineKind, namespace, "other")
		Expect(world.Client.Patch(ctx, other, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
		message := condition(other, meta.ReadyCondition)
		Eventually(ctx, message).Should(HaveField("Message", HaveSuffix("0 of 2 approvals; approvals by HTTP don't count")))
		Eventually(ctx, func(ctx context.Context) string {
			code, answer := post(ctx, "/approval/by-http/other/prod/"+waiting, key, "")
			return fmt.Sprint(code, " ", answer)
		}).Should(Equal(`403 {"error":"approvals by HTTP don't count for promotions into environment prod: approvals.http is false"}` + "\n"))

		By("with approvals from before, and from a person with the key who also has an account")
		review := &authenticationv1.SelfSubjectReview{}
		Expect(world.Client.Create(ctx, review)).To(Succeed())
		person := review.Status.UserInfo.Username
		for by, as := range map[string]client.Client{self: actingAs(self), person: world.Client} {
			spec := pipelinesv1.PromotionApprovalSpec{Environment: "prod", Revision: waiting, ApprovedBy: by}
			spec.PipelineRef.Name = "other"
			Expect(as.Create(ctx, pipelinesv1.NewPromotionApproval(namespace, spec))).To(Succeed())
		}
		Eventually(ctx, message).Should(HaveField("Message", HaveSuffix("1 of 2 approvals, by "+person+"; approvals by HTTP don't count")))
		Expect(approvals(ctx)).To(ContainElement(HaveField("Spec.ApprovedBy", self)), "it would count if the promotion were changed back")
		Expect(run(ctx, "flux", "pipeline", "why", "other", "--env=prod", "--namespace="+namespace)).To(
			ContainSubstring("1 of 2 approvals, by " + person + "; approvals by HTTP don't count"))
	})

	It("replaces the old requests for promotions, which get 410", func(ctx SpecContext) {
		code, answer := post(ctx, "/promotion/by-http/shop/prod", "", "{}")
		Expect(code).To(Equal(http.StatusGone))
		Expect(answer).To(ContainSubstring("can be removed"))
	})
})
