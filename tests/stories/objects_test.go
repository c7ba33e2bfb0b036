//go:build e2e_node

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

package stories

import (
	"context"
	"fmt"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// format is fmt.Sprintf, but does not change a text without arguments.
func format(text string, args ...any) string {
	if len(args) == 0 {
		return text
	}
	return fmt.Sprintf(text, args...)
}

func gateNamed(ctx context.Context, name string) *gatingv1.Gate {
	GinkgoHelper()
	found := &gatingv1.Gate{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: flux, Name: name}, found)).To(Succeed())
	return found
}

func beClosedFor(reason string) OmegaMatcher {
	return And(HaveField("Spec.Closed", true), HaveField("Annotations", HaveKeyWithValue(gatingv1.ReasonAnnotation, reason)))
}

func beOpen() OmegaMatcher {
	return And(HaveField("Spec.Closed", false), HaveField("Annotations", Not(HaveKey(gatingv1.ReasonAnnotation))))
}

func gitRepository(ctx context.Context, name string) (*sourcev1.GitRepository, error) {
	found := &sourcev1.GitRepository{}
	return found, admin.Get(ctx, client.ObjectKey{Namespace: flux, Name: name}, found)
}

// fetched returns a function that reads the revision of a GitRepository's artifact.
func fetched(name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		found, err := gitRepository(ctx, name)
		if err != nil || found.Status.Artifact == nil {
			return "", err
		}
		return found.Status.Artifact.Revision, nil
	}
}

// held returns a function that reports whether a GitRepository is suspended and source-controller has seen it. Then no
// fetch is in progress.
func held(name string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		found, err := gitRepository(ctx, name)
		return err == nil && found.Spec.Suspend && found.Status.ObservedGeneration == found.Generation, err
	}
}

// runs returns a function that reads the version of the application that runs in a namespace.
func runs(namespace string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		found := &corev1.ConfigMap{}
		err := admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "app"}, found)
		return found.Data["version"], client.IgnoreNotFound(err)
	}
}

func pipelineNamed(ctx context.Context, name string) (*pipelinesv1.Pipeline, error) {
	found := &pipelinesv1.Pipeline{}
	return found, admin.Get(ctx, client.ObjectKey{Namespace: flux, Name: name}, found)
}

// record returns a function that reads the promotion into an environment.
func record(pipeline, env string) func(context.Context) (pipelinesv1.PromotionRecord, error) {
	return func(ctx context.Context) (pipelinesv1.PromotionRecord, error) {
		found, err := pipelineNamed(ctx, pipeline)
		if err != nil || found.Status.Environments[env] == nil || found.Status.Environments[env].Promotion == nil {
			return pipelinesv1.PromotionRecord{}, err
		}
		return *found.Status.Environments[env].Promotion, nil
	}
}

// ready returns a function that reads the message of a Pipeline's Ready condition.
func ready(pipeline string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		found, err := pipelineNamed(ctx, pipeline)
		condition := apimeta.FindStatusCondition(found.Status.Conditions, meta.ReadyCondition)
		if err != nil || condition == nil {
			return "", err
		}
		return condition.Message, nil
	}
}

func haveState(state pipelinesv1.PromotionState) OmegaMatcher { return HaveField("State", state) }

// application is the manifest of a version of an application.
func application(version string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {version: " + version + "}\n"
}

// deploy makes Flux deploy an application into a namespace from the main branch of a repository, with a GitRepository
// that has the namespace's name.
func deploy(ctx context.Context, namespace, repository string) {
	GinkgoHelper()
	apply(ctx, `
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: %s, namespace: flux-system}
spec: {interval: 2s, url: '%s', ref: {branch: main}}
`, namespace, repositoryURL(repository))
	consume(ctx, namespace)
}

// deployFirst deploys v1.0.0 of an application from a repository of the namespace's name until the end of the story,
// and waits until it runs.
func deployFirst(ctx context.Context, namespace string) {
	GinkgoHelper()
	upon.commit(namespace, map[string]string{"deploy/app.yaml": application("v1.0.0")})
	deploy(ctx, namespace, namespace)
	DeferCleanup(func(ctx SpecContext) { undeploy(ctx, namespace) })
	Eventually(ctx, runs(namespace)).Should(Equal("v1.0.0"))
}

// consume makes Flux deploy the artifact of the GitRepository that has the namespace's name.
func consume(ctx context.Context, namespace string) {
	GinkgoHelper()
	apply(ctx, `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: app, namespace: %[1]s}
spec: {interval: 5s, retryInterval: 2s, path: ./deploy, prune: true, targetNamespace: %[1]s, sourceRef: {kind: GitRepository, name: %[1]s, namespace: flux-system}}
`, namespace)
}

// gated makes a gate hold a GitRepository while it is closed.
func gated(ctx context.Context, source, gate string) {
	GinkgoHelper()
	kubectl(ctx, "annotate", "gitrepository/"+source, gatingv1.GatesAnnotation+"="+gate)
}

// undeploy deletes what deploy has created.
func undeploy(ctx context.Context, namespace string) {
	GinkgoHelper()
	remove(ctx, "--namespace="+namespace, "kustomization/app")
	remove(ctx, "gitrepository/"+namespace)
	remove(ctx, "namespace/"+namespace)
}
