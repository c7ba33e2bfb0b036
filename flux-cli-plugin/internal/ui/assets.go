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
	"bytes"
	"net/http"

	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/graph"
)

// assets are the files that pages load, by name.
var assets = map[string]asset{
	"style.css": {"text/css; charset=utf-8", append(file("style.css"), graph.Style...)},
	"page.js":   {"text/javascript; charset=utf-8", file("page.js")},
	"icon.svg":  {"image/svg+xml", file("icon.svg")},
}

type asset struct {
	contentType string
	content     []byte
}

func file(name string) []byte {
	content, err := assetFiles.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is not embedded
	}
	return bytes.TrimSpace(content)
}

func serveAsset(w http.ResponseWriter, r *http.Request) {
	found, ok := assets[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", found.contentType)
	// The browser may be gone.
	_, _ = w.Write(found.content)
}
