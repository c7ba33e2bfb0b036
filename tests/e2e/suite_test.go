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

// Package e2e tests Sluice on a real control plane, with Flux's controllers, Sluice's controllers as processes with the
// rights of config/, and real Git.
package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"code.gitea.io/sdk/gitea"
	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/githost"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
	"github.com/sluice-toolkit/sluice/tests/playground"
)

const flux = localcluster.FluxNamespace

var (
	world  *playground.Playground
	github *githost.Server
)

// The API versions of the objects.
var (
	sourceAPI    = sourcev1.GroupVersion.String()
	kustomizeAPI = kustomizev1.GroupVersion.String()
	helmAPI      = helmv2.GroupVersion.String()
	gatingAPI    = gatingv1.GroupVersion.String()
	pipelinesAPI = pipelinesv1.GroupVersion.String()
)

// slow labels long specs that have a shorter counterpart. 'make soak' runs them, and so do -ginkgo.label-filter and
// -ginkgo.focus.
var slow = Label("slow")

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	suite, reporter := GinkgoConfiguration()
	if suite.LabelFilter == "" && len(suite.FocusStrings) == 0 {
		suite.LabelFilter = "!" + slow[0]
	}
	RunSpecs(t, "Sluice", suite, reporter)
}

var _ = BeforeSuite(func(ctx SpecContext) {
	ctrl.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(3 * time.Minute) // most waits take seconds, but the machine may be busy
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	SetDefaultConsistentlyDuration(6 * time.Second)
	SetDefaultConsistentlyPollingInterval(200 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()

	var err error
	world, err = playground.Start(ctx, playground.Options{
		Flux:     []localcluster.FluxController{localcluster.NotificationController},
		Progress: func(step string) { GinkgoWriter.Println(step) },
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(world.Stop()).To(Succeed()) })
	Expect(world.Seed(ctx)).To(Succeed())

	github, err = githost.New()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(github.Close()).To(Succeed()) })
})

var _ = ReportAfterEach(func(report SpecReport) {
	if !report.Failed() || world == nil {
		return
	}
	for _, process := range []string{"gate-controller", "pipeline-controller", "source-controller"} {
		log, _ := logOf(process)
		AddReportEntry(process, log[max(0, len(log)-8<<10):])
	}
})

// run runs a program of the local cluster as an administrator and returns what it prints.
func run(ctx context.Context, program string, args ...string) (string, error) {
	path, err := world.Cluster.Program(program)
	if err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, path, args...)
	if command.Env, err = administrator(); err != nil {
		return "", err
	}
	out, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return string(out), err
}

// administrator returns the environment of programs that an administrator runs.
func administrator() ([]string, error) {
	plugins, err := world.Cluster.Program("plugins")
	return append(os.Environ(), "KUBECONFIG="+world.Cluster.Kubeconfig, "FLUXCD_PLUGINS="+plugins,
		"HOME="+filepath.Join(world.Cluster.Dir, "home")), err
}

// logOf returns the log of a process of the cluster.
func logOf(process string) (string, error) {
	log, err := os.ReadFile(filepath.Join(world.Cluster.Dir, "logs", process+".log"))
	return string(log), err
}

// metrics returns the metrics of a controller.
func metrics(ctx context.Context, controller *localcluster.Process) string {
	GinkgoHelper()
	text, err := metricsOf(controller)(ctx)
	Expect(err).NotTo(HaveOccurred())
	return text
}

// metricsOf returns a function that reads them, for Eventually: a controller may be ready before it serves metrics.
func metricsOf(controller *localcluster.Process) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+controller.MetricsAddr+"/metrics", nil)
		if err != nil {
			return "", err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", response.Status, body)
		}
		return string(body), err
	}
}

// apply applies manifests as an administrator.
func apply(ctx context.Context, manifests string, args ...any) {
	GinkgoHelper()
	Expect(world.Cluster.Apply(ctx, fmt.Appendf(nil, manifests, args...))).To(Succeed())
}

// deploy makes Flux run a version of an application in a namespace. Its repository has the same name.
func deploy(ctx context.Context, app, namespace, version string) {
	GinkgoHelper()
	apply(ctx, `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: %[1]s, namespace: flux-system}
spec: {interval: 24h, url: '%[2]s', ref: {tag: %[3]s}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: %[4]s, namespace: %[1]s}
spec: {interval: 24h, path: ./deploy, prune: true, targetNamespace: %[1]s, sourceRef: {kind: GitRepository, name: %[1]s, namespace: flux-system}}
`, namespace, world.RepositoryURL(app), version, app)
}

// syncOf returns a GitRepository and a Kustomization that apply a directory of a repository's branch main in a
// namespace. More is added to the spec of the Kustomization.
func syncOf(repository, namespace, interval, path, more string) string {
	return fmt.Sprintf(`
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: %[1]s, namespace: %[2]s}
spec: {interval: %[3]s, url: '%[4]s', ref: {branch: main}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: %[1]s, namespace: %[2]s}
spec: {interval: 24h, retryInterval: 1s, path: %[5]s, prune: true, sourceRef: {kind: GitRepository, name: %[1]s}, %[6]s}
`, repository, namespace, interval, world.RepositoryURL(repository), path, more)
}

// syncFrom makes Flux apply it until the spec, or the container of specs, ends. Then it deletes what was applied.
func syncFrom(ctx context.Context, repository, namespace, interval, path, more string) *unstructured.Unstructured {
	GinkgoHelper()
	apply(ctx, "%s", syncOf(repository, namespace, interval, path, more))
	kustomization := object(kustomizeAPI, kustomizev1.KustomizationKind, namespace, repository)
	DeferCleanup(func(ctx SpecContext) {
		deleteAll(ctx, kustomization)
		deleteAll(ctx, object(sourceAPI, sourcev1.GitRepositoryKind, namespace, repository))
	})
	return kustomization
}

// deleteAll deletes the objects that exist, and waits until they are gone.
func deleteAll(ctx context.Context, objects ...*unstructured.Unstructured) {
	GinkgoHelper()
	for _, obj := range objects {
		Expect(client.IgnoreNotFound(world.Client.Delete(ctx, obj))).To(Succeed())
	}
	for _, obj := range objects {
		Eventually(ctx, field(obj, "metadata", "uid")).Should(BeNil(), obj.GetName())
	}
}

// pullRequestsIn lists all pull requests of a repository on Gitea.
func pullRequestsIn(repository string) []*gitea.PullRequest {
	GinkgoHelper()
	all, _, err := world.Git.Client.ListRepoPullRequests(world.Git.Username, repository, gitea.ListPullRequestsOptions{State: gitea.StateAll})
	Expect(err).NotTo(HaveOccurred())
	return all
}

// mergeInGitea merges a pull request as a person. After each push to either branch, Gitea refuses to merge until it has
// checked for conflicts.
func mergeInGitea(ctx context.Context, repository string, number int64) {
	GinkgoHelper()
	Eventually(ctx, func() error { return world.Merge(repository, number) }).Should(Succeed())
}

// may returns a function that reports whether a ServiceAccount in the namespace of Flux may do something, for
// Eventually. The API server applies Roles and their bindings a moment after they are written.
func may(account string, do authorizationv1.ResourceAttributes) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: fmt.Sprintf("system:serviceaccount:%s:%s", flux, account), ResourceAttributes: &do,
		}}
		err := world.Client.Create(ctx, review)
		return review.Status.Allowed, err
	}
}

// object is an object of any kind in the namespace of Flux, or in another one.
func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// field returns a function that reads a field of an object, for Eventually.
func field(obj *unstructured.Unstructured, path ...string) func(context.Context) (any, error) {
	return func(ctx context.Context) (any, error) {
		now := obj.DeepCopy()
		if err := world.Client.Get(ctx, client.ObjectKeyFromObject(obj), now); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		value, _, err := unstructured.NestedFieldNoCopy(now.Object, path...)
		return value, err
	}
}

// condition returns a function that reads a condition of an object, for Eventually.
func condition(obj *unstructured.Unstructured, conditionType string) func(context.Context) (metav1.Condition, error) {
	return func(ctx context.Context) (metav1.Condition, error) {
		now := obj.DeepCopy()
		if err := world.Client.Get(ctx, client.ObjectKeyFromObject(obj), now); err != nil {
			return metav1.Condition{}, err
		}
		var typed struct {
			Status struct {
				Conditions []metav1.Condition `json:"conditions"`
			} `json:"status"`
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(now.Object, &typed); err != nil {
			return metav1.Condition{}, err
		}
		if found := apimeta.FindStatusCondition(typed.Status.Conditions, conditionType); found != nil {
			return *found, nil
		}
		return metav1.Condition{}, nil
	}
}

// ready returns a function that reads a Pipeline's Ready condition, for Eventually.
func ready(name string) func(context.Context) (metav1.Condition, error) {
	return condition(object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name), meta.ReadyCondition)
}

// record returns a function that reads the promotion into an environment of a Pipeline, for Eventually.
func record(pipeline, env string) func(context.Context) (pipelinesv1.PromotionRecord, error) {
	return func(ctx context.Context) (pipelinesv1.PromotionRecord, error) {
		now := &pipelinesv1.Pipeline{}
		if err := world.Client.Get(ctx, playground.InFluxNamespace(pipeline), now); err != nil {
			return pipelinesv1.PromotionRecord{}, err
		}
		if status := now.Status.Environments[env]; status != nil && status.Promotion != nil {
			return *status.Promotion, nil
		}
		return pipelinesv1.PromotionRecord{}, nil
	}
}

// haveState matches a record in a state.
func haveState(state pipelinesv1.PromotionState) OmegaMatcher {
	return HaveField("State", state)
}

// reconcile requests a reconciliation of a Pipeline, and waits until it was handled.
func reconcile(ctx context.Context, pipeline, token string, annotations ...string) {
	GinkgoHelper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, meta.ReconcileRequestAnnotation, token)
	for _, annotation := range annotations {
		patch = fmt.Sprintf(`{"metadata":{"annotations":{%q:%q,%q:%q}}}`, meta.ReconcileRequestAnnotation, token, annotation, token)
	}
	obj := object(pipelinesAPI, pipelinesv1.PipelineKind, flux, pipeline)
	Expect(world.Client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	Eventually(ctx, field(obj, "status", "lastHandledReconcileAt")).Should(Equal(token))
}
