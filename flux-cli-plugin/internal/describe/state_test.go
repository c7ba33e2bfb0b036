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

package describe_test

import (
	"os"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
)

func TestEveryStateOfTheAPIHasAKind(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile("../../../api/pipelines/v1alpha1/pipeline_types.go")
	g.Expect(err).NotTo(HaveOccurred())
	states := regexp.MustCompile(`EnvironmentState = "(\w+)"`).FindAllStringSubmatch(string(content), -1)
	g.Expect(len(states)).To(BeNumerically(">=", 16))
	for _, state := range states {
		kind := describe.KindOf(pipelinesv1.EnvironmentState(state[1]))
		if state[1] != string(pipelinesv1.EnvironmentUnknown) {
			g.Expect(kind).NotTo(Equal(describe.UnknownKind), state[1])
		}
	}
}

func TestNoTwoKindsHaveTheSameSign(t *testing.T) {
	g := NewWithT(t)
	signs := map[string]describe.Kind{}
	for _, kind := range describe.Kinds {
		g.Expect(kind.Sign()).NotTo(BeEmpty(), string(kind))
		g.Expect(signs).NotTo(HaveKey(kind.Sign()))
		signs[kind.Sign()] = kind
	}
}

func TestState(t *testing.T) {
	for state, want := range map[pipelinesv1.EnvironmentState]string{
		pipelinesv1.EnvironmentCurrent: "current", pipelinesv1.EnvironmentPullRequestOpen: "pull request open", "": "unknown",
	} {
		NewWithT(t).Expect(describe.State(state)).To(Equal(want))
	}
	NewWithT(t).Expect(describe.RolledBack.Word()).To(Equal("rolled back"))
}
