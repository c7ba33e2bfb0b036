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

package rights_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/rights"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/uitest"
)

func TestAllow(t *testing.T) {
	gates := schema.GroupResource{Group: "gating.toolkit.fluxcd.io", Resource: "gates"}
	rule := func(verbs, groups, resources, names []string) authorizationv1.ResourceRule {
		return authorizationv1.ResourceRule{Verbs: verbs, APIGroups: groups, Resources: resources, ResourceNames: names}
	}
	one, star := []string{"patch"}, []string{"*"}
	for _, tt := range []struct {
		name  string
		rules []authorizationv1.ResourceRule
		want  bool
	}{
		{name: "no rule allows nothing"},
		{name: "a rule for the verb and the kind allows", rules: []authorizationv1.ResourceRule{rule(one, []string{gates.Group}, []string{"gates"}, nil)}, want: true},
		{name: "stars allow", rules: []authorizationv1.ResourceRule{rule(star, star, star, nil)}, want: true},
		{name: "another verb does not", rules: []authorizationv1.ResourceRule{rule([]string{"get"}, star, star, nil)}},
		{name: "another group does not", rules: []authorizationv1.ResourceRule{rule(one, []string{"apps"}, star, nil)}},
		{name: "a subresource does not", rules: []authorizationv1.ResourceRule{rule(one, star, []string{"gates/status"}, nil)}},
		{name: "the name allows", rules: []authorizationv1.ResourceRule{rule(one, star, star, []string{"freeze"})}, want: true},
		{name: "another name does not", rules: []authorizationv1.ResourceRule{rule(one, star, star, []string{"other"})}},
		{name: "two halves do not make a rule", rules: []authorizationv1.ResourceRule{rule(one, []string{"apps"}, star, nil), rule([]string{"get"}, star, star, nil)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cluster := uitest.New(t)
			cluster.Grant(tt.rules...)
			NewWithT(t).Expect(rights.Of(cluster, time.Now).In(t.Context(), "apps").Allow("patch", gates, "freeze")).To(Equal(tt.want))
		})
	}
}

func TestRightsAreAskedForOnceAMinute(t *testing.T) {
	g := NewWithT(t)
	cluster, now := uitest.New(t), time.Now()
	asked := rights.Of(cluster, func() time.Time { return now })
	for range 3 {
		asked.In(t.Context(), "apps")
	}
	g.Expect(cluster.Reviews()).To(Equal(1))
	asked.In(t.Context(), "other")
	g.Expect(cluster.Reviews()).To(Equal(2))
	now = now.Add(time.Minute)
	asked.In(t.Context(), "apps")
	g.Expect(cluster.Reviews()).To(Equal(3))
	asked.Forget("apps")
	asked.In(t.Context(), "apps")
	g.Expect(cluster.Reviews()).To(Equal(4))
}

func TestTheLastKnownRightsStayWhileTheAPIServerIsAway(t *testing.T) {
	g := NewWithT(t)
	cluster, now := uitest.New(t), time.Now()
	asked := rights.Of(cluster, func() time.Time { return now })
	asked.In(t.Context(), "apps")
	cluster.Leave(true)
	now = now.Add(time.Minute)
	g.Expect(asked.In(t.Context(), "apps").Allow("patch", schema.GroupResource{Resource: "gates"}, "")).To(BeTrue())
	g.Expect(asked.In(t.Context(), "other").Unknown).To(Equal("asking for your rights in namespace other failed: connection refused"))
}
