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

package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

const (
	// coalesce is the shortest time between two changes that are sent.
	coalesce = 100 * time.Millisecond
	// freshen is how often durations in sentences are brought up to date. It asks nobody.
	freshen = 30 * time.Second
	// patience is how long a browser may take to receive a change.
	patience = 10 * time.Second
)

// live sends the changes of a page as server-sent events, as long as the browser listens.
func (h *Handler) live(w http.ResponseWriter, r *http.Request) {
	select {
	case h.Streams <- struct{}{}:
		defer func() { <-h.Streams }()
	default:
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	changes, stop := h.World.Listen()
	defer stop()

	query := r.URL.Query()
	address := &url.URL{Path: "/" + r.PathValue("path"), RawQuery: r.URL.RawQuery}
	known := r.Header.Get("Last-Event-ID")
	if known == "" {
		known = query.Get("version")
	}
	stream := &stream{w: w, control: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "text/event-stream")
	// The timeout of requests would end the stream.
	if err := stream.control.SetReadDeadline(time.Time{}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	shown := h.page(r.Context(), address)
	var first *change
	if shown.version() != known {
		first = shown.whole()
	}
	if stream.send(shown.version(), first) != nil {
		return
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case <-changes:
		case <-time.After(freshen):
		}
		began := time.Now()
		next := h.page(r.Context(), address)
		if stream.send(next.version(), next.since(shown)) != nil {
			return
		}
		shown = next
		// Changes of many objects are sent together. Rendering never takes more than a third of the time.
		select {
		case <-r.Context().Done():
			return
		case <-time.After(max(coalesce, 2*time.Since(began))):
		}
	}
}

// stream is the answer to a browser that listens.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// send sends a change. Without one, it sends a sign of life.
func (s *stream) send(version string, made *change) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	message := []byte(": alive\n\n")
	if made != nil {
		content, err := json.Marshal(made)
		if err != nil {
			return err
		}
		message = fmt.Appendf(nil, "id: %s\ndata: %s\n\n", version, content)
	}
	if _, err := s.w.Write(message); err != nil {
		return err
	}
	return s.control.Flush()
}
