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
	"net/http"
	"regexp"
	"slices"
)

// Call is a request to the API or from a Git client.
type Call struct {
	// Method is the HTTP method.
	Method string
	// Path is the escaped path with the query, such as /api/v3/repos/org/fleet/pulls?state=open.
	Path string
	// Status is the response's status. It is 0 if there is none yet, or if the connection was cut.
	Status int
}

// Calls returns all requests in order of arrival, including those that a Rule answered.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Count returns how many requests had the method (any, if empty) and a Path that pathRegexp matches anywhere. It panics
// if pathRegexp is not a regular expression.
func (s *Server) Count(method, pathRegexp string) int {
	path := regexp.MustCompile(pathRegexp)
	count := 0
	for _, call := range s.Calls() {
		if (method == "" || method == call.Method) && path.MatchString(call.Path) {
			count++
		}
	}
	return count
}

func (s *Server) recordCalls(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		index := len(s.calls)
		s.calls = append(s.calls, Call{Method: r.Method, Path: r.URL.RequestURI()})
		s.mu.Unlock()
		next.ServeHTTP(&statusWriter{ResponseWriter: w, observe: func(status int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.calls[index].Status = status
		}}, r)
	})
}

// statusWriter reports the status before the client can see it, so a test that has its response finds it counted.
type statusWriter struct {
	http.ResponseWriter
	observe func(status int)
	told    bool
}

func (w *statusWriter) WriteHeader(status int) {
	if !w.told {
		w.told = true
		w.observe(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(data []byte) (int, error) {
	if !w.told {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(data)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
