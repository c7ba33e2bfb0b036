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

package view_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/source"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/rights"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/uitest"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/view"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/world"
)

var (
	now      = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	current  = "v1.2.3@sha1:" + strings.Repeat("c", 40)
	previous = "v1.2.2@sha1:" + strings.Repeat("b", 40)
)

// app is a pipeline that stands at prod.
func app(name string, state pipelinesv1.EnvironmentState) *pipelinesv1.Pipeline {
	pipeline := &pipelinesv1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: name}}
	pipeline.Spec.Promotion = &pipelinesv1.Promotion{Manual: true}
	pipeline.Spec.Environments = []pipelinesv1.Environment{{Name: "dev"}, {Name: "prod"}}
	pipeline.Status.Revision = current
	pipeline.Status.Environments = map[string]*pipelinesv1.EnvironmentStatus{
		"dev":  {State: pipelinesv1.EnvironmentCurrent, Targets: []pipelinesv1.TargetStatus{{Revision: current, Ready: true}}},
		"prod": {State: state, Message: "says " + string(state), Targets: []pipelinesv1.TargetStatus{{Revision: previous, Ready: true}}},
	}
	return pipeline
}

// seen returns a view of what a user with rights sees.
func seen(t *testing.T, snapshot *world.Snapshot, rules ...authorizationv1.ResourceRule) *view.View {
	t.Helper()
	cluster := uitest.New(t)
	cluster.Grant(rules...)
	asked := rights.Of(cluster, time.Now)
	snapshot.Now = now
	return &view.View{Snapshot: snapshot, User: "ada", RightsIn: func(namespace string) rights.Rules { return asked.In(t.Context(), namespace) }}
}

var everything = authorizationv1.ResourceRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}

func TestFilters(t *testing.T) {
	snapshot := &world.Snapshot{Pipelines: []*pipelinesv1.Pipeline{
		app("shop", "Waiting"), app("checkout", "Current"), app("search", "RolledBack"), app("payments", "Failed"), app("unseen", ""),
	}}
	snapshot.Pipelines[1].Namespace = "other"
	for _, tt := range []struct {
		query string
		want  []string
	}{
		{query: "", want: []string{"shop", "checkout", "search", "payments", "unseen"}},
		{query: "namespace=other", want: []string{"checkout"}},
		{query: "app=SH", want: []string{"shop"}},
		{query: "app=+ch+", want: []string{"checkout", "search"}},
		{query: "state=failed", want: []string{"payments"}},
		{query: "state=rolled-back", want: []string{"search"}},
		{query: "state=unknown", want: []string{"unseen"}},
		{query: "state=current&namespace=apps"},
		{query: "state=anything"},
	} {
		t.Run(tt.query, func(t *testing.T) {
			g := NewWithT(t)
			query, err := url.ParseQuery(tt.query)
			g.Expect(err).NotTo(HaveOccurred())
			shown := seen(t, snapshot).Overview(view.FilterOf(query))
			var names []string
			for _, group := range shown.Groups {
				for _, row := range group.Rows {
					names = append(names, row.Name)
				}
			}
			g.Expect(names).To(Equal(tt.want))
			g.Expect(shown.Total).To(Equal(5))
			g.Expect(shown.Namespaces).To(Equal([]string{"apps", "other"}))
			g.Expect(view.FilterOf(mustQuery(shown.Filter.Query()))).To(Equal(shown.Filter), "the address keeps the filter")
		})
	}
}

func mustQuery(text string) url.Values {
	query, err := url.ParseQuery(strings.TrimPrefix(text, "?"))
	if err != nil {
		panic(err)
	}
	return query
}

func TestApplicationsWithTheSameEnvironmentsAreTogether(t *testing.T) {
	g := NewWithT(t)
	other := app("other", "Current")
	other.Spec.Environments = append(other.Spec.Environments, pipelinesv1.Environment{Name: "eu"})
	shown := seen(t, &world.Snapshot{Pipelines: []*pipelinesv1.Pipeline{app("one", "Current"), other, app("two", "Current")}}).Overview(view.Filter{})
	g.Expect(shown.Groups).To(HaveLen(2))
	g.Expect(shown.Groups[0].Rows).To(HaveLen(2))
	g.Expect(shown.Groups[1].Environments).To(Equal([]string{"dev", "prod", "eu"}))
	g.Expect(shown.Groups[1].Rows[0].Cells[2].Kind).To(Equal(describe.UnknownKind))
}

func TestNeeds(t *testing.T) {
	waiting := app("shop", "Waiting")
	waiting.Status.Environments["prod"].WaitingApproval.Revision = current
	approved := app("approved", "Waiting")
	approved.Status.Environments["prod"].WaitingApproval.Revision = current
	approved.Status.Environments["prod"].Promotion = &pipelinesv1.PromotionRecord{Revision: current, Approvers: []string{"ada"}}
	gate := &gatingv1.Gate{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "freeze"}}
	gate.Spec.Closed, gate.Status.Held = true, 1
	idle := &gatingv1.Gate{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "idle"}}
	idle.Spec.Closed = true
	snapshot := &world.Snapshot{Pipelines: []*pipelinesv1.Pipeline{waiting, approved, app("payments", "Failed")}, Gates: []*gatingv1.Gate{gate, idle}}

	rule := func(verb, group, resource string) authorizationv1.ResourceRule {
		return authorizationv1.ResourceRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}
	}
	approves := rule("approve", "pipelines.weave.works", "pipelines")
	creates := rule("create", "pipelines.weave.works", "promotionapprovals")
	for _, tt := range []struct {
		name  string
		rules []authorizationv1.ResourceRule
		want  []string
	}{
		{name: "who may do everything is asked for approvals and about gates", rules: []authorizationv1.ResourceRule{everything}, want: []string{"apps/shop", "apps/payments", "apps/freeze"}},
		{name: "who may approve is asked for approvals", rules: []authorizationv1.ResourceRule{approves, creates}, want: []string{"apps/shop", "apps/payments"}},
		{name: "who may turn gates is asked about those that hold something", rules: []authorizationv1.ResourceRule{rule("patch", "gating.toolkit.fluxcd.io", "gates")}, want: []string{"apps/payments", "apps/freeze"}},
		{name: "half of the rights is not enough", rules: []authorizationv1.ResourceRule{approves}, want: []string{"apps/payments"}},
		{name: "failures are everyone's", want: []string{"apps/payments"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var names []string
			for _, need := range seen(t, snapshot, tt.rules...).Overview(view.Filter{}).Needs {
				names = append(names, need.Text)
			}
			NewWithT(t).Expect(names).To(Equal(tt.want))
		})
	}
}

func TestManyNeedsAreCounted(t *testing.T) {
	g := NewWithT(t)
	snapshot := &world.Snapshot{}
	for range 25 {
		snapshot.Pipelines = append(snapshot.Pipelines, app("payments", "Failed"))
	}
	shown := seen(t, snapshot).Overview(view.Filter{})
	g.Expect(shown.Needs).To(HaveLen(20))
	g.Expect(shown.MoreNeeds).To(Equal(5))
}

func TestCompare(t *testing.T) {
	const commits = "cccccccccccccccccccccccccccccccccccccccc"
	from := strings.Repeat("b", 40)
	for _, tt := range []struct {
		name string
		// urls are those of the GitRepositories that have published the revision.
		urls []string
		host *pipelinesv1.PullRequestPromotion
		want string
	}{
		{name: "GitHub", urls: []string{"https://github.com/acme/app"}, want: "https://github.com/acme/app/compare/" + from + "..." + commits},
		{name: "by SSH, and with a suffix", urls: []string{"ssh://git@github.com:22/acme/app.git"}, want: "https://github.com/acme/app/compare/" + from + "..." + commits},
		{name: "without the credentials of the address", urls: []string{"https://user:secret@github.com/acme/app"}, want: "https://github.com/acme/app/compare/" + from + "..." + commits},
		{name: "GitLab", urls: []string{"https://gitlab.com/acme/team/app"}, want: "https://gitlab.com/acme/team/app/-/compare/" + from + "..." + commits},
		{name: "Azure DevOps", urls: []string{"https://dev.azure.com/acme/x/_git/app"}, want: "https://dev.azure.com/acme/x/_git/app/branchCompare?baseVersion=GC" + from + "&targetVersion=GC" + commits},
		{
			name: "a host that promotions use", urls: []string{"https://git.acme.example/team/app"},
			host: &pipelinesv1.PullRequestPromotion{Type: pipelinesv1.Gitea, URL: "https://git.acme.example/team/fleet"},
			want: "https://git.acme.example/team/app/compare/" + from + "..." + commits,
		},
		{name: "a host that is not known", urls: []string{"https://git.acme.example/team/app"}},
		{name: "two repositories with the same commit", urls: []string{"https://github.com/acme/app", "https://github.com/fork/app"}},
		{name: "two sources of one repository", urls: []string{"https://github.com/acme/app", "https://github.com/acme/app"}, want: "https://github.com/acme/app/compare/" + from + "..." + commits},
		{name: "an address that is no web page's", urls: []string{"javascript://github.com/acme/app"}},
		{name: "no source"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			snapshot, pipeline := &world.Snapshot{}, app("shop", "Waiting")
			for _, address := range tt.urls {
				found := source.Source{TypeMeta: metav1.TypeMeta{Kind: gatingv1.GitRepositoryKind}}
				found.Spec.URL, found.Status.Artifact.Revision = address, "main@sha1:"+commits
				snapshot.Sources = append(snapshot.Sources, found)
			}
			if tt.host != nil {
				pipeline.Spec.Promotion.Strategy.PullRequest = tt.host
			}
			shown := seen(t, snapshot).Pipeline(pipeline)
			g.Expect(shown.Environments[0].Compare).To(BeNil(), "dev runs the revision")
			if tt.want == "" {
				g.Expect(shown.Environments[1].Compare).To(BeNil())
				return
			}
			g.Expect(shown.Environments[1].Compare).To(Equal(&view.Link{Text: "v1.2.2@sha1:bbbbbbbb → v1.2.3@sha1:cccccccc", Path: tt.want}))
		})
	}
}

func TestOnlyWebAddressesAreLinked(t *testing.T) {
	for address, want := range map[string]string{
		"https://github.com/a/b/pull/7": "https://github.com/a/b/pull/7", "http://git.local/x": "http://git.local/x",
		"javascript:alert(1)": "", "data:text/html,x": "", "//evil.example": "", "https:relative": "", "ssh://git@host/x": "", "": "", "https://%zz": "",
	} {
		NewWithT(t).Expect(view.WebURL(address)).To(Equal(want), address)
	}
}

func TestGate(t *testing.T) {
	g := NewWithT(t)
	gate := &gatingv1.Gate{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "weekend"}}
	gate.Spec.ClosedDuring = []gatingv1.Window{{Name: "weekend", From: "0 15 * * 5", To: "0 7 * * 1", TimeZone: "Europe/Berlin"}}
	pipeline := app("shop", "Waiting")
	pipeline.Spec.Promotion.Gates = &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"weekend"}}
	pipeline.Status.Environments["prod"].Promotion = &pipelinesv1.PromotionRecord{Revision: current, Preconditions: []pipelinesv1.PreconditionStatus{
		{Type: pipelinesv1.GatesPrecondition, Message: "gate weekend is closed"},
	}}
	idle := app("idle", "Current")
	idle.Spec.Promotion.Gates = pipeline.Spec.Promotion.Gates
	held := source.Source{TypeMeta: metav1.TypeMeta{Kind: gatingv1.GitRepositoryKind}, ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "shop"}}
	held.Spec.Gates = pipeline.Spec.Promotion.Gates

	shown := seen(t, &world.Snapshot{Pipelines: []*pipelinesv1.Pipeline{idle, pipeline}, Sources: []source.Source{held}}).Gate(gate)
	g.Expect(shown.Referrers).To(HaveLen(3))
	g.Expect(shown.Referrers[0]).To(And(HaveField("Text", "Pipeline/apps/shop: prod"), HaveField("Held", true), HaveField("Detail", "v1.2.3@sha1:cccccccc waits: gate weekend is closed")))
	g.Expect(shown.Held()).To(Equal(1))
	g.Expect(shown.Waiting()).To(Equal([]string{current}))
	g.Expect(shown.Changes).To(HaveLen(5))
	g.Expect(shown.Changes[0]).To(Equal("Fri 2026-05-08 13:00 UTC, 15:00 in Europe/Berlin: closes by window weekend"))

	g.Expect(shown.Calendar.Month).To(Equal("May 2026"))
	g.Expect(shown.Calendar.Zone).To(Equal("Europe/Berlin"))
	g.Expect(shown.Calendar.Days).To(HaveLen(31))
	friday, monday := shown.Calendar.Days[7], shown.Calendar.Days[3]
	g.Expect(friday.Text).To(Equal("closes 15:00"))
	g.Expect(friday.Hours[14]).To(BeEquivalentTo("open"))
	g.Expect(friday.Hours[15]).To(BeEquivalentTo("closed"))
	g.Expect(monday.Today).To(BeTrue())
	g.Expect(monday.Text).To(Equal("opens 07:00"))
	g.Expect(monday.Hours).To(And(HaveLen(24), HaveEach(Not(BeEmpty()))))
}

func TestHoursThatTheClocksSkipAreLeftOut(t *testing.T) {
	g := NewWithT(t)
	gate := &gatingv1.Gate{}
	gate.Spec.ClosedDuring = []gatingv1.Window{{Name: "night", From: "30 1 * * *", To: "30 4 * * *", TimeZone: "Europe/Berlin"}}
	now = time.Date(2026, 3, 20, 12, 0, 0, 0, time.UTC)
	defer func() { now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }()
	day := seen(t, &world.Snapshot{}).Gate(gate).Calendar.Days[28]
	g.Expect(day.Name).To(Equal("Sun 29"))
	g.Expect(day.Hours[:6]).To(HaveExactElements(
		BeEquivalentTo("open"), BeEquivalentTo("mixed"), BeEquivalentTo("skipped"), BeEquivalentTo("closed"), BeEquivalentTo("mixed"), BeEquivalentTo("open")))
}

func TestGatesThatCanNotBeSeenAreNamed(t *testing.T) {
	g := NewWithT(t)
	pipeline := app("shop", "Waiting")
	pipeline.Spec.Promotion.Gates = &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"freeze", "platform/sign-off"}}
	gate := &gatingv1.Gate{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "freeze"}}
	shown := seen(t, &world.Snapshot{Gates: []*gatingv1.Gate{gate}}).Pipeline(pipeline)
	g.Expect(shown.Environments[1].Gates).To(Equal([]view.Link{
		{Text: "freeze: open", Path: "/gates/apps/freeze"}, {Text: "platform/sign-off: missing, or you may not list it"},
	}))
}

func TestYAMLHasNoManagedFields(t *testing.T) {
	g := NewWithT(t)
	pipeline := app("shop", "Waiting")
	pipeline.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "flux"}}
	shown := seen(t, &world.Snapshot{}).Pipeline(pipeline)
	g.Expect(shown.YAML).To(And(ContainSubstring("kind: Pipeline\n"), ContainSubstring("name: shop\n"), Not(ContainSubstring("managedFields"))))
	g.Expect(pipeline.ManagedFields).To(HaveLen(1), "the object is shared")
}
