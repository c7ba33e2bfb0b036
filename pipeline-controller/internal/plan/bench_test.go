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

package plan_test

import (
	"testing"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
)

// BenchmarkNext plans for three environments without changes, which is the most frequent case.
func BenchmarkNext(b *testing.B) {
	for name, w := range map[string]plan.World{
		"arrived":            world("v1", "v1", "v1"),
		"waiting for a gate": with(world("v2", "v1", "v1"), gates("all", "freeze"), gate("freeze", true)),
	} {
		b.Run(name, func(b *testing.B) {
			w.Pipeline.Status = plan.Next(w).Status
			b.ReportAllocs()
			for b.Loop() {
				plan.Next(w)
			}
		})
	}
}
