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
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/sluice-toolkit/sluice/release/image"
	"github.com/sluice-toolkit/sluice/release/program"
)

const (
	imagePlatforms = "linux/amd64,linux/arm64"

	// nobody is the user that distroless images call nonroot.
	nobody  = "65532:65532"
	plugins = "/usr/local/lib/flux/plugins"
)

// verbs are the names that the plugin has beside its own.
var verbs = []string{"open", "close", "approve", "pass", "gate", "pipeline"}

// product is an image that is released.
type product struct {
	name, description string
	// contents is the image, of programs in a directory.
	contents func(programs string) image.Image
}

var products = []product{
	{"gate-controller", "Holds Flux sources back while their gates are closed.", controller("gate-controller")},
	{"pipeline-controller", "Promotes revisions from environment to environment.", controller("pipeline-controller")},
	{"flux-cli", "The Flux CLI, with Sluice's plugin.", fluxCLI},
}

func controller(name string) func(string) image.Image {
	path := "/usr/local/bin/" + name
	return func(programs string) image.Image {
		return image.Image{
			Files:      []image.File{image.Program(path, filepath.Join(programs, name)), image.Scratch("/tmp")},
			Entrypoint: []string{path},
			User:       nobody,
		}
	}
}

// fluxCLI runs flux, so its arguments are those of a command line.
func fluxCLI(programs string) image.Image {
	files := []image.File{
		image.Program("/usr/local/bin/flux", filepath.Join(programs, "flux")),
		image.Program(plugins+"/flux-sluice", filepath.Join(programs, "flux-sluice")),
		image.Text("/etc/ssl/certs/ca-certificates.crt", roots()),
		image.Scratch("/tmp"),
	}
	for _, verb := range verbs {
		files = append(files, image.Link(plugins+"/flux-"+verb, "flux-sluice"))
	}
	return image.Image{
		Files:      files,
		Entrypoint: []string{"/usr/local/bin/flux"},
		Env:        []string{"PATH=/usr/local/bin", "HOME=/tmp", "FLUXCD_PLUGINS=" + plugins},
		User:       nobody,
	}
}

// images writes the images, and the manifests that name them.
func (r *release) images(ctx context.Context) error {
	for _, platform := range r.platforms {
		if err := r.compile(ctx, platform); err != nil {
			return err
		}
	}
	return r.assemble()
}

// compile compiles what images for the platform hold.
func (r *release) compile(ctx context.Context, platform program.Platform) error {
	for name, module := range map[string]string{
		"gate-controller": "gate-controller", "pipeline-controller": "pipeline-controller", "flux-sluice": "flux-cli-plugin",
	} {
		if err := program.Compile(ctx, r.repository, module, r.version, platform, r.path("programs", platform.Dir(), name)); err != nil {
			return err
		}
	}
	build := exec.CommandContext(ctx, filepath.Join(r.repository, "hack", "build.sh"), "flux-cli")
	build.Env = append(os.Environ(), "PLATFORM="+platform.String())
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("hack/build.sh flux-cli for %s: %w", platform, err)
	}
	built, err := filepath.Abs(filepath.Join(r.repository, "bin", "flux-cli", platform.Dir(), "flux"))
	if err != nil {
		return err
	}
	linked := r.path("programs", platform.Dir(), "flux")
	if err := os.Remove(linked); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(built, linked)
}

// assemble makes the images of the programs, and the manifests that name the images.
func (r *release) assemble() error {
	digests := map[string]v1.Hash{}
	var named []image.Named
	for _, product := range products {
		index, err := r.index(product)
		if err != nil {
			return err
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		digests[product.name] = digest
		name := r.registry + "/" + product.name
		named = append(named, image.Named{Image: index, Names: []string{name + ":" + r.version, name + "@" + digest.String()}})
	}
	if err := image.WriteLayout(r.path("images"), named...); err != nil {
		return err
	}
	return r.writeManifests(digests)
}

// index is the image of a product, for all platforms.
func (r *release) index(product product) (v1.ImageIndex, error) {
	labels := r.labels(product.name, product.description)
	var images []v1.Image
	for _, platform := range r.platforms {
		contents := product.contents(r.path("programs", platform.Dir()))
		contents.Labels = labels
		built, err := contents.Build(platform.OS, platform.Arch)
		if err != nil {
			return nil, err
		}
		images = append(images, built)
	}
	return image.Index(labels, images...)
}

const source = "https://github.com/sluice-toolkit/sluice"

// labels say what something is and what it was made of, by the names of the OCI.
func (r *release) labels(title, description string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":         title,
		"org.opencontainers.image.description":   description,
		"org.opencontainers.image.source":        source,
		"org.opencontainers.image.documentation": source,
		"org.opencontainers.image.version":       r.version,
		"org.opencontainers.image.revision":      r.revision,
		"org.opencontainers.image.licenses":      "Apache-2.0",
	}
}
