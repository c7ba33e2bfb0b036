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
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/spf13/cobra"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1alpha1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
)

func getPipeline(ctx context.Context, kube client.Client, key client.ObjectKey) (*pipelinesv1alpha1.Pipeline, error) {
	pipeline := &pipelinesv1alpha1.Pipeline{}
	return pipeline, get(ctx, kube, "pipeline", key, pipeline, &pipelinesv1alpha1.PipelineList{})
}

// recordOf returns the record of the last promotion into an environment, or nil.
func recordOf(pipeline *pipelinesv1alpha1.Pipeline, env string) *pipelinesv1alpha1.PromotionRecord {
	if status := pipeline.Status.Environments[env]; status != nil {
		return status.Promotion
	}
	return nil
}

// checkEnvironment returns an error that names the environments there are if this isn't one of them.
func checkEnvironment(pipeline *pipelinesv1alpha1.Pipeline, env string) error {
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
	return fmt.Errorf("pipeline %s has no environment %s, it has: %s", pipeline.Name, env, strings.Join(names, ", "))
}

// pipelineCommand is what the commands about one pipeline have in common.
type pipelineCommand struct {
	cluster *clusterFlags
	env     string
}

func (c *pipelineCommand) bindEnv(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&c.env, "env", "", usage)
	if err := cmd.RegisterFlagCompletionFunc("env", c.cluster.completeEnvironments); err != nil {
		panic(err) // the flag is registered twice, or not there
	}
}

// withPipeline runs with the pipeline that the argument names.
func (c *pipelineCommand) withPipeline(run func(*cobra.Command, *pipelinesv1alpha1.Pipeline) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), c.cluster.timeout)
		defer cancel()
		kube, namespace, err := c.cluster.connect(cmd)
		if err != nil {
			return err
		}
		pipeline, err := getPipeline(ctx, kube, client.ObjectKey{Namespace: namespace, Name: args[0]})
		if err != nil {
			return err
		}
		return run(cmd, pipeline)
	}
}

// pipelineListCommand lists pipelines.
type pipelineListCommand struct {
	cluster *clusterFlags
	all     bool
}

func newPipelineListCommand(cluster *clusterFlags) *cobra.Command {
	command := &pipelineListCommand{cluster: cluster}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List pipelines",
		Long:  "List pipelines: the revision that travels through each, and where it stands.",
		Example: `  # List the pipelines of the flux-system namespace
  flux pipeline list

  # List those of all namespaces
  flux pipeline list -A`,
		Args: cobra.NoArgs,
		RunE: command.run,
	}
	bindAllNamespaces(cmd, &command.all)
	return cmd
}

func (c *pipelineListCommand) run(cmd *cobra.Command, _ []string) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), c.cluster.timeout)
	defer cancel()
	kube, namespace, err := c.cluster.connect(cmd)
	if err != nil {
		return err
	}
	pipelines := &pipelinesv1alpha1.PipelineList{}
	if err := list(ctx, kube, "pipeline", pipelines, within(namespace, c.all)); err != nil {
		return err
	}
	if len(pipelines.Items) == 0 {
		loggerFor(cmd).nothingf("pipeline", namespace, c.all)
		return nil
	}
	headings := []string{"NAME", "REVISION", "SUSPENDED", "READY", "MESSAGE"}
	var rows [][]string
	for i := range pipelines.Items {
		pipeline := &pipelines.Items[i]
		ready, message := readiness(pipeline)
		suspended := "False"
		if pipeline.Spec.Suspend {
			suspended = "True"
		}
		rows = append(rows, prefixed(c.all, pipeline.Namespace,
			pipeline.Name, revision.Short(pipeline.Status.Revision), suspended, ready, message))
	}
	return printTable(cmd.OutOrStdout(), prefixed(c.all, "NAMESPACE", headings...), rows)
}

// readiness returns the status and the message of the Ready condition.
func readiness(pipeline *pipelinesv1alpha1.Pipeline) (status, message string) {
	ready := apimeta.FindStatusCondition(pipeline.Status.Conditions, meta.ReadyCondition)
	if ready == nil {
		return string(metav1.ConditionUnknown), "pipeline-controller has not looked at it yet"
	}
	return string(ready.Status), ready.Message
}

func newPipelineGetCommand(cluster *clusterFlags) *cobra.Command {
	command := &pipelineCommand{cluster: cluster}
	cmd := &cobra.Command{
		Use:   "get NAME",
		Short: "Show a pipeline",
		Long:  "Show a pipeline: its environments, what each of their targets runs, and the last promotion into each.",
		Example: `  # Show the pipeline 'app'
  flux pipeline get app`,
		Args:              oneName("pipeline"),
		ValidArgsFunction: cluster.completePipelines,
		RunE: command.withPipeline(func(cmd *cobra.Command, pipeline *pipelinesv1alpha1.Pipeline) error {
			return treeOfPipeline(pipeline).print(cmd.OutOrStdout())
		}),
	}
	cmd.AddCommand(newClusterListCommand(cluster))
	return cmd
}

// treeOfPipeline shows a pipeline with its environments below.
func treeOfPipeline(pipeline *pipelinesv1alpha1.Pipeline) *tree {
	_, message := readiness(pipeline)
	shown := leaf("Pipeline/%s/%s: %s", pipeline.Namespace, pipeline.Name, message)
	for _, env := range pipeline.Spec.Environments {
		branch := leaf("%s", env.Name)
		status := pipeline.Status.Environments[env.Name]
		if status == nil {
			status = &pipelinesv1alpha1.EnvironmentStatus{}
		}
		for i := range status.Targets {
			branch.add(leaf("%s", describeTarget(&status.Targets[i])))
		}
		if status.Promotion != nil {
			branch.add(leaf("promotion of %s: %s", revision.Short(status.Promotion.Revision), describePromotion(status.Promotion)))
		}
		shown.add(branch)
	}
	return &shown
}

func describeTarget(target *pipelinesv1alpha1.TargetStatus) string {
	app := target.ClusterAppRef
	text := fmt.Sprintf("%s/%s/%s", app.Kind, target.Namespace, app.Name)
	if app.ClusterRef != nil {
		text += " in cluster " + app.ClusterRef.Name
	}
	text += ": "
	if target.Revision == "" {
		text += "no revision"
	} else {
		text += revision.Short(target.Revision)
	}
	if target.Ready {
		return text + ", ready"
	}
	if target.Error == "" {
		return text + ", not ready"
	}
	return text + ", not ready: " + target.Error
}

func describePromotion(record *pipelinesv1alpha1.PromotionRecord) string {
	parts := []string{string(record.State)}
	if record.Message != "" {
		parts = append(parts, record.Message)
	}
	if url := why.PullRequestURL(record); url != "" && !strings.Contains(record.Message, url) {
		parts = append(parts, "pull request "+url)
	}
	if len(record.Approvers) > 0 {
		parts = append(parts, "approved by "+strings.Join(record.Approvers, ", "))
	}
	text := strings.Join(parts, ", ")
	if record.LastError != "" {
		text += ": " + record.LastError
	}
	return text
}

func newPipelineWhyCommand(cluster *clusterFlags) *cobra.Command {
	command := &pipelineCommand{cluster: cluster}
	cmd := &cobra.Command{
		Use:   "why NAME",
		Short: "Say why an environment does not run the revision",
		Long: `Say in one line why an environment of a pipeline does not run the revision that travels through it.

Without --env it is the first environment that does not run the revision, or the last one if all do.`,
		Example: `  # Why does the revision not get on?
  flux pipeline why app

  # Why is prod not on it?
  flux pipeline why app --env prod`,
		Args:              oneName("pipeline"),
		ValidArgsFunction: cluster.completePipelines,
		RunE: command.withPipeline(func(cmd *cobra.Command, pipeline *pipelinesv1alpha1.Pipeline) error {
			env := command.env
			if env == "" {
				env = why.Lagging(pipeline)
			}
			if err := checkEnvironment(pipeline, env); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), why.Line(pipeline, env, cluster.now()))
			return err
		}),
	}
	command.bindEnv(cmd, "the environment to ask about")
	return cmd
}

func newPipelineHistoryCommand(cluster *clusterFlags) *cobra.Command {
	command := &pipelineCommand{cluster: cluster}
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "List the promotions of a pipeline",
		Long:  "List the promotions that a pipeline remembers, up to eleven of each environment, the newest of each first.",
		Example: `  # List the promotions of the pipeline 'app'
  flux pipeline history app

  # List those into prod
  flux pipeline history app --env prod`,
		Args:              oneName("pipeline"),
		ValidArgsFunction: cluster.completePipelines,
		RunE:              command.withPipeline(command.history),
	}
	command.bindEnv(cmd, "list the promotions into this environment only")
	return cmd
}

func (c *pipelineCommand) history(cmd *cobra.Command, pipeline *pipelinesv1alpha1.Pipeline) error {
	environments := environmentsOf(pipeline)
	if c.env != "" {
		if !slices.Contains(environments, c.env) {
			return checkEnvironment(pipeline, c.env)
		}
		environments = []string{c.env}
	}
	var rows [][]string
	for _, env := range environments {
		for _, record := range recordsOf(pipeline.Status.Environments[env]) {
			rows = append(rows, historyRow(env, record))
		}
	}
	if len(rows) == 0 {
		loggerFor(cmd).printf("✗", "pipeline %s has not promoted anything yet", pipeline.Name)
		return nil
	}
	headings := []string{"ENVIRONMENT", "REVISION", "STATE", "STARTED", "ENDED", "APPROVED BY", "PULL REQUEST", "MESSAGE"}
	return printTable(cmd.OutOrStdout(), headings, rows)
}

// environmentsOf returns the environments of the spec in order, and then those of which only the status is left.
func environmentsOf(pipeline *pipelinesv1alpha1.Pipeline) []string {
	var names []string
	for _, env := range pipeline.Spec.Environments {
		names = append(names, env.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(pipeline.Status.Environments)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// recordsOf returns the promotions into an environment, newest first.
func recordsOf(status *pipelinesv1alpha1.EnvironmentStatus) []pipelinesv1alpha1.PromotionRecord {
	switch {
	case status == nil:
		return nil
	case status.Promotion == nil:
		return status.History
	default:
		return append([]pipelinesv1alpha1.PromotionRecord{*status.Promotion}, status.History...)
	}
}

func historyRow(env string, record pipelinesv1alpha1.PromotionRecord) []string {
	url, message := why.PullRequestURL(&record), record.Message
	if url != "" {
		// It has a column of its own.
		message = strings.ReplaceAll(message, " "+url, "")
	}
	if record.LastError != "" {
		message += ": " + record.LastError
	}
	return []string{
		env, revision.Short(record.Revision), string(record.State), timeOf(&record.StartTime), timeOf(record.CompletionTime),
		strings.Join(record.Approvers, ", "), url, message,
	}
}

func timeOf(at *metav1.Time) string {
	if at == nil || at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}
