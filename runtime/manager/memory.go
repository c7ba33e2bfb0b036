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

package manager

import (
	"github.com/KimMachineGun/automemlimit/memlimit"
	ctrl "sigs.k8s.io/controller-runtime"
)

// memoryShare is the share of the container's memory limit at which the garbage collector works harder. The rest is for
// memory that Go's runtime does not count, such as the program itself.
const memoryShare = 0.9

// limitMemory derives Go's memory limit from the container's, unless GOMEMLIMIT is set.
func limitMemory() {
	limit, err := memlimit.SetGoMemLimitWithOpts(memlimit.WithRatio(memoryShare))
	if err != nil {
		ctrl.Log.WithName("setup").Info("could not set Go's memory limit from the container's", "reason", err.Error())
		return
	}
	if limit > 0 {
		ctrl.Log.WithName("setup").Info("set Go's memory limit from the container's", "bytes", limit)
	}
}
