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
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
)

// completionTimeout is short because completion blocks the shell, and the cluster may be unreachable.
const completionTimeout = 5 * time.Second

// completeGates completes one gate.
func (f *clusterFlags) completeGates(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.completeMoreGates(cmd, args, toComplete)
}

// completeMoreGates completes the gates of the namespace, with their state as description.
func (f *clusterFlags) completeMoreGates(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return f.complete(cmd, args, toComplete, &gatingv1.GateList{}, func(obj client.Object) string {
		return describe.GateState(obj.(*gatingv1.Gate), f.now())
	})
}

// completePipelines completes one pipeline.
func (f *clusterFlags) completePipelines(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.completeMorePipelines(cmd, args, toComplete)
}

// completeMorePipelines completes the pipelines of the namespace, with their revision as description.
func (f *clusterFlags) completeMorePipelines(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return f.complete(cmd, args, toComplete, &pipelinesv1.PipelineList{}, func(obj client.Object) string {
		return revision.Short(obj.(*pipelinesv1.Pipeline).Status.Revision)
	})
}

// complete completes the objects that were not typed yet.
func (f *clusterFlags) complete(cmd *cobra.Command, typed []string, toComplete string, objects client.ObjectList, describe func(client.Object) string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return f.offer(cmd, toComplete, func(ctx context.Context, kube client.Client, namespace string) ([]cobra.Completion, error) {
		if err := kube.List(ctx, objects, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		var completions []cobra.Completion
		for _, obj := range items(objects) {
			if !slices.Contains(typed, obj.GetName()) {
				completions = append(completions, cobra.CompletionWithDesc(obj.GetName(), plaintext.Line(describe(obj))))
			}
		}
		return completions, nil
	})
}

// completeEnvironments completes the environments of the pipeline in the first argument. The description is the
// revision that waits for approval.
func (f *clusterFlags) completeEnvironments(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return f.completeFrom(cmd, args, toComplete, func(pipeline *pipelinesv1.Pipeline) []cobra.Completion {
		var completions []cobra.Completion
		for _, env := range pipeline.Spec.Environments {
			description := ""
			if waiting := waitingRevision(pipeline, env.Name); waiting != "" {
				description = revision.Short(waiting) + " waits for approval"
			}
			if env.HasValidName() {
				completions = append(completions, cobra.CompletionWithDesc(env.Name, plaintext.Line(description)))
			}
		}
		return completions
	})
}

// completeWaitingRevisions completes the revisions of the pipeline in the first argument that wait for approval.
func (f *clusterFlags) completeWaitingRevisions(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return f.completeFrom(cmd, args, toComplete, func(pipeline *pipelinesv1.Pipeline) []cobra.Completion {
		var completions []cobra.Completion
		for _, env := range pipeline.Spec.Environments {
			if waiting := waitingRevision(pipeline, env.Name); waiting != "" {
				completions = append(completions, cobra.CompletionWithDesc(plaintext.Line(waiting), "waits for approval in "+plaintext.Line(env.Name)))
			}
		}
		return completions
	})
}

// completeHeldRevisions completes the revisions whose promotions wait for the gate in the first argument.
func (f *clusterFlags) completeHeldRevisions(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.offer(cmd, toComplete, func(ctx context.Context, kube client.Client, namespace string) ([]cobra.Completion, error) {
		gate := &gatingv1.Gate{}
		if err := kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: args[0]}, gate); err != nil {
			return nil, err
		}
		promotions, err := referrersOf(kube, gate).promotionsNaming(ctx, gate)
		var completions []cobra.Completion
		for _, promotion := range promotions {
			if promotion.pipeline.WaitsForGates(promotion.env) != nil {
				revision := recordOf(promotion.pipeline, promotion.env).Revision
				completions = append(completions, cobra.CompletionWithDesc(plaintext.Line(revision), "waits in "+plaintext.Line(promotion.String())))
			}
		}
		return completions, err
	})
}

// completeCurrentRevision completes the current revision of the pipeline in the first argument.
func (f *clusterFlags) completeCurrentRevision(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return f.completeFrom(cmd, args, toComplete, func(pipeline *pipelinesv1.Pipeline) []cobra.Completion {
		if pipeline.Status.Revision == "" {
			return nil
		}
		return []cobra.Completion{cobra.CompletionWithDesc(plaintext.Line(pipeline.Status.Revision), "the current revision")}
	})
}

// completeFrom completes what the pipeline in the first argument has.
func (f *clusterFlags) completeFrom(cmd *cobra.Command, args []string, toComplete string, all func(*pipelinesv1.Pipeline) []cobra.Completion) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.offer(cmd, toComplete, func(ctx context.Context, kube client.Client, namespace string) ([]cobra.Completion, error) {
		pipeline := &pipelinesv1.Pipeline{}
		if err := kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: args[0]}, pipeline); err != nil {
			return nil, err
		}
		return all(pipeline), nil
	})
}

// offer returns the completions that start with the typed text.
func (f *clusterFlags) offer(cmd *cobra.Command, toComplete string, read func(context.Context, client.Client, string) ([]cobra.Completion, error)) ([]cobra.Completion, cobra.ShellCompDirective) {
	f.timeout = completionTimeout
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()

	kube, namespace, err := f.connect(cmd)
	if err != nil {
		cobra.CompError(err.Error())
		return nil, cobra.ShellCompDirectiveError
	}
	all, err := read(ctx, kube, namespace)
	if err != nil {
		cobra.CompError(err.Error())
		return nil, cobra.ShellCompDirectiveError
	}
	var completions []cobra.Completion
	for _, completion := range all {
		if strings.HasPrefix(completion, toComplete) {
			completions = append(completions, completion)
		}
	}
	return completions, cobra.ShellCompDirectiveNoFileComp
}
