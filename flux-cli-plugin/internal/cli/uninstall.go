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

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

const (
	// fluxKustomization is the prefix of the labels with the Kustomization of an object, and of the annotation that
	// makes Flux ignore an object.
	fluxKustomization = "kustomize.toolkit.fluxcd.io/"
	partOf            = "app.kubernetes.io/part-of"
)

var (
	deployments = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	pods        = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	crds        = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	// policies are in the order in which they are deleted: a policy without a binding refuses nothing.
	policies = []schema.GroupVersionKind{
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyBinding"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"},
	}
)

type uninstallCommand struct {
	cluster *clusterFlags
	silent  bool
	// The command sets these when it runs.
	kube client.Client
	log  logger
}

func newUninstallCommand(cluster *clusterFlags) *cobra.Command {
	command := &uninstallCommand{cluster: cluster}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Release all holds and remove finalizers, so that Sluice can be deleted",
		Long: `Stop Sluice's controllers, delete its admission policies, release all held sources, and remove the
finalizers of pipelines, in all namespaces.

The CRDs and everything else remain: delete Sluice's Kustomization, or run 'kubectl delete -k'.
Until then, Flux does not restart the controllers. You can repeat the command. Released sources
fetch their newest revision, even if their gates are closed. Open pull requests stay open.`,
		Example: `  # Uninstall after confirmation
  flux sluice uninstall

  # Uninstall without confirmation
  flux sluice uninstall --silent`,
		Args: cobra.NoArgs,
		RunE: command.run,
	}
	cmd.Flags().BoolVarP(&command.silent, "silent", "s", false, "skip the confirmation")
	return cmd
}

func (c *uninstallCommand) run(cmd *cobra.Command, _ []string) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), c.cluster.timeout)
	defer cancel()
	var err error
	if c.kube, _, err = c.cluster.connect(cmd); err != nil {
		return err
	}
	c.log = loggerFor(cmd)
	if !c.silent {
		if !c.cluster.isTerminal(cmd.InOrStdin()) {
			return errors.New("confirmation needs a terminal: pass --silent")
		}
		if !agrees(cmd, "stop Sluice, and release all that its gates hold?") {
			return errors.New("nothing was uninstalled")
		}
	}
	// It can't be looked up once Sluice's objects are deleted.
	installer, err := c.installer(ctx)
	if err != nil {
		return err
	}
	// What follows must not be undone by the controllers, nor refused by the policies.
	if err := c.stopControllers(ctx); err != nil {
		return fmt.Errorf("stopping the controllers failed: %w", err)
	}
	if err := c.deletePolicies(ctx); err != nil {
		return fmt.Errorf("deleting the policies failed: %w", err)
	}
	if err := errors.Join(c.releaseSources(ctx), c.freePipelines(ctx)); err != nil {
		return fmt.Errorf("some objects were not released; run the command again: %w", err)
	}
	c.log.successf("all holds are released")
	c.tellNext(installer)
	return nil
}

// installer returns the Kustomization of Flux that Sluice was installed by, if any.
func (c *uninstallCommand) installer(ctx context.Context) (client.ObjectKey, error) {
	crd := objectOf(crds)
	err := c.kube.Get(ctx, client.ObjectKey{Name: "gates." + gatingv1.GroupVersion.Group}, crd)
	labels := crd.GetLabels()
	return client.ObjectKey{Namespace: labels[fluxKustomization+"namespace"], Name: labels[fluxKustomization+"name"]}, client.IgnoreNotFound(err)
}

// stopControllers scales the controllers to zero, and makes Flux ignore them.
func (c *uninstallCommand) stopControllers(ctx context.Context) error {
	all, err := c.list(ctx, deployments, client.MatchingLabels{partOf: "sluice"})
	if err != nil {
		return err
	}
	for i := range all {
		deployment := &all[i]
		c.log.actionf("stopping %s in %s namespace", deployment.GetName(), deployment.GetNamespace())
		if err := c.stop(ctx, deployment); err != nil {
			return err
		}
	}
	return nil
}

func (c *uninstallCommand) stop(ctx context.Context, deployment *unstructured.Unstructured) error {
	before := deployment.DeepCopy()
	annotations := deployment.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[fluxKustomization+"reconcile"] = "disabled"
	deployment.SetAnnotations(annotations)
	if err := unstructured.SetNestedField(deployment.Object, int64(0), "spec", "replicas"); err != nil {
		return err
	}
	if err := c.goesWithServiceAccount(ctx, deployment); err != nil {
		return err
	}
	if err := c.kube.Patch(ctx, deployment, client.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(err)
	}
	selector, _, err := unstructured.NestedStringMap(deployment.Object, "spec", "selector", "matchLabels")
	if err != nil {
		return err
	}
	c.log.waitingf("waiting for its Pods to end")
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		left, err := c.list(ctx, pods, client.InNamespace(deployment.GetNamespace()), client.MatchingLabels(selector))
		return len(left) == 0, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the Pods of %s: %w", deployment.GetName(), err)
	}
	return nil
}

// goesWithServiceAccount makes the ServiceAccount the owner of the Deployment, so both are deleted together: Flux does
// not delete an object that it ignores.
func (c *uninstallCommand) goesWithServiceAccount(ctx context.Context, deployment *unstructured.Unstructured) error {
	name, _, err := unstructured.NestedString(deployment.Object, "spec", "template", "spec", "serviceAccountName")
	if err != nil || name == "" {
		return err
	}
	account := objectOf(schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"})
	if err := c.kube.Get(ctx, client.ObjectKey{Namespace: deployment.GetNamespace(), Name: name}, account); err != nil {
		return client.IgnoreNotFound(err)
	}
	return controllerutil.SetOwnerReference(account, deployment, c.kube.Scheme())
}

func (c *uninstallCommand) deletePolicies(ctx context.Context) error {
	for _, kind := range policies {
		all, err := c.list(ctx, kind, client.MatchingLabels{partOf: "sluice"})
		if err != nil {
			return err
		}
		for i := range all {
			c.log.actionf("deleting %s %s", kind.Kind, all[i].GetName())
			if err := client.IgnoreNotFound(c.kube.Delete(ctx, &all[i])); err != nil {
				return err
			}
		}
	}
	return nil
}

// releaseSources gives up what gate-controller owns of sources, and removes the conditions that only it keeps.
func (c *uninstallCommand) releaseSources(ctx context.Context) error {
	var failed []error
	for _, kind := range gatingv1.HeldKinds() {
		sources, err := c.list(ctx, kind)
		if err != nil {
			failed = append(failed, err)
		}
		for i := range sources {
			if err := c.releaseSource(ctx, &sources[i]); err != nil {
				failed = append(failed, fmt.Errorf("%s %s/%s: %w", kind.Kind, sources[i].GetNamespace(), sources[i].GetName(), err))
			}
		}
	}
	return errors.Join(failed...)
}

func (c *uninstallCommand) releaseSource(ctx context.Context, source *unstructured.Unstructured) error {
	isHeld := slices.ContainsFunc(source.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == gatingv1.HoldingManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
	})
	if isHeld {
		c.log.actionf("releasing %s %s in %s namespace", source.GetKind(), source.GetName(), source.GetNamespace())
		// Applying an object without fields removes the fields that only gate-controller owns. Fields of other owners
		// stay.
		released := objectOf(source.GroupVersionKind())
		released.SetNamespace(source.GetNamespace())
		released.SetName(source.GetName())
		released.SetUID(source.GetUID()) // so that one which was deleted a moment ago is not created
		err := c.kube.Apply(ctx, client.ApplyConfigurationFromUnstructured(released), client.FieldOwner(gatingv1.HoldingManager), client.ForceOwnership)
		if err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := c.kube.Get(ctx, client.ObjectKeyFromObject(source), source); err != nil {
			return client.IgnoreNotFound(err)
		}
		before := source.DeepCopy()
		if removed, err := removeConditions(source); !removed || err != nil {
			return err
		}
		return client.IgnoreNotFound(c.kube.Status().Patch(ctx, source, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
	})
}

func removeConditions(source *unstructured.Unstructured) (removed bool, _ error) {
	conditions, _, err := unstructured.NestedSlice(source.Object, "status", "conditions")
	if err != nil {
		return false, err
	}
	kept := slices.DeleteFunc(slices.Clone(conditions), func(condition any) bool {
		fields, _ := condition.(map[string]any)
		name, _ := fields["type"].(string)
		return slices.Contains(gatingv1.SourceConditions, name)
	})
	if len(kept) == len(conditions) {
		return false, nil
	}
	return true, unstructured.SetNestedSlice(source.Object, kept, "status", "conditions")
}

// freePipelines removes the finalizers of Pipelines: nobody else does, once pipeline-controller is stopped.
func (c *uninstallCommand) freePipelines(ctx context.Context) error {
	pipelines := &pipelinesv1.PipelineList{}
	if err := c.kube.List(ctx, pipelines); err != nil {
		if apimeta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	var failed []error
	for i := range pipelines.Items {
		pipeline := &pipelines.Items[i]
		for _, env := range pipeline.Status.Environments {
			if record := env.Promotion; record != nil && record.State == pipelinesv1.PromotionCreated && record.PullRequest != nil {
				c.log.warningf("pull request %s stays open", record.PullRequest.URL)
			}
		}
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			if err := c.kube.Get(ctx, client.ObjectKeyFromObject(pipeline), pipeline); err != nil {
				return client.IgnoreNotFound(err)
			}
			before := pipeline.DeepCopy()
			if !controllerutil.RemoveFinalizer(pipeline, pipelinesv1.PipelineFinalizer) {
				return nil
			}
			c.log.actionf("removing the finalizer of Pipeline %s in %s namespace", pipeline.Name, pipeline.Namespace)
			return client.IgnoreNotFound(c.kube.Patch(ctx, pipeline, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
		})
		if err != nil {
			failed = append(failed, fmt.Errorf("Pipeline %s/%s: %w", pipeline.Namespace, pipeline.Name, err))
		}
	}
	return errors.Join(failed...)
}

func (c *uninstallCommand) tellNext(installer client.ObjectKey) {
	if installer.Name == "" {
		c.log.actionf("next: delete the rest the way you installed it, such as with 'kubectl delete -k'")
		return
	}
	c.log.actionf("next: remove Kustomization %s from Git, or run 'flux delete kustomization %s --namespace %s'; Flux then deletes Sluice",
		installer, installer.Name, installer.Namespace)
}

// list lists the objects of a kind in all namespaces, none if the kind does not exist.
func (c *uninstallCommand) list(ctx context.Context, kind schema.GroupVersionKind, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	objects := &unstructured.UnstructuredList{}
	objects.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := c.kube.List(ctx, objects, options...)
	if apimeta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", kind.Kind, err)
	}
	return objects.Items, nil
}

func objectOf(kind schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object
}
