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

// Package image builds container images of programs, without a container engine or a base image. Builds are
// reproducible: all times are the Unix epoch.
package image

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image is the content of an image, and its configuration.
type Image struct {
	Files []File
	// Entrypoint is the path of a program in the image, and its arguments.
	Entrypoint []string
	// Env are environment variables, NAME=VALUE.
	Env []string
	// User runs it, by numbers: Kubernetes can't check that a user with a name is not root.
	User string
	// Labels say where the image comes from. They are annotations too.
	Labels map[string]string
}

// File is a file of an image.
type File struct {
	header tar.Header
	open   func() (io.ReadCloser, error)
}

// Program is a copy of a program of this machine.
func Program(path, source string) File {
	return File{header: tar.Header{Name: path, Mode: 0o755}, open: func() (io.ReadCloser, error) { return os.Open(source) }}
}

// Text is a file that everybody may read.
func Text(path, content string) File {
	return File{header: tar.Header{Name: path, Mode: 0o644, Size: int64(len(content))}, open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), nil
	}}
}

// Link is a symbolic link.
func Link(path, target string) File {
	return File{header: tar.Header{Name: path, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777}}
}

// Scratch is a directory that everybody may write to.
func Scratch(path string) File {
	return File{header: tar.Header{Name: path + "/", Typeflag: tar.TypeDir, Mode: 0o1777}}
}

// Build makes the image for one platform, by Go's names.
func (i Image) Build(system, architecture string) (v1.Image, error) {
	layer, err := tarball.LayerFromOpener(i.archive, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.DefaultCompression),
		tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	built, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layer)
	if err != nil {
		return nil, err
	}
	config, err := built.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = system, architecture
	config.Created = v1.Time{Time: time.Unix(0, 0).UTC()}
	config.History = nil
	config.Config = v1.Config{Entrypoint: i.Entrypoint, Env: i.Env, User: i.User, Labels: i.Labels, WorkingDir: "/"}
	if built, err = mutate.ConfigFile(built, config); err != nil {
		return nil, err
	}
	return mutate.Annotations(built, i.Labels).(v1.Image), nil
}

// archive is the image's only layer.
func (i Image) archive() (io.ReadCloser, error) {
	reader, writer := io.Pipe()
	go func() {
		archive := tar.NewWriter(writer)
		for _, file := range slices.SortedFunc(slices.Values(i.Files), func(a, b File) int { return cmp.Compare(a.header.Name, b.header.Name) }) {
			if err := file.write(archive); err != nil {
				writer.CloseWithError(fmt.Errorf("%s: %w", file.header.Name, err))
				return
			}
		}
		writer.CloseWithError(archive.Close())
	}()
	return reader, nil
}

func (f File) write(archive *tar.Writer) error {
	header := f.header
	header.Name = strings.TrimPrefix(header.Name, "/")
	header.ModTime = time.Unix(0, 0)
	if f.open == nil {
		return archive.WriteHeader(&header)
	}
	content, err := f.open()
	if err != nil {
		return err
	}
	defer content.Close()
	if file, ok := content.(*os.File); ok {
		info, err := file.Stat()
		if err != nil {
			return err
		}
		header.Size = info.Size()
	}
	if err := archive.WriteHeader(&header); err != nil {
		return err
	}
	_, err = io.Copy(archive, content)
	return err
}

// Index joins the images for several platforms to one.
func Index(annotations map[string]string, images ...v1.Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, image := range images {
		config, err := image.ConfigFile()
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: config.Platform()}})
	}
	return mutate.Annotations(index, annotations).(v1.ImageIndex), nil
}
