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

package revision_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/api/revision"
)

var (
	sha1   = strings.Repeat("0123456789", 4)
	sha256 = strings.Repeat("01234567", 8)
)

func TestParts(t *testing.T) {
	for _, tt := range []struct {
		name, rev           string
		digest, tag, commit string
	}{
		{"nothing has no parts", "", "", "", ""},
		{"a Git tag has all parts", "v1.1.0@sha1:" + sha1, "sha1:" + sha1, "v1.1.0", sha1},
		{"a full reference to a tag loses its prefix", "refs/tags/v1@sha1:" + sha1, "sha1:" + sha1, "v1", sha1},
		{"a tag may hold slashes", "refs/tags/app/v1@sha1:" + sha1, "sha1:" + sha1, "app/v1", sha1},
		{"a full reference to no tag at all has none", "refs/tags/@sha1:" + sha1, "sha1:" + sha1, "", sha1},
		{"a full reference to a branch is no tag", "refs/heads/main@sha1:" + sha1, "sha1:" + sha1, "", sha1},
		{"a full reference to a pull request is no tag", "refs/pull/7/head@sha1:" + sha1, "sha1:" + sha1, "", sha1},
		{"the short name of a branch can't be told from a tag", "main@sha1:" + sha1, "sha1:" + sha1, "main", sha1},
		{"a name may hold an at sign", "feature@home@sha1:" + sha1, "sha1:" + sha1, "feature@home", sha1},
		{"a commit alone has no tag", "sha1:" + sha1, "sha1:" + sha1, "", sha1},
		{"an OCI artifact has no commit", "latest@sha256:" + sha256, "sha256:" + sha256, "latest", ""},
		{"a Bucket has only a digest", "sha256:" + sha256, "sha256:" + sha256, "", ""},
		{"a chart version is its own tag", "6.5.4", "", "6.5.4", ""},
		{"a chart version keeps its build", "6.5.4+0cdf2ab6ec12", "", "6.5.4+0cdf2ab6ec12", ""},
		{"the older form of a branch and a commit", "main/" + sha1, "sha1:" + sha1, "main", sha1},
		{"the older form of a branch with slashes", "feature/x/" + sha1, "sha1:" + sha1, "feature/x", sha1},
		{"the older form of a commit alone has no tag", "HEAD/" + sha1, "sha1:" + sha1, "", sha1},
		{"the older form of a Bucket", sha256, "sha256:" + sha256, "", ""},
		{"an at sign without a digest behind it is part of a name", "v1@home", "", "v1@home", ""},
		{"a digest may be abbreviated", "v1@sha1:abc", "sha1:abc", "v1", "abc"},
		{"an unknown algorithm makes no digest", "v1@home:abc", "", "v1@home:abc", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(revision.Digest(tt.rev)).To(Equal(tt.digest))

			tag, ok := revision.Tag(tt.rev)
			g.Expect(tag).To(Equal(tt.tag))
			g.Expect(ok).To(Equal(tt.tag != ""))

			commit, ok := revision.Commit(tt.rev)
			g.Expect(ok).To(Equal(tt.commit != ""))
			g.Expect(commit).To(Equal(tt.commit))
		})
	}
}

func TestEqual(t *testing.T) {
	other := strings.Repeat("f", 40)
	for _, tt := range []struct {
		name, a, b string
		equal      bool
	}{
		{"the same commit by another name is equal", "main@sha1:" + sha1, "v1@sha1:" + sha1, true},
		{"the same commit in the older form is equal", "main/" + sha1, "main@sha1:" + sha1, true},
		{"the same digest in the older form is equal", sha256, "latest@sha256:" + sha256, true},
		{"a shortened commit does not equal the whole one", "main@sha1:01234567", "main@sha1:" + sha1, false},
		{"the same name with another commit is not equal", "main@sha1:" + sha1, "main@sha1:" + other, false},
		{"the same chart version is equal", "1.2.3", "1.2.3", true},
		{"another chart version is not equal", "1.2.3", "1.2.4", false},
		{"a chart version does not equal the tag of a commit", "v1", "v1@sha1:" + sha1, false},
		{"nothing does not equal nothing", "", "", false},
		{"nothing does not equal something", "", "1.2.3", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(revision.Equal(tt.a, tt.b)).To(Equal(tt.equal))
			g.Expect(revision.Equal(tt.b, tt.a)).To(Equal(tt.equal))
		})
	}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		name, asked, rev string
		names            bool
	}{
		{"the whole text names it", "v1@sha1:" + sha1, "v1@sha1:" + sha1, true},
		{"its digest alone names it", "sha1:" + sha1, "v1@sha1:" + sha1, true},
		{"another name of the same digest does not", "v1-evil@sha1:" + sha1, "v1@sha1:" + sha1, false},
		{"its name alone does not", "v1", "v1@sha1:" + sha1, false},
		{"a digest that is cut short does not", "sha1:" + sha1[:8], "v1@sha1:" + sha1, false},
		{"the digest of another algorithm does not", "sha256:" + sha256, "v1@sha1:" + sha1, false},
		{"a name does not name a digest", "v1@sha1:" + sha1, "sha1:" + sha1, false},
		{"a chart version names itself", "6.5.4", "6.5.4", true},
		{"nothing names nothing", "", "", false},
		{"nothing does not name a chart version, which has no digest", "", "6.5.4", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(revision.Names(tt.asked, tt.rev)).To(Equal(tt.names))
		})
	}
}

func TestMatches(t *testing.T) {
	const commit = "0123456789012345678901234567890123456789"
	for _, tt := range []struct {
		asked, rev string
		want       bool
	}{
		{"v1@sha1:" + commit, "v1@sha1:" + commit, true},
		{"sha1:" + commit, "v1@sha1:" + commit, true},
		{"v1", "v1@sha1:" + commit, true},
		{"v1", "v1.0.0@sha1:" + commit, false},
		{"0123456", "v1@sha1:" + commit, true},
		{"012345", "v1@sha1:" + commit, false},
		{"v1@sha1:0123456", "v1@sha1:" + commit, true},
		{"v1@sha1:012345", "v1@sha1:" + commit, false},
		{"v2@sha1:0123456", "v1@sha1:" + commit, false},
		{"sha1:0123456", "v1@sha1:" + commit, true},
		{"sha1:012345", "v1@sha1:" + commit, false},
		{"v1", "refs/tags/v1@sha1:" + commit, true},
		{"refs/tags/v1", "refs/tags/v1@sha1:" + commit, true},
		{"1.2.0-rc", "1.2.0-rc.10", false},
		{commit, "main/" + commit, true},
		{"1.2.0", "1.2.0", true},
		{"1.2", "1.2.0", false},
		{"", "", false},
		{"", "sha1:" + commit, false},
	} {
		NewWithT(t).Expect(revision.Matches(tt.asked, tt.rev)).To(Equal(tt.want), "%q of %q", tt.asked, tt.rev)
	}
}
