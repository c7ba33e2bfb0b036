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

package promote

import (
	"context"
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git"
)

func TestPromotionsOfLargeFilesTakeTurns(t *testing.T) {
	g := NewWithT(t)
	m := newMemory()
	first, err := m.take(t.Context(), maxMemory)
	g.Expect(err).NotTo(HaveOccurred())

	small, err := m.take(t.Context(), smallMemory)
	g.Expect(err).NotTo(HaveOccurred(), "an ordinary promotion waits for none")
	small.keep(0)

	ended, end := context.WithCancelCause(t.Context())
	end(errors.New("it has taken long enough"))
	_, err = m.take(ended, smallMemory+1)
	g.Expect(err).To(MatchError("it has taken long enough"))

	taken := make(chan *share)
	go func() {
		second, _ := m.take(t.Context(), maxMemory-10)
		taken <- second
	}()
	g.Expect(m.free.TryAcquire(1)).To(BeFalse(), "there is none left for it")
	first.keep(10)
	var second *share
	g.Eventually(taken).Should(Receive(&second))
	g.Expect(second).NotTo(BeNil())
	second.keep(0)
	second.keep(0)
	first.keep(0)
	g.Expect(m.free.TryAcquire(maxMemory)).To(BeTrue(), "all is given back")
}

func TestAFileThatIsTooLargeToBeSearched(t *testing.T) {
	large := strings.Repeat("# \n", git.MaxFile/3+1)
	t.Run("fails the promotion if it is YAML", func(t *testing.T) {
		g := NewWithT(t)
		_, remote := startHost(t, map[string]string{"app.yaml": markedFile, "large.yaml": large})
		_, err := changesOf(t, remote, "")
		g.Expect(err).To(MatchError(ContainSubstring("large.yaml: the file is larger than 33554432 bytes")))
	})
	t.Run("is left alone if it is not", func(t *testing.T) {
		g := NewWithT(t)
		_, remote := startHost(t, map[string]string{"app.yaml": markedFile, "large.bin": large})
		changes, err := changesOf(t, remote, "")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(changes).To(HaveKey("app.yaml"))
	})
}
