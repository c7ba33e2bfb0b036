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
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const (
	// responseTimeout is how long a host may take to answer.
	responseTimeout = 30 * time.Second
	// largest, in bytes, bounds what is downloaded, and each binary.
	largest = 1 << 30
	// stamp names the file that lists what a directory was made from.
	stamp = ".pins"
)

// downloader downloads what is pinned.
type downloader struct {
	transport http.RoundTripper
	progress  io.Writer
}

// install makes a directory of the binaries of all pins, unless it is one already. The directory appears as a whole.
func (d downloader) install(ctx context.Context, pins []pin, dir string) error {
	if content, err := os.ReadFile(filepath.Join(dir, stamp)); err == nil && string(content) == describe(pins) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), ".prebuilt-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, pin := range pins {
		fmt.Fprintln(d.progress, "► downloading", pin.from)
		if err := d.download(ctx, pin, work); err != nil {
			return fmt.Errorf("downloading %s: %w", pin.from, err)
		}
	}
	if err := os.WriteFile(filepath.Join(work, stamp), []byte(describe(pins)), 0o644); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(work, 0o755), os.RemoveAll(dir)); err != nil {
		return err
	}
	return os.Rename(work, dir)
}

// describe lists the pins, a line each.
func describe(pins []pin) string {
	var lines []string
	for _, pin := range pins {
		lines = append(lines, pin.from+" "+pin.sum+" "+strings.Join(slices.Sorted(maps.Keys(pin.binaries)), ","))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// download writes the binaries of a pin into a directory.
func (d downloader) download(ctx context.Context, pin pin, dir string) error {
	if pin.isImage() {
		return d.downloadImage(ctx, pin, dir)
	}
	file, err := d.verified(ctx, pin, dir)
	if err != nil {
		return err
	}
	defer os.Remove(file)
	if !strings.HasSuffix(pin.from, ".tar.gz") {
		for name := range pin.binaries {
			return errors.Join(os.Chmod(file, 0o755), os.Rename(file, filepath.Join(dir, name)))
		}
	}
	archive, err := os.Open(file)
	if err != nil {
		return err
	}
	defer archive.Close()
	content, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	missing := pin.paths()
	return errors.Join(unpack(content, missing, dir), lacks(missing))
}

// downloadImage looks for the binaries in the layers of an image, the uppermost first.
func (d downloader) downloadImage(ctx context.Context, pin pin, dir string) error {
	reference, err := name.NewDigest(pin.from)
	if err != nil {
		return err
	}
	image, err := remote.Image(reference, remote.WithContext(ctx), remote.WithTransport(d.transport),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: pin.architecture}))
	if err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	missing := pin.paths()
	for _, layer := range slices.Backward(layers) {
		if len(missing) == 0 {
			break
		}
		if err := unpackLayer(layer, missing, dir); err != nil {
			return err
		}
	}
	return lacks(missing)
}

func unpackLayer(layer v1.Layer, missing map[string]string, dir string) error {
	content, err := layer.Uncompressed()
	if err != nil {
		return err
	}
	defer content.Close()
	return unpack(content, missing, dir)
}

// verified downloads a file and returns its path if it has the pinned checksum.
func (d downloader) verified(ctx context.Context, pin pin, dir string) (path string, err error) {
	sum, want, err := checksum(pin.sum)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, pin.from, nil)
	if err != nil {
		return "", err
	}
	response, err := (&http.Client{Transport: d.transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the host answered %s", response.Status)
	}
	file, err := os.CreateTemp(dir, ".download-")
	if err != nil {
		return "", err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			os.Remove(file.Name())
		}
	}()
	if err := copyBounded(io.MultiWriter(file, sum), response.Body); err != nil {
		return "", err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return "", fmt.Errorf("its checksum is %s, but %s is pinned", got, want)
	}
	return file.Name(), nil
}

// checksum returns the hash and the digits of a checksum such as "sha256:…".
func checksum(text string) (hash.Hash, string, error) {
	algorithm, digits, _ := strings.Cut(text, ":")
	switch algorithm {
	case "sha256":
		return sha256.New(), digits, nil
	case "sha512":
		return sha512.New(), digits, nil
	}
	return nil, "", fmt.Errorf("the checksum %q is neither of sha256 nor of sha512", text)
}

// lacks is an error if anything is missing.
func lacks(missing map[string]string) error {
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("it lacks %s", strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
}

// unpack writes the missing binaries that an archive has into a directory. They are no longer missing then.
func unpack(content io.Reader, missing map[string]string, dir string) error {
	archive := tar.NewReader(content)
	for len(missing) > 0 {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		file := strings.TrimPrefix(path.Clean(header.Name), "/")
		name, wanted := missing[file]
		if !wanted || header.Typeflag != tar.TypeReg {
			continue
		}
		if err := writeBinary(filepath.Join(dir, name), archive); err != nil {
			return err
		}
		delete(missing, file)
	}
	// The digest of a layer is checked at its end.
	return copyBounded(io.Discard, content)
}

func writeBinary(path string, content io.Reader) (err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return copyBounded(file, content)
}

// copyBounded copies no more than largest bytes, and fails if there are more.
func copyBounded(to io.Writer, from io.Reader) error {
	n, err := io.Copy(to, io.LimitReader(from, largest+1))
	if err == nil && n > largest {
		err = fmt.Errorf("it is larger than %d bytes", int64(largest))
	}
	return err
}
