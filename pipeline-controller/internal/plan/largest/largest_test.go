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

package largest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

// etcdLimit is etcd's default limit of a request (--max-request-bytes).
const etcdLimit = 3 << 19

// extent is the size and number of the parts of a Pipeline.
type extent struct {
	environment, object, namespace, secret, gate, approver int
	url, branch, promotionBranch, tag, digest              int
	// text is of what others write: errors, messages, reasons.
	text             int
	gates, approvers int
}

var (
	// longest has the maximum lengths of the schema and the Git hosts, except for the names of applications and
	// clusters: 512 targets whose names are all longer do not fit.
	longest = extent{
		environment: 128, object: 128, namespace: 63, secret: 253, gate: 253, approver: 340,
		url: 512, branch: 255, promotionBranch: 200, tag: 128, digest: 64, text: 5000, gates: 64, approvers: 16,
	}
	// usual has names, addresses and messages of usual length.
	usual = extent{
		environment: 12, object: 20, namespace: 15, secret: 15, gate: 15, approver: 25,
		url: 50, branch: 4, promotionBranch: 50, tag: 6, digest: 40, text: 30, gates: 2, approvers: 1,
	}
)

func TestTheAPIServerTakesTheLargestStatus(t *testing.T) {
	api := startAPIServer(t)
	stored := func(t *testing.T, w *world) {
		t.Helper()
		g := NewWithT(t)
		g.Expect(api.Status().Update(t.Context(), w.Pipeline)).To(Succeed())
		g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(w.Pipeline), w.Pipeline)).To(Succeed())
		t.Logf("stored are %d bytes: %d of the spec, %d of the status, %d of managed fields",
			size(w.Pipeline), size(w.Pipeline.Spec), size(w.Pipeline.Status), size(w.Pipeline.ManagedFields))
		g.Expect(size(w.Pipeline)).To(BeNumerically("<", etcdLimit))
		g.Expect(equality.Semantic.DeepEqual(plan.Next(w.World).Status, w.Pipeline.Status)).To(BeTrue(), "the next plan has nothing to write")
	}

	t.Run("when there is a full history", func(t *testing.T) {
		g := NewWithT(t)
		w := newWorld(usual)
		g.Expect(api.Create(t.Context(), w.Pipeline)).To(Succeed())
		w.grow()
		expectAll(g, w)
		for _, env := range w.Pipeline.Status.Environments {
			if env.Promotion != nil {
				g.Expect(env.History).To(HaveLen(10))
			}
		}
		stored(t, w)
		g.Expect(api.Delete(t.Context(), w.Pipeline)).To(Succeed())
	})

	t.Run("when everything is as long as it can be", func(t *testing.T) {
		g := NewWithT(t)
		w := newWorld(longest)
		g.Expect(api.Create(t.Context(), w.Pipeline)).To(Succeed())
		w.grow()
		expectAll(g, w)
		stored(t, w)

		t.Log("and there is no room left")
		w.Pipeline.Annotations = map[string]string{"weight": long(0, 250<<10)}
		g.Expect(api.Update(t.Context(), w.Pipeline)).To(Succeed())
		w.settle()
		g.Expect(apimeta.FindStatusCondition(w.Pipeline.Status.Conditions, meta.StalledCondition)).To(And(HaveField("Reason", "InvalidSpec"),
			HaveField("Message", HavePrefix("the Pipeline and its status would exceed 1280 KiB"))))
		stored(t, w)
	})
}

// expectAll expects that nothing was omitted from a status, although texts may have been cut.
func expectAll(g Gomega, w *world) {
	status := w.Pipeline.Status
	g.Expect(apimeta.IsStatusConditionTrue(status.Conditions, meta.StalledCondition)).To(BeFalse())
	g.Expect(status.Environments).To(HaveLen(pipelinesv1.MaxEnvironments))
	opened := 0
	for _, env := range status.Environments {
		g.Expect(env.Targets).To(HaveLen(targetsInEach))
		for _, t := range env.Targets {
			g.Expect(t).To(And(HaveField("Error", Not(BeEmpty())), HaveField("ReadyRevision", Not(Equal(t.Revision)))))
		}
		if env.Promotion != nil {
			opened++
			g.Expect(env.Promotion.State).To(Equal(pipelinesv1.PromotionCreated))
			g.Expect(env.Promotion.Approvers).To(HaveLen(w.extent.approvers))
			g.Expect(env.Promotion.PullRequest.Merging.LastError).NotTo(BeEmpty())
		}
	}
	g.Expect(opened).To(Equal(pipelinesv1.MaxEnvironments-1), "all but the first")
}

func startAPIServer(t *testing.T) client.Client {
	g := NewWithT(t)
	cluster, err := localcluster.Start(t.Context(), localcluster.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = cluster.Stop() })
	g.Expect(cluster.ApplyKustomization(t.Context(), "../../../../config/crd")).To(Succeed())
	scheme := runtime.NewScheme()
	utilruntime.Must(pipelinesv1.AddToScheme(scheme))
	api, err := client.New(cluster.Config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	return api
}

const targetsInEach = pipelinesv1.MaxTargets / pipelinesv1.MaxEnvironments

// world is one with a Pipeline of whose every part there is as much as there can be.
type world struct {
	plan.World
	extent extent
	// attempts counts actions.
	attempts int
}

// long returns a text of some length that begins with a number.
func long(number, length int) string {
	text := fmt.Sprintf("x%d", number)
	return text + strings.Repeat("x", max(0, length-len(text)))
}

func newWorld(e extent) *world {
	w := &world{extent: e, World: plan.World{
		Pipeline: &pipelinesv1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: localcluster.FluxNamespace, Name: "largest"}},
		Targets:  map[string][]application.State{}, Gates: gatingv1.Found{}, PullRequests: map[string]plan.PullRequest{},
		Now: time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC),
	}}
	spec := &w.Pipeline.Spec
	spec.AppRef = pipelinesv1.LocalAppReference{APIVersion: "kustomize.toolkit.fluxcd.io/v1", Kind: "Kustomization", Name: long(0, e.object)}
	for i := range pipelinesv1.MaxEnvironments {
		env := pipelinesv1.Environment{Name: long(i, e.environment), Settle: pipelinesv1.SettleIndividually}
		for j := range targetsInEach {
			env.Targets = append(env.Targets, pipelinesv1.Target{Namespace: long(j, e.namespace), ClusterRef: &pipelinesv1.CrossNamespaceClusterReference{
				APIVersion: "gitops.weave.works/v1alpha1", Kind: "GitopsCluster", Name: long(i, e.object), Namespace: long(i, e.namespace),
			}})
		}
		spec.Environments = append(spec.Environments, env)
	}
	spec.Promotion = w.promotion()
	return w
}

func (w *world) promotion() *pipelinesv1.Promotion {
	refs := &gatingv1.GateReferences{Require: gatingv1.RequireAll}
	for i := range w.extent.gates {
		ref := gatingv1.GateReference(long(i, w.extent.namespace) + "/" + long(i, w.extent.gate))
		refs.Refs = append(refs.Refs, ref)
		gate := &gatingv1.Gate{}
		gate.Annotations = map[string]string{gatingv1.ReasonAnnotation: long(i, w.extent.text)}
		w.Gates[ref] = gatingv1.Finding{Gate: gate}
	}
	pr := &pipelinesv1.PullRequestPromotion{
		Type: pipelinesv1.BitbucketServer, URL: "https://" + long(0, w.extent.url-8), BaseBranch: long(0, w.extent.branch), Path: long(0, w.extent.branch), Merge: pipelinesv1.MergeAuto,
	}
	pr.SecretRef.Name = long(0, w.extent.secret)
	for i := range 20 {
		pr.Labels, pr.Reviewers = append(pr.Labels, long(i, 255)), append(pr.Reviewers, long(i, 255))
	}
	return &pipelinesv1.Promotion{Gates: refs, Approvals: &pipelinesv1.Approvals{Required: int32(w.extent.approvers)}, Strategy: pipelinesv1.Strategy{PullRequest: pr}}
}

// grow promotes a revision through the Pipeline after many others, and then makes all targets fail on another one.
func (w *world) grow() {
	past := newWorld(w.extent)
	past.Pipeline.Spec.Environments = past.Pipeline.Spec.Environments[:2]
	for number := range 11 {
		past.travel(w.revision(number))
	}
	// This is slow, so it is done for one environment only.
	last := w.Pipeline.Spec.Environments[1].Name
	w.Now, w.Pipeline.Status.Environments = past.Now, map[string]*pipelinesv1.EnvironmentStatus{}
	for i, env := range w.Pipeline.Spec.Environments[1:] {
		w.run(i+1, w.revision(10))
		w.PullRequests[env.Name] = past.PullRequests[last]
		w.Pipeline.Status.Environments[env.Name] = past.Pipeline.Status.Environments[last].DeepCopy()
	}
	w.travel(w.revision(11))
	for _, states := range w.Targets {
		for i := range states {
			states[i].Ready, states[i].Revision, states[i].Message = false, w.revision(12), long(i, min(500, w.extent.text))
		}
	}
	w.settle()
}

// revision is one of many. The longest are a tag and a digest in an OCI registry.
func (w *world) revision(number int) string {
	return long(number, w.extent.tag) + "@sha256:" + long(number, w.extent.digest)
}

// run has all targets of an environment run a revision.
func (w *world) run(env int, revision string) {
	name := w.Pipeline.Spec.Environments[env].Name
	w.Targets[name] = nil
	for range targetsInEach {
		w.Targets[name] = append(w.Targets[name], application.State{Known: true, Ready: true, Revision: revision})
	}
}

// travel has a revision settle in the first environment, be promoted into all others, and arrive there while its pull
// requests are still open.
func (w *world) travel(revision string) {
	w.Now = w.Now.Add(time.Hour)
	for i, env := range w.Pipeline.Spec.Environments {
		if w.Targets[env.Name] == nil {
			w.run(i, "main@sha1:0")
		}
	}
	w.run(0, revision)
	w.approve(revision)
	for env := 1; env < len(w.Pipeline.Spec.Environments); env++ {
		w.settle()
		w.run(env, revision)
	}
	w.settle()
}

// approve has as many people approve a revision as can be asked for.
func (w *world) approve(revision string) {
	w.Approvals = nil
	for _, env := range w.Pipeline.Spec.Environments {
		for i := range w.extent.approvers {
			w.Approvals = append(w.Approvals, pipelinesv1.PromotionApproval{Spec: pipelinesv1.PromotionApprovalSpec{
				Environment: env.Name, Revision: revision, ApprovedBy: long(i, w.extent.approver),
			}})
		}
	}
}

// settle plans and acts until there is nothing left to do. All that there is to say is said at length.
func (w *world) settle() {
	for {
		next := plan.Next(w.World)
		w.Pipeline.Status = next.Status
		if next.Action == nil {
			return
		}
		w.attempts++
		plan.Record(w.Pipeline, *next.Action, w.outcome(*next.Action), w.Now)
	}
}

func (w *world) outcome(action plan.Action) plan.Outcome {
	commit, text := long(0, w.extent.digest), long(0, w.extent.text)
	switch action.Kind {
	case plan.OpenPullRequest:
		w.PullRequests[action.Environment] = plan.PullRequest{HeadCommit: commit, BaseCommit: commit}
		return plan.Outcome{State: pipelinesv1.PromotionCreated, Message: text, PullRequest: &pipelinesv1.PullRequestStatus{
			URL: "https://" + long(w.attempts, w.extent.url), Number: 1 << 40, Branch: long(0, w.extent.promotionBranch), HeadCommit: commit, Commit: commit,
			BaseCommit: commit, BaseFiles: commit, Warning: text,
		}}
	case plan.ReportPreconditions:
		return plan.Outcome{State: pipelinesv1.PromotionCreated}
	case plan.Withdraw:
		delete(w.PullRequests, action.Environment)
		return plan.Outcome{State: pipelinesv1.PromotionAbandoned, Message: text}
	}
	return plan.Outcome{Err: errors.New(text)}
}

func size(part any) int {
	content, err := json.Marshal(part)
	if err != nil {
		panic(err)
	}
	return len(content)
}
