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
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

func getPipeline(ctx context.Context, kube client.Client, key client.ObjectKey) (*pipelinesv1.Pipeline, error) {
	pipeline := &pipelinesv1.Pipeline{}
	return pipeline, get(ctx, kube, "pipeline", key, pipeline, &pipelinesv1.PipelineList{})
}

// readPipelines connects to the cluster, and returns the pipelines of these names. It fails if one of them does not
// exist.
func (f *clusterFlags) readPipelines(ctx context.Context, cmd *cobra.Command, names []string) (client.Client, []*pipelinesv1.Pipeline, error) {
	kube, namespace, err := f.connect(cmd)
	if err != nil {
		return nil, nil, err
	}
	var pipelines []*pipelinesv1.Pipeline
	for _, name := range unique(names) {
		pipeline, err := getPipeline(ctx, kube, client.ObjectKey{Namespace: namespace, Name: name})
		if err != nil {
			return nil, nil, err
		}
		pipelines = append(pipelines, pipeline)
	}
	return kube, pipelines, nil
}

// readPipeline is readPipelines for one name.
func (f *clusterFlags) readPipeline(ctx context.Context, cmd *cobra.Command, name string) (client.Client, *pipelinesv1.Pipeline, error) {
	kube, pipelines, err := f.readPipelines(ctx, cmd, []string{name})
	if err != nil {
		return nil, nil, err
	}
	return kube, pipelines[0], nil
}

// recordOf returns the record of the last promotion into an environment, or nil.
func recordOf(pipeline *pipelinesv1.Pipeline, env string) *pipelinesv1.PromotionRecord {
	if status := pipeline.Status.Environments[env]; status != nil {
		return status.Promotion
	}
	return nil
}

// checkEnvironment returns an error with the existing environments if env is not one of them.
func checkEnvironment(pipeline *pipelinesv1.Pipeline, env string) error {
	if pipeline.Environment(env) != nil {
		return nil
	}
	if len(pipeline.Spec.Environments) == 0 {
		return fmt.Errorf("pipeline %s has no environments", pipeline.Name)
	}
	var names []string
	for _, env := range pipeline.Spec.Environments {
		names = append(names, env.Name)
	}
	return fmt.Errorf("pipeline %s has no environment %s: its environments are %s", pipeline.Name, env, strings.Join(names, ", "))
}

// waitingRevision returns the revision that waits for approval into an environment, or "".
func waitingRevision(pipeline *pipelinesv1.Pipeline, env string) string {
	if status := pipeline.Status.Environments[env]; status != nil {
		return status.WaitingApproval.Revision
	}
	return ""
}

// pipelineCommand is the common part of the commands for a single pipeline.
type pipelineCommand struct {
	cluster *clusterFlags
	env     string
}

func (c *pipelineCommand) bindEnv(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&c.env, "env", "", usage)
	if err := cmd.RegisterFlagCompletionFunc("env", c.cluster.completeEnvironments); err != nil {
		panic(err) // the flag is registered twice or missing
	}
}

// withPipeline calls run with the pipeline of the argument.
func (c *pipelineCommand) withPipeline(run func(*cobra.Command, client.Client, *pipelinesv1.Pipeline) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), c.cluster.timeout)
		defer cancel()
		kube, pipeline, err := c.cluster.readPipeline(ctx, cmd, args[0])
		if err != nil {
			return err
		}
		return run(cmd, kube, pipeline)
	}
}
