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
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDescribeLoss(t *testing.T) {
	const rest = " was lost by source-controller; it is being restored until 2026-11-25T12:05:00Z"
	for _, tt := range []struct {
		name   string
		status metav1.ConditionStatus
		lost   string
		want   string
	}{
		{"a commit is shortened, and the digest of its files left out", metav1.ConditionTrue, fix + "@sha256:" + strings.Repeat("c", 64),
			"drift is not corrected: main@sha1:aaaaaaaa" + rest},
		{"the version of a chart stays", metav1.ConditionTrue, "1.2.3@sha256:abc", "drift is not corrected: 1.2.3" + rest},
		{"what is not lost is not described", metav1.ConditionFalse, fix, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(DescribeLoss([]metav1.Condition{{Type: ArtifactLostCondition, Status: tt.status, Message: tt.lost + rest}})).To(Equal(tt.want))
		})
	}
	NewWithT(t).Expect(DescribeLoss(nil)).To(BeEmpty())
}
