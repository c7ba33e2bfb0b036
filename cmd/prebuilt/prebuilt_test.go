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
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	. "github.com/onsi/gomega"
)

// internet stands in for the hosts that binaries are downloaded from: they redirect downloads to other hosts, and
// ghcr.io asks for a token that it gives to anyone.
type internet struct {
	*httptest.Server
	registry http.Handler
	files    map[string][]byte
	requests atomic.Int32
	// altered changes the layers of images in transit.
	altered bool
}

func newInternet(t *testing.T) *internet {
	i := &internet{registry: registry.New(registry.Logger(log.New(io.Discard, "", 0))), files: map[string][]byte{}}
	i.Server = httptest.NewTLSServer(i)
	t.Cleanup(i.Close)
	return i
}

func (i *internet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.requests.Add(1)
	isBlob := strings.Contains(r.URL.Path, "/blobs/")
	switch {
	case r.Host == "github.com":
		http.Redirect(w, r, "https://release-assets.githubusercontent.com"+r.URL.Path, http.StatusFound)
	case r.Host == "ghcr.io" && r.URL.Path == "/token":
		fmt.Fprint(w, `{"token": "anyone"}`)
	case r.Host == "ghcr.io" && r.Header.Get("Authorization") != "Bearer anyone":
		w.Header().Set("WWW-Authenticate", `Bearer realm="https://ghcr.io/token",service="ghcr.io",scope="repository:pull"`)
		http.Error(w, `{"errors": [{"code": "UNAUTHORIZED"}]}`, http.StatusUnauthorized)
	case (r.Host == "ghcr.io" || r.Host == "registry.k8s.io") && isBlob:
		http.Redirect(w, r, "https://blobs.example.com"+r.URL.Path, http.StatusTemporaryRedirect)
	case strings.HasPrefix(r.URL.Path, "/v2/") && isBlob && i.altered:
		// A byte of the header of gzip, which changes nothing of what is packed.
		answer := httptest.NewRecorder()
		i.registry.ServeHTTP(answer, r)
		if content := answer.Body.Bytes(); len(content) > 4 && content[0] == 0x1f {
			content[4] ^= 1
		}
		w.WriteHeader(answer.Code)
		w.Write(answer.Body.Bytes())
	case strings.HasPrefix(r.URL.Path, "/v2/"):
		i.registry.ServeHTTP(w, r)
	default:
		content, ok := i.files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Write(content)
	}
}

// downloader returns one that takes every host for the stand-in.
func (i *internet) downloader() downloader {
	certificates := i.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	return downloader{progress: io.Discard, transport: &http.Transport{
		// The name that the stand-in's certificate has.
		TLSClientConfig: &tls.Config{RootCAs: certificates, ServerName: "example.com"},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, i.Listener.Addr().String())
		},
	}}
}

// publish serves content at the address of each pin, and returns the pins with its checksums.
func (i *internet) publish(g Gomega, pins []pin) []pin {
	pusher := httptest.NewServer(i.registry)
	defer pusher.Close()
	for n := range pins {
		pin := &pins[n]
		if pin.isImage() {
			tagged, _, _ := strings.Cut(pin.from, "@")
			reference, err := name.ParseReference(tagged)
			g.Expect(err).NotTo(HaveOccurred())
			pushed, err := name.NewTag(strings.TrimPrefix(pusher.URL, "http://") + "/" + reference.Context().RepositoryStr() + ":" + reference.Identifier())
			g.Expect(err).NotTo(HaveOccurred())
			layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive(pin.binaries))), nil })
			g.Expect(err).NotTo(HaveOccurred())
			image, err := mutate.AppendLayers(empty.Image, layer)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(remote.Write(pushed, image)).To(Succeed())
			digest, err := image.Digest()
			g.Expect(err).NotTo(HaveOccurred())
			pin.from = tagged + "@" + digest.String()
			continue
		}
		content := []byte("gitea")
		if strings.HasSuffix(pin.from, ".tar.gz") {
			content = compressed(archive(pin.binaries))
		}
		_, path, _ := strings.Cut(strings.TrimPrefix(pin.from, "https://"), "/")
		i.files["/"+path] = content
		if strings.HasPrefix(pin.sum, "sha512:") {
			pin.sum = fmt.Sprintf("sha512:%x", sha512.Sum512(content))
		} else {
			pin.sum = fmt.Sprintf("sha256:%x", sha256.Sum256(content))
		}
	}
	return pins
}

func TestInstall(t *testing.T) {
	setUp := func(t *testing.T) (Gomega, *internet, []pin, string) {
		g := NewWithT(t)
		pins, err := pinsFor("linux", "amd64")
		g.Expect(err).NotTo(HaveOccurred())
		i := newInternet(t)
		return g, i, i.publish(g, pins), filepath.Join(t.TempDir(), "bin", "prebuilt")
	}

	t.Run("all binaries of the local cluster are installed, once", func(t *testing.T) {
		g, i, pins, dir := setUp(t)
		g.Expect(i.downloader().install(t.Context(), pins, dir)).To(Succeed())
		for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "gitea",
			"source-controller", "kustomize-controller", "helm-controller", "notification-controller"} {
			g.Expect(os.ReadFile(filepath.Join(dir, name))).To(BeEquivalentTo(name))
			info, err := os.Stat(filepath.Join(dir, name))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(info.Mode().Perm()).To(BeEquivalentTo(0o755), name)
		}
		requests := i.requests.Load()
		g.Expect(i.downloader().install(t.Context(), pins, dir)).To(Succeed())
		g.Expect(i.requests.Load()).To(Equal(requests))
	})

	t.Run("what was installed stays until something else is pinned and has arrived", func(t *testing.T) {
		g, i, pins, dir := setUp(t)
		g.Expect(i.downloader().install(t.Context(), pins, dir)).To(Succeed())
		pins[1].sum = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("newer")))
		g.Expect(i.downloader().install(t.Context(), pins, dir)).To(MatchError(ContainSubstring("is pinned")))
		g.Expect(filepath.Join(dir, "gitea")).To(BeAnExistingFile())
		g.Expect(os.ReadDir(filepath.Dir(dir))).To(HaveLen(1), "nothing is left of the attempt")
	})

	for _, tt := range []struct {
		name  string
		alter func(*internet, []pin)
		want  string
	}{
		{"an archive of another checksum is refused", func(_ *internet, pins []pin) { pins[0].sum = "sha512:00" }, "but 00 is pinned"},
		{"a checksum of another kind is refused", func(_ *internet, pins []pin) { pins[0].sum = "md5:00" }, "neither of sha256 nor of sha512"},
		{"a missing checksum is refused", func(_ *internet, pins []pin) { pins[1].sum = "" }, "neither of sha256 nor of sha512"},
		{"an archive that lacks a binary is refused", func(_ *internet, pins []pin) { pins[0].binaries["unknown"] = "a/b" }, "it lacks a/b"},
		{"an image that lacks a binary is refused", func(_ *internet, pins []pin) { pins[2].binaries["unknown"] = "a/b" }, "it lacks a/b"},
		{"an image that is not there is refused", func(_ *internet, pins []pin) {
			pins[2].from = strings.Split(pins[2].from, "@")[0] + "@sha256:" + strings.Repeat("0", 64)
		}, "MANIFEST_UNKNOWN"},
		{"an image whose layer was altered is refused", func(i *internet, _ []pin) { i.altered = true }, "error verifying"},
		{"a missing file is reported", func(i *internet, _ []pin) { clear(i.files) }, "the host answered 404 Not Found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, i, pins, dir := setUp(t)
			tt.alter(i, pins)
			g.Expect(i.downloader().install(t.Context(), pins, dir)).To(MatchError(ContainSubstring(tt.want)))
			g.Expect(dir).NotTo(BeAnExistingFile())
		})
	}
}

func TestRunNamesTheOtherWay(t *testing.T) {
	otherWay := ContainSubstring("'make demo' without PREBUILT builds the same binaries")
	t.Run("where a host can't be reached", func(t *testing.T) {
		g, i := NewWithT(t), newInternet(t)
		i.Close()
		err := run(t.Context(), i.downloader(), "linux", "amd64", filepath.Join(t.TempDir(), "prebuilt"))
		g.Expect(err).To(MatchError(And(ContainSubstring("connection refused"), otherWay)))
	})
	t.Run("where nothing is pinned for the platform", func(t *testing.T) {
		err := run(t.Context(), downloader{}, "darwin", "arm64", filepath.Join(t.TempDir(), "prebuilt"))
		NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring("no prebuilt binaries are pinned for darwin/arm64"), otherWay)))
	})
}

// archive is a tar of binaries. Each holds its name.
func archive(binaries map[string]string) []byte {
	var content bytes.Buffer
	writer := tar.NewWriter(&content)
	for name, path := range binaries {
		if err := writer.WriteHeader(&tar.Header{Name: path, Mode: 0o755, Size: int64(len(name))}); err != nil {
			panic(err)
		}
		if _, err := writer.Write([]byte(name)); err != nil {
			panic(err)
		}
	}
	if err := writer.Close(); err != nil {
		panic(err)
	}
	return content.Bytes()
}

func compressed(content []byte) []byte {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	if _, err := writer.Write(content); err != nil {
		panic(err)
	}
	if err := writer.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}
