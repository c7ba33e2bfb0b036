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
	"maps"
	"net/http"
	"slices"
	"strings"
)

type refJSON struct {
	Ref    string     `json:"ref"`
	URL    string     `json:"url"`
	Object objectJSON `json:"object"`
}

type objectJSON struct {
	Type string `json:"type"`
	SHA  string `json:"sha"`
	URL  string `json:"url"`
}

func (r *repository) refJSON(ref, sha string) refJSON {
	kind, _ := r.git.objectType(sha)
	return refJSON{
		Ref:    ref,
		URL:    r.apiURL() + "/git/" + ref,
		Object: objectJSON{Type: kind, SHA: sha, URL: r.apiURL() + "/git/" + kind + "s/" + sha},
	}
}

// ref returns the full name of the ref in the request's path, and where it is; empty if it does not exist.
func (r *request) ref() (ref, sha string, err error) {
	refs, err := r.repo.git.refs("refs/")
	if err != nil {
		return "", "", err
	}
	name := r.PathValue("ref")
	return "refs/" + name, refs[name], nil
}

func getRef(r *request) (*reply, error) {
	ref, sha, err := r.ref()
	if err != nil {
		return nil, err
	}
	if sha == "" {
		return nil, errNotFound()
	}
	return ok(r.repo.refJSON(ref, sha))
}

func listMatchingRefs(r *request) (*reply, error) {
	refs, err := r.repo.git.refs("refs/")
	if err != nil {
		return nil, err
	}
	var matching []refJSON
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		if strings.HasPrefix(name, r.PathValue("ref")) {
			matching = append(matching, r.repo.refJSON("refs/"+name, refs[name]))
		}
	}
	return listOf(r, matching)
}

func createRef(r *request) (*reply, error) {
	var wanted struct{ Ref, SHA string }
	if err := r.decode(&wanted); err != nil {
		return nil, err
	}
	repo := r.repo
	switch {
	case wanted.Ref == "":
		return nil, errNotSupplied("ref")
	case wanted.SHA == "":
		return nil, errNotSupplied("sha")
	case len(repo.branches) == 0:
		return nil, &apiError{status: http.StatusConflict, Message: "Git Repository is empty."}
	case !strings.HasPrefix(wanted.Ref, "refs/") || strings.Count(wanted.Ref, "/") < 2:
		return nil, errUnprocessable("Reference name must start with 'refs/' and contain at least three path components.")
	}
	if _, err := repo.git.run("check-ref-format", wanted.Ref); err != nil || strings.HasPrefix(wanted.Ref, "refs/pull/") {
		return nil, errUnprocessable("%s is not a valid ref name.", wanted.Ref)
	}
	if err := repo.mayPointAt(wanted.Ref, wanted.SHA); err != nil {
		return nil, err
	}
	refs, err := repo.git.refs("refs/")
	if err != nil {
		return nil, err
	}
	if refs[strings.TrimPrefix(wanted.Ref, "refs/")] != "" {
		return nil, errUnprocessable("Reference already exists")
	}
	if err := repo.git.updateRef(wanted.Ref, noObject, wanted.SHA); err != nil {
		// A branch `a` is in the way of a branch `a/b`.
		return nil, errUnprocessable("Reference update failed")
	}
	if err := repo.sync(r.token.Login); err != nil {
		return nil, err
	}
	return created(repo.refJSON(wanted.Ref, wanted.SHA))
}

func updateRef(r *request) (*reply, error) {
	var wanted struct {
		SHA   string
		Force bool
	}
	if err := r.decode(&wanted); err != nil {
		return nil, err
	}
	if wanted.SHA == "" {
		return nil, errNotSupplied("sha")
	}
	ref, now, err := r.changeableRef()
	if err != nil {
		return nil, err
	}
	if err := r.repo.mayPointAt(ref, wanted.SHA); err != nil {
		return nil, err
	}
	if !wanted.Force {
		forward, err := r.repo.git.contains(wanted.SHA, now)
		if err != nil {
			return nil, err
		}
		if !forward {
			return nil, errUnprocessable("Update is not a fast forward")
		}
	}
	if err := r.repo.git.updateRef(ref, now, wanted.SHA); err != nil {
		return nil, err
	}
	if err := r.repo.sync(r.token.Login); err != nil {
		return nil, err
	}
	return ok(r.repo.refJSON(ref, wanted.SHA))
}

func deleteRef(r *request) (*reply, error) {
	ref, now, err := r.changeableRef()
	if err != nil {
		return nil, err
	}
	if ref == "refs/heads/"+defaultBranch {
		return nil, errUnprocessable("Cannot delete the default branch")
	}
	if err := r.repo.git.updateRef(ref, now, noObject); err != nil {
		return nil, err
	}
	if err := r.repo.sync(r.token.Login); err != nil {
		return nil, err
	}
	return noContent()
}

func (r *request) changeableRef() (ref, sha string, err error) {
	ref, sha, err = r.ref()
	if err != nil {
		return "", "", err
	}
	if sha == "" || strings.HasPrefix(ref, "refs/pull/") {
		return "", "", errUnprocessable("Reference does not exist")
	}
	return ref, sha, nil
}

// mayPointAt returns why a ref must not point at an object: it was not found, or a branch would not be a commit.
func (r *repository) mayPointAt(ref, sha string) error {
	if !fullSHA.MatchString(sha) {
		return errUnprocessable("The sha parameter must be exactly 40 characters and contain only [0-9a-f].")
	}
	kind, exists := r.git.objectType(sha)
	if !exists || kind != "commit" && strings.HasPrefix(ref, "refs/heads/") {
		return errUnprocessable("Object does not exist")
	}
	return nil
}
