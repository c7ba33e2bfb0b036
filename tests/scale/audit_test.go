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

package scale

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

// gateControllerUser is whom the API server takes gate-controller for.
const gateControllerUser = "system:serviceaccount:" + localcluster.FluxNamespace + ":" + gateControllerName

// sourceControllerUser is whom it takes source-controller for.
const sourceControllerUser = "system:serviceaccount:" + localcluster.FluxNamespace + ":" + string(localcluster.SourceController)

// auditPolicy has the API server write down every request of gate-controller, everybody's writes of what
// gate-controller writes, and what source-controller writes into the status of sources. Leases are left out: they are
// renewed whether or not there is anything to do.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: None
  resources: [{group: coordination.k8s.io}]
- level: Request
  users: ["` + sourceControllerUser + `"]
  verbs: [update, patch]
  resources: [{group: source.toolkit.fluxcd.io, resources: ["*/status"]}]
- level: Metadata
  users: ["` + gateControllerUser + `"]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
  resources:
  - {group: source.toolkit.fluxcd.io}
  - {group: gating.toolkit.fluxcd.io}
  - {group: "", resources: [events]}
- level: None
`

// auditLog is where the API server writes down requests.
type auditLog struct{ path string }

// request is what the API server writes down of one. There are two lines of each: one before it is handled, and one
// with the outcome, maybe after its sender has the answer.
type request struct {
	AuditID   string `json:"auditID"`
	Stage     string `json:"stage"`
	Verb      string `json:"verb"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Name        string `json:"name"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	// RequestObject is what source-controller has written.
	RequestObject struct {
		Status struct {
			Artifact *struct {
				Revision string `json:"revision"`
			} `json:"artifact"`
		} `json:"status"`
	} `json:"requestObject"`
	// Received is when the request came, and At when it had come to its Stage.
	Received time.Time `json:"requestReceivedTimestamp"`
	At       time.Time `json:"stageTimestamp"`
}

// audited makes the API server of the next cluster that the test starts write an audit log. A cluster takes its
// programs from KUBEBUILDER_ASSETS; there, this puts one that adds the flags.
func audited(t testing.TB) auditLog {
	t.Helper()
	dir := t.TempDir()
	log := auditLog{path: filepath.Join(dir, "audit.log")}
	policy := filepath.Join(dir, "policy.yaml")
	assets := filepath.Join(dir, "assets")
	program, err := linkPrograms(assets)
	if err == nil {
		err = os.WriteFile(policy, []byte(auditPolicy), 0o600)
	}
	if err == nil {
		script := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\" '--audit-policy-file=%s' '--audit-log-path=%s' --audit-log-maxsize=10000\n", program, policy, log.path)
		err = os.WriteFile(filepath.Join(assets, apiServer), []byte(script), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	return log
}

const apiServer = "kube-apiserver"

// linkPrograms makes a directory with the programs that KUBEBUILDER_ASSETS holds, if it is set, except for the API
// server, whose path it returns.
func linkPrograms(dir string) (string, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	program := filepath.Join("..", "..", "bin", apiServer)
	if built := os.Getenv("SLUICE_BIN"); built != "" {
		program = filepath.Join(built, apiServer)
	}
	if given := os.Getenv("KUBEBUILDER_ASSETS"); given != "" {
		entries, err := os.ReadDir(given)
		if err != nil {
			return "", err
		}
		for _, entry := range entries {
			path := filepath.Join(given, entry.Name())
			if entry.Name() == apiServer {
				program = path
			} else if err := os.Symlink(path, filepath.Join(dir, entry.Name())); err != nil {
				return "", err
			}
		}
	}
	return filepath.Abs(program)
}

// end is how much there is of the log now.
func (l auditLog) end() (int64, error) {
	info, err := os.Stat(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// since returns the requests after a position in the log, each as of its end. A request whose effect was seen is in the
// log; if the outcome of one is not there yet, since waits for it. Watches are left out, which have no outcome.
func (l auditLog) since(ctx context.Context, position int64) ([]request, error) {
	var requests []request
	err := poll(ctx, "the outcome of all requests in the audit log", func(context.Context) error {
		var open []request
		var err error
		requests, open, err = l.soFar(position)
		for _, r := range open {
			err = errors.Join(err, fmt.Errorf("%s of %s has not ended", r.Verb, r.ObjectRef.Resource))
		}
		return err
	})
	return requests, err
}

// soFar returns the requests after a position in the log, those that have ended and those that have not.
func (l auditLog) soFar(position int64) (ended, open []request, _ error) {
	content, err := l.read(position)
	if err != nil {
		return nil, nil, err
	}
	return parse(content)
}

func (l auditLog) read(position int64) ([]byte, error) {
	file, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(position, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(file)
}

func parse(content []byte) (ended, open []request, _ error) {
	received := map[string]request{}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, nil, fmt.Errorf("a line of the audit log: %w", err)
		}
		switch {
		case r.Verb == "watch":
		case r.Stage == "RequestReceived":
			received[r.AuditID] = r
		default:
			delete(received, r.AuditID)
			ended = append(ended, r)
		}
	}
	return ended, slices.Collect(maps.Values(received)), lines.Err()
}

// writes reports whether the request may change something.
func (r request) writes() bool {
	switch r.Verb {
	case "get", "head", "list", "watch":
		return false
	}
	return true
}

// source returns the name of the source that the request is about, be it by an event; empty if it is about a Gate or
// something else. Sources of all kinds have different names.
func (r request) source() string {
	switch r.ObjectRef.Resource {
	case "events":
		// An event is named like its object, with a suffix.
		if dot := strings.LastIndex(r.ObjectRef.Name, "."); dot >= 0 {
			return r.ObjectRef.Name[:dot]
		}
		return r.ObjectRef.Name
	case "gitrepositories", "ocirepositories", "buckets", "helmrepositories", "helmcharts":
		return r.ObjectRef.Name
	}
	return ""
}

// String says what the request was and what came of it.
func (r request) String() string {
	what := r.ObjectRef.Resource
	if r.ObjectRef.Subresource != "" {
		what += "/" + r.ObjectRef.Subresource
	}
	return fmt.Sprintf("%s %s: %d", r.Verb, what, r.ResponseStatus.Code)
}
