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
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// mergeMessage is the message of the merge commit that a client requests. If it is empty, it is GitHub's default.
type mergeMessage struct{ title, body string }

var (
	errConflict     = errors.New("head and base conflict")
	errCannotRebase = errors.New("the head holds merges or conflicts")
)

func isPullMerged(r *request) (*reply, error) {
	pull, err := r.pull()
	if err != nil {
		return nil, err
	}
	if !pull.Merged {
		return nil, errNotFound()
	}
	return noContent()
}

func mergePull(r *request) (*reply, error) {
	pull, err := r.pull()
	if err != nil {
		return nil, err
	}
	var wanted struct {
		SHA           string
		CommitTitle   string `json:"commit_title"`
		CommitMessage string `json:"commit_message"`
		MergeMethod   string `json:"merge_method"`
	}
	if r.ContentLength != 0 {
		if err := r.decode(&wanted); err != nil {
			return nil, err
		}
	}
	if pull.State == open && wanted.SHA != "" && wanted.SHA != pull.HeadSHA {
		return nil, &apiError{
			status: http.StatusConflict, Message: "Head branch was modified. Review and try the merge again.",
		}
	}
	message := mergeMessage{title: wanted.CommitTitle, body: wanted.CommitMessage}
	if err := r.repo.merge(pull, cmp.Or(wanted.MergeMethod, "merge"), message, r.token.Login); err != nil {
		return nil, err
	}
	return ok(map[string]any{
		"sha": pull.MergeCommitSHA, "merged": true, "message": "Pull Request successfully merged",
	})
}

// merge merges the head into the base branch.
func (r *repository) merge(p *pullRequest, method string, message mergeMessage, by string) error {
	notAllowed := func(message string) error { return &apiError{status: http.StatusMethodNotAllowed, Message: message} }
	if p.State != open {
		return notAllowed("Pull Request is not mergeable")
	}
	if p.Draft {
		return notAllowed("Pull Request is still a draft")
	}
	commit, err := r.mergeCommit(p, method, message)
	switch {
	case errors.Is(err, errConflict):
		return notAllowed("Pull Request is not mergeable")
	case errors.Is(err, errCannotRebase):
		return notAllowed("This branch can't be rebased")
	case err != nil:
		return err
	}
	if err := r.git.updateRef("refs/heads/"+p.Base, p.BaseSHA, commit); err != nil {
		return notAllowed("Base branch was modified. Review and try the merge again.")
	}
	p.markMerged(commit, by)
	return r.sync(by)
}

// mergeCommit creates the commit that the base moves to.
func (r *repository) mergeCommit(p *pullRequest, method string, message mergeMessage) (string, error) {
	switch method {
	case "merge":
		message.title = cmp.Or(message.title, fmt.Sprintf("Merge pull request #%d from %s/%s", p.Number, r.owner, p.Head))
		message.body = cmp.Or(message.body, p.Title)
		return r.mergedTree(p, []string{p.BaseSHA, p.HeadSHA}, message)
	case "squash":
		fallback, err := r.squashMessage(p)
		if err != nil {
			return "", err
		}
		message.title = cmp.Or(message.title, fallback.title)
		message.body = cmp.Or(message.body, fallback.body)
		return r.mergedTree(p, []string{p.BaseSHA}, message)
	case "rebase":
		return r.rebase(p)
	default:
		return "", errUnprocessable("Invalid request.\n\n%s is not a member of [\"merge\", \"squash\", \"rebase\"].", method)
	}
}

func (r *repository) mergedTree(p *pullRequest, parents []string, message mergeMessage) (string, error) {
	tree, clean, err := r.git.mergeTree(p.BaseSHA, p.HeadSHA)
	if err != nil {
		return "", err
	}
	if !clean {
		return "", errConflict
	}
	text := strings.TrimSpace(message.title+"\n\n"+message.body) + "\n"
	return r.git.commitTree(tree, parents, text, identityOf(p.Author), "")
}

// squashMessage is GitHub's default: the message of a single commit, or the title of the pull request and a list of
// messages.
func (r *repository) squashMessage(p *pullRequest) (mergeMessage, error) {
	commits, err := r.commits(p, "--no-merges")
	if err != nil {
		return mergeMessage{}, err
	}
	var messages []string
	for _, commit := range commits {
		message, err := r.git.run("log", "-1", "--format=%B", commit)
		if err != nil {
			return mergeMessage{}, err
		}
		messages = append(messages, strings.TrimSpace(message))
	}
	title, body := p.Title, ""
	if len(messages) == 1 {
		title, body, _ = strings.Cut(messages[0], "\n")
	} else {
		for _, message := range messages {
			body += "* " + message + "\n\n"
		}
	}
	return mergeMessage{title: fmt.Sprintf("%s (#%d)", title, p.Number), body: strings.TrimSpace(body)}, nil
}

// commits returns the commits of the head that the base lacks, oldest first.
func (r *repository) commits(p *pullRequest, filters ...string) ([]string, error) {
	args := append([]string{"rev-list", "--reverse", "--topo-order"}, filters...)
	output, err := r.git.run(append(args, p.BaseSHA+".."+p.HeadSHA)...)
	return strings.Fields(output), err
}

// rebase applies the head's commits on top of the base and returns the last one.
func (r *repository) rebase(p *pullRequest) (string, error) {
	merges, err := r.commits(p, "--merges")
	if err != nil {
		return "", err
	}
	if len(merges) > 0 {
		return "", errCannotRebase
	}
	commits, err := r.commits(p)
	if err != nil {
		return "", err
	}
	tip := p.BaseSHA
	for _, commit := range commits {
		if tip, err = r.cherryPick(commit, tip); err != nil {
			return "", err
		}
	}
	return tip, nil
}

func (r *repository) cherryPick(commit, onto string) (string, error) {
	// A commit with the tree of onto whose parent is that of the commit: to merge it with the commit is to apply what
	// the commit changed. (git merge-tree knows --merge-base only since 2.40.)
	standIn, err := r.git.commitTree(onto+"^{tree}", []string{commit + "^"}, "stand-in", webFlow, "")
	if err != nil {
		return "", err
	}
	tree, clean, err := r.git.mergeTree(standIn, commit)
	if err != nil {
		return "", err
	}
	if !clean {
		return "", errCannotRebase
	}
	written, err := r.git.run("log", "-1", "--format=%an%n%ae%n%ad%n%B", "--date=raw", commit)
	if err != nil {
		return "", err
	}
	fields := strings.SplitN(written, "\n", 4)
	author := identity{name: fields[0], email: fields[1]}
	return r.git.commitTree(tree, []string{onto}, strings.TrimSpace(fields[3])+"\n", author, fields[2])
}
