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

package upstream

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"sigs.k8s.io/yaml"
)

// chartVersion is an entry of a Helm repository's index.
type chartVersion struct {
	APIVersion string    `json:"apiVersion"`
	Name       string    `json:"name"`
	Version    string    `json:"version"`
	Digest     string    `json:"digest"`
	Created    time.Time `json:"created"`
	URLs       []string  `json:"urls"`
}

// HelmURL returns the URL of a repository for a HelmRepository of the default type.
func (s *Server) HelmURL(repository string) string { return s.helm.URL + "/" + repository }

// PublishChart adds a version of a chart to a Helm repository and its index.
func (s *Server) PublishChart(repository, name, version string) error {
	content, err := archive(chartFiles(name, version))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	file := fmt.Sprintf("%s-%s.tgz", name, version)
	s.index[repository] = append([]chartVersion{{
		APIVersion: "v2", Name: name, Version: version, Digest: fmt.Sprintf("%x", sha256.Sum256(content)),
		Created: time.Now(), URLs: []string{file},
	}}, s.index[repository]...)

	entries := map[string][]chartVersion{}
	for _, entry := range s.index[repository] {
		entries[entry.Name] = append(entries[entry.Name], entry)
	}
	index, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "entries": entries})
	if err != nil {
		return err
	}
	s.charts["/"+repository+"/"+file] = content
	s.charts["/"+repository+"/index.yaml"] = index
	return nil
}

func (s *Server) serveCharts(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	content, ok := s.charts[r.URL.Path]
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(content)
}

// chartFiles returns the files of a chart with one ConfigMap that contains the version.
func chartFiles(name, version string) map[string]string {
	return map[string]string{
		name + "/Chart.yaml":               fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\n", name, version),
		name + "/templates/configmap.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  version: {{ .Chart.Version }}\n",
	}
}

// archive packs files as a gzipped tar.
func archive(files map[string]string) ([]byte, error) {
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	archive := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}); err != nil {
			return nil, err
		}
		if _, err := archive.Write([]byte(files[name])); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	err := compressed.Close()
	return packed.Bytes(), err
}
