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
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-toolkit/sluice/api/plaintext"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/scm"
)

const (
	pipelineTrailer    = "Sluice-Pipeline"
	environmentTrailer = "Sluice-Environment"
	revisionTrailer    = "Sluice-Revision"
	startedTrailer     = "Sluice-Started"

	// slugLength is the maximum length of an environment's name or a revision in the name of a branch.
	slugLength = 40
)

// branch returns the name of the promotion's branch. It is a function of the Pipeline's namespace and name, the
// environment and the revision, and unique for them: the words are for people, the hash makes the name unique.
func (p Promotion) branch() string {
	hash := sha256.New()
	for _, part := range []string{p.Pipeline.Namespace, p.Pipeline.Name, p.Environment, p.Revision} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return strings.Join([]string{
		"sluice", slug(p.Pipeline.Namespace), slug(p.Pipeline.Name), slug(p.Environment),
		slug(revision.Short(p.Revision)) + "-" + hex.EncodeToString(hash.Sum(nil)[:6]),
	}, "/")
}

// slug returns the part of text that is valid anywhere in a Git reference. It is never empty.
func slug(text string) string {
	kept := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		default:
			return '-'
		}
	}, text)
	if kept = strings.Trim(kept[:min(len(kept), slugLength)], "-"); kept == "" {
		return "x"
	}
	return kept
}

// title returns the title of the pull request. It is the same as in earlier implementations of this API.
func (p Promotion) title() string {
	return fmt.Sprintf("Promote %s in %s to %s", p.Pipeline, p.Environment, revision.Short(p.Revision))
}

// trailers identify the promotion of a commit or a pull request for programs.
func (p Promotion) trailers() string {
	var text strings.Builder
	for _, trailer := range [][2]string{
		{pipelineTrailer, p.Pipeline.String()},
		{environmentTrailer, p.Environment},
		{revisionTrailer, p.Revision},
		{startedTrailer, p.Started.UTC().Format(time.RFC3339)},
	} {
		fmt.Fprintf(&text, "%s: %s\n", trailer[0], trailer[1])
	}
	return text.String()
}

// made reports whether a pull request with this body was made for this promotion, and not for an earlier one of the
// same revision into the same environment.
func (p Promotion) made(body string) bool {
	// Hosts and browsers change line endings, and remove the last one.
	return strings.Contains(strings.ReplaceAll(body, "\r\n", "\n"), strings.TrimSpace(p.trailers()))
}

func (p Promotion) commitMessage() string {
	author := p.author()
	return fmt.Sprintf("%s\n\n%sSigned-off-by: %s <%s>\n", p.title(), p.trailers(), author.Name, author.Email)
}

// author returns the author of the promotion's commit.
func (p Promotion) author() git.Author {
	commit := p.Strategy.PullRequest.Commit
	if commit == nil || commit.Author == nil {
		return defaultAuthor
	}
	author := git.Author{Name: commit.Author.Name, Email: commit.Author.Email}
	if author.Name == "" {
		author.Name = defaultAuthor.Name
	}
	return author
}

// body returns the description of the pull request. It is cut to a length that all hosts accept.
func (p Promotion) body() string {
	body := p.describe(len(p.Checked))
	for shown := len(p.Checked) - 1; shown >= 0 && utf8.RuneCountInString(body) > scm.MaxBody; shown-- {
		body = p.describe(shown)
	}
	return body
}

// describe includes at most that many preconditions.
func (p Promotion) describe(preconditions int) string {
	return fmt.Sprintf(`This pull request promotes an application into its next environment.

| | |
|---|---|
| Pipeline | %s |
| Environment | %s |
| From | %s |
| To | %s |

%s
Merging it promotes. Closing it abandons this promotion; the next revision gets a pull request of its own.
The commit status %s shows whether the promotion's preconditions are met now.

%s`, code(p.Pipeline.String()), code(p.Environment), p.from(), code(p.Revision), p.checked(preconditions), code(scm.StatusContext), "```text\n"+p.trailers()+"```\n")
}

// from lists the revisions that the environment runs.
func (p Promotion) from() string {
	if len(p.Running) == 0 {
		return "nothing yet"
	}
	return code(cut(strings.Join(p.Running, ", ")))
}

// checked lists at most that many preconditions, and the pull request that this one replaces.
func (p Promotion) checked(preconditions int) string {
	var lines strings.Builder
	for _, precondition := range p.Checked[:preconditions] {
		fmt.Fprintf(&lines, "- %s: %s\n", text(precondition.Type), text(cut(precondition.Message)))
	}
	if left := len(p.Checked) - preconditions; left > 0 {
		fmt.Fprintf(&lines, "- and %d more\n", left)
	}
	if p.Supersedes != nil {
		fmt.Fprintf(&lines, "- Supersedes %s\n", p.Supersedes.URL)
	}
	if lines.Len() == 0 {
		return "It had no preconditions.\n"
	}
	return "Checked before it was opened:\n\n" + lines.String()
}

// cut shortens a text, so there is room for others.
func cut(value string) string { return plaintext.Cut(value, 500) }

// code formats untrusted text in Markdown, so it is only text.
func code(value string) string { return "`" + text(value) + "`" }

// text removes characters from untrusted text that have a meaning in Markdown or in trailers.
func text(value string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune("`|<>[]()*\\\u007f", r) {
			return -1
		}
		return r
	}, value)
}
