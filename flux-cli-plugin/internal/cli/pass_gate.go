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
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
)

// longestPass limits the effect of a mistyped --for.
const longestPass = 7 * 24 * time.Hour

// passCommand lets one revision pass a closed gate.
type passCommand struct {
	cluster  *clusterFlags
	revision string
	forTime  time.Duration
	reason   string
}

func newPassGateCommand(cluster *clusterFlags) *cobra.Command {
	pass := &passCommand{cluster: cluster}
	cmd := &cobra.Command{
		Use:   "gate NAME",
		Short: "Let one revision pass a closed gate",
		Long: `Let one revision pass a closed gate, such as an urgent fix. Everything else stays held. The command
creates a GatePass in your name, which ends by itself. If spec.passes.required of the gate asks for
several people, each of them runs the command with the same revision.

Name the revision as sources and promotions show it (main@sha1:…, v1.2.3@sha1:…, or the version of a
chart), or by its whole commit or digest. A branch or tag alone is refused, because it can move.

You need the RBAC verbs 'get' and 'pass' on the gate, and 'create' on gatepasses.`,
		Example: `  # Let a commit pass the gate 'change-freeze' for two hours
  flux pass gate change-freeze --revision "$(git rev-parse HEAD)" --reason "INC-4711"

  # Let a revision pass for half an hour
  flux pass gate change-freeze --revision "$REVISION" --for 30m --reason "INC-4711"`,
		Args:              oneName("gate"),
		ValidArgsFunction: cluster.completeGates,
		RunE:              pass.run,
	}
	cmd.Flags().StringVar(&pass.revision, "revision", "", "the revision that may pass; required")
	cmd.Flags().DurationVar(&pass.forTime, "for", 2*time.Hour, "how long it may pass, up to 168h")
	cmd.Flags().StringVar(&pass.reason, "reason", "", "the reason, on one line; required")
	_ = cmd.RegisterFlagCompletionFunc("revision", cluster.completeHeldRevisions)
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions([]cobra.Completion{"30m", "1h", "2h", "4h", "8h", "24h"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("reason", cobra.NoFileCompletions)
	return cmd
}

func (c *passCommand) run(cmd *cobra.Command, args []string) error {
	log := loggerFor(cmd)
	ctx, cancel := context.WithTimeout(cmd.Context(), c.cluster.timeout)
	defer cancel()
	if err := c.parse(); err != nil {
		return err
	}
	kube, gate, err := c.cluster.readGate(ctx, cmd, args[0])
	if err != nil {
		return err
	}
	now := c.cluster.now()
	if state := gate.StateAt(now); !state.Closed {
		return fmt.Errorf("gate %s is %s: it holds nothing that needs a pass", gate.Name, state)
	}
	found, err := readReferrers(ctx, kube, gate)
	if err != nil {
		return err
	}
	switch {
	case revision.Digest(c.revision) != "" || len(found.denied) > 0 || found.haveNamed(c.revision):
	case shortCommit.MatchString(c.revision):
		return c.abbreviated()
	default:
		return fmt.Errorf("--revision %[1]s has no digest: a branch or tag can move, so name the commit or digest, such as %[1]s@sha1:… or sha1:…", c.revision)
	}
	by, err := ownName(ctx, kube)
	if err != nil {
		return err
	}
	pass := &gatingv1.GatePass{
		ObjectMeta: metav1.ObjectMeta{Namespace: gate.Namespace, GenerateName: gate.Name + "-"},
		Spec: gatingv1.GatePassSpec{
			Revision: c.revision, Expires: metav1.NewTime(now.Add(c.forTime).Truncate(time.Second)), GrantedBy: by, Reason: c.reason,
		},
	}
	pass.Spec.GateRef.Name = gate.Name

	log.actionf("granting a pass of gate %s in %s namespace", gate.Name, gate.Namespace)
	log.detailf("revision", "%s", c.revision)
	log.detailf("until", "%s", describe.Time(pass.Spec.Expires.In(now.Location())))
	found.show(log, c.revision)
	if err := create(ctx, kube, log, c.cluster.verbose, pass); err != nil {
		return fmt.Errorf("granting the pass failed: %w", err)
	}
	log.successf("pass granted by %s", by)
	c.showGrants(log, found, pass)
	log.detailf("to revoke it", "kubectl -n %s delete gatepass %s", pass.Namespace, pass.Name)
	return nil
}

var (
	wholeCommit = regexp.MustCompile(`^[0-9a-f]{40}$`)
	// shortCommit matches what Git prints of a commit.
	shortCommit = regexp.MustCompile(`^[0-9a-f]{4,39}$`)
)

// digits is the length of the hex digests of each algorithm.
var digits = map[string]int{"sha1": 40, "sha256": 64, "sha384": 96, "sha512": 128, "blake3": 64}

// parse checks the flags.
func (c *passCommand) parse() error {
	c.reason = plaintext.Line(c.reason)
	algorithm, hex, _ := strings.Cut(revision.Digest(c.revision), ":")
	switch {
	case c.revision == "":
		return errors.New("--revision is required: the only revision that may pass")
	case c.reason == "":
		return errors.New("--reason is required: say why this revision may pass")
	case c.forTime < time.Second || c.forTime > longestPass:
		return errors.New("--for must be between 1s and 168h, such as 2h")
	case wholeCommit.MatchString(c.revision):
		c.revision = "sha1:" + c.revision
	case len(hex) != digits[algorithm]:
		return c.abbreviated()
	}
	return nil
}

func (c *passCommand) abbreviated() error {
	return fmt.Errorf("--revision %s is abbreviated: name the whole commit or digest", c.revision)
}

// showGrants prints who has granted the pass, if the gate asks for several people.
func (c *passCommand) showGrants(log logger, found *referrers, pass *gatingv1.GatePass) {
	passes, required := append(found.passes, *pass), found.gate.PassesRequired()
	by := found.gate.Granters(passes, c.revision, c.cluster.now())
	command := why.PassCommand(client.ObjectKeyFromObject(found.gate), c.revision)
	switch {
	case required == 1:
		return
	case found.passesDenied:
		log.waitingf("%d people must grant it; each of them must run: %s", required, command)
	case len(by) < required:
		log.waitingf("%d of %d people have granted it; another person must run: %s", len(by), required, command)
	default:
		log.successf("%d of %d people have granted it: %s", len(by), required, strings.Join(by, ", "))
	}
	for i := range passes {
		if other := &passes[i].Spec; other.Revision != c.revision && revision.Equal(other.Revision, c.revision) && passes[i].IsInForce(c.cluster.now()) {
			log.warningf("%s has granted %s, which is counted separately: everyone must use the same --revision", other.GrantedBy, other.Revision)
		}
	}
}

// referrers are the sources and promotions that refer to a gate, and the passes that were granted.
type referrers struct {
	gate       *gatingv1.Gate
	sources    []gatedSource
	promotions []gatedPromotion
	passes     []gatingv1.GatePass
	// passesDenied reports whether the passes could not be listed.
	passesDenied bool
	// denied are the reasons why some of them are not known.
	denied []string
}

func readReferrers(ctx context.Context, kube client.Client, gate *gatingv1.Gate) (_ *referrers, err error) {
	found := &referrers{gate: gate}
	all, here := referrersOf(kube, gate), &lister{kube: kube, namespace: gate.Namespace}
	if found.sources, err = all.sourcesNaming(ctx, gate); err != nil {
		return nil, err
	}
	if found.promotions, err = all.promotionsNaming(ctx, gate); err != nil {
		return nil, err
	}
	if found.passes, err = here.passesOf(ctx, gate); err != nil {
		return nil, err
	}
	found.passesDenied = here.denial() != ""
	for _, limit := range []string{all.limits(), all.denial(), here.denial()} {
		if limit != "" {
			found.denied = append(found.denied, limit)
		}
	}
	return found, nil
}

// haveNamed reports whether a revision without a digest is a whole one: the version of a chart, or what a promotion's
// spec.revision.expr returns.
func (r *referrers) haveNamed(rev string) bool {
	return slices.ContainsFunc(r.sources, func(found gatedSource) bool { return found.Kind == gatingv1.HelmChartKind }) ||
		slices.ContainsFunc(r.promotions, func(promotion gatedPromotion) bool {
			record := recordOf(promotion.pipeline, promotion.env)
			return record != nil && record.Revision == rev
		})
}

// show prints what the pass of a revision means for each of them.
func (r *referrers) show(log logger, rev string) {
	for i := range r.sources {
		log.detailf("source", "%s: %s", &r.sources[i], r.sources[i].passes(rev, client.ObjectKeyFromObject(r.gate)))
	}
	for _, promotion := range r.promotions {
		log.detailf("promotion", "%s: %s", promotion, promotion.passes(rev))
	}
	if len(r.sources)+len(r.promotions)+len(r.denied) == 0 {
		log.warningf("no source and no pipeline names the gate")
	}
	for _, denied := range r.denied {
		log.warningf("%s", denied)
	}
}

// passes says in words what the pass of a revision means for the source.
func (s *gatedSource) passes(rev string, gate client.ObjectKey) string {
	switch s.Kind {
	case gatingv1.ExternalArtifactKind, gatingv1.ImageUpdateAutomationKind:
		return "stays held: passes do not apply to kind " + s.Kind
	}
	field, value := s.Follows()
	text := "runs " + revision.Short(s.Status.Artifact.Revision)
	if s.Status.Artifact.Revision == "" {
		text = "has no artifact"
	}
	name, named := revision.Tag(rev)
	switch {
	case revision.Names(rev, s.Status.Artifact.Revision):
		return "already runs this revision"
	case (field == "commit" || field == "digest") && !strings.HasSuffix(revision.Digest(rev), value),
		(field == "tag" || field == "branch") && named && name != value:
		return fmt.Sprintf("%s and stays held: it follows %s %s", text, field, revision.Short(value))
	case field != "":
		text += fmt.Sprintf(", and gets this revision only if %s %s resolves to it", field, value)
	}
	if others := s.OthersThan(gate); len(others) > 0 {
		text += "; also needs " + strings.Join(others, ", ")
	}
	return text
}

// passes says in words what the pass of a revision means for the promotion.
func (p gatedPromotion) passes(rev string) string {
	record := recordOf(p.pipeline, p.env)
	switch {
	case p.pipeline.WaitsForGates(p.env) == nil:
		return describe.HeldByGates(p.pipeline, p.env)
	case revision.Names(rev, record.Revision):
		return "waits to promote this revision"
	}
	return fmt.Sprintf("waits to promote %s, which stays held", revision.Short(record.Revision))
}
