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
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// artifact is the name of the artifact with the manifests.
const artifact = "sluice-manifests"

// push pushes the images and the manifests that were written, and prints their digests, which must be signed.
func (r *release) push(ctx context.Context, out io.Writer) error {
	images, err := layout.ImageIndexFromPath(r.path("images"))
	if err != nil {
		return err
	}
	manifest, err := images.IndexManifest()
	if err != nil {
		return err
	}
	for _, descriptor := range manifest.Manifests {
		reference, err := name.ParseReference(descriptor.Annotations["org.opencontainers.image.ref.name"])
		if err != nil {
			return err
		}
		if _, isTag := reference.(name.Tag); !isTag {
			continue
		}
		// The manifests name the images as they were written.
		if !strings.HasPrefix(reference.String(), r.registry+"/") || reference.Identifier() != r.version {
			return fmt.Errorf("%s has %s, not %s of %s: run make images with the same VERSION and REGISTRY first",
				r.path("images"), reference, r.version, r.registry)
		}
		index, err := images.ImageIndex(descriptor.Digest)
		if err != nil {
			return err
		}
		if err := remote.WriteIndex(reference, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
			return fmt.Errorf("pushing %s: %w", reference, err)
		}
		fmt.Fprintf(out, "%s@%s\n", reference.Context(), descriptor.Digest)
	}
	return r.pushArtifact(ctx, out)
}

// pushArtifact pushes the manifests as Flux's users push theirs.
func (r *release) pushArtifact(ctx context.Context, out io.Writer) error {
	args := []string{"push", "artifact", "oci://" + r.registry + "/" + artifact + ":" + r.version, "--path=" + r.path("manifests"),
		"--source=" + source, "--revision=" + r.version + "@sha1:" + r.revision, "--reproducible", "--output=json"}
	for key, value := range r.labels(artifact, "The manifests of Sluice, for Flux.") {
		args = append(args, "--annotations="+key+"="+value)
	}
	flux := exec.CommandContext(ctx, r.flux, args...)
	flux.Stderr = os.Stderr
	answer, err := flux.Output()
	if err != nil {
		return fmt.Errorf("flux push artifact: %w", err)
	}
	pushed := struct{ Repository, Digest string }{}
	if err := json.Unmarshal(answer, &pushed); err != nil {
		return fmt.Errorf("flux push artifact printed %q: %w", answer, err)
	}
	fmt.Fprintf(out, "%s@%s\n", pushed.Repository, pushed.Digest)
	return nil
}
