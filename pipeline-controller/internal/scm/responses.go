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
	// largestKept is the maximum size in bytes of a cached response: a pull request, or a page of a few.
	largestKept = 256 << 10
	// mostKept is the maximum size in bytes of the cached responses of one credential, and mostKeptOfAll that of all
	// together.
	mostKept      = 4 << 20
	mostKeptOfAll = 32 << 20
	// keptBesides is the overhead of a cached response in bytes.
	keptBesides = 512
)

// keptHeaders are the headers that the adapters' libraries use: the next page.
var keptHeaders = []string{"Content-Type", "Link", "X-Next-Page"}

// archive limits the cached responses of all credentials together.
type archive struct {
	mu   sync.Mutex
	size int
	of   map[*responses]struct{}
}

func newArchive() *archive { return &archive{of: map[*responses]struct{}{}} }

// open returns the cache of another credential.
func (a *archive) open() *responses {
	a.mu.Lock()
	defer a.mu.Unlock()
	opened := &responses{archive: a, kept: map[string]keptResponse{}}
	a.of[opened] = struct{}{}
	return opened
}

// close removes the responses of a credential, which caches no more.
func (a *archive) close(closed *responses) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.size -= closed.size
	closed.size, closed.kept = 0, nil
	delete(a.of, closed)
}

// largest returns the cache that needs the most memory. So a credential with a large cache does not displace the small
// caches of others.
func (a *archive) largest() *responses {
	var largest *responses
	for candidate := range a.of {
		if largest == nil || candidate.size > largest.size {
			largest = candidate
		}
	}
	return largest
}

// responses is the cache of one credential for responses with an ETag. They are requested again with the ETag: if
// nothing has changed, the response has no body, and on GitHub it does not count against the limit. Guarded by the
// archive's lock.
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
			// Values share their memory with all other headers.
			kept.header[name] = slices.Clone(values)
		}
	}
	return kept
}

// size returns the memory in bytes of the response under a key.
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

// askFor makes a request conditional if its response is cached, and returns that response.
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

// complete replaces a not-modified response with the cached one, and caches others.
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
		// The rest of the body, or the error, follows.
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
