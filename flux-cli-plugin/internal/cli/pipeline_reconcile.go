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
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
)

// pipelinesCommand is the common part of the commands that change pipelines: they change all, and then wait for all.
type pipelinesCommand struct {
	cluster *clusterFlags
	wait    bool
	// check returns an error if the pipeline must not be changed.
	check func(*pipelinesv1.Pipeline) error
	// doing and done are the messages before and after a change.
	doing, done string
	change      func(*pipelinesv1.Pipeline)
}

func (c *pipelinesCommand) run(cmd *cobra.Command, args []string) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), c.cluster.timeout)
	defer cancel()
	kube, pipelines, err := c.cluster.readPipelines(ctx, cmd, args)
	if err != nil {
		return err
	}
	log := loggerFor(cmd)
	failed := &failures{log: log, noun: "pipeline", of: len(pipelines)}
	var changed []*pipelinesv1.Pipeline
	for _, pipeline := range pipelines {
		err := c.apply(ctx, kube, log, pipeline)
		failed.add(err)
		if err == nil {
			changed = append(changed, pipeline)
		}
	}
	if c.wait && len(changed) > 0 {
		log.waitingf("waiting for pipeline reconciliation")
		for _, pipeline := range changed {
			failed.add(waitReconciled(ctx, kube, log, pipeline))
		}
	}
	return failed.err()
}

// apply changes one pipeline.
func (c *pipelinesCommand) apply(ctx context.Context, kube client.Client, log logger, pipeline *pipelinesv1.Pipeline) error {
	if c.check != nil {
		if err := c.check(pipeline); err != nil {
			return err
		}
	}
	name := pipeline.Name // a request that fails may clear the object
	log.actionf("%s pipeline %s in %s namespace", c.doing, name, pipeline.Namespace)
	patch := client.MergeFrom(pipeline.DeepCopy())
	c.change(pipeline)
	if c.cluster.verbose {
		text, err := patch.Data(pipeline)
		if err != nil {
			return err
		}
		log.generatef("%s", text)
	}
	if err := kube.Patch(ctx, pipeline, patch); err != nil {
		return fmt.Errorf("%s pipeline %s failed: %w", c.doing, name, err)
	}
	log.successf("pipeline %s", c.done)
	return nil
}

// waitReconciled waits until pipeline-controller has reconciled the pipeline with its spec and annotations, and an
// attempt to promote has ended. It returns an error if the pipeline is not ready then.
func waitReconciled(ctx context.Context, kube client.Client, log logger, pipeline *pipelinesv1.Pipeline) error {
	key := client.ObjectKeyFromObject(pipeline) // a request that fails may clear the object
	handled, status, message := false, "", ""
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if err := kube.Get(ctx, key, pipeline); err != nil {
			return false, err
		}
		// Another user's later request replaces this one.
		handled = pipeline.Status.ObservedGeneration >= pipeline.Generation &&
			pipeline.Status.LastHandledReconcileAt == pipeline.Annotations[meta.ReconcileRequestAnnotation]
		status, message = describe.Ready(pipeline)
		return handled && status != string(metav1.ConditionUnknown), nil
	})
	switch {
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("waiting for pipeline %s failed: %w", key.Name, err)
	case err != nil && handled:
		return fmt.Errorf("pipeline %s is still in progress: %s", key.Name, message)
	case err != nil:
		return fmt.Errorf("pipeline-controller has not reconciled pipeline %s yet: check that it is running "+
			"(kubectl get deployments --all-namespaces --field-selector metadata.name=pipeline-controller)", key.Name)
	case status == string(metav1.ConditionFalse):
		return fmt.Errorf("pipeline %s is not ready: %s", key.Name, message)
	}
	log.successf("pipeline %s is reconciled: %s", key.Name, message)
	return nil
}

func newPipelineSuspendCommand(cluster *clusterFlags) *cobra.Command {
	command := &pipelinesCommand{
		cluster: cluster, doing: "suspending", done: "suspended",
		change: func(pipeline *pipelinesv1.Pipeline) { pipeline.Spec.Suspend = true },
	}
	return &cobra.Command{
		Use:   "suspend NAME...",
		Short: "Suspend pipelines",
		Long: `Suspend pipelines: nothing is promoted until they are resumed. Their status is still updated, and
open pull requests stay open.`,
		Example: `  # Suspend the pipeline 'app'
  flux pipeline suspend app

  # Suspend several pipelines
  flux pipeline suspend app shop`,
		Args:              someNames("pipeline"),
		ValidArgsFunction: cluster.completeMorePipelines,
		RunE:              command.run,
	}
}

func newPipelineResumeCommand(cluster *clusterFlags) *cobra.Command {
	command := &pipelinesCommand{
		cluster: cluster, doing: "resuming", done: "resumed",
		change: func(pipeline *pipelinesv1.Pipeline) { pipeline.Spec.Suspend = false },
	}
	cmd := &cobra.Command{
		Use:   "resume NAME...",
		Short: "Resume suspended pipelines",
		Long:  "Resume suspended pipelines, and wait until pipeline-controller has reconciled them.",
		Example: `  # Resume the pipeline 'app'
  flux pipeline resume app

  # Resume several pipelines, without waiting for pipeline-controller
  flux pipeline resume app shop --wait=false`,
		Args:              someNames("pipeline"),
		ValidArgsFunction: cluster.completeMorePipelines,
		RunE:              command.run,
	}
	command.bindWait(cmd)
	return cmd
}

func newPipelineReconcileCommand(cluster *clusterFlags) *cobra.Command {
	force := false
	command := &pipelinesCommand{
		cluster: cluster, doing: "annotating", done: "annotated",
		check: func(pipeline *pipelinesv1.Pipeline) error {
			if pipeline.Spec.Suspend {
				return fmt.Errorf("pipeline %[1]s is suspended; to resume it: flux pipeline resume %[1]s -n %[2]s", pipeline.Name, pipeline.Namespace)
			}
			return nil
		},
		change: func(pipeline *pipelinesv1.Pipeline) {
			now := cluster.now().Format(time.RFC3339Nano)
			if pipeline.Annotations == nil {
				pipeline.Annotations = map[string]string{}
			}
			pipeline.Annotations[meta.ReconcileRequestAnnotation] = now
			if force {
				pipeline.Annotations[meta.ForceRequestAnnotation] = now
			}
		},
	}
	cmd := &cobra.Command{
		Use:   "reconcile NAME...",
		Short: "Reconcile pipelines now",
		Long: fmt.Sprintf(`Reconcile pipelines now, and wait for the result: pull requests are checked, and a failed promotion
is attempted again. The command sets the annotation %s.

With --force, the current promotion starts again. An open pull request is closed, and a new one is
opened. If the promotion had ended, because its pull request was merged or closed, it requires new
approvals.`, meta.ReconcileRequestAnnotation),
		Example: `  # Attempt a failed promotion of the pipeline 'app' again
  flux pipeline reconcile app

  # Promote again after the pull request was closed
  flux pipeline reconcile app --force`,
		Args:              someNames("pipeline"),
		ValidArgsFunction: cluster.completeMorePipelines,
		RunE:              command.run,
	}
	cmd.Flags().BoolVar(&force, "force", false, "start the current promotion again, with a new pull request, even if it ended")
	command.bindWait(cmd)
	return cmd
}

func (c *pipelinesCommand) bindWait(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.wait, "wait", true, "wait until the pipelines are reconciled")
}
