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
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/sluice-toolkit/sluice/api/marker"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/scm"
)

// editRemote is set for a process that edits one repository several times at once, so its memory can be measured.
const editRemote = "SLUICE_TEST_EDIT_REMOTE"

func TestMain(m *testing.M) {
	if encoded := os.Getenv(editRemote); encoded != "" {
		if err := editAtOnce(context.Background(), encoded); err != nil {
			fmt.Println(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const editsAtOnce = 4

// editAtOnce returns what was wrong with any of the edits.
func editAtOnce(ctx context.Context, encoded string) error {
	var remote struct {
		URL string
		CA  []byte
	}
	if err := json.Unmarshal([]byte(encoded), &remote); err != nil {
		return err
	}
	pulls := NewPullRequests(fake.NewClientBuilder().Build(), scm.NewHosts(onLoopback), nil)
	checkouts := make([]*git.Checkout, editsAtOnce)
	for i := range checkouts {
		dir, err := os.MkdirTemp("", "")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		clones, err := git.NewClones(dir)
		if err != nil {
			return err
		}
		checkouts[i], err = clones.Checkout(ctx, git.Remote{
			URL: remote.URL, Credentials: git.Credentials{Username: "sluice", Password: "secret"}, CABundle: remote.CA, Network: onLoopback,
		}, "main")
		if err != nil {
			return err
		}
		defer checkouts[i].Close()
	}
	errs := make(chan error)
	for _, checkout := range checkouts {
		go func() {
			change, err := pulls.change(ctx, checkout, Promotion{
				Pipeline: types.NamespacedName{Namespace: "flux-system", Name: "app"}, Environment: "prod", Revision: "v1.1.0",
				Strategy: pipelinesv1.Strategy{PullRequest: &pipelinesv1.PullRequestPromotion{BaseBranch: "main"}},
			})
			if err == nil && change.isEmpty() {
				err = errors.New("nothing was changed")
			}
			change.release()
			errs <- err
		}()
	}
	var all error
	for range checkouts {
		all = errors.Join(all, <-errs)
	}
	return all
}

func TestMemoryOfPromotionsIsBounded(t *testing.T) {
	const mib = 1 << 20
	var honest strings.Builder
	for i := 0; honest.Len() < marker.MaxSize-mib; i++ {
		fmt.Fprintf(&honest, "service-%d:\n  # Built from the main branch.\n  image: registry.example.com/service-%[1]d:1.2.3\n  resources:\n    limits:\n      memory: 128Mi\n", i)
	}
	for _, tt := range []struct {
		name string
		file string
		err  string
	}{
		{name: "four files that people may write, as large as is allowed", file: markedFile + honest.String()},
		{name: "four lists of a MiB", file: markedFile + "list:\n" + strings.Repeat("-\n", mib/2)},
		{name: "four mappings of a MiB, of a value for each byte", file: markedFile + "map: {" + strings.Repeat("a,", mib/2) + "}\n"},
		{name: "four mappings of 8 MiB, of a value for each byte", file: markedFile + "map: {" + strings.Repeat("a,", 4*mib-50) + "}\n",
			err: "app.yaml:1: setting its markers may take 1999 MiB of memory, more than the limit of 320 MiB: split the file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			_, remote := startHost(t, map[string]string{"app.yaml": tt.file})
			encoded, err := json.Marshal(map[string]any{"URL": remote.URL, "CA": remote.CABundle})
			g.Expect(err).NotTo(HaveOccurred())
			child := exec.CommandContext(t.Context(), os.Args[0])
			child.Env = append(os.Environ(), editRemote+"="+string(encoded))
			var out bytes.Buffer
			child.Stdout, child.Stderr = &out, os.Stderr
			g.Expect(child.Run()).To(Succeed())
			if tt.err == "" {
				g.Expect(out.String()).To(BeEmpty())
			} else {
				g.Expect(strings.Count(out.String(), tt.err)).To(Equal(editsAtOnce), out.String())
			}
			peak := child.ProcessState.SysUsage().(*syscall.Rusage).Maxrss / 1024
			g.Expect(peak).To(BeNumerically("<", 640), "MiB")
		})
	}
}
