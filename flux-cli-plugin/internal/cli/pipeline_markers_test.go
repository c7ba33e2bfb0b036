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
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// checkout creates a directory with a symbolic link, a submodule and a .git directory.
func checkout(t *testing.T, files map[string]string) {
	t.Helper()
	g := NewWithT(t)
	outside := t.TempDir()
	t.Chdir(t.TempDir())
	write := func(name, content string) {
		g.Expect(os.MkdirAll(filepath.Dir(name), 0o700)).To(Succeed())
		g.Expect(os.WriteFile(name, []byte(content), 0o600)).To(Succeed())
	}
	const marked = "tag: v0 # {\"$promotion\": \"flux-system:app:nowhere\"}\n"
	write(filepath.Join(outside, "app.yaml"), marked)
	g.Expect(os.Symlink(outside, "linked")).To(Succeed())
	g.Expect(os.Symlink(filepath.Join(outside, "app.yaml"), "linked.yaml")).To(Succeed())
	write(".git/info/app.yaml", marked)
	write("submodule/.git", "gitdir: ../.git/modules/submodule\n")
	write("submodule/app.yaml", marked)
	write("template.yaml.tpl", marked)
	for name, content := range files {
		write(name, content)
	}
}

func TestPipelineMarkers(t *testing.T) {
	good := map[string]string{
		"apps/dev/app.yaml":  "spec:\n  tag: v1.0.0 # {\"$promotion\": \"flux-system:app:dev:tag\"}\n",
		"apps/prod/app.yml":  "spec:\n  # {\"$promotion\": \"flux-system:app:prod:tag\"}\n  tag: \"v1.0.0\"\n  commit: # {\"$promotion\": \"flux-system:app:prod:commit\"}\n",
		"apps/prod/shop.yml": "version: 1.9 # {\"$promotion\": \"team:shop:prod\"}\n",
	}
	bad := map[string]string{
		"a.yaml": "tag: v1 # {\"$promotion\": \"flux-system:app:prod:sha\"}\n",
		"b.yaml": "tag: v1 # {\"$promotion\": \"flux-system:app:prod\"}\n",
		"c.yaml": "{{ if .x }}\ntag: v1 # {\"$promotion\": \"flux-system:app:prod\"}\n",
		"d.yaml": "tag: v1 # {\"$promotion\": flux-system:app:prod}\n",
	}
	for _, tt := range []struct {
		name    string
		files   map[string]string
		command []string
		wantOut string
		wantErr string
		// wantLog is the expected standard error.
		wantLog string
	}{
		{
			name:    "all markers are listed, with what the fields hold",
			files:   good,
			command: []string{"flux-pipeline", "markers"},
			wantOut: `
MARKER                 PIPELINE          ENVIRONMENT   PART     VALUE    PROBLEM
apps/dev/app.yaml:2    flux-system/app   dev           tag      v1.0.0   -
apps/prod/app.yml:2    flux-system/app   prod          tag      v1.0.0   -
apps/prod/app.yml:4    flux-system/app   prod          commit   -        -
apps/prod/shop.yml:1   team/shop         prod          -        1.9      -
`,
		},
		{
			name:    "files are named as from where one is",
			files:   good,
			command: []string{"flux-pipeline", "markers", "./apps/dev/"},
			wantOut: `
MARKER                PIPELINE          ENVIRONMENT   PART   VALUE    PROBLEM
apps/dev/app.yaml:2   flux-system/app   dev           tag    v1.0.0   -
`,
		},
		{
			name:    "only those of a pipeline and an environment are listed on demand",
			files:   good,
			command: []string{"flux-pipeline", "markers", "--env", "prod", "--pipeline", "shop"},
			wantOut: `
MARKER                 PIPELINE    ENVIRONMENT   PART   VALUE   PROBLEM
apps/prod/shop.yml:1   team/shop   prod          -      1.9     -
`,
		},
		{
			name:    "only those of a namespace are listed on demand",
			files:   good,
			command: []string{"flux-pipeline", "-n", "team", "markers"},
			wantOut: `
MARKER                 PIPELINE    ENVIRONMENT   PART   VALUE   PROBLEM
apps/prod/shop.yml:1   team/shop   prod          -      1.9     -
`,
		},
		{
			name:    "what a link points to is read where the link is asked for",
			command: []string{"flux-pipeline", "markers", "linked"},
			wantOut: `
MARKER              PIPELINE          ENVIRONMENT   PART   VALUE   PROBLEM
linked/app.yaml:1   flux-system/app   nowhere       -      v0      -
`,
		},
		{
			name:    "it says if there are none",
			command: []string{"flux-pipeline", "markers"},
			wantLog: "✗ no markers found in .\n",
		},
		{
			name:    "errors are printed, and the command fails",
			files:   bad,
			command: []string{"flux-pipeline", "markers"},
			wantOut: `
MARKER     PIPELINE          ENVIRONMENT   PART   VALUE   PROBLEM
a.yaml:1   flux-system/app   prod          sha    -       the marker's part "sha" is unknown: use tag, digest or commit
b.yaml:1   flux-system/app   prod          -      v1      -
c.yaml:2   flux-system/app   prod          -      -       the marker is in a file that is not parsable as YAML: yaml: line 1: did not find expected <document start>
d.yaml:1   -                 -             -      -       the marker is not a JSON object: invalid character 'l' in literal false (expecting 'a')
`,
			wantErr: "invalid markers: 3 of 4",
		},
		{
			name:    "a file too large to be promoted into is reported, with its marker",
			files:   map[string]string{"large.yaml": strings.Repeat("#\n", 4<<20) + "tag: v1 # {\"$promotion\": \"flux-system:app:prod\"}\n"},
			command: []string{"flux-pipeline", "markers", "--pipeline", "app"},
			wantOut: `
MARKER               PIPELINE   ENVIRONMENT   PART   VALUE   PROBLEM
large.yaml:4194305   -          -             -      -       the file has a marker and 8388657 bytes, more than the limit of 8388608: split the file
`,
			wantErr: "invalid markers: 1 of 1",
		},
		{
			name:    "a file too large to be promoted into, without a selected marker, is not a problem",
			files:   map[string]string{"large.yaml": strings.Repeat("#\n", 4<<20) + "tag: v1 # {\"$promotion\": \"flux-system:app:prod\"}\n"},
			command: []string{"flux-pipeline", "markers", "--pipeline", "shop"},
			wantErr: "no markers of pipeline shop found in .",
		},
		{
			name:    "an environment without markers is an error, with those that have some",
			files:   good,
			command: []string{"flux-pipeline", "markers", "--env", "production", "--pipeline", "app"},
			wantErr: "no markers of environment production, pipeline app found in ., which has: dev, prod",
		},
		{
			name:    "it is also an error if no environment has any",
			files:   good,
			command: []string{"flux-pipeline", "markers", "--env", "prod", "-n", "nowhere"},
			wantErr: "no markers of environment prod, namespace nowhere found in .",
		},
		{
			name:    "a preview shows what would be written",
			files:   good,
			command: []string{"flux-pipeline", "markers", "--pipeline", "app", "--set", "v1.1.0@sha1:6fd5a1c1b2c3d4e5f60718293a4b5c6d7e8f9012"},
			wantOut: `
apps/dev/app.yaml:2: v1.0.0 → v1.1.0
apps/prod/app.yml:3: "v1.0.0" → "v1.1.0"
apps/prod/app.yml:4: → 6fd5a1c1b2c3d4e5f60718293a4b5c6d7e8f9012
`,
		},
		{
			name:    "a preview quotes what would be read as a number",
			files:   good,
			command: []string{"flux-pipeline", "markers", "--pipeline", "shop", "--set", "1.10"},
			wantOut: "\napps/prod/shop.yml:1: 1.9 → \"1.10\"\n",
		},
		{
			name:    "a preview says if nothing would change",
			files:   map[string]string{"a.yaml": bad["b.yaml"]},
			command: []string{"flux-pipeline", "markers", "--set", "v1"},
			wantLog: "✔ no value would change\n",
		},
		{
			name:    "a preview reports what is wrong with the revision, and fails",
			files:   good,
			command: []string{"flux-pipeline", "markers", "--env", "prod", "--set", "1.10"},
			wantOut: `
apps/prod/app.yml:3: "v1.0.0" → "1.10"
apps/prod/shop.yml:1: 1.9 → "1.10"
`,
			wantLog: "✗ apps/prod/app.yml:4: revision \"1.10\" has no commit\n",
			wantErr: "invalid markers: 1 of 3",
		},
		{
			name:    "a preview takes a revision",
			files:   good,
			command: []string{"flux-pipeline", "markers", "--set", ""},
			wantErr: "--set takes a revision",
		},
		{
			name:    "a file is read alone",
			files:   good,
			command: []string{"flux-pipeline", "markers", "./apps/prod/shop.yml"},
			wantOut: `
MARKER                 PIPELINE    ENVIRONMENT   PART   VALUE   PROBLEM
apps/prod/shop.yml:1   team/shop   prod          -      1.9     -
`,
		},
		{
			name:    "so is one to which a link leads, where that is asked for",
			command: []string{"flux-pipeline", "markers", "linked.yaml"},
			wantOut: `
MARKER          PIPELINE          ENVIRONMENT   PART   VALUE   PROBLEM
linked.yaml:1   flux-system/app   nowhere       -      v0      -
`,
		},
		{
			name:    "a file without the name of a YAML file has no markers",
			command: []string{"flux-pipeline", "markers", "template.yaml.tpl"},
			wantLog: "✗ no markers found in template.yaml.tpl\n",
		},
		{
			name:    "the error for a missing directory names it",
			command: []string{"flux-pipeline", "markers", "nowhere"},
			wantErr: "stat nowhere: no such file or directory",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			checkout(t, tt.files)
			stdout, stderr, err := cluster{unreachable: true}.run(t, tt.command...)
			if tt.wantErr == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tt.wantErr))
			}
			g.Expect(stdout).To(Equal(strings.TrimPrefix(tt.wantOut, "\n")))
			g.Expect(stderr).To(Equal(tt.wantLog))
			for name, content := range tt.files {
				g.Expect(os.ReadFile(name)).To(BeEquivalentTo(content), "nothing is written")
			}
		})
	}
}
