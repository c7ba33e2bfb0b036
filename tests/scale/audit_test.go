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

// The API server's names for our controllers.
const (
	gateControllerUser     = "system:serviceaccount:" + localcluster.FluxNamespace + ":" + gateControllerName
	pipelineControllerUser = "system:serviceaccount:" + localcluster.FluxNamespace + ":" + pipelineControllerName
)

// sourceControllerUser is the API server's name for source-controller.
const sourceControllerUser = "system:serviceaccount:" + localcluster.FluxNamespace + ":" + string(localcluster.SourceController)

// auditPolicy logs all requests of our controllers, all writes to objects that gate-controller writes, and all writes
// of source-controller to the status of sources. Leases are omitted, because they are always renewed.
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
  users: ["` + gateControllerUser + `", "` + pipelineControllerUser + `"]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
  resources:
  - {group: source.toolkit.fluxcd.io}
  - {group: gating.toolkit.fluxcd.io}
  - {group: "", resources: [events]}
- level: None
`

// auditLog is the file in which the API server logs requests.
type auditLog struct{ path string }

// request is an entry in the audit log. Each request has two entries: one before it is handled, and one with the
// outcome. The latter may be logged after the client has received the response.
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
	// RequestObject is the object that source-controller wrote.
	RequestObject struct {
		Status struct {
			Artifact *struct {
				Revision string `json:"revision"`
			} `json:"artifact"`
		} `json:"status"`
	} `json:"requestObject"`
	// Received is the time of the request, and At the time of the Stage.
	Received time.Time `json:"requestReceivedTimestamp"`
	At       time.Time `json:"stageTimestamp"`
}

// audited makes the API server of the test's next cluster write an audit log. A cluster uses the programs in
// KUBEBUILDER_ASSETS, so audited puts a wrapper there that adds the flags.
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

// linkPrograms creates a directory with links to the programs in KUBEBUILDER_ASSETS, if it is set. It returns the path
// of the API server, which it does not link.
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

// end returns the size of the log.
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

// since returns the completed requests after a position in the log, except watches. If the outcome of a request is not
// logged yet, it waits.
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

// soFar returns the completed and the open requests after a position in the log.
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

// writes reports whether the request is a write.
func (r request) writes() bool {
	switch r.Verb {
	case "get", "head", "list", "watch":
		return false
	}
	return true
}

// source returns the name of the request's source, or of its event's source. It is empty for Gates and other objects.
// Names of sources are unique across kinds.
func (r request) source() string {
	switch r.ObjectRef.Resource {
	case "events":
		// The name of an event is the object's name with a suffix.
		if dot := strings.LastIndex(r.ObjectRef.Name, "."); dot >= 0 {
			return r.ObjectRef.Name[:dot]
		}
		return r.ObjectRef.Name
	case "gitrepositories", "ocirepositories", "buckets", "helmrepositories", "helmcharts":
		return r.ObjectRef.Name
	}
	return ""
}

// String describes the request and its outcome.
func (r request) String() string {
	what := r.ObjectRef.Resource
	if r.ObjectRef.Subresource != "" {
		what += "/" + r.ObjectRef.Subresource
	}
	return fmt.Sprintf("%s %s: %d", r.Verb, what, r.ResponseStatus.Code)
}
