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

package localcluster

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestProcessesDieWithTheirParent(t *testing.T) {
	g := NewWithT(t)
	self, err := os.Executable()
	g.Expect(err).NotTo(HaveOccurred())
	command := exec.CommandContext(t.Context(), self, "--parent", t.TempDir())

	output, err := command.Output()
	g.Expect(err).To(MatchError("signal: killed"))

	child, err := strconv.Atoi(strings.TrimSpace(string(output)))
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() bool { return isRunning(child) }, eventually).Should(BeFalse())
}

// isRunning reports whether a process exists that has not ended: one whose parent does not wait for it stays as a
// zombie.
func isRunning(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, afterName, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(afterName, "Z")
}
