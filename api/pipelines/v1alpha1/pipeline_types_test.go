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

package v1alpha1

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/gomega"
	"go.yaml.in/yaml/v3"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

func TestHasValidName(t *testing.T) {
	for _, tt := range []struct {
		name  string
		env   string
		valid bool
	}{
		{"lower case", "dev", true},
		{"upper case with dashes", "DEV-EU-1", true},
		{"a number", "1", true},
		{"dots, underscores and plus signs", "eu_1.a+b", true},
		{"a colon, as markers take it", "eu:west", true},
		{"letters of another script", "生产", true},
		{"a letter with a combining accent", "pre\u0301prod", true},
		{"the longest name", strings.Repeat("ü", 128), true},
		{"a longer name", strings.Repeat("ü", 129), false},
		{"no name", "", false},
		{"a sentence", "prod is broken", false},
		{"a slash, and with it a link", "https://example.com", false},
		{"a mention", "@everyone", false},
		{"a flag of a command", "-f", false},
		{"a new line at its end", "prod\n", false},
		{"an escape sequence", "prod\x1b[2J", false},
		{"a mark that reverses what follows", "prod\u202eabc", false},
		{"a space of no width", "prod\u200bx", false},
		{"Markdown", "[prod](x)", false},
		{"bytes that are no text", "prod\xff", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect((&Environment{Name: tt.env}).HasValidName()).To(Equal(tt.valid))
		})
	}
}

func TestHasValidPath(t *testing.T) {
	for _, tt := range []struct {
		name  string
		path  string
		valid bool
	}{
		{"no path, for the whole repository", "", true},
		{"the root", ".", true},
		{"the root, as Flux has it", "./", true},
		{"a directory", "apps/prod", true},
		{"a directory, as Flux has it", "./apps/prod", true},
		{"a directory with a slash at its end", "apps/prod/", true},
		{"a file", "apps/prod/app.yaml", true},
		{"names with dots", "./.apps/..prod/app..yaml/...", true},
		{"names with spaces and letters of other scripts", "apps/生产 eu", true},
		{"the longest path", strings.Repeat("ü", 255), true},
		{"a longer path", strings.Repeat("ü", 256), false},
		{"the root of a disk", "/", false},
		{"an absolute path", "/apps", false},
		{"the directory above", "..", false},
		{"a path to the directory above", "../apps", false},
		{"a way up and down", "apps/../prod", false},
		{"a way up at the end", "./apps/..", false},
		{"an empty name", "apps//prod", false},
		{"a name that is a dot", "apps/./prod", false},
		{"one at the end", "./apps/.", false},
		{"a new line", "apps\nprod", false},
		{"an escape sequence", "apps\x1b[2J", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect((&PullRequestPromotion{Path: tt.path}).HasValidPath()).To(Equal(tt.valid))
		})
	}
}

// schemaOf returns the schema of a part of a Pipeline's spec.
func schemaOf(t *testing.T, path ...string) map[string]any {
	t.Helper()
	g := NewWithT(t)
	content, err := os.ReadFile("../../../config/crd/bases/pipelines.weave.works_pipelines.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	var crd any
	g.Expect(yaml.Unmarshal(content, &crd)).To(Succeed())
	crd = crd.(map[string]any)["spec"].(map[string]any)["versions"].([]any)[0]
	for _, key := range append([]string{"schema", "openAPIV3Schema", "properties", "spec"}, path...) {
		crd = crd.(map[string]any)[key]
	}
	return crd.(map[string]any)
}

func TestTheSchemaAllowsTheSameNames(t *testing.T) {
	g := NewWithT(t)
	schema := schemaOf(t, "properties", "environments", "items", "properties", "name")
	g.Expect(schema).To(HaveKeyWithValue("maxLength", longestEnvironmentName))
	pattern := regexp.MustCompile(schema["pattern"].(string))
	for c := rune(0); c <= unicode.MaxRune; c++ {
		for _, name := range []string{string(c), "a" + string(c)} {
			if (&Environment{Name: name}).HasValidName() != pattern.MatchString(name) {
				t.Errorf("%q", name)
			}
		}
	}
}

func TestTheSchemaAllowsTheSamePaths(t *testing.T) {
	g := NewWithT(t)
	schema := schemaOf(t, "properties", "promotion", "properties", "strategy", "properties", "pull-request", "properties", "path")
	g.Expect(schema).To(HaveKeyWithValue("x-kubernetes-validations", ConsistOf(HaveKeyWithValue("rule", "!self.matches('"+invalidPath.String()+"')"))))
	g.Expect(schema).To(HaveKeyWithValue("maxLength", longestPath))
}

func TestPromotionInto(t *testing.T) {
	notify := Strategy{Notification: &NotificationPromotion{}}
	approved := Strategy{Notification: &NotificationPromotion{}, SecretRef: &meta.LocalObjectReference{Name: "hmac"}}
	gates := &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"freeze"}}
	for _, test := range []struct {
		name           string
		pipelines, own *Promotion
		want           *Promotion
	}{
		{"without any promotion there is none", nil, nil, nil},
		{"the Pipeline's is for environments that have none", &Promotion{Manual: true, Strategy: notify}, nil, &Promotion{Manual: true, Strategy: notify}},
		{"an environment's own replaces it", &Promotion{Manual: true, Strategy: approved}, &Promotion{Gates: gates, Strategy: notify}, &Promotion{Gates: gates, Strategy: notify}},
		{"one without a strategy has the Pipeline's, and nothing else of it", &Promotion{Manual: true, Strategy: approved}, &Promotion{Gates: gates}, &Promotion{Gates: gates, Strategy: approved}},
		{"a strategy is the Pipeline's as a whole, or not at all", &Promotion{Strategy: notify}, &Promotion{Strategy: Strategy{SecretRef: approved.SecretRef}}, &Promotion{Strategy: Strategy{SecretRef: approved.SecretRef}}},
		{"without a strategy anywhere there is none", nil, &Promotion{Gates: gates}, &Promotion{Gates: gates}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			pipeline := &Pipeline{Spec: PipelineSpec{Promotion: test.pipelines, Environments: []Environment{{Name: "prod", Promotion: test.own}}}}
			before := pipeline.DeepCopy()
			g.Expect(pipeline.PromotionInto(pipeline.Environment("prod"))).To(Equal(test.want))
			g.Expect(pipeline.PromotionInto(nil)).To(Equal(test.pipelines), "that of an environment that is no longer in the spec")
			g.Expect(pipeline).To(Equal(before), "nothing is written into the spec")
		})
	}
}

func TestNothingIsPromotedIntoTheFirstEnvironment(t *testing.T) {
	for _, test := range []struct {
		name string
		all  []string
		want []string
	}{
		{"a Pipeline without environments promotes into none", nil, nil},
		{"one environment is only where runs begin", []string{"dev"}, nil},
		{"revisions are promoted into all others", []string{"dev", "staging", "prod"}, []string{"staging", "prod"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pipeline := &Pipeline{}
			for _, name := range test.all {
				pipeline.Spec.Environments = append(pipeline.Spec.Environments, Environment{Name: name})
			}
			var got []string
			for env := range pipeline.PromotedEnvironments() {
				got = append(got, env.Name)
			}
			NewWithT(t).Expect(got).To(Equal(test.want))
		})
	}
}
