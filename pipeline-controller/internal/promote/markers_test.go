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
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluice-toolkit/sluice/api/marker"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hostnet"
	"github.com/sluice-toolkit/sluice/tests/githost"
)

const (
	markedFile = "tag: v1.0.0 # {\"$promotion\": \"flux-system:app:prod\"}\n"
	setFile    = "tag: v1.1.0 # {\"$promotion\": \"flux-system:app:prod\"}\n"
	// template is a Helm template, which is not YAML.
	template = "{{- if .Values.enabled }}\n" + markedFile + "{{- end }}\n"
)

// onLoopback is where the tests' hosts are.
var onLoopback = hostnet.Network{AllowLoopback: true}

// startHost returns a Git host with the repository acme/fleet, and how it is reached.
func startHost(tb testing.TB, files map[string]string) (*githost.Server, git.Remote) {
	tb.Helper()
	g := NewWithT(tb)
	host, err := githost.New()
	g.Expect(err).NotTo(HaveOccurred())
	tb.Cleanup(func() { g.Expect(host.Close()).To(Succeed()) })
	host.AddToken(githost.Token{Value: "secret", Login: "sluice"})
	g.Expect(host.AddRepository("acme", "fleet")).To(Succeed())
	_, err = host.CommitFiles("acme", "fleet", "main", files, "Begin")
	g.Expect(err).NotTo(HaveOccurred())
	return host, git.Remote{
		URL: host.RepositoryURL("acme", "fleet"), Credentials: git.Credentials{Username: "sluice", Password: "secret"}, CABundle: host.CA(),
		Network: onLoopback,
	}
}

// changesOf returns what a promotion would change at a path.
func changesOf(t *testing.T, remote git.Remote, below string) (map[string]edit, error) {
	t.Helper()
	g := NewWithT(t)
	clones, err := git.NewClones(t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())
	checkout, err := clones.Checkout(t.Context(), remote, "main")
	g.Expect(err).NotTo(HaveOccurred())
	defer checkout.Close()
	promotion := Promotion{
		Pipeline: types.NamespacedName{Namespace: "flux-system", Name: "app"}, Environment: "prod", Revision: "v1.1.0",
		Strategy: pipelinesv1.Strategy{PullRequest: &pipelinesv1.PullRequestPromotion{BaseBranch: "main", Path: below}},
	}
	files, err := findMarked(t.Context(), checkout, promotion.below(), promotion.key())
	if errors.Is(err, git.ErrPathNotFound) {
		return nil, promotion.noPath()
	}
	if err != nil {
		return nil, err
	}
	return setMarkers(files, promotion)
}

func TestSetMarkers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		path  string
		want  map[string]string
		err   string
	}{
		{
			name: "a path keeps copies apart", path: "./apps/prod",
			files: map[string]string{"apps/prod/app.yaml": markedFile, "apps/prod/deep/app.yaml": markedFile, "apps/prod.yaml": markedFile, "apps/production/app.yaml": markedFile, "copy/apps/prod/app.yaml": markedFile},
			want:  map[string]string{"apps/prod/app.yaml": setFile, "apps/prod/deep/app.yaml": setFile},
		},
		{
			name: "a path without ./ and with a slash at its end is the same", path: "apps/prod/",
			files: map[string]string{"apps/prod/app.yaml": markedFile, "copy/app.yaml": markedFile},
			want:  map[string]string{"apps/prod/app.yaml": setFile},
		},
		{
			name: "a path can be that of a file", path: "apps/prod.yaml",
			files: map[string]string{"apps/prod.yaml": markedFile, "apps/other.yaml": markedFile, "apps/prod.yaml.yaml": markedFile},
			want:  map[string]string{"apps/prod.yaml": setFile},
		},
		{
			name: "the root is the whole repository", path: "./",
			files: map[string]string{"a.yaml": markedFile, "apps/b.yaml": markedFile},
			want:  map[string]string{"a.yaml": setFile, "apps/b.yaml": setFile},
		},
		{
			name: "what is wrong elsewhere is no matter", path: "apps",
			files: map[string]string{
				"apps/app.yaml": markedFile, "large.yaml": strings.Repeat("# \n", git.MaxFile/3+1), "wrong.yaml": "image: {} # {\"$promotion\": \"flux-system:app:prod\"}\n",
			},
			want: map[string]string{"apps/app.yaml": setFile},
		},
		{
			name: "a path without a marker is named", path: "./apps", files: map[string]string{"apps/app.yaml": "tag: v1\n", "copy/app.yaml": markedFile},
			err: `no field is marked for this promotion on branch main in ./apps: add the comment # {"$promotion": "flux-system:app:prod"}`,
		},
		{
			name: "a path that is not there is named, with what to write", path: "./app/prod", files: map[string]string{"apps/prod/app.yaml": markedFile},
			err: "branch main has no directory or file ./app/prod: correct the strategy's path, which begins at the root of the repository, as ./apps/prod does",
		},
		{
			name: "so is one that continues below a file", path: "apps/app.yaml/prod", files: map[string]string{"apps/app.yaml": markedFile},
			err: "branch main has no directory or file apps/app.yaml/prod",
		},
		{
			name: "all files with the marker are changed, and only they",
			files: map[string]string{
				"apps/prod/app.yaml": markedFile, "deep/down/below/app.yml": markedFile, "apps/dev.yaml": strings.ReplaceAll(markedFile, "prod", "dev"), "other.yaml": "tag: v1.0.0\n",
			},
			want: map[string]string{"apps/prod/app.yaml": setFile, "deep/down/below/app.yml": setFile},
		},
		{
			name:  "a file that already has the revision is not written",
			files: map[string]string{"a.yaml": markedFile, "b.yaml": setFile},
			want:  map[string]string{"a.yaml": setFile},
		},
		{
			name:  "nothing changes where all files hold the revision",
			files: map[string]string{"b.yaml": setFile},
		},
		{
			name:  "a Helm template and a broken file are left alone beside good ones",
			files: map[string]string{"a.yaml": "a: [ " + markedFile, "chart/templates/app.yaml": template, "z.yaml": markedFile},
			want:  map[string]string{"z.yaml": setFile},
		},
		{
			name:  "a Helm template that alone has the marker is named",
			files: map[string]string{"chart/templates/app.yaml": template},
			err:   "chart/templates/app.yaml:2: the marker is in a file that is not parsable as YAML",
		},
		{
			name:  "a file without the name of a YAML file is not read",
			files: map[string]string{"README.md": markedFile, "app.yaml.tpl": markedFile, "yaml": markedFile},
			err:   `no field is marked for this promotion on branch main: add the comment # {"$promotion": "flux-system:app:prod"}`,
		},
		{
			name:  "a file of the largest size is changed",
			files: map[string]string{"a.yaml": markedFile + strings.Repeat("#", marker.MaxSize-len(markedFile))},
			want:  map[string]string{"a.yaml": setFile + strings.Repeat("#", marker.MaxSize-len(markedFile))},
		},
		{
			name:  "a larger file that is marked stops all, and is named with the limit",
			files: map[string]string{"a.yaml": markedFile, "large.yaml": strings.Repeat("#\n", marker.MaxSize/2) + markedFile},
			err:   "large.yaml:4194305: the file has a marker and 8388661 bytes, more than the limit of 8388608: split the file",
		},
		{
			name:  "a larger file whose marker has an escape is refused too",
			files: map[string]string{"a.yaml": markedFile, "large.yml": strings.Repeat("#\n", marker.MaxSize/2) + strings.ReplaceAll(markedFile, "app", "\\u0061pp")},
			err:   "large.yml:4194305: the file has a marker and 8388666 bytes",
		},
		{
			name: "a larger file without a marker, or that is marked for another environment, is left alone",
			files: map[string]string{
				"a.yaml": markedFile, "large.yaml": strings.Repeat("a: b\n", marker.MaxSize/4),
				"dev.yaml": strings.Repeat("a: \"\\n\"\n", marker.MaxSize/4) + strings.ReplaceAll(markedFile, "prod", "prod-eu"),
			},
			want: map[string]string{"a.yaml": setFile},
		},
		{
			name:  "a file that takes too much memory is named with the limit",
			files: map[string]string{"a.yaml": markedFile, "list.yaml": markedFile + "list:\n" + strings.Repeat("-\n", marker.MaxSize/4)},
			err:   "list.yaml:1: setting its markers may take 568 MiB of memory, more than the limit of 320 MiB: split the file",
		},
		{
			name: "more files than can be changed at once are refused",
			files: map[string]string{
				"a.yaml": markedFile + strings.Repeat("#", marker.MaxSize-len(markedFile)), "b.yaml": markedFile + strings.Repeat("#", marker.MaxSize-len(markedFile)),
				"c.yaml": markedFile,
			},
			err: "the files with markers for flux-system:app:prod, c.yaml among them, have 16777269 bytes, more than the limit of 16777216",
		},
		{
			name:  "one marker that is refused stops all, and is named",
			files: map[string]string{"a.yaml": markedFile, "z.yaml": "a: b\nimage: {} # {\"$promotion\": \"flux-system:app:prod\"}\n"},
			err:   "z.yaml:2: the marked field is a mapping or a list",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			_, remote := startHost(t, tt.files)
			changes, err := changesOf(t, remote, tt.path)
			if tt.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tt.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			got := map[string]string{}
			for name, content := range changes {
				got[name] = string(content.content)
			}
			g.Expect(got).To(HaveLen(len(tt.want)))
			for name, content := range tt.want {
				g.Expect(got).To(HaveKeyWithValue(name, content))
			}
		})
	}
}

func TestSetMarkersFollowsNoLinks(t *testing.T) {
	g := NewWithT(t)
	outside := filepath.Join(t.TempDir(), "outside.yaml")
	g.Expect(os.WriteFile(outside, []byte(markedFile), 0o600)).To(Succeed())
	host, remote := startHost(t, map[string]string{"apps/app.yaml": markedFile})
	dir, err := host.RepositoryDir("acme", "fleet")
	g.Expect(err).NotTo(HaveOccurred())
	add := exec.CommandContext(t.Context(), "git", "-C", dir, "fast-import", "--quiet")
	add.Stdin = strings.NewReader("commit refs/heads/main\ncommitter A <a@example.com> 1767225600 +0000\ndata 5\nLinks\nfrom refs/heads/main^0\n" +
		link("outside.yaml", outside) + link("again.yaml", "apps/app.yaml") + link("all", ".."))
	out, err := add.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))

	changes, err := changesOf(t, remote, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(changes).To(And(HaveLen(1), HaveKey("apps/app.yaml")))
	for _, below := range []string{"outside.yaml", "again.yaml", "all", "all/apps"} {
		_, err := changesOf(t, remote, below)
		g.Expect(err).To(MatchError(HavePrefix("branch main has no directory or file " + below + ": ")))
	}
	g.Expect(os.ReadFile(outside)).To(BeEquivalentTo(markedFile))
}

// link adds a symbolic link to what git fast-import reads.
func link(name, to string) string {
	return fmt.Sprintf("M 120000 inline %s\ndata %d\n%s\n", name, len(to), to)
}
