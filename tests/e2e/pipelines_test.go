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
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/githost"
	"github.com/sluice-toolkit/sluice/tests/sshhost"
)

const (
	owner = "acme"
	token = "ghp_a-token-that-must-not-leak"
	// createCall is the request that opens a pull request.
	createCall = `/pulls$`
)

// The service runs v2.0.0 in namespace one and v1.0.0 in namespace two, and no merge ever changes that: each spec has a
// Pipeline from one to two, and a repository of its own on a fake of GitHub Enterprise.
var _ = Describe("A promotion", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		github.AddToken(githost.Token{Value: token, Login: "sluice-bot"})
		github.AddToken(githost.Token{Value: "ghp_of-a-reviewer", Login: "ada"})
		_, err := world.Git.CreateRepository("service")
		Expect(err).NotTo(HaveOccurred())
		for _, version := range []string{"v1.0.0", "v2.0.0", "v3.0.0"} {
			Expect(world.Release("service", version)).To(Succeed())
		}
		for namespace, version := range map[string]string{"one": "v2.0.0", "two": "v1.0.0"} {
			deploy(ctx, "service", namespace, version)
			Eventually(ctx, field(object("v1", "ConfigMap", namespace, "app"), "data", "version")).Should(Equal(version))
		}
	})

	// marked returns a file of the fleet with a field that is marked for a Pipeline. Its line ends, its odd spacing and
	// the marker of another Pipeline must not change.
	marked := func(pipeline string) string {
		return strings.ReplaceAll(fmt.Sprintf(`# the fleet
spec:
    tag:    'v1.0.0'   # {"$promotion": "flux-system:%s:two:tag"}

    other: v1.0.0 # {"$promotion": "flux-system:other:two:tag"}
`, pipeline), "\n", "\r\n")
	}
	repository := func(name string, files map[string]string) {
		GinkgoHelper()
		Expect(github.AddRepository(owner, name)).To(Succeed())
		_, err := github.CommitFiles(owner, name, "main", files, "Begin")
		Expect(err).NotTo(HaveOccurred())
	}
	secret := func(ctx context.Context, name, token string) {
		GinkgoHelper()
		apply(ctx, "{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: flux-system}, stringData: {token: %s}, data: {ca.crt: %s}}",
			name, token, base64.StdEncoding.EncodeToString(github.CA()))
	}
	// pipelineAt makes a Pipeline with a promotion by pull request to a repository. Settings are added to the pull
	// request, more is added to the promotion.
	pipelineAt := func(ctx context.Context, name, url, settings, more string) {
		GinkgoHelper()
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %[1]s, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: service}
  environments:
  - {name: one, targets: [{namespace: one}]}
  - {name: two, targets: [{namespace: two}]}
  promotion: {strategy: {pull-request: {type: github, url: '%[2]s', baseBranch: main, secretRef: {name: %[1]s}%[3]s}}%[4]s}
`, name, url, settings, more)
		DeferCleanup(func(ctx SpecContext) {
			obj := object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name)
			Expect(client.IgnoreNotFound(world.Client.Delete(ctx, obj))).To(Succeed())
		})
	}
	pipelineWith := func(ctx context.Context, name, settings, more string) {
		GinkgoHelper()
		pipelineAt(ctx, name, github.RepositoryURL(owner, name), settings, more)
	}
	pipeline := func(ctx context.Context, name, more string) {
		GinkgoHelper()
		pipelineWith(ctx, name, "", more)
	}
	// pull returns the first pull request of a repository.
	pull := func(name string) githost.PullRequest {
		GinkgoHelper()
		all, err := github.PullRequests(owner, name)
		Expect(err).NotTo(HaveOccurred())
		Expect(all).NotTo(BeEmpty())
		return all[0]
	}
	// edit changes that pull request as a person does.
	edit := func(ctx context.Context, name, change string) {
		GinkgoHelper()
		request, err := http.NewRequestWithContext(ctx, http.MethodPatch, github.APIURL()+"repos/"+owner+"/"+name+"/pulls/1", strings.NewReader(change))
		Expect(err).NotTo(HaveOccurred())
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := (&http.Client{Transport: github.Transport()}).Do(request)
		Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		Expect(response.StatusCode).To(Equal(http.StatusOK))
	}
	// commitStatus returns the commit status at the head of that pull request: its state and its description.
	commitStatus := func(name string) func() (string, error) {
		return func() (string, error) {
			all, err := github.Statuses(owner, name, pull(name).HeadSHA)
			if err != nil || len(all) == 0 {
				return "", err
			}
			last := all[len(all)-1]
			return last.Context + " " + last.State + ": " + last.Description, nil
		}
	}
	gateOf := func(ctx context.Context, name string, closed bool) {
		GinkgoHelper()
		apply(ctx, "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: %s, namespace: flux-system}, spec: {closed: %t}}", name, closed)
	}
	opened := func(name string) func() (int, error) {
		return func() (int, error) {
			all, err := github.PullRequests(owner, name)
			return len(all), err
		}
	}
	created := func(name string) int { return github.Count("POST", name+createCall) }
	pushes := func(name string) int {
		GinkgoHelper()
		all, err := github.Pushes(owner, name)
		Expect(err).NotTo(HaveOccurred())
		return len(all)
	}
	branches := func(name string) map[string]string {
		GinkgoHelper()
		all, err := github.Branches(owner, name)
		Expect(err).NotTo(HaveOccurred())
		return all
	}

	It("makes one pull request and one push, however often it is reconciled and even if the controller is killed", func(ctx SpecContext) {
		repository("steady", map[string]string{"two/app.yaml": marked("steady"), "README.md": "no marker: $promotion"})
		secret(ctx, "steady", token)
		pipeline(ctx, "steady", "")
		Eventually(ctx, record("steady", "two")).Should(haveState("created"))

		for i := range 10 {
			reconcile(ctx, "steady", fmt.Sprintf("look-%d", i))
		}
		Expect(world.PipelineController.Kill()).To(Succeed())
		Expect(world.PipelineController.Start(ctx)).To(Succeed())
		reconcile(ctx, "steady", "after the restart")
		Expect(opened("steady")()).To(Equal(1))
		Expect(created("steady")).To(Equal(1))
		Expect(pushes("steady")).To(Equal(1))

		By("checking what was pushed")
		promotion, err := record("steady", "two")(ctx)
		Expect(err).NotTo(HaveOccurred())
		after, err := github.ReadFile(owner, "steady", promotion.PullRequest.Branch, "two/app.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(after)).To(Equal(strings.Replace(marked("steady"), "v1.0.0", "v2.0.0", 1)))
		Expect(promotion.PullRequest.HeadCommit).To(Equal(branches("steady")[promotion.PullRequest.Branch]))
	})

	DescribeTable("fails with a reason that says what to fix, and continues by itself once it is fixed",
		func(ctx SpecContext, name, reason, message string, breakIt func(ctx context.Context, name string), fix func(ctx context.Context, name string)) {
			breakIt(ctx, name)
			Eventually(ctx, ready(name)).Should(And(HaveField("Status", BeEquivalentTo("False")),
				HaveField("Reason", reason), HaveField("Message", ContainSubstring(message)), HaveField("Message", Not(ContainSubstring(token)))))
			Expect(branches(name)).NotTo(HaveKey(HavePrefix("sluice/")), "nothing is left behind")
			fix(ctx, name)
			Eventually(ctx, record(name, "two")).Should(haveState("created"))
			Expect(opened(name)()).To(Equal(1))
			Eventually(ctx, ready(name)).Should(HaveField("Status", BeEquivalentTo("True")))
		},
		Entry("when no field is marked", "unmarked", "PromotionFailed", `no field is marked for this promotion on branch main: add the comment # {"$promotion": "flux-system:unmarked:two"}`,
			func(ctx context.Context, name string) {
				repository(name, map[string]string{"app.yaml": "tag: v1.0.0\n"})
				secret(ctx, name, token)
				pipeline(ctx, name, "")
			},
			func(ctx context.Context, name string) {
				_, err := github.CommitFiles(owner, name, "main", map[string]string{"app.yaml": marked(name)}, "Mark it")
				Expect(err).NotTo(HaveOccurred())
			}),
		Entry("when the Secret is missing", "no-secret", "PromotionFailed", "Secret flux-system/no-secret",
			func(ctx context.Context, name string) {
				repository(name, map[string]string{"app.yaml": marked(name)})
				pipeline(ctx, name, "")
			},
			func(ctx context.Context, name string) { secret(ctx, name, token) }),
		Entry("when the token is wrong", "wrong-token", "PromotionFailed", "unauthorized",
			func(ctx context.Context, name string) {
				repository(name, map[string]string{"app.yaml": marked(name)})
				secret(ctx, name, "nonsense")
				pipeline(ctx, name, "")
			},
			func(ctx context.Context, name string) { secret(ctx, name, token) }),
		Entry("when the Git host can't be reached", "unreachable", "PromotionFailed", "/unreachable",
			func(ctx context.Context, name string) {
				repository(name, map[string]string{"app.yaml": marked(name)})
				secret(ctx, name, token)
				broken = github.FailNext("", "unreachable", githost.Always, githost.CutBefore())
				pipeline(ctx, name, "")
			},
			func(context.Context, string) { broken.Remove() }),
		Entry("when a gate does not exist", "no-gate", "GateNotFound", "gate no-gate not found",
			func(ctx context.Context, name string) {
				repository(name, map[string]string{"app.yaml": marked(name)})
				secret(ctx, name, token)
				pipeline(ctx, name, ", gates: {refs: [no-gate]}")
			},
			func(ctx context.Context, name string) {
				apply(ctx, "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: no-gate, namespace: flux-system}, spec: {closed: false}}")
			}),
		Entry("when the base branch does not exist", "no-base", "PromotionFailed", "branch",
			func(ctx context.Context, name string) {
				Expect(github.AddRepository(owner, name)).To(Succeed())
				secret(ctx, name, token)
				pipeline(ctx, name, "")
			},
			func(ctx context.Context, name string) {
				_, err := github.CommitFiles(owner, name, "main", map[string]string{"app.yaml": marked(name)}, "Begin")
				Expect(err).NotTo(HaveOccurred())
			}),
	)

	It("sets the markers at its path and no others, and says so if nothing is there", func(ctx SpecContext) {
		before := marked("apart")
		repository("apart", map[string]string{"copies/two/app.yaml": before})
		secret(ctx, "apart", token)
		pipelineWith(ctx, "apart", ", path: ./apps/two", "")
		Eventually(ctx, ready("apart")).Should(And(HaveField("Reason", "PromotionFailed"),
			HaveField("Message", ContainSubstring("branch main has no directory or file ./apps/two: correct the strategy's path"))))
		_, err := github.CommitFiles(owner, "apart", "main", map[string]string{"apps/two/app.yaml": before}, "Add it")
		Expect(err).NotTo(HaveOccurred())
		reconcile(ctx, "apart", "it is there")
		Eventually(ctx, record("apart", "two")).Should(haveState("created"))
		for name, want := range map[string]string{"copies/two/app.yaml": before, "apps/two/app.yaml": strings.Replace(before, "v1.0.0", "v2.0.0", 1)} {
			after, err := github.ReadFile(owner, "apart", pull("apart").Head, name)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(after)).To(Equal(want), name)
		}
	})

	It("waits for a person if it is manual", func(ctx SpecContext) {
		repository("manual", map[string]string{"app.yaml": marked("manual")})
		secret(ctx, "manual", token)
		pipeline(ctx, "manual", ", manual: true")
		Eventually(ctx, ready("manual")).Should(And(HaveField("Reason", "WaitingForPreconditions"), HaveField("Message", ContainSubstring("waiting for approval"))))
		waiting := field(object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "manual"), "status", "environments", "two", "waitingApproval", "revision")
		Expect(waiting(ctx)).To(HavePrefix("v2.0.0@sha1:"))
		reconcile(ctx, "manual", "look")
		Expect(github.Count("", "manual")).To(BeZero(), "the Git host isn't even asked")
	})

	It("needs the type of the Git host if the URL doesn't show it", func(ctx SpecContext) {
		secret(ctx, "elsewhere", token)
		pipeline(ctx, "elsewhere", "")
		patch := `[{"op":"remove","path":"/spec/promotion/strategy/pull-request/type"}]`
		Expect(world.Client.Patch(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "elsewhere"),
			client.RawPatch(types.JSONPatchType, []byte(patch)))).To(Succeed())
		Eventually(ctx, ready("elsewhere")).Should(HaveField("Message", ContainSubstring("set the type to one of azure-devops, bitbucket-server, gitea, github, gitlab")))
	})

	It("is not attempted while a target can't be read", func(ctx SpecContext) {
		repository("unknown", map[string]string{"app.yaml": marked("unknown")})
		secret(ctx, "unknown", token)
		pipeline(ctx, "unknown", "")
		Eventually(ctx, record("unknown", "two")).Should(haveState("created"))
		patch := `[{"op":"add","path":"/spec/environments/1/targets/0/clusterRef","value":{"kind":"Secret","name":"eu"}}]`
		Expect(world.Client.Patch(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "unknown"),
			client.RawPatch(types.JSONPatchType, []byte(patch)))).To(Succeed())
		Eventually(ctx, ready("unknown")).Should(And(HaveField("Reason", "TargetNotReadable"), HaveField("Message", ContainSubstring("Secret flux-system/eu not found"))))
	})

	It("is abandoned when it is forced and its pull request can't be closed any more", func(ctx SpecContext) {
		secret(ctx, "mistaken", token)
		pipelineAt(ctx, "mistaken", github.RepositoryURL(owner, "no-such-repository"), "", "")
		Eventually(ctx, record("mistaken", "two")).Should(haveState("failed"))
		patch := `{"spec":{"promotion":{"strategy":{"pull-request":null,"notification":{}}}}}`
		Expect(world.Client.Patch(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "mistaken"),
			client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
		Eventually(ctx, ready("mistaken")).Should(HaveField("Message", HaveSuffix("no-such-repository.git is no longer named in the spec: "+
			"restore access, or force the promotion (its pull request stays open)")))
		reconcile(ctx, "mistaken", "given up", meta.ForceRequestAnnotation)
		Eventually(ctx, record("mistaken", "two")).Should(And(haveState("succeeded"), HaveField("PullRequest", BeNil())))
		Eventually(ctx, func(ctx context.Context) (string, error) {
			return run(ctx, "kubectl", "events", "--namespace", flux, "--for", "pipeline/mistaken")
		}).Should(MatchRegexp(`PromotionAbandoned .*two: v2.0.0@sha1:[0-9a-f]{8}: abandoned by force: a pull request may still be open in .*, because closing it failed: `))
	})

	It("is abandoned when a person closes the pull request, and starts again when a person forces it", func(ctx SpecContext) {
		repository("closed", map[string]string{"app.yaml": marked("closed")})
		secret(ctx, "closed", token)
		pipeline(ctx, "closed", "")
		Eventually(ctx, record("closed", "two")).Should(haveState("created"))
		Expect(github.ClosePullRequest(owner, "closed", 1)).To(Succeed())
		reconcile(ctx, "closed", "look")
		Eventually(ctx, record("closed", "two")).Should(haveState("abandoned"))
		Eventually(ctx, ready("closed")).Should(HaveField("Reason", "PromotionAbandoned"))
		reconcile(ctx, "closed", "look again")
		Expect(opened("closed")()).To(Equal(1))

		reconcile(ctx, "closed", "once more", meta.ForceRequestAnnotation)
		Eventually(ctx, record("closed", "two")).Should(haveState("created"))
		Expect(opened("closed")()).To(Equal(2))

		By("asking while the pull request is open, which the flux command waits for")
		Expect(run(ctx, "flux", "pipeline", "reconcile", "closed", "--force")).To(MatchRegexp(`pipeline closed is reconciled: two: .* waits for pull request .*/3 to be merged`))
		pulls, err := github.PullRequests(owner, "closed")
		Expect(err).NotTo(HaveOccurred())
		Expect(pulls).To(HaveExactElements(HaveField("State", "closed"), HaveField("State", "closed"), HaveField("State", "open")))
	})

	It("is adopted by a controller that was killed before it recorded it", func(ctx SpecContext) {
		repository("lost", map[string]string{"app.yaml": marked("lost")})
		secret(ctx, "lost", token)
		cut := github.FailNext("POST", "lost"+createCall, 1, githost.CutAfter())
		pipeline(ctx, "lost", "")
		Eventually(cut.Hits).Should(Equal(1))
		Eventually(ctx, record("lost", "two")).Should(haveState("created"))
		Expect(opened("lost")()).To(Equal(1))
		Expect(pushes("lost")).To(Equal(1))
	})

	It("succeeds without a pull request where the base branch already has the revision", func(ctx SpecContext) {
		repository("done", map[string]string{"app.yaml": strings.ReplaceAll(marked("done"), "v1.0.0", "v2.0.0")})
		secret(ctx, "done", token)
		pipeline(ctx, "done", "")
		Eventually(ctx, record("done", "two")).Should(And(haveState("succeeded"), HaveField("Message", "branch main already has the revision")))
		Expect(opened("done")()).To(BeZero())
	})

	It("by notification is delivered to notification-controller once", func(ctx SpecContext) {
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: notified, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: service}
  environments:
  - {name: one, targets: [{namespace: one}]}
  - {name: two, targets: [{namespace: two}]}
  promotion: {strategy: {notification: {}}}
`)
		DeferCleanup(func(ctx SpecContext) {
			Expect(world.Client.Delete(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "notified"))).To(Succeed())
		})
		Eventually(ctx, record("notified", "two")).Should(And(haveState("succeeded"), HaveField("Attempts", BeEquivalentTo(1))))
		Eventually(ctx, ready("notified")).Should(HaveField("Reason", "Promoted"))
	})

	It("closes its pull request and deletes its branch when the Pipeline is deleted", func(ctx SpecContext) {
		repository("deleted", map[string]string{"app.yaml": marked("deleted")})
		secret(ctx, "deleted", token)
		pipeline(ctx, "deleted", "")
		Eventually(ctx, record("deleted", "two")).Should(haveState("created"))
		measured := metricsOf(world.PipelineController)
		Eventually(ctx, measured).Should(ContainSubstring(`sluice_promotion_arrived_duration_seconds_count{environment="two",name="deleted",namespace="flux-system"} 0`))
		obj := object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "deleted")
		Expect(world.Client.Delete(ctx, obj)).To(Succeed())
		Eventually(ctx, field(obj, "metadata", "uid")).Should(BeNil())
		all, err := github.PullRequests(owner, "deleted")
		Expect(err).NotTo(HaveOccurred())
		Expect(all).To(ConsistOf(HaveField("State", "closed")))
		Expect(branches("deleted")).To(HaveLen(1))
		Eventually(ctx, measured).ShouldNot(ContainSubstring(`name="deleted"`))
	})

	It("gives reviewers what they need, and requests their review", func(ctx SpecContext) {
		repository("reviewed", map[string]string{"app.yaml": marked("reviewed")})
		secret(ctx, "reviewed", token)
		gateOf(ctx, "reviewed", false)
		pipelineWith(ctx, "reviewed", ", labels: [promotion, two], reviewers: [ada], draft: true", ", gates: {refs: [reviewed]}")
		Eventually(ctx, record("reviewed", "two")).Should(haveState("created"))
		opened := pull("reviewed")
		Expect(opened.Labels).To(ConsistOf("promotion", "two"))
		Expect(opened.Reviewers).To(ConsistOf("ada"))
		Expect(opened.Draft).To(BeTrue())
		Expect(opened.Title).To(HavePrefix("Promote flux-system/reviewed in two to v2.0.0"))
		for _, part := range []string{"| Pipeline | `flux-system/reviewed` |", "| Environment | `two` |", "| From | `v1.0.0@sha1:", "| To | `v2.0.0@sha1:",
			"Gates: gate reviewed is open", "Sluice-Pipeline: flux-system/reviewed", "Sluice-Environment: two", "Sluice-Revision: v2.0.0@sha1:"} {
			Expect(opened.Body).To(ContainSubstring(part))
		}
	})

	It("shows on its pull request's head whether its gates are open, as they close and open", func(ctx SpecContext) {
		repository("reported", map[string]string{"app.yaml": marked("reported")})
		secret(ctx, "reported", token)
		gateOf(ctx, "reported", false)
		pipeline(ctx, "reported", ", gates: {refs: [reported]}")
		Eventually(ctx, record("reported", "two")).Should(haveState("created"))
		Eventually(ctx, commitStatus("reported")).Should(HavePrefix("sluice/preconditions success: gate reported is open"))
		gateOf(ctx, "reported", true)
		Eventually(ctx, commitStatus("reported")).Should(HavePrefix("sluice/preconditions failure: gate reported is closed"))
		Eventually(ctx, ready("reported")).Should(And(HaveField("Reason", "PullRequestOpen"), HaveField("Message", ContainSubstring("merge blocked: gate reported is closed"))))
		gateOf(ctx, "reported", false)
		Eventually(ctx, commitStatus("reported")).Should(HavePrefix("sluice/preconditions success"))
	})

	It("is merged by Sluice with merge: auto, once the Git host allows it and the gate is open", func(ctx SpecContext) {
		repository("automatic", map[string]string{"app.yaml": marked("automatic")})
		secret(ctx, "automatic", token)
		gateOf(ctx, "automatic", false)
		notYet := github.FailNext("PUT", "automatic/pulls/1/merge$", githost.Always, githost.Respond(http.StatusMethodNotAllowed, nil, `{"message":"Required status check is expected."}`))
		pipelineWith(ctx, "automatic", ", merge: auto, mergeMethod: squash", ", gates: {refs: [automatic]}")
		Eventually(ctx, notYet.Hits).Should(BeNumerically(">=", 1))
		gateOf(ctx, "automatic", true)
		Eventually(ctx, commitStatus("automatic")).Should(HavePrefix("sluice/preconditions failure"))
		notYet.Remove()
		reconcile(ctx, "automatic", "while the gate is closed")
		Expect(pull("automatic").State).To(Equal("open"))
		gateOf(ctx, "automatic", false)
		Eventually(ctx, record("automatic", "two")).Should(haveState("succeeded"))
		Expect(pull("automatic").Merged).To(BeTrue())
		content, err := github.ReadFile(owner, "automatic", "main", "app.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(content)).To(Equal(strings.Replace(marked("automatic"), "v1.0.0", "v2.0.0", 1)))
	})

	It("is not merged by Sluice once someone else has pushed to its branch", func(ctx SpecContext) {
		repository("pushed", map[string]string{"app.yaml": marked("pushed")})
		secret(ctx, "pushed", token)
		pipelineWith(ctx, "pushed", ", merge: auto, draft: true", "")
		Eventually(ctx, record("pushed", "two")).Should(haveState("created"))
		_, err := github.CommitFiles(owner, "pushed", pull("pushed").Head, map[string]string{"more.yaml": "a: b\n"}, "More")
		Expect(err).NotTo(HaveOccurred())
		reconcile(ctx, "pushed", "look")
		Eventually(ctx, ready("pushed")).Should(HaveField("Message", ContainSubstring("auto-merge disabled: someone else pushed to its branch")))
		Expect(pull("pushed").State).To(Equal("open"))
	})

	It("follows its pull request even if a person renames and reopens it", func(ctx SpecContext) {
		repository("reopened", map[string]string{"app.yaml": marked("reopened")})
		secret(ctx, "reopened", token)
		pipeline(ctx, "reopened", "")
		Eventually(ctx, record("reopened", "two")).Should(haveState("created"))
		edit(ctx, "reopened", `{"title":"Mine now","body":"and what it says, too"}`)
		Expect(github.ClosePullRequest(owner, "reopened", 1)).To(Succeed())
		reconcile(ctx, "reopened", "closed")
		Eventually(ctx, record("reopened", "two")).Should(haveState("abandoned"))
		Expect(github.ReopenPullRequest(owner, "reopened", 1)).To(Succeed())
		reconcile(ctx, "reopened", "reopened")
		Eventually(ctx, record("reopened", "two")).Should(haveState("created"))
		_, err := github.Merge(owner, "reopened", 1)
		Expect(err).NotTo(HaveOccurred())
		reconcile(ctx, "reopened", "merged")
		Eventually(ctx, record("reopened", "two")).Should(haveState("succeeded"))
		Expect(opened("reopened")()).To(Equal(1))
	})

	It("is recreated when the base branch has changed its file, and stays when it has changed another one", func(ctx SpecContext) {
		repository("moved", map[string]string{"app.yaml": marked("moved")})
		secret(ctx, "moved", token)
		pipeline(ctx, "moved", "")
		Eventually(ctx, record("moved", "two")).Should(haveState("created"))
		first := pull("moved").HeadSHA

		commit := func(files map[string]string) string {
			GinkgoHelper()
			base, err := github.CommitFiles(owner, "moved", "main", files, "Continue")
			Expect(err).NotTo(HaveOccurred())
			return base
		}
		base := commit(map[string]string{"other.yaml": "a: b\n"})
		reconcile(ctx, "moved", "after another file")
		Eventually(ctx, record("moved", "two")).Should(HaveField("PullRequest.BaseCommit", base))
		Expect(pull("moved").HeadSHA).To(Equal(first))

		// The line before the marked one changes, which Git could not merge.
		changed := strings.Replace(marked("moved"), "spec:", "spec: # changed", 1)
		base = commit(map[string]string{"app.yaml": changed})
		reconcile(ctx, "moved", "after the file")
		Eventually(ctx, record("moved", "two")).Should(HaveField("PullRequest.BaseCommit", base))
		Expect(pull("moved").HeadSHA).NotTo(Equal(first))
		after, err := github.ReadFile(owner, "moved", pull("moved").Head, "app.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(after)).To(Equal(strings.Replace(changed, "v1.0.0", "v2.0.0", 1)))
		Eventually(ctx, commitStatus("moved")).Should(HavePrefix("sluice/preconditions success"), "on the new commit, too")

		// Someone else has set the revision, so nothing is left to merge.
		commit(map[string]string{"app.yaml": string(after)})
		reconcile(ctx, "moved", "after the revision")
		Eventually(ctx, record("moved", "two")).Should(And(haveState("succeeded"), HaveField("Message", "branch main already has the revision")))
		Expect(pull("moved").State).To(Equal("closed"))
		Expect(opened("moved")()).To(Equal(1))
		Expect(branches("moved")).To(HaveLen(1))
	})

	It("is abandoned when a person deletes its branch", func(ctx SpecContext) {
		repository("branchless", map[string]string{"app.yaml": marked("branchless")})
		secret(ctx, "branchless", token)
		pipeline(ctx, "branchless", "")
		Eventually(ctx, record("branchless", "two")).Should(haveState("created"))
		Expect(github.DeleteBranch(owner, "branchless", pull("branchless").Head)).To(Succeed())
		reconcile(ctx, "branchless", "look")
		Eventually(ctx, record("branchless", "two")).Should(haveState("abandoned"))
	})

	It("says so when a person gives its pull request another base, and is not promoted by a merge into that", func(ctx SpecContext) {
		repository("rebased", map[string]string{"app.yaml": marked("rebased")})
		_, err := github.CommitFiles(owner, "rebased", "release", map[string]string{"app.yaml": marked("rebased")}, "Begin")
		Expect(err).NotTo(HaveOccurred())
		secret(ctx, "rebased", token)
		pipeline(ctx, "rebased", "")
		Eventually(ctx, record("rebased", "two")).Should(haveState("created"))
		edit(ctx, "rebased", `{"base":"release"}`)
		reconcile(ctx, "rebased", "retargeted")
		Eventually(ctx, ready("rebased")).Should(And(HaveField("Reason", "PullRequestUnknown"),
			HaveField("Message", ContainSubstring("its base branch is release, not main"))))
		_, err = github.Merge(owner, "rebased", 1)
		Expect(err).NotTo(HaveOccurred())
		reconcile(ctx, "rebased", "merged elsewhere")
		Eventually(ctx, record("rebased", "two")).Should(And(haveState("abandoned"), HaveField("Message", HaveSuffix("was merged into release, not into main"))))
	})

	// appSecret makes a Secret with a GitHub App that is installed for the owner of the repositories, and with more.
	appSecret := func(ctx context.Context, name string, id int64, more map[string]string) {
		GinkgoHelper()
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		Expect(err).NotTo(HaveOccurred())
		github.AddApp(githost.App{ID: id, Installation: 8, Owner: owner, Key: &key.PublicKey})
		data := map[string]string{
			"ca.crt": string(github.CA()), "githubAppID": strconv.FormatInt(id, 10), "githubAppInstallationID": "8",
			"githubAppPrivateKey": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
		}
		maps.Copy(data, more)
		Expect(world.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: flux, Name: name}, StringData: data})).To(Succeed())
	}

	It("reaches its repository as a GitHub App", func(ctx SpecContext) {
		repository("as-app", map[string]string{"app.yaml": marked("as-app")})
		appSecret(ctx, "as-app", 7, nil)
		pipeline(ctx, "as-app", "")
		Eventually(ctx, record("as-app", "two")).Should(haveState("created"))
		Expect(pushes("as-app")).To(Equal(1))
		Eventually(ctx, commitStatus("as-app")).Should(HavePrefix("sluice/preconditions success"))
	})

	It("reaches Git by SSH, and the host's API as a GitHub App", func(ctx SpecContext) {
		repository("by-ssh", map[string]string{"app.yaml": marked("by-ssh")})
		dir, err := github.RepositoryDir(owner, "by-ssh")
		Expect(err).NotTo(HaveOccurred())
		server, err := sshhost.New(filepath.Dir(filepath.Dir(dir)))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Close)
		appSecret(ctx, "by-ssh", 9, map[string]string{"githubAppBaseURL": github.APIURL(),
			"identity": string(server.Identity), "password": sshhost.Passphrase, "known_hosts": string(server.KnownHosts)})
		pipelineAt(ctx, "by-ssh", server.URL(owner+"/by-ssh.git"), "", "")
		Eventually(ctx, record("by-ssh", "two")).Should(haveState("created"))
		Expect(pushes("by-ssh")).To(BeZero(), "what is pushed by HTTPS")
		after, err := github.ReadFile(owner, "by-ssh", pull("by-ssh").Head, "app.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(after)).To(Equal(strings.Replace(marked("by-ssh"), "v1.0.0", "v2.0.0", 1)))

		Expect(world.Client.Delete(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "by-ssh"))).To(Succeed())
		Eventually(func() map[string]string { return branches("by-ssh") }).Should(HaveLen(1))
		Expect(pull("by-ssh").State).To(Equal("closed"))
	})

	It("sees after a restart what was merged while it was down", func(ctx SpecContext) {
		repository("asleep", map[string]string{"app.yaml": marked("asleep")})
		secret(ctx, "asleep", token)
		pipeline(ctx, "asleep", "")
		Eventually(ctx, record("asleep", "two")).Should(haveState("created"))
		Expect(world.PipelineController.Kill()).To(Succeed())
		_, err := github.Merge(owner, "asleep", 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(world.PipelineController.Start(ctx)).To(Succeed())
		Eventually(ctx, record("asleep", "two")).Should(haveState("succeeded"))
		Expect(opened("asleep")()).To(Equal(1))
	})

	It("checks its pull request at once after a webhook that the host has signed", func(ctx SpecContext) {
		repository("hooked", map[string]string{"app.yaml": marked("hooked")})
		secret(ctx, "hooked", token+", webhook-secret: not-a-real-key")
		pipeline(ctx, "hooked", "")
		Eventually(ctx, record("hooked", "two")).Should(And(haveState("created"), HaveField("PullRequest.CommitStatus", Not(BeNil()))))
		address, err := approvalAddress()
		Expect(err).NotTo(HaveOccurred())
		post := func(key string) int {
			GinkgoHelper()
			const body = `{"action":"closed"}`
			mac := hmac.New(sha256.New, []byte(key))
			mac.Write([]byte(body))
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/webhook/flux-system/hooked", strings.NewReader(body))
			Expect(err).NotTo(HaveOccurred())
			request.Header.Set("X-Hub-Signature-256", fmt.Sprintf("sha256=%x", mac.Sum(nil)))
			response, err := http.DefaultClient.Do(request)
			Expect(err).NotTo(HaveOccurred())
			Expect(response.Body.Close()).To(Succeed())
			return response.StatusCode
		}
		_, err = github.Merge(owner, "hooked", 1)
		Expect(err).NotTo(HaveOccurred())
		received := field(object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "hooked"), "metadata", "annotations", pipelinesv1.WebhookAnnotation)
		Expect(post("guessed")).To(Equal(http.StatusUnauthorized))
		Expect(received(ctx)).To(BeNil())
		Expect(post("not-a-real-key")).To(Equal(http.StatusAccepted))
		Eventually(ctx, record("hooked", "two")).Should(haveState("succeeded"))
		Eventually(ctx, received).ShouldNot(BeNil())
	})

	// This spec is the last one, because it moves the first environment of all Pipelines to another revision.
	It("is superseded by a new revision: its pull request is closed, and another one is opened", func(ctx SpecContext) {
		repository("superseded", map[string]string{"app.yaml": marked("superseded")})
		secret(ctx, "superseded", token)
		pipeline(ctx, "superseded", "")
		Eventually(ctx, record("superseded", "two")).Should(haveState("created"))

		Expect(world.Client.Patch(ctx, object(sourceAPI, sourcev1.GitRepositoryKind, flux, "one"),
			client.RawPatch(types.MergePatchType, []byte(`{"spec":{"ref":{"tag":"v3.0.0"}}}`)))).To(Succeed())
		Eventually(ctx, record("superseded", "two")).Should(And(haveState("created"), HaveField("Revision", HavePrefix("v3.0.0@"))))
		all, err := github.PullRequests(owner, "superseded")
		Expect(err).NotTo(HaveOccurred())
		Expect(all).To(ConsistOf(
			And(HaveField("Number", 1), HaveField("State", "closed"), HaveField("Merged", false), HaveField("Comments", HaveExactElements(
				HaveField("Body", HavePrefix("Closed by Sluice: superseded by v3.0.0")),
				HaveField("Body", HaveSuffix("/superseded/pull/2")),
			))),
			And(HaveField("Number", 2), HaveField("State", "open"), HaveField("Body", ContainSubstring("/superseded/pull/1")))))
		Expect(branches("superseded")).To(HaveLen(2))

		history := field(object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "superseded"), "status", "environments", "two", "history")
		Expect(history(ctx)).To(ConsistOf(And(HaveKeyWithValue("state", "abandoned"), HaveKeyWithValue("message", HavePrefix("superseded by v3.0.0@")))))
	})
})

// broken is a fault that a spec has caused.
var broken *githost.Rule
