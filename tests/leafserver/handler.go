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

package leafserver

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"strconv"
	"strings"
	"time"
)

var discard = log.New(io.Discard, "", 0)

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { answer(w, map[string]string{"gitVersion": "v1.36.0"}) })
	mux.HandleFunc("GET /apis/{group}", s.group)
	mux.HandleFunc("GET /apis/{group}/{version}", s.resources)
	mux.HandleFunc("GET /apis/{group}/{version}/{resource}", s.list)
	mux.HandleFunc("GET /apis/{group}/{version}/namespaces/{namespace}/{resource}", s.list)
	mux.HandleFunc("GET /apis/{group}/{version}/namespaces/{namespace}/{resource}/{name}", s.get)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A request that was admitted under earlier rules ends when the rules change.
		ended := s.objects.disconnection()
		if s.admit(w, r) {
			mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), endedKey{}, ended)))
		}
	})
}

// endedKey is the context key of the channel that ends watches.
type endedKey struct{}

// admit records a request, and responds if it is rejected.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) bool {
	request := Request{
		Path: r.URL.Path, Query: r.URL.RawQuery, Watch: r.URL.Query().Get("watch") == "true",
		User: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "),
	}
	s.mu.Lock()
	s.requests = append(s.requests, request)
	hung, accepts, refuse := s.hung, s.accepts, s.refuse
	s.mu.Unlock()
	if hung != nil {
		select {
		case <-hung:
		case <-r.Context().Done():
			return false
		}
	}
	if !accepts(request.User) {
		status(w, http.StatusUnauthorized)
		return false
	}
	if refuse != nil {
		if code := refuse(request); code != 0 {
			status(w, code)
			return false
		}
	}
	return true
}

func (s *Server) group(w http.ResponseWriter, r *http.Request) {
	type version struct {
		GroupVersion string `json:"groupVersion"`
		Version      string `json:"version"`
	}
	var versions []version
	for _, kind := range s.served(func(k Kind) bool { return k.Group == r.PathValue("group") }) {
		versions = append(versions, version{GroupVersion: kind.Group + "/" + kind.Version, Version: kind.Version})
	}
	if len(versions) == 0 {
		status(w, http.StatusNotFound)
		return
	}
	answer(w, map[string]any{"kind": "APIGroup", "versions": versions, "preferredVersion": versions[0]})
}

func (s *Server) resources(w http.ResponseWriter, r *http.Request) {
	var resources []map[string]any
	for _, kind := range s.served(func(k Kind) bool { return k.Group == r.PathValue("group") && k.Version == r.PathValue("version") }) {
		resources = append(resources,
			map[string]any{"name": kind.Resource, "kind": kind.Kind, "namespaced": true},
			map[string]any{"name": kind.Resource + "/status", "kind": kind.Kind, "namespaced": true})
	}
	if len(resources) == 0 {
		status(w, http.StatusNotFound)
		return
	}
	answer(w, map[string]any{"kind": "APIResourceList", "resources": resources})
}

func (s *Server) kindOf(r *http.Request) (Kind, bool) {
	found := s.served(func(k Kind) bool {
		return k.Group == r.PathValue("group") && k.Version == r.PathValue("version") && k.Resource == r.PathValue("resource")
	})
	if len(found) == 0 {
		return Kind{}, false
	}
	return found[0], true
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	kind, ok := s.kindOf(r)
	if !ok {
		status(w, http.StatusNotFound)
		return
	}
	objects, _ := s.objects.list(kind, r.PathValue("namespace"))
	for _, object := range objects {
		if object.name == r.PathValue("name") {
			answer(w, object.content)
			return
		}
	}
	status(w, http.StatusNotFound)
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	kind, ok := s.kindOf(r)
	if !ok {
		status(w, http.StatusNotFound)
		return
	}
	if r.URL.Query().Get("watch") == "true" {
		s.watch(w, r, kind)
		return
	}
	objects, version := s.objects.list(kind, r.PathValue("namespace"))
	metadata := map[string]any{"resourceVersion": strconv.Itoa(version)}
	// The continuation token is the number of objects that were returned.
	skip, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	objects = objects[min(skip, len(objects)):]
	if limit, _ := strconv.Atoi(r.URL.Query().Get("limit")); limit > 0 && len(objects) > limit {
		objects = objects[:limit]
		metadata["continue"] = strconv.Itoa(skip + limit)
	}
	items := make([]json.RawMessage, len(objects))
	for i, object := range objects {
		items[i] = object.content
	}
	answer(w, map[string]any{"kind": kind.Kind + "List", "metadata": metadata, "items": items})
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, kind Kind) {
	from, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		status(w, http.StatusBadRequest)
		return
	}
	seconds, err := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
	if err != nil {
		seconds = 600
	}
	end := time.NewTimer(time.Duration(seconds) * time.Second)
	defer end.Stop()
	w.Header().Set("Content-Type", "application/json")
	flusher := w.(http.Flusher)
	flusher.Flush()

	ended := r.Context().Value(endedKey{}).(<-chan struct{})
	for {
		events, version, changed := s.objects.since(kind, r.PathValue("namespace"), from)
		for _, event := range events {
			if _, err := w.Write(append(event, '\n')); err != nil {
				return
			}
		}
		if len(events) > 0 {
			flusher.Flush()
		}
		from = version
		select {
		case <-changed:
		case <-ended:
			return
		case <-end.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func answer(w http.ResponseWriter, content any) {
	w.Header().Set("Content-Type", "application/json")
	// The client may have disconnected.
	_ = json.NewEncoder(w).Encode(content)
}

// status responds with an error that contains Secret.
func status(w http.ResponseWriter, code int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": Secret,
	})
}

// Secret is in the body of each error. Clients must not repeat it.
const Secret = "told-to-nobody"
