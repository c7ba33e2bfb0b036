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
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sluice-toolkit/sluice/release/program"
)

const (
	pluginPlatforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

	// pluginName is the plugin's in Flux's catalog, pluginProgram that of its program.
	pluginName    = "sluice"
	pluginProgram = "flux-" + pluginName
)

// plugin writes the plugin's archives, their checksums, and what Flux's plugin catalog has of it.
func (r *release) plugin(ctx context.Context) error {
	for _, platform := range r.platforms {
		path := r.path("programs", platform.Dir(), platform.Executable(pluginProgram))
		if err := program.Compile(ctx, r.repository, "flux-cli-plugin", r.version, platform, path); err != nil {
			return err
		}
	}
	return r.pack()
}

// pack packs the plugin's programs.
func (r *release) pack() error {
	if err := errors.Join(os.RemoveAll(r.path("plugin")), os.MkdirAll(r.path("plugin"), 0o755)); err != nil {
		return err
	}
	number := strings.TrimPrefix(r.version, "v")
	manifest, checksums := &strings.Builder{}, &strings.Builder{}
	fmt.Fprintf(manifest, `apiVersion: cli.fluxcd.io/v1beta1
kind: Plugin
name: %s
description: Gates and pipelines for Flux
homepage: %s
source: %[2]s
bin: %s
versions:
- version: %s
  platforms:
`, pluginName, source, pluginProgram, number)
	for _, platform := range r.platforms {
		file, content, err := r.packFor(platform, number)
		if err != nil {
			return err
		}
		if err := os.WriteFile(r.path("plugin", file), content, 0o644); err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		fmt.Fprintf(checksums, "%x  %s\n", sum, file)
		fmt.Fprintf(manifest, "  - os: %s\n    arch: %s\n    url: %s/%s\n    checksum: sha256:%x\n", platform.OS, platform.Arch, r.downloads, file, sum)
	}
	return errors.Join(
		os.WriteFile(r.path("plugin", pluginName+".yaml"), []byte(manifest.String()), 0o644),
		os.WriteFile(r.path("plugin", "checksums.txt"), []byte(checksums.String()), 0o644),
	)
}

// packFor returns the archive for a platform, and its name.
func (r *release) packFor(platform program.Platform, number string) (name string, content []byte, _ error) {
	executable := platform.Executable(pluginProgram)
	binary, err := os.ReadFile(r.path("programs", platform.Dir(), executable))
	if err != nil {
		return "", nil, err
	}
	name = fmt.Sprintf("%s_%s_%s_%s", pluginProgram, number, platform.OS, platform.Arch)
	archive := &bytes.Buffer{}
	if platform.OS == "windows" {
		name += ".zip"
		err = writeZip(archive, executable, binary)
	} else {
		name += ".tar.gz"
		err = writeTarGz(archive, executable, binary)
	}
	return name, archive.Bytes(), err
}

func writeZip(out io.Writer, name string, content []byte) error {
	archive := zip.NewWriter(out)
	// The format has no time before 1980.
	header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
	file, err := archive.CreateHeader(header)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, archive.Close())
}

func writeTarGz(out io.Writer, name string, content []byte) error {
	compressed := gzip.NewWriter(out)
	archive := tar.NewWriter(compressed)
	err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), ModTime: time.Unix(0, 0)})
	if err == nil {
		_, err = archive.Write(content)
	}
	return errors.Join(err, archive.Close(), compressed.Close())
}
