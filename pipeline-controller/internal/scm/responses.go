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

package scm

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
)

const (
	// largestKept is the size in bytes of the largest response that is kept: a pull request, or a page of a few.
	largestKept = 256 << 10
	// mostKept is how many bytes of responses are kept for one credential, and mostKeptOfAll for all of a process.
	mostKept      = 4 << 20
	mostKeptOfAll = 32 << 20
	// keptBesides is what a response takes in bytes besides its text.
	keptBesides = 512
)

// keptHeaders are those that an adapter's library reads of a response: where the next page is.
var keptHeaders = []string{"Content-Type", "Link", "X-Next-Page"}

// archive bounds the responses that are kept for all credentials together.
type archive struct {
	mu   sync.Mutex
	size int
	of   map[*responses]struct{}
}

func newArchive() *archive { return &archive{of: map[*responses]struct{}{}} }

// open returns the responses of one more credential.
func (a *archive) open() *responses {
	a.mu.Lock()
	defer a.mu.Unlock()
	opened := &responses{archive: a, kept: map[string]keptResponse{}}
	a.of[opened] = struct{}{}
	return opened
}

// close forgets the responses of a credential, which keeps no more.
func (a *archive) close(closed *responses) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.size -= closed.size
	closed.size, closed.kept = 0, nil
	delete(a.of, closed)
}

// largest returns those who take the most. So one credential that keeps much does not cost others the little that they keep.
func (a *archive) largest() *responses {
	var largest *responses
	for candidate := range a.of {
		if largest == nil || candidate.size > largest.size {
			largest = candidate
		}
	}
	return largest
}

// responses are those to one credential that hosts gave a tag. They are asked for again by the tag:
// GitHub answers for free while nothing has changed, and others at least without
// a body. The archive's lock guards them.
type responses struct {
	archive *archive
	kept    map[string]keptResponse
	size    int
}

type keptResponse struct {
	tag    string
	header http.Header
	body   []byte
}

func newKeptResponse(response *http.Response, body []byte) keptResponse {
	kept := keptResponse{tag: response.Header.Get("ETag"), header: http.Header{}, body: bytes.Clone(body)}
	for _, name := range keptHeaders {
		if values := response.Header.Values(name); len(values) > 0 {
			// Values share their memory with those of all other headers.
			kept.header[name] = slices.Clone(values)
		}
	}
	return kept
}

// size is how many bytes of memory the response takes under a key.
func (k keptResponse) size(key string) int {
	size := keptBesides + len(key) + len(k.tag) + len(k.body)
	for _, values := range k.header {
		for _, value := range values {
			size += len(value)
		}
	}
	return size
}

func responseKey(request *http.Request) string {
	return request.Header.Get("Accept") + " " + request.URL.String()
}

// askFor makes a request conditional if its response is kept, and returns that.
func (r *responses) askFor(request *http.Request) *keptResponse {
	if request.Method != http.MethodGet {
		return nil
	}
	r.archive.mu.Lock()
	defer r.archive.mu.Unlock()
	known, ok := r.kept[responseKey(request)]
	if !ok {
		return nil
	}
	request.Header.Set("If-None-Match", known.tag)
	return &known
}

// complete returns the response that is known in place of one that says that it
// has not changed, and keeps others.
func (r *responses) complete(request *http.Request, response *http.Response, known *keptResponse) *http.Response {
	switch {
	case known != nil && response.StatusCode == http.StatusNotModified:
		_ = response.Body.Close()
		header := known.header.Clone()
		maps.Copy(header, response.Header)
		response.Status, response.StatusCode = "200 OK", http.StatusOK
		response.Header, response.ContentLength = header, int64(len(known.body))
		response.Body = io.NopCloser(bytes.NewReader(known.body))
	case request.Method == http.MethodGet && response.StatusCode == http.StatusOK && response.Header.Get("ETag") != "":
		content, err := io.ReadAll(io.LimitReader(response.Body, largestKept+1))
		if err == nil && len(content) <= largestKept {
			r.keep(responseKey(request), newKeptResponse(response, content))
		}
		// What is left of the body follows, or the error.
		response.Body = &prefixedBody{io.MultiReader(bytes.NewReader(content), response.Body), response.Body}
	}
	return response
}

func (r *responses) keep(key string, response keptResponse) {
	r.archive.mu.Lock()
	defer r.archive.mu.Unlock()
	r.drop(key)
	size := response.size(key)
	if size > largestKept || r.kept == nil {
		return
	}
	for r.size+size > mostKept {
		r.dropAny()
	}
	for r.archive.size+size > mostKeptOfAll {
		r.archive.largest().dropAny()
	}
	r.kept[key] = response
	r.size += size
	r.archive.size += size
}

func (r *responses) dropAny() {
	for key := range r.kept {
		r.drop(key)
		return
	}
}

func (r *responses) drop(key string) {
	if response, ok := r.kept[key]; ok {
		r.size -= response.size(key)
		r.archive.size -= response.size(key)
		delete(r.kept, key)
	}
}

type prefixedBody struct {
	io.Reader
	io.Closer
}
