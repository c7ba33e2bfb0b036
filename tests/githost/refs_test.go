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

package githost_test

import (
	"net/http"
	"testing"

	"github.com/google/go-github/v53/github"
	. "github.com/onsi/gomega"
)

const unknownSHA = "0123456789012345678901234567890123456789"

func reference(name, sha string) *github.Reference {
	return &github.Reference{Ref: github.String(name), Object: &github.GitObject{SHA: github.String(sha)}}
}

func TestRefs(t *testing.T) {
	w := newWorld(t)
	ref, response, err := w.client.Git.CreateRef(w.ctx, owner, repo, reference("refs/heads/sluice/x", w.first))
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(response.StatusCode).To(Equal(http.StatusCreated))
	w.Expect(ref.GetRef()).To(Equal("refs/heads/sluice/x"))
	w.Expect(ref.GetObject().GetType()).To(Equal("commit"))

	newer := w.commit("main", "a.yaml", "a: 1\n")
	_, _, err = w.client.Git.UpdateRef(w.ctx, owner, repo, reference("refs/heads/sluice/x", newer), false)
	w.Expect(err).NotTo(HaveOccurred())
	ref, _, err = w.client.Git.GetRef(w.ctx, owner, repo, "heads/sluice/x")
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(ref.GetObject().GetSHA()).To(Equal(newer))
	branch, _, err := w.client.Repositories.GetBranch(w.ctx, owner, repo, "sluice/x", false)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(branch.GetCommit().GetSHA()).To(Equal(newer))

	_, _, err = w.client.Git.UpdateRef(w.ctx, owner, repo, reference("refs/heads/sluice/x", w.first), false)
	status, message, _ := w.refusal(err)
	w.Expect(status).To(Equal(http.StatusUnprocessableEntity))
	w.Expect(message).To(Equal("Update is not a fast forward"))
	_, _, err = w.client.Git.UpdateRef(w.ctx, owner, repo, reference("refs/heads/sluice/x", w.first), true)
	w.Expect(err).NotTo(HaveOccurred())

	refs, _, err := w.client.Git.ListMatchingRefs(w.ctx, owner, repo, &github.ReferenceListOptions{Ref: "heads/sluice/"})
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(refs).To(HaveLen(1))

	response, err = w.client.Git.DeleteRef(w.ctx, owner, repo, "heads/sluice/x")
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(response.StatusCode).To(Equal(http.StatusNoContent))
	w.Expect(w.branches()).To(HaveLen(1))
	w.Expect(w.host.Pushes(owner, repo)).To(BeEmpty())
}

func TestRefsAreRefused(t *testing.T) {
	tests := []struct {
		name    string
		ask     func(*world) error
		status  int
		message string
	}{
		{"a ref that is missing is not found", func(w *world) error {
			_, _, err := w.client.Git.GetRef(w.ctx, owner, repo, "heads/nowhere")
			return err
		}, http.StatusNotFound, "Not Found"},
		{"a part of a ref's name is not found", func(w *world) error {
			_, _, err := w.client.Git.GetRef(w.ctx, owner, repo, "heads/mai")
			return err
		}, http.StatusNotFound, "Not Found"},
		{"a ref that exists is not created", func(w *world) error {
			_, _, err := w.client.Git.CreateRef(w.ctx, owner, repo, reference("refs/heads/main", w.first))
			return err
		}, http.StatusUnprocessableEntity, "Reference already exists"},
		{"a ref is not created at an object that is missing", func(w *world) error {
			_, _, err := w.client.Git.CreateRef(w.ctx, owner, repo, reference("refs/heads/new", unknownSHA))
			return err
		}, http.StatusUnprocessableEntity, "Object does not exist"},
		{"a ref is not created with a name that Git forbids", func(w *world) error {
			_, _, err := w.client.Git.CreateRef(w.ctx, owner, repo, reference("refs/heads/a..b", w.first))
			return err
		}, http.StatusUnprocessableEntity, "refs/heads/a..b is not a valid ref name."},
		{"a branch is not created below another", func(w *world) error {
			_, _, err := w.client.Git.CreateRef(w.ctx, owner, repo, reference("refs/heads/main/x", w.first))
			return err
		}, http.StatusUnprocessableEntity, "Reference update failed"},
		{"nothing is created in an empty repository", func(w *world) error {
			w.Expect(w.host.AddRepository(owner, "empty")).To(Succeed())
			_, _, err := w.client.Git.CreateRef(w.ctx, owner, "empty", reference("refs/heads/new", unknownSHA))
			return err
		}, http.StatusConflict, "Git Repository is empty."},
		{"a ref that is missing is not updated", func(w *world) error {
			_, _, err := w.client.Git.UpdateRef(w.ctx, owner, repo, reference("refs/heads/nowhere", w.first), false)
			return err
		}, http.StatusUnprocessableEntity, "Reference does not exist"},
		{"a ref that is missing is not deleted", func(w *world) error {
			_, err := w.client.Git.DeleteRef(w.ctx, owner, repo, "heads/nowhere")
			return err
		}, http.StatusUnprocessableEntity, "Reference does not exist"},
		{"the default branch is not deleted", func(w *world) error {
			_, err := w.client.Git.DeleteRef(w.ctx, owner, repo, "heads/main")
			return err
		}, http.StatusUnprocessableEntity, "Cannot delete the default branch"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			status, message, _ := w.refusal(test.ask(w))
			w.Expect(status).To(Equal(test.status))
			w.Expect(message).To(Equal(test.message))
			w.Expect(w.branches()).To(Equal(map[string]string{"main": w.first}))
		})
	}
}

func TestRepository(t *testing.T) {
	w := newWorld(t)
	repository, _, err := w.client.Repositories.Get(w.ctx, owner, repo)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(repository.GetFullName()).To(Equal("org/fleet"))
	w.Expect(repository.GetDefaultBranch()).To(Equal("main"))
	w.Expect(repository.GetCloneURL()).To(Equal(w.host.RepositoryURL(owner, repo)))
	w.Expect(repository.GetPermissions()).To(HaveKeyWithValue("push", true))
	branches, _, err := w.client.Repositories.ListBranches(w.ctx, owner, repo, nil)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(branches).To(HaveLen(1))
}
