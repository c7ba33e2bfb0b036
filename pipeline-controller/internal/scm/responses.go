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
	"sync"
)

const (
	// largestKept is the size in bytes of the largest response that is kept: a pull request, or a page of a few.
	largestKept = 256 << 10
	// mostKept is how many bytes of responses are kept for one credential.
	mostKept = 4 << 20
)

// responses are those that hosts gave a tag. They are asked for again by the tag:
// GitHub answers for free while nothing has changed, and others at least without
// a body. The zero value is ready for use.
type responses struct {
	mu   sync.Mutex
	kept map[string]keptResponse
	size int
}

type keptResponse struct {
	tag    string
	header http.Header
	body   []byte
}

func responseKey(request *http.Request) string {
	return request.Header.Get("Accept") + " " + request.URL.String()
}

// askFor makes a request conditional if its response is kept, and returns that.
func (r *responses) askFor(request *http.Request) *keptResponse {
	if request.Method != http.MethodGet {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
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
			r.keep(responseKey(request), keptResponse{response.Header.Get("ETag"), response.Header.Clone(), content})
		}
		// What is left of the body follows, or the error.
		response.Body = &prefixedBody{io.MultiReader(bytes.NewReader(content), response.Body), response.Body}
	}
	return response
}

func (r *responses) keep(key string, response keptResponse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept == nil {
		r.kept = map[string]keptResponse{}
	}
	r.drop(key)
	for other := range r.kept {
		if r.size+len(response.body) <= mostKept {
			break
		}
		r.drop(other)
	}
	r.kept[key] = response
	r.size += len(response.body)
}

func (r *responses) drop(key string) {
	r.size -= len(r.kept[key].body)
	delete(r.kept, key)
}

type prefixedBody struct {
	io.Reader
	io.Closer
}
