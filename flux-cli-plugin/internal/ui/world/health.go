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

package world

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// health is what is known about the API server, and about the user's rights.
type health struct {
	now     func() time.Time
	changed func()

	mu      sync.Mutex
	failing map[*feed]error
	since   time.Time
	denied  []*feed
}

// Away tells that the API server does not answer.
type Away struct {
	Since time.Time
	// Error is that of a request.
	Error string
}

func (h *health) works(f *feed) {
	h.mu.Lock()
	_, failed := h.failing[f]
	delete(h.failing, f)
	h.mu.Unlock()
	if failed {
		h.changed()
	}
}

func (h *health) fails(f *feed, err error) {
	h.mu.Lock()
	if len(h.failing) == 0 {
		h.since = h.now()
	}
	_, failed := h.failing[f]
	h.failing[f] = err
	h.mu.Unlock()
	if !failed {
		h.changed()
	}
}

func (h *health) deny(f *feed) {
	h.mu.Lock()
	delete(h.failing, f)
	if !slices.Contains(h.denied, f) {
		h.denied = append(h.denied, f)
	}
	h.mu.Unlock()
	h.changed()
}

func (h *health) isDenied(f *feed) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.denied, f)
}

// away returns nil while the API server answers.
func (h *health) away() *Away {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.failing) == 0 {
		return nil
	}
	var texts []string
	for _, err := range h.failing {
		texts = append(texts, err.Error())
	}
	return &Away{Since: h.since, Error: slices.MinFunc(texts, strings.Compare)}
}

// limits returns in words what the user may not list. Kinds with the same limits are together.
func (h *health) limits(feeds []*feed) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	type limit struct{ names, shown, denied []string }
	var limits []*limit
	for _, kind := range kindsOf(feeds) {
		shown, denied := h.namespacesOf(kind, feeds)
		at := slices.IndexFunc(limits, func(known *limit) bool { return slices.Equal(known.shown, shown) && slices.Equal(known.denied, denied) })
		if at < 0 {
			at = len(limits)
			limits = append(limits, &limit{shown: shown, denied: denied})
		}
		limits[at].names = append(limits[at].names, kind.name)
	}
	var texts []string
	for _, found := range limits {
		if text := limitOf(strings.Join(found.names, ", "), found.shown, found.denied); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// namespacesOf returns the namespaces in which a kind is listed and denied, sorted. Both are empty if all are listed.
func (h *health) namespacesOf(kind *kind, feeds []*feed) (shown, denied []string) {
	for _, f := range feeds {
		switch isDenied := slices.Contains(h.denied, f); {
		case f.kind != kind:
		case isDenied:
			denied = append(denied, f.namespace)
		case f.namespace != "":
			shown = append(shown, f.namespace)
		}
	}
	slices.Sort(shown)
	slices.Sort(denied)
	return shown, denied
}

func limitOf(name string, shown, denied []string) string {
	switch {
	case len(shown) > 0 && len(denied) > 0:
		return "you may not list and watch " + name + " in " + namespaces(denied) + ", nor in all namespaces: showing " + namespaces(shown) + " only"
	case len(shown) > 0:
		return "you may not list and watch " + name + " in all namespaces: showing " + namespaces(shown) + " only"
	case len(denied) > 0:
		return "you may not list and watch " + name + " in " + namespaces(denied)
	}
	return ""
}

func namespaces(names []string) string {
	const most = 10
	if len(names) == 1 {
		if names[0] == "" {
			return "all namespaces"
		}
		return "namespace " + names[0]
	}
	if len(names) > most {
		names = append(slices.Clone(names[:most]), "…")
	}
	return "namespaces " + strings.Join(names, ", ")
}

// kindsOf returns the kinds of feeds, each once.
func kindsOf(feeds []*feed) []*kind {
	var kinds []*kind
	for _, f := range feeds {
		if !slices.Contains(kinds, f.kind) {
			kinds = append(kinds, f.kind)
		}
	}
	return kinds
}
