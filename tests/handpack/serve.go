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

package handpack

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Server is a Git host with identical repositories. Don't call its methods while it serves.
type Server struct {
	// Commit is the commit of the branch main.
	Commit Hash
	// Pack is sent to clients that fetch.
	Pack []byte
	// Before is sent before the pack, instead of what Git sends. It ends with its error.
	Before func(io.Writer) error
}

// ServeHTTP implements http.Handler with Git's smart protocol. It answers other requests with an empty list.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	switch {
	case strings.HasSuffix(r.URL.Path, "/info/refs"):
		s.advertise(w)
	case strings.HasSuffix(r.URL.Path, "/git-upload-pack"):
		s.send(w)
	default:
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = w.Write([]byte("[]"))
	}
}

func (s *Server) advertise(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
	_, _ = fmt.Fprintf(w, "%s0000%s%s0000", Line("# service=git-upload-pack\n"),
		Line(s.Commit.String()+" HEAD\x00shallow thin-pack ofs-delta no-progress symref=HEAD:refs/heads/main\n"),
		Line(s.Commit.String()+" refs/heads/main\n"))
}

func (s *Server) send(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
	before := s.Before
	if before == nil {
		before = func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s0000%s", Line("shallow "+s.Commit.String()), Line("NAK\n"))
			return err
		}
	}
	if before(w) == nil {
		_, _ = w.Write(s.Pack)
	}
}

// Line is a line in Git's protocol.
func Line(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }
