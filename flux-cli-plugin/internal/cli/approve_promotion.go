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
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
)

// approveCommand approves one promotion.
type approveCommand struct {
	pipelineCommand
	revision string
	comment  string
	yes      bool
	wait     bool
}

// newApproveCommand returns the command. It exists twice: as a verb, and as a subcommand of pipeline. words is how it
// is called.
func newApproveCommand(use, words string, cluster *clusterFlags) *cobra.Command {
	approve := &approveCommand{pipelineCommand: pipelineCommand{cluster: cluster}}
	cmd := &cobra.Command{
		Use:   use,
		Short: "Approve a promotion",
		Long: `Approve a promotion that waits for approval into an environment of a pipeline. The command shows the
promotion, asks for confirmation, creates a PromotionApproval in your name, and waits until the
promotion continues or waits for something else.

An approval is only valid for the revision name that is shown, not for another name of the same
commit. You need the RBAC verbs 'approve' on the pipeline and 'create' on promotionapprovals.`,
		Example: fmt.Sprintf(`  # Review and approve the promotion into prod
  %[1]s app --env prod

  # Approve the only promotion that waits for approval
  %[1]s app

  # Approve a revision without confirmation, in a script
  %[1]s app --env prod --yes --revision "$REVISION" --comment "change 4711"`, words),
		Args:              oneName("pipeline"),
		ValidArgsFunction: cluster.completePipelines,
		RunE:              approve.run,
	}
	approve.bindEnv(cmd, "the environment that is promoted into; defaults to the only environment with a promotion that waits for approval")
	cmd.Flags().StringVar(&approve.revision, "revision", "", "approve only this revision, given as revision, tag, or at least seven digits of the commit; fail if another one waits")
	_ = cmd.RegisterFlagCompletionFunc("revision", cluster.completeWaitingRevisions)
	cmd.Flags().StringVar(&approve.comment, "comment", "", "a comment that is stored with the approval")
	cmd.Flags().BoolVarP(&approve.yes, "yes", "y", false, "skip the confirmation")
	cmd.Flags().BoolVar(&approve.wait, "wait", true, "wait until the promotion continues")
	return cmd
}

func (c *approveCommand) run(cmd *cobra.Command, args []string) error {
	log := loggerFor(cmd)
	kube, namespace, err := c.cluster.connect(cmd)
	if err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: namespace, Name: args[0]}
	waiting, err := c.find(cmd.Context(), kube, key, c.revision, revision.Matches)
	if err != nil {
		return err
	}
	c.env = waiting.env
	waiting.show(log)
	if !c.yes {
		if err := c.ask(cmd, waiting); err != nil {
			return err
		}
		// The promotion may have changed while the user was asked.
		if waiting, err = c.find(cmd.Context(), kube, key, waiting.revision, revision.Names); err != nil {
			return err
		}
	}
	by, err := c.approve(cmd.Context(), kube, log, waiting)
	if err != nil || !c.wait {
		return err
	}
	return c.follow(cmd.Context(), kube, log, waiting, by)
}

// candidate is a promotion that waits for approval.
type candidate struct {
	pipeline *pipelinesv1.Pipeline
	env      string
	revision string
}

// find returns the promotion that waits for approval. If a revision was given, it must match.
func (c *approveCommand) find(ctx context.Context, kube client.Client, key client.ObjectKey, wanted string, match func(wanted, waiting string) bool) (*candidate, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cluster.timeout)
	defer cancel()
	pipeline, err := getPipeline(ctx, kube, key)
	if err != nil {
		return nil, err
	}
	wants := func(waiting string) bool { return wanted == "" || match(wanted, waiting) }
	if c.env == "" {
		return c.findAnywhere(pipeline, wanted, wants)
	}
	if err := checkEnvironment(pipeline, c.env); err != nil {
		return nil, err
	}
	waiting := waitingRevision(pipeline, c.env)
	switch {
	case waiting == "":
		return nil, fmt.Errorf("nothing waits for approval in environment %s of pipeline %s: %s", c.env, pipeline.Name, why.Line(pipeline, c.env, c.cluster.now()))
	case !wants(waiting):
		return nil, fmt.Errorf("revision %s does not wait for approval in environment %s of pipeline %s: %s does", wanted, c.env, pipeline.Name, waiting)
	}
	return &candidate{pipeline: pipeline, env: c.env, revision: waiting}, nil
}

// findAnywhere returns the only promotion of the pipeline that waits for approval, in any environment.
func (c *approveCommand) findAnywhere(pipeline *pipelinesv1.Pipeline, wanted string, wants func(waiting string) bool) (*candidate, error) {
	var found []*candidate
	var all []string
	for _, env := range pipeline.Spec.Environments {
		waiting := waitingRevision(pipeline, env.Name)
		if waiting == "" {
			continue
		}
		all = append(all, fmt.Sprintf("%s in %s", revision.Short(waiting), env.Name))
		if wants(waiting) {
			found = append(found, &candidate{pipeline: pipeline, env: env.Name, revision: waiting})
		}
	}
	switch {
	case len(all) == 0:
		return nil, fmt.Errorf("nothing waits for approval in pipeline %s: %s", pipeline.Name, why.Line(pipeline, why.Lagging(pipeline), c.cluster.now()))
	case len(found) == 0:
		return nil, fmt.Errorf("revision %s does not wait for approval in pipeline %s; waiting for approval: %s", wanted, pipeline.Name, strings.Join(all, ", "))
	case len(found) > 1:
		return nil, fmt.Errorf("--env is required; waiting for approval: %s", strings.Join(all, ", "))
	}
	return found[0], nil
}

// show prints what would be approved.
func (p *candidate) show(log logger) {
	log.actionf("approving a promotion of pipeline %s in %s namespace", p.pipeline.Name, p.pipeline.Namespace)
	log.detailf("environment", "%s", p.env)
	log.detailf("revision", "%s → %s", describe.Running(p.pipeline, p.env), p.revision)
	log.detailf("approvals", "%s", describe.Approvals(p.pipeline, p.env, p.revision))
	log.detailf("also waits for", "%s", describe.Besides(p.pipeline, p.env))
}

// ask asks for confirmation at the terminal. It returns an error unless the user confirms.
func (c *approveCommand) ask(cmd *cobra.Command, waiting *candidate) error {
	if !c.cluster.isTerminal(cmd.InOrStdin()) {
		return fmt.Errorf("confirmation needs a terminal: pass --yes and --revision %s", waiting.revision)
	}
	if agrees(cmd, "approve it?") {
		return nil
	}
	return errors.New("nothing was approved")
}

// approve creates the approval in the name of the user, and returns that name.
func (c *approveCommand) approve(ctx context.Context, kube client.Client, log logger, waiting *candidate) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cluster.timeout)
	defer cancel()
	by, err := ownName(ctx, kube)
	if err != nil {
		return "", err
	}
	spec := pipelinesv1.PromotionApprovalSpec{Environment: waiting.env, Revision: waiting.revision, ApprovedBy: by, Comment: c.comment}
	spec.PipelineRef.Name = waiting.pipeline.Name
	approval, made := pipelinesv1.NewPromotionApproval(waiting.pipeline.Namespace, spec), &pipelinesv1.PromotionApproval{}
	err = create(ctx, kube, log, c.cluster.verbose, approval)
	switch {
	case apierrors.IsAlreadyExists(err):
		// Users who can approve may lack the permission to get approvals.
		if kube.Get(ctx, client.ObjectKeyFromObject(approval), made) == nil && !made.Spec.Repeats(spec) {
			return "", fmt.Errorf("PromotionApproval %s already exists and approves something else: delete it", made.Name)
		}
		log.successf("promotion is already approved by %s", by)
	case err != nil:
		return "", fmt.Errorf("approving the promotion failed: %w", err)
	default:
		log.successf("promotion approved by %s", by)
	}
	return by, nil
}
