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
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/release/program"
)

const revision = "0123456789012345678901234567890123456789"

var platforms = []program.Platform{{OS: "linux", Arch: "amd64"}, {OS: "linux", Arch: "arm64"}}

// tool is the path of a program that hack/build.sh builds.
func tool(name string) string {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		if path := filepath.Join(assets, name); exec.Command(path, "version", "--client").Run() == nil {
			return path
		}
	}
	if bin := os.Getenv("SLUICE_BIN"); bin != "" {
		return filepath.Join(bin, name)
	}
	return filepath.Join("..", "bin", name)
}

// assembled is a release with stand-ins for programs: files that contain their name, platform and version.
func assembled(t *testing.T, registry, version string) *release {
	t.Helper()
	g := NewWithT(t)
	r := &release{
		repository: "..", dir: t.TempDir(), version: version, revision: revision, registry: registry, platforms: platforms, flux: tool("flux"),
	}
	g.Expect(r.check()).To(Succeed())
	for _, platform := range platforms {
		dir := r.path("programs", platform.Dir())
		g.Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
		for _, name := range []string{"gate-controller", "pipeline-controller", "flux", "flux-sluice"} {
			content := name + " for " + platform.String() + ", " + version
			g.Expect(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755)).To(Succeed())
		}
	}
	g.Expect(r.assemble()).To(Succeed())
	return r
}

// startRegistry returns the address, with a path, of a registry that is empty.
func startRegistry(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://") + "/sluice"
}

func TestEachArtifactRunsTheImagesOfItsOwnVersion(t *testing.T) {
	g := NewWithT(t)
	address := startRegistry(t)
	versions := []string{"v0.1.0", "v0.2.0"}
	for _, version := range versions {
		pushed := &bytes.Buffer{}
		g.Expect(assembled(t, address, version).push(t.Context(), pushed)).To(Succeed())
		g.Expect(strings.Fields(pushed.String())).To(ConsistOf(
			HavePrefix(address+"/gate-controller@sha256:"), HavePrefix(address+"/pipeline-controller@sha256:"),
			HavePrefix(address+"/flux-cli@sha256:"), HavePrefix(address+"/sluice-manifests@sha256:")), "what must be signed")
	}
	// The newer release has been made: the older one's artifact is what it was.
	for _, version := range versions {
		dir := pull(t, address+"/sluice-manifests:"+version)
		for kustomization, products := range map[string][]string{
			"default": {"gate-controller", "pipeline-controller"}, "samples/freeze-schedule": {"flux-cli", "flux-cli"},
		} {
			images := imagesOf(g, filepath.Join(dir, kustomization))
			g.Expect(images).To(HaveLen(len(products)))
			for i, image := range images {
				g.Expect(image).To(HavePrefix(address + "/" + products[i] + ":" + version + "@sha256:"))
				index := indexOf(g, image)
				g.Expect(index.Annotations).To(HaveKeyWithValue("org.opencontainers.image.version", version))
				g.Expect(index.Manifests).To(ConsistOf(
					HaveField("Platform", HaveValue(Equal(v1.Platform{OS: "linux", Architecture: "amd64"}))),
					HaveField("Platform", HaveValue(Equal(v1.Platform{OS: "linux", Architecture: "arm64"})))))
			}
		}
	}
}

func TestAReleaseIsReproducible(t *testing.T) {
	g := NewWithT(t)
	pushed := func() string {
		out := &bytes.Buffer{}
		g.Expect(assembled(t, startRegistry(t), "v0.1.0").push(t.Context(), out)).To(Succeed())
		return regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(out.String(), "registry")
	}
	first := strings.Fields(pushed())
	second := strings.Fields(pushed())
	// The artifact names the registry that the images are in.
	g.Expect(second[:3]).To(Equal(first[:3]))
}

func TestOnlyWhatWasMadeForARegistryIsPushedToIt(t *testing.T) {
	made := startRegistry(t)
	for name, change := range map[string]func(*release){
		"another registry is refused": func(r *release) { r.registry = "registry.example/sluice" },
		"another version is refused":  func(r *release) { r.version = "v0.2.0" },
	} {
		t.Run(name, func(t *testing.T) {
			r := assembled(t, made, "v0.1.0")
			change(r)
			NewWithT(t).Expect(r.push(t.Context(), io.Discard)).To(MatchError(ContainSubstring("run make images with the same VERSION and REGISTRY first")))
		})
	}
}

func TestImages(t *testing.T) {
	address := startRegistry(t)
	NewWithT(t).Expect(assembled(t, address, "v0.1.0").push(t.Context(), io.Discard)).To(Succeed())
	controllerFiles := func(name string) map[string]string {
		return map[string]string{"tmp/": "dtrwxrwxrwx", "usr/local/bin/" + name: "-rwxr-xr-x"}
	}
	for _, tt := range []struct {
		name       string
		files      map[string]string
		entrypoint string
	}{
		{"gate-controller", controllerFiles("gate-controller"), "/usr/local/bin/gate-controller"},
		{"pipeline-controller", controllerFiles("pipeline-controller"), "/usr/local/bin/pipeline-controller"},
		{"flux-cli", map[string]string{
			"tmp/":                                     "dtrwxrwxrwx",
			"usr/local/bin/flux":                       "-rwxr-xr-x",
			"usr/local/lib/flux/plugins/flux-sluice":   "-rwxr-xr-x",
			"usr/local/lib/flux/plugins/flux-open":     "flux-sluice",
			"usr/local/lib/flux/plugins/flux-close":    "flux-sluice",
			"usr/local/lib/flux/plugins/flux-approve":  "flux-sluice",
			"usr/local/lib/flux/plugins/flux-pass":     "flux-sluice",
			"usr/local/lib/flux/plugins/flux-gate":     "flux-sluice",
			"usr/local/lib/flux/plugins/flux-pipeline": "flux-sluice",
			"etc/ssl/certs/ca-certificates.crt":        "-rw-r--r--",
		}, "/usr/local/bin/flux"},
	} {
		for _, platform := range platforms {
			t.Run(tt.name+" holds its programs for "+platform.String()+", and nothing else", func(t *testing.T) {
				g := NewWithT(t)
				reference, err := name.ParseReference(address + "/" + tt.name + ":v0.1.0")
				g.Expect(err).NotTo(HaveOccurred())
				image, err := remote.Image(reference, remote.WithPlatform(v1.Platform{OS: platform.OS, Architecture: platform.Arch}))
				g.Expect(err).NotTo(HaveOccurred())
				config, err := image.ConfigFile()
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(config.Architecture).To(Equal(platform.Arch))
				g.Expect(config.Config.Entrypoint).To(Equal([]string{tt.entrypoint}))
				g.Expect(config.Config.User).To(Equal("65532:65532"), "by numbers, so that Kubernetes can check that it isn't root")
				g.Expect(config.Config.Labels).To(HaveKeyWithValue("org.opencontainers.image.revision", revision))
				g.Expect(config.Created.Unix()).To(BeZero())

				files := map[string]string{}
				var names []string
				g.Expect(eachFile(image, func(header *tar.Header, content io.Reader) error {
					g.Expect(header.ModTime.Unix()).To(BeZero(), header.Name)
					g.Expect([]int{header.Uid, header.Gid}).To(Equal([]int{0, 0}), header.Name)
					files[header.Name] = header.FileInfo().Mode().String()
					if header.Linkname != "" {
						files[header.Name] = header.Linkname
					}
					names = append(names, header.Name)
					if "/"+header.Name == tt.entrypoint {
						g.Expect(io.ReadAll(content)).To(BeEquivalentTo(filepath.Base(header.Name) + " for " + platform.String() + ", v0.1.0"))
					}
					return nil
				})).To(Succeed())
				g.Expect(files).To(Equal(tt.files))
				g.Expect(slices.IsSorted(names)).To(BeTrue())
			})
		}
	}
}

func TestVersions(t *testing.T) {
	for _, tt := range []struct {
		name, version string
		valid         bool
	}{
		{"a release is one", "v0.1.0", true},
		{"a release candidate is one", "v1.10.0-rc.1", true},
		{"one without v is not", "0.1.0", false},
		{"one with a part missing is not", "v0.1", false},
		{"one with leading zeros is not", "v0.01.0", false},
		{"one with build metadata is not, since tags of images have no plus", "v0.1.0+1", false},
		{"the name of a branch is not", "main", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := (&release{version: tt.version, revision: revision}).check()
			NewWithT(t).Expect(err == nil).To(Equal(tt.valid), "%v", err)
		})
	}
}

func TestTheManifestsInGitNameNoVersion(t *testing.T) {
	g := NewWithT(t)
	r := assembled(t, "registry.example/sluice", "v0.1.0")
	versioned := regexp.MustCompile(regexp.QuoteMeta(ourImages) + `[a-z-]+[:@]`)
	for _, kustomization := range withImages {
		for _, image := range imagesOf(g, filepath.Join(r.repository, "config", kustomization)) {
			g.Expect(image).NotTo(MatchRegexp(versioned.String()))
		}
	}
}

var imageLine = regexp.MustCompile(`(?m)^ *(?:- )?image: (\S+)$`)

// imagesOf returns the images that a kustomization runs, in its order.
func imagesOf(g Gomega, dir string) []string {
	built, err := exec.Command(tool("kubectl"), "kustomize", dir).CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(built))
	var images []string
	for _, match := range imageLine.FindAllStringSubmatch(string(built), -1) {
		images = append(images, match[1])
	}
	return images
}

// pull returns a directory with the content of an artifact.
func pull(t *testing.T, artifact string) string {
	t.Helper()
	g, dir := NewWithT(t), t.TempDir()
	pulled, err := exec.Command(tool("flux"), "pull", "artifact", "oci://"+artifact, "--output="+dir).CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(pulled))
	return dir
}

func indexOf(g Gomega, image string) *v1.IndexManifest {
	reference, err := name.ParseReference(image)
	g.Expect(err).NotTo(HaveOccurred())
	index, err := remote.Index(reference)
	g.Expect(err).NotTo(HaveOccurred())
	manifest, err := index.IndexManifest()
	g.Expect(err).NotTo(HaveOccurred())
	return manifest
}

// eachFile calls do with what an image holds.
func eachFile(image v1.Image, do func(*tar.Header, io.Reader) error) error {
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			return err
		}
		defer content.Close()
		for archive := tar.NewReader(content); ; {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if err := do(header, archive); err != nil {
				return err
			}
		}
	}
	return nil
}
