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

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// ourImages is how the manifests in Git begin the names of our images.
const ourImages = "ghcr.io/sluice-toolkit/"

// withImages are the kustomizations in config/ whose resources run our images.
var withImages = []string{"default", "samples/freeze-schedule"}

// writeManifests writes a copy of config/ in which kustomizations name the images of this release.
func (r *release) writeManifests(digests map[string]v1.Hash) error {
	dir := r.path("manifests")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(r.repository, "config"))); err != nil {
		return err
	}
	for _, kustomization := range withImages {
		if err := r.nameImages(filepath.Join(dir, kustomization, "kustomization.yaml"), digests); err != nil {
			return err
		}
	}
	return nil
}

// nameImages adds the images of this release to a kustomization.
func (r *release) nameImages(path string, digests map[string]v1.Hash) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	images := &strings.Builder{}
	fmt.Fprintf(images, "%simages:\n", content)
	for _, product := range products {
		// The tag is for people to read; the digest is what counts.
		fmt.Fprintf(images, "- name: %s%s\n  newName: %s/%s\n  newTag: %s\n  digest: %s\n",
			ourImages, product.name, r.registry, product.name, r.version, digests[product.name])
	}
	return os.WriteFile(path, []byte(images.String()), 0o644)
}
