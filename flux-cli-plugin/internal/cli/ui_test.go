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
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/uitest"
)

// runUI runs the command with a browser, until the test ends.
func runUI(t *testing.T, kube client.WithWatch, browser func(address string) error, command ...string) {
	t.Helper()
	program := newProgram(command[0], "", outside{
		dial:       func(*cobra.Command, *clusterFlags) (client.WithWatch, error) { return kube, nil },
		isTerminal: func(any) bool { return false }, now: time.Now, openBrowser: browser,
	})
	program.SetArgs(command[1:])
	program.SetErr(io.Discard)
	program.SetOut(io.Discard)
	ended := make(chan error, 1)
	go func() { ended <- program.ExecuteContext(t.Context()) }()
	t.Cleanup(func() { NewWithT(t).Expect(<-ended).To(Succeed()) })
}

func TestUIOpensThePageInTheBrowser(t *testing.T) {
	for _, command := range [][]string{{"flux-pipeline", "ui"}, {"flux-sluice", "ui"}} {
		t.Run(strings.Join(command, " "), func(t *testing.T) {
			g := NewWithT(t)
			opened := make(chan string, 1)
			runUI(t, uitest.New(t, promoted()), func(address string) error { opened <- address; return nil }, command...)
			var address string
			g.Eventually(opened, 20*time.Second).Should(Receive(&address))
			jar, err := cookiejar.New(nil)
			g.Expect(err).NotTo(HaveOccurred())
			browser := &http.Client{Jar: jar}
			answer, err := browser.Get(address)
			g.Expect(err).NotTo(HaveOccurred())
			defer answer.Body.Close()
			content, err := io.ReadAll(answer.Body)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(answer.Request.URL.RawQuery).To(BeEmpty())
			g.Expect(string(content)).To(ContainSubstring(`href="/pipelines/flux-system/app"`))
		})
	}
}

func TestUIEndsWithItsContext(t *testing.T) {
	g := NewWithT(t)
	ctx, stop := context.WithCancel(t.Context())
	kube := uitest.New(t)
	program := newProgram("flux-pipeline", "", outside{
		dial: func(*cobra.Command, *clusterFlags) (client.WithWatch, error) { return kube, nil },
		now:  time.Now, openBrowser: func(string) error { stop(); return errors.New("no browser") },
	})
	program.SetArgs([]string{"ui"})
	var stderr strings.Builder
	program.SetErr(&stderr)
	program.SetOut(io.Discard)
	g.Expect(program.ExecuteContext(ctx)).To(Succeed())
	g.Expect(stderr.String()).To(ContainSubstring("the browser did not start (no browser): open the address yourself"))
}

func TestUIWithoutABrowserPrintsTheAddress(t *testing.T) {
	g := NewWithT(t)
	kube := uitest.New(t)
	out, in := io.Pipe()
	program := newProgram("flux-pipeline", "", outside{
		dial: func(*cobra.Command, *clusterFlags) (client.WithWatch, error) { return kube, nil },
		now:  time.Now, openBrowser: func(string) error { panic("a browser is opened") },
	})
	program.SetArgs([]string{"ui", "--no-browser"})
	program.SetErr(io.Discard)
	program.SetOut(in)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- program.ExecuteContext(ctx) }()
	line := make([]byte, 200)
	n, err := out.Read(line)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(line[:n])).To(MatchRegexp(`^http://127\.0\.0\.1:\d+/\?token=[A-Z0-9]{26}\n$`))
	stop()
	g.Eventually(ended, 10*time.Second).Should(Receive(BeNil()))
}

func TestUIRefusesWhatItCanNotServe(t *testing.T) {
	testCommands(t, []commandTest{
		{name: "a port that does not exist", command: "flux-pipeline ui --port 70000", wantErr: "--port must be between 0 and 65535"},
	})
}
