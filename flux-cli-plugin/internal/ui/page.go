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
	"crypto/sha256"
	"encoding/hex"
	"html/template"
	"net/http"
	"strings"
)

// page is what one address shows.
type page struct {
	Title  string
	Status int
	Parts  []part
}

// part is an element of a page that changes on its own. Its ID is that of the element.
type part struct {
	ID   string
	HTML template.HTML
	// rows are elements within it. While shape stays the same, only rows change.
	rows  []part
	shape string
}

func newPart(id string, data any) part { return part{ID: id, HTML: render(id, data)} }

// version identifies the content of a page.
func (p *page) version() string {
	hash := sha256.New()
	for _, part := range p.Parts {
		hash.Write([]byte(part.ID + "\x00" + string(part.HTML) + "\x00"))
	}
	return hex.EncodeToString(hash.Sum(nil)[:12])
}

// change is what the browser replaces.
type change struct {
	// View replaces everything. It is "" if Parts are enough.
	View  string        `json:"view,omitempty"`
	Title string        `json:"title"`
	Parts []changedPart `json:"parts,omitempty"`
}

type changedPart struct {
	ID   string `json:"id"`
	HTML string `json:"html"`
}

// whole is the change to a page from nothing.
func (p *page) whole() *change {
	return &change{View: string(render("parts", p.Parts)), Title: p.Title}
}

// since returns what has changed since an earlier state of the page, or nil.
func (p *page) since(earlier *page) *change {
	if len(p.Parts) != len(earlier.Parts) || p.Status != earlier.Status {
		return p.whole()
	}
	made := &change{Title: p.Title}
	for i := range p.Parts {
		made.Parts = append(made.Parts, p.Parts[i].since(&earlier.Parts[i])...)
	}
	if len(made.Parts) == 0 {
		return nil
	}
	return made
}

func (p *part) since(earlier *part) []changedPart {
	switch {
	case p.HTML == earlier.HTML:
		return nil
	case p.rows == nil || p.shape != earlier.shape:
		return []changedPart{{p.ID, string(p.HTML)}}
	}
	var changed []changedPart
	for i := range p.rows {
		changed = append(changed, p.rows[i].since(&earlier.rows[i])...)
	}
	return changed
}

// notFound is the page of an object that does not exist, or that the user may not list.
func notFound(status part, message string) *page {
	return &page{Title: "Not found · Sluice", Status: http.StatusNotFound, Parts: []part{status, newPart("missing", message)}}
}

// shapeOf is the shape of a part with rows.
func shapeOf(rows []part, wrapping ...string) string {
	for i := range rows {
		wrapping = append(wrapping, rows[i].ID)
	}
	return strings.Join(wrapping, "\n")
}
