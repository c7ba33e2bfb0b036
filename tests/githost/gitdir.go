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

package githost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// gitTimeout limits a git command. Imports of the largest test repositories are much faster.
const gitTimeout = 5 * time.Minute

const noObject = "0000000000000000000000000000000000000000"

var fullSHA = regexp.MustCompile(`^[0-9a-f]{40}$`)

// isolatedGitEnv ignores the Git configuration of the machine and the user.
func isolatedGitEnv(home string) []string {
	return []string{
		"HOME=" + home,
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_TERMINAL_PROMPT=0",
		"LC_ALL=C",
	}
}

// gitDir is a bare repository that uses git's plumbing commands. It has no locks. Its users must serialize changes.
type gitDir struct {
	path    string
	gitPath string
	env     []string
}

// gitConfig allows the same as GitHub. A background garbage collection would outlive Close.
const gitConfig = `
[http]
	receivepack = true
[uploadpack]
	allowFilter = true
	allowAnySHA1InWant = true
[receive]
	hideRefs = refs/pull/
	autogc = false
[gc]
	auto = 0
`

func (g *gitDir) init() error {
	if err := os.MkdirAll(g.path, 0o700); err != nil {
		return err
	}
	if _, err := g.run("init", "--quiet", "--bare", "--template=", "--initial-branch="+defaultBranch); err != nil {
		return err
	}
	config, err := os.OpenFile(filepath.Join(g.path, "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = config.WriteString(gitConfig)
	return errors.Join(err, config.Close())
}

// run returns the output of a git command without the last newline.
func (g *gitDir) run(args ...string) (string, error) {
	return g.command(g.path, nil, nil, args...)
}

func (g *gitDir) command(dir string, env []string, input []byte, args ...string) (string, error) {
	stdout, err := g.output(dir, env, input, args...)
	return strings.TrimSuffix(string(stdout), "\n"), err
}

func (g *gitDir) output(dir string, env []string, input []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), gitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, g.gitPath, args...)
	cmd.Dir = dir
	cmd.Env = append(append([]string{}, g.env...), env...)
	cmd.Stdin = bytes.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// answersNo reports whether a git command returned the exit status for no, not an error.
func answersNo(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == 1
}

// refs returns the objects of the refs below the prefix, by name without the prefix.
func (g *gitDir) refs(prefix string) (map[string]string, error) {
	output, err := g.run("for-each-ref", "--format=%(objectname) %(refname)", prefix)
	if err != nil {
		return nil, err
	}
	refs := map[string]string{}
	for line := range strings.Lines(output) {
		sha, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		refs[strings.TrimPrefix(name, prefix)] = sha
	}
	return refs, nil
}

// updateRef moves a ref from one object to another. With noObject as from, it creates the ref. With noObject as to, it
// deletes it. It fails if the ref is not at from.
func (g *gitDir) updateRef(ref, from, to string) error {
	_, err := g.run("update-ref", "--no-deref", ref, to, from)
	return err
}

// commit returns the commit of a branch, tag, ref or full SHA, and false if there is none.
func (g *gitDir) commit(name string) (string, bool) {
	candidates := []string{"refs/heads/" + name, "refs/tags/" + name, "refs/" + name}
	if fullSHA.MatchString(name) || strings.HasPrefix(name, "refs/") {
		candidates = append(candidates, name)
	}
	for _, candidate := range candidates {
		if sha, err := g.run("rev-parse", "--verify", "--quiet", candidate+"^{commit}"); err == nil {
			return sha, true
		}
	}
	return "", false
}

// objectType returns the type of an object, by full SHA, and false if there is none.
func (g *gitDir) objectType(sha string) (string, bool) {
	if !fullSHA.MatchString(sha) {
		return "", false
	}
	kind, err := g.run("cat-file", "-t", sha)
	return kind, err == nil
}

// file returns the content of a file in a commit.
func (g *gitDir) file(commit, path string) ([]byte, error) {
	return g.output(g.path, nil, nil, "cat-file", "blob", commit+":"+path)
}

// contains reports whether the commit is in the history of another.
func (g *gitDir) contains(history, commit string) (bool, error) {
	_, err := g.run("merge-base", "--is-ancestor", commit, history)
	if answersNo(err) {
		return false, nil
	}
	return err == nil, err
}

func (g *gitDir) related(a, b string) (bool, error) {
	_, err := g.run("merge-base", a, b)
	if answersNo(err) {
		return false, nil
	}
	return err == nil, err
}

// identity is an author or committer.
type identity struct{ name, email string }

var webFlow = identity{name: "GitHub", email: "noreply@github.com"}

func identityOf(login string) identity {
	return identity{name: login, email: login + "@users.noreply.github.com"}
}

// commitTree creates a commit. authorDate has any format that git reads. If it is empty, the current time is used.
func (g *gitDir) commitTree(tree string, parents []string, message string, author identity, authorDate string) (string, error) {
	args := []string{"commit-tree", tree}
	for _, parent := range parents {
		args = append(args, "-p", parent)
	}
	env := []string{
		"GIT_AUTHOR_NAME=" + author.name, "GIT_AUTHOR_EMAIL=" + author.email,
		"GIT_COMMITTER_NAME=" + webFlow.name, "GIT_COMMITTER_EMAIL=" + webFlow.email,
	}
	if authorDate != "" {
		env = append(env, "GIT_AUTHOR_DATE="+authorDate)
	}
	return g.command(g.path, env, []byte(message), args...)
}

// mergeTree merges two commits and returns the tree; false if they conflict.
func (g *gitDir) mergeTree(ours, theirs string) (string, bool, error) {
	tree, err := g.run("merge-tree", "--write-tree", "--no-messages", ours, theirs)
	if answersNo(err) {
		return "", false, nil
	}
	return tree, err == nil, err
}

// importFiles adds a commit with changed or new files to a branch at parent. parent is empty for the first commit.
func (g *gitDir) importFiles(branch, parent string, files map[string]string, message string, author identity) error {
	var stream bytes.Buffer
	data := func(text string) { fmt.Fprintf(&stream, "data %d\n%s\n", len(text), text) }
	fmt.Fprintf(&stream, "commit refs/heads/%s\ncommitter %s <%s> now\n", branch, author.name, author.email)
	data(message)
	if parent != "" {
		fmt.Fprintf(&stream, "from %s\n", parent)
	}
	for path, content := range files {
		fmt.Fprintf(&stream, "M 100644 inline %s\n", quotePath(path))
		data(content)
	}
	stream.WriteString("done\n")
	_, err := g.command(g.path, nil, stream.Bytes(), "fast-import", "--quiet", "--done", "--date-format=now")
	return err
}

func quotePath(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}
