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

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
)

// Exit codes of 'flux pipeline wait', in addition to 0 and 1.
const (
	exitNotArriving = 2
	exitTimedOut    = 3
)

// exitError is an error with its own exit code.
type exitError struct {
	error
	code int
}

// ExitCode returns the exit code for err, which is not nil.
func ExitCode(err error) int {
	if exit := (exitError{}); errors.As(err, &exit) {
		return exit.code
	}
	return 1
}

// pipelineWaitCommand waits until a revision has arrived.
type pipelineWaitCommand struct {
	pipelineCommand
	revision string
}

func newPipelineWaitCommand(cluster *clusterFlags) *cobra.Command {
	command := &pipelineWaitCommand{pipelineCommand: pipelineCommand{cluster: cluster}}
	cmd := &cobra.Command{
		Use:   "wait NAME",
		Short: "Wait until environments run a revision",
		Long: `Wait until all environments of a pipeline, or one of them, run a revision, and print every change of
state.

The exit code is 0 when the environments run the revision. It is 2 if someone must act first: the
promotion failed, was abandoned, or was replaced by another revision. It is 3 if --timeout expires.`,
		Example: `  # Wait until every environment runs the current revision of the pipeline 'app'
  flux pipeline wait app

  # Wait up to an hour until prod runs v1.4.0
  flux pipeline wait app --env prod --revision v1.4.0 --timeout 1h`,
		Args:              oneName("pipeline"),
		ValidArgsFunction: cluster.completePipelines,
		RunE:              command.run,
	}
	command.bindEnv(cmd, "wait for this environment only")
	cmd.Flags().StringVar(&command.revision, "revision", "", "the revision, or its tag or commit; defaults to the current revision of the pipeline")
	_ = cmd.RegisterFlagCompletionFunc("revision", cluster.completeCurrentRevision)
	return cmd
}

func (c *pipelineWaitCommand) run(cmd *cobra.Command, args []string) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), c.cluster.timeout)
	defer cancel()
	kube, pipeline, err := c.cluster.readPipeline(ctx, cmd, args[0])
	if err != nil {
		return err
	}
	if c.env != "" {
		if err := checkEnvironment(pipeline, c.env); err != nil {
			return err
		}
	}
	log, arrival := loggerFor(cmd), arrival{env: c.env, revision: c.revision}
	told := ""
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(pipeline), pipeline); err != nil {
			return false, err
		}
		arrived, text, err := arrival.look(pipeline)
		if text != told {
			log.waitingf("%s", text)
			told = text
		}
		return arrived, err
	})
	switch {
	case err != nil && ctx.Err() == nil:
		return err
	case err != nil && cmd.Context().Err() != nil:
		return errors.New("interrupted")
	case err != nil:
		return exitError{fmt.Errorf("timed out after %s: %s", c.cluster.timeout, told), exitTimedOut}
	}
	log.successf("%s", told)
	return nil
}

// arrival is the arrival of a revision in one environment or in all.
type arrival struct {
	env, revision string
	// seen is true once the revision was the current revision of the pipeline.
	seen bool
}

// look reports whether the revision has arrived, and its progress. It returns an error if the revision cannot arrive
// without intervention.
func (a *arrival) look(pipeline *pipelinesv1.Pipeline) (arrived bool, text string, err error) {
	current := pipeline.Status.Revision
	switch travels := a.revision == "" || revision.Matches(a.revision, current); {
	case pipeline.Status.ObservedGeneration != pipeline.Generation:
		return false, "waiting for pipeline-controller to see the last change of the pipeline", nil
	case !travels && a.seen && current != "":
		text := fmt.Sprintf("%s replaced %s", revision.Short(current), a.revision)
		return false, text, exitError{errors.New(text), exitNotArriving}
	case !travels && current != "":
		return false, fmt.Sprintf("waiting for %s: %s is being promoted", a.revision, revision.Short(current)), nil
	default:
		a.seen = a.seen || travels && current != ""
	}
	return a.stand(pipeline)
}

// stand returns the progress of the revision on its way to the environment.
func (a *arrival) stand(pipeline *pipelinesv1.Pipeline) (arrived bool, text string, err error) {
	env := why.Lagging(pipeline)
	if status := pipeline.Status.Environments[a.env]; status != nil && status.State.Settled() {
		env = a.env
	}
	status := pipeline.Status.Environments[env]
	if status == nil {
		return len(pipeline.Spec.Environments) == 0, "there are no environments", nil
	}
	text = env + ": " + status.Message
	switch status.State {
	case pipelinesv1.EnvironmentFailed, pipelinesv1.EnvironmentAbandoned, pipelinesv1.EnvironmentRolledBack, pipelinesv1.EnvironmentNotPromoted, pipelinesv1.EnvironmentInvalid:
		return false, text, exitError{errors.New(text), exitNotArriving}
	}
	return status.State.Settled(), text, nil
}
