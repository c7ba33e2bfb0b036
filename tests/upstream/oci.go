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
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// OCIURL returns the URL of a repository for an OCIRepository, or for a HelmRepository of type oci.
func (s *Server) OCIURL(repository string) string {
	return "oci://" + strings.TrimPrefix(s.oci.URL, "http://") + "/" + repository
}

// PushArtifact pushes files as `flux push artifact` does, and moves the tag to them.
func (s *Server) PushArtifact(repository, tag string, files map[string]string) error {
	content, err := archive(files)
	if err != nil {
		return err
	}
	return s.push(repository, tag,
		blob{MediaType: "application/vnd.cncf.flux.config.v1+json", content: []byte("{}")},
		blob{MediaType: "application/vnd.cncf.flux.content.v1.tar+gzip", content: content})
}

// PushChart pushes a Helm chart as `helm push` does, to the repository's child that is named like the chart.
func (s *Server) PushChart(repository, name, version string) error {
	content, err := archive(chartFiles(name, version))
	if err != nil {
		return err
	}
	return s.push(repository+"/"+name, version,
		blob{MediaType: "application/vnd.cncf.helm.config.v1+json", content: fmt.Appendf(nil, `{"apiVersion":"v2","name":%q,"version":%q}`, name, version)},
		blob{MediaType: "application/vnd.cncf.helm.chart.content.v1.tar+gzip", content: content})
}

// blob is a part of an artifact, as the artifact's manifest describes it.
type blob struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int    `json:"size"`

	content []byte
}

// push speaks the protocol of the OCI distribution specification: the parts first, then the manifest that names them.
func (s *Server) push(repository, tag string, config, layer blob) error {
	for _, part := range []*blob{&config, &layer} {
		part.Digest = fmt.Sprintf("sha256:%x", sha256.Sum256(part.content))
		part.Size = len(part.content)
		if err := s.write(http.MethodPost, repository+"/blobs/uploads/?digest="+part.Digest, "application/octet-stream", part.content); err != nil {
			return err
		}
	}
	const mediaType = "application/vnd.oci.image.manifest.v1+json"
	manifest, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": mediaType, "config": config, "layers": []blob{layer}})
	if err != nil {
		return err
	}
	return s.write(http.MethodPut, repository+"/manifests/"+tag, mediaType, manifest)
}

func (s *Server) write(method, path, contentType string, body []byte) error {
	request, err := http.NewRequest(method, s.oci.URL+"/v2/"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", contentType)
	return send(request, http.StatusCreated)
}
