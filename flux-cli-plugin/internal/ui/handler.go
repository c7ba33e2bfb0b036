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

// Package ui serves a page that shows pipelines and gates, live, with the rights of its user. Its Handler needs nothing
// that only a server on the user's machine has. Loopback adds that.
package ui

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/rights"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/view"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/world"
)

// Handler serves the pages to one user.
type Handler struct {
	World  *world.World
	Rights *rights.Rights
	// User is the user's name, and Cluster is how the user calls the cluster.
	User, Cluster string
	// Streams limits the pages that are live at the same time.
	Streams chan struct{}
	// Run runs a command of 'flux' as the user, and returns what it prints. Without it, the pages only show.
	Run func(ctx context.Context, args []string) (output string, err error)
}

// policy lets pages load nothing from other hosts, and lets no other page show or send them.
const policy = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// Routes returns the handler of all addresses.
func (h *Handler) Routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /assets/{name}", serveAsset)
	mux.HandleFunc("GET /live/{path...}", h.live)
	mux.HandleFunc("GET /", h.serve)
	if h.Run != nil {
		mux.HandleFunc("GET /actions/{verb}", h.ask)
		mux.HandleFunc("POST /actions/{verb}", h.act)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

// serve answers with a whole page.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) {
	shown := h.page(r.Context(), r.URL)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(shown.Status)
	// The browser may be gone.
	_, _ = w.Write([]byte(render("base", map[string]any{
		"Title": shown.Title, "Version": shown.version(), "Cluster": h.Cluster, "User": h.User, "Parts": shown.Parts,
	})))
}

// page returns what an address shows now.
func (h *Handler) page(ctx context.Context, address *url.URL) *page {
	seen := h.view(ctx)
	status := newPart("status", statusOf(seen.Snapshot))
	kind, key, named := objectIn(address.Path)
	switch {
	case address.Path == "/":
		return overviewPage(status, seen.Overview(view.FilterOf(address.Query())))
	case !named:
	case kind == "pipelines":
		if pipeline := seen.Snapshot.Pipeline(key); pipeline != nil {
			return pipelinePage(status, seen.Pipeline(pipeline))
		}
		return notFound(status, fmt.Sprintf("There is no Pipeline %s that you may list.", key))
	case kind == "gates":
		if gate := seen.Snapshot.Gate(key); gate != nil {
			return gatePage(status, seen.Gate(gate))
		}
		return notFound(status, fmt.Sprintf("There is no Gate %s that you may list.", key))
	}
	return notFound(status, "There is no such page.")
}

// view returns what the user sees now.
func (h *Handler) view(ctx context.Context) *view.View {
	return &view.View{
		Snapshot: h.World.Snapshot(), User: h.User, ReadOnly: h.Run == nil,
		RightsIn: func(namespace string) rights.Rules { return h.Rights.In(ctx, namespace) },
	}
}

// objectIn reads the path of an object's page.
func objectIn(path string) (kind string, key client.ObjectKey, ok bool) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if len(parts) != 3 {
		return "", key, false
	}
	return parts[0], client.ObjectKey{Namespace: parts[1], Name: parts[2]}, true
}

// status is what the top of every page says.
type status struct {
	Away   *away
	Limits []string
}

type away struct {
	Since view.Age
	Error string
}

func statusOf(snapshot *world.Snapshot) status {
	shown := status{Limits: snapshot.Limits}
	if snapshot.Away != nil {
		shown.Away = &away{view.Age{Time: snapshot.Away.Since}, snapshot.Away.Error}
	}
	return shown
}

func overviewPage(status part, shown *view.Overview) *page {
	return &page{Title: "Applications · Sluice", Status: http.StatusOK, Parts: []part{
		status, newPart("needs", shown), newPart("gates", shown), newPart("filters", shown), newPart("states", shown), applications(shown),
	}}
}

// group is a group of applications with the HTML of its rows.
type group struct {
	Environments []string
	HTML         []template.HTML
}

// applications renders the rows one by one, so that they change one by one.
func applications(shown *view.Overview) part {
	var rows []part
	var groups []group
	shape := []string{fmt.Sprint(shown.Total == 0)}
	for _, of := range shown.Groups {
		made := group{Environments: of.Environments}
		for i := range of.Rows {
			row := part{ID: of.Rows[i].ID, HTML: render("row", &of.Rows[i])}
			rows, made.HTML = append(rows, row), append(made.HTML, row.HTML)
		}
		groups = append(groups, made)
		shape = append(shape, strings.Join(of.Environments, "\t"), fmt.Sprint(len(of.Rows)))
	}
	return part{
		ID: "apps", HTML: render("apps", map[string]any{"Groups": groups, "Total": shown.Total}), rows: rows, shape: shapeOf(rows, shape...),
	}
}

func pipelinePage(status part, shown *view.Pipeline) *page {
	return &page{Title: shown.Name + " · Sluice", Status: http.StatusOK, Parts: []part{
		status, newPart("pipeline", shown), newPart("environments", shown), newPart("history", shown),
		{ID: "events", HTML: render("events", shown.Events)}, {ID: "commands", HTML: render("commands", shown.Commands)}, {ID: "yaml", HTML: render("yaml", shown.YAML)},
	}}
}

func gatePage(status part, shown *view.Gate) *page {
	return &page{Title: shown.Name + " · Sluice", Status: http.StatusOK, Parts: []part{
		status, newPart("gate", shown), newPart("held", shown), newPart("calendar", shown), newPart("passes", shown),
		{ID: "events", HTML: render("events", shown.Events)}, {ID: "commands", HTML: render("commands", shown.Commands)}, {ID: "yaml", HTML: render("yaml", shown.YAML)},
	}}
}

// NewStreams returns a limit for Handler.Streams.
func NewStreams() chan struct{} {
	const most = 32
	return make(chan struct{}, most)
}
