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
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/action"
)

const (
	// confirmedHeader is on every request that changes something. A form can't send it, and another origin's script
	// would have to ask first, which is refused.
	confirmedHeader = "X-Sluice-Action"
	confirmed       = "confirmed"

	mostBody = 16 << 10
	// actionPatience is how long an action may take.
	actionPatience = 30 * time.Second
)

// outcome is the answer to an action.
type outcome struct {
	Done bool `json:"done"`
	// Output is what the command has printed.
	Output string `json:"output"`
}

// ask answers with the question before an action.
func (h *Handler) ask(w http.ResponseWriter, r *http.Request) {
	request := action.RequestOf(r.PathValue("verb"), r.URL.Query())
	asked := h.view(r.Context()).Question(request)
	if asked == nil {
		http.Error(w, "there is no such object that you may list", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// The browser may be gone.
	_, _ = io.WriteString(w, string(render("question", asked)))
}

// act carries out an action.
func (h *Handler) act(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(confirmedHeader) != confirmed {
		http.Error(w, "the request was not confirmed on the page", http.StatusForbidden)
		return
	}
	if r.Header.Get("Content-Type") != "application/json" {
		http.Error(w, "the request must be JSON", http.StatusUnsupportedMediaType)
		return
	}
	request := action.Request{}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBody)).Decode(&request); err != nil {
		http.Error(w, "the request can't be read", http.StatusBadRequest)
		return
	}
	request.Verb = action.Verb(r.PathValue("verb"))
	args, err := request.Args()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// What was begun is not interrupted by closing the page.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actionPatience)
	defer cancel()
	made := h.run(ctx, args)
	// Rights may have changed if it was refused.
	h.Rights.Forget(request.Namespace)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(made) // the browser may be gone
}

func (h *Handler) run(ctx context.Context, args []string) outcome {
	output, err := h.Run(ctx, action.Unattended(args))
	lines := []string{"$ " + action.Command(args)}
	if output = strings.TrimSpace(output); output != "" {
		lines = append(lines, output)
	}
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = errors.New("the API server did not answer in time")
		}
		lines = append(lines, "✗ "+err.Error())
	}
	return outcome{Done: err == nil, Output: strings.Join(lines, "\n")}
}
