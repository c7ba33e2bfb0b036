//go:build linux

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

package localnode

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Image is an image that consists of one statically linked program.
type Image struct {
	// Name is the name by which pods ask for it, with a tag.
	Name string
	// Program is the path of the program on this machine.
	Program string
	// Entrypoint is what the image runs: the path of the program in the image, and arguments.
	Entrypoint []string
	// User is who runs it, if the pod says nothing else.
	User string
}

// FromDockerfile returns the image that a Dockerfile describes, with a program that was built without it.
func FromDockerfile(dockerfile, name, program string) (Image, error) {
	image := Image{Name: name, Program: program}
	content, err := os.ReadFile(dockerfile)
	if err != nil {
		return Image{}, err
	}
	for line := range strings.Lines(string(content)) {
		instruction, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch instruction {
		case "USER":
			image.User = value
		case "ENTRYPOINT":
			if err := json.Unmarshal([]byte(value), &image.Entrypoint); err != nil {
				return Image{}, fmt.Errorf("%s: ENTRYPOINT: %w", dockerfile, err)
			}
		}
	}
	if len(image.Entrypoint) == 0 {
		return Image{}, fmt.Errorf("%s has no ENTRYPOINT", dockerfile)
	}
	return image, nil
}

// Import makes images known to the node, so that their pods start without a registry.
func (n *Node) Import(ctx context.Context, images ...Image) error {
	for _, image := range images {
		if err := n.importImage(ctx, image); err != nil {
			return fmt.Errorf("importing image %s: %w", image.Name, err)
		}
	}
	return nil
}

func (n *Node) importImage(ctx context.Context, image Image) error {
	path := filepath.Join(n.dir, "image.tar")
	if err := image.write(path); err != nil {
		return err
	}
	defer os.Remove(path)
	ctr := exec.CommandContext(ctx, "ctr", "--address="+n.containerdSocket(), "--namespace=k8s.io", "images", "import", path)
	if out, err := ctr.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr: %w: %s", err, out)
	}
	return nil
}

// descriptor describes a part of an image, as the OCI image specification has it.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// write writes the image as an archive in the image layout of the OCI.
func (i Image) write(path string) error {
	program, err := os.ReadFile(i.Program)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(file)
	return errors.Join(i.writeLayout(archive, program), archive.Close(), file.Close())
}

func (i Image) writeLayout(archive *tar.Writer, program []byte) error {
	files, err := i.files(program)
	if err != nil {
		return err
	}
	layer, err := writeBlob(archive, "application/vnd.oci.image.layer.v1.tar", files)
	if err != nil {
		return err
	}
	config, err := writeJSONBlob(archive, "application/vnd.oci.image.config.v1+json", map[string]any{
		"os":           "linux",
		"architecture": runtime.GOARCH,
		"config":       map[string]any{"Entrypoint": i.Entrypoint, "User": i.User},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{layer.Digest}},
	})
	if err != nil {
		return err
	}
	manifest, err := writeJSONBlob(archive, "application/vnd.oci.image.manifest.v1+json", map[string]any{
		"schemaVersion": 2, "config": config, "layers": []descriptor{layer},
	})
	if err != nil {
		return err
	}
	// containerd takes the image's name from this.
	manifest.Annotations = map[string]string{"io.containerd.image.name": i.Name}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{manifest}})
	if err != nil {
		return err
	}
	return errors.Join(
		writeFile(archive, "index.json", 0o644, index),
		writeFile(archive, "oci-layout", 0o644, []byte(`{"imageLayoutVersion": "1.0.0"}`)),
	)
}

// files is an archive of the one file in the image.
func (i Image) files(program []byte) ([]byte, error) {
	var files bytes.Buffer
	archive := tar.NewWriter(&files)
	err := errors.Join(writeFile(archive, strings.TrimPrefix(i.Entrypoint[0], "/"), 0o755, program), archive.Close())
	return files.Bytes(), err
}

func writeJSONBlob(archive *tar.Writer, mediaType string, value any) (descriptor, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return descriptor{}, err
	}
	return writeBlob(archive, mediaType, content)
}

func writeBlob(archive *tar.Writer, mediaType string, content []byte) (descriptor, error) {
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	blob := descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(content)}
	return blob, writeFile(archive, "blobs/sha256/"+sum, 0o644, content)
}

func writeFile(archive *tar.Writer, name string, mode int64, content []byte) error {
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}
