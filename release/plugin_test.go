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
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/release/program"
)

// catalog serves the plugin of a release as Flux's plugin catalog does, over HTTPS with a CA of its own. For this
// machine's platform it is the real one. It returns what the Flux CLI needs in its environment.
func catalog(t *testing.T) (r *release, environment []string) {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	server := httptest.NewTLSServer(http.FileServer(http.Dir(filepath.Join(dir, "plugin"))))
	t.Cleanup(server.Close)
	r = &release{repository: "..", dir: dir, version: "v0.2.0", revision: revision, downloads: server.URL}
	for _, text := range strings.Split(pluginPlatforms, ",") {
		platform, err := program.ParsePlatform(text)
		g.Expect(err).NotTo(HaveOccurred())
		r.platforms = append(r.platforms, platform)
		path := r.path("programs", platform.Dir(), platform.Executable(pluginProgram))
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		content := []byte("a program for " + text)
		if platform == (program.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}) {
			content, err = os.ReadFile(tool("flux-sluice"))
			g.Expect(err).NotTo(HaveOccurred(), "make build builds it")
		}
		g.Expect(os.WriteFile(path, content, 0o755)).To(Succeed())
	}
	g.Expect(r.pack()).To(Succeed())

	ca := filepath.Join(dir, "ca.crt")
	g.Expect(os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600)).To(Succeed())
	return r, append(os.Environ(), "FLUXCD_PLUGIN_CATALOG="+server.URL+"/", "SSL_CERT_FILE="+ca, "HOME="+t.TempDir(), "FLUXCD_PLUGINS="+t.TempDir())
}

func TestFluxInstallsThePlugin(t *testing.T) {
	_, environment := catalog(t)
	flux := func(args ...string) (string, error) {
		command := exec.CommandContext(t.Context(), tool("flux"), args...)
		command.Env = environment
		out, err := command.CombinedOutput()
		return string(out), err
	}
	succeeds := func(args ...string) string {
		t.Helper()
		out, err := flux(args...)
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), out)
		return out
	}
	g := NewWithT(t)
	plugins := strings.TrimPrefix(environment[len(environment)-1], "FLUXCD_PLUGINS=")

	succeeds("plugin", "install", "sluice")
	g.Expect(succeeds("plugin", "list")).To(ContainSubstring("0.2.0"))
	g.Expect(succeeds("sluice", "gate", "close", "--help")).To(ContainSubstring("flux sluice gate close NAME"))
	for _, verb := range verbs {
		g.Expect(succeeds("sluice", verb, "--help")).To(ContainSubstring("flux sluice " + verb))
		_, err := flux(verb, "--help")
		g.Expect(err).To(HaveOccurred(), "flux %s is not installed yet", verb)
	}

	succeeds("sluice", "install-verbs")
	succeeds("sluice", "install-verbs") // once more changes nothing
	for _, verb := range verbs {
		g.Expect(succeeds(verb, "--help")).To(ContainSubstring("flux " + verb))
	}

	succeeds("sluice", "remove-verbs")
	left, err := filepath.Glob(filepath.Join(plugins, "flux-*"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(left).To(ConsistOf(HaveSuffix("flux-sluice"), HaveSuffix("flux-sluice.yaml")))

	// Someone else's plugin is left alone.
	other := filepath.Join(plugins, "flux-gate")
	g.Expect(os.WriteFile(other, []byte("#!/bin/sh\n"), 0o755)).To(Succeed())
	for _, command := range []string{"install-verbs", "remove-verbs"} {
		out, err := flux("sluice", command)
		g.Expect(err).To(HaveOccurred())
		g.Expect(out).To(ContainSubstring(other + " is not a link to this plugin"))
		g.Expect(os.ReadFile(other)).To(BeEquivalentTo("#!/bin/sh\n"))
	}
}

func TestThePluginsArchives(t *testing.T) {
	g := NewWithT(t)
	r, _ := catalog(t)
	checksums, err := os.ReadFile(r.path("plugin", "checksums.txt"))
	g.Expect(err).NotTo(HaveOccurred())
	manifest, err := os.ReadFile(r.path("plugin", "sluice.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	for platform, suffix := range map[string]string{
		"linux_amd64": ".tar.gz", "linux_arm64": ".tar.gz", "darwin_amd64": ".tar.gz", "darwin_arm64": ".tar.gz",
		"windows_amd64": ".zip", "windows_arm64": ".zip",
	} {
		name := "flux-sluice_0.2.0_" + platform + suffix
		content, err := os.ReadFile(r.path("plugin", name))
		g.Expect(err).NotTo(HaveOccurred())
		sum := fmt.Sprintf("%x", sha256.Sum256(content))
		g.Expect(string(checksums)).To(ContainSubstring(sum + "  " + name + "\n"))
		g.Expect(string(manifest)).To(ContainSubstring(name + "\n    checksum: sha256:" + sum + "\n"))
		if suffix == ".zip" {
			archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(archive.File).To(ConsistOf(HaveField("Name", "flux-sluice.exe")))
		}
	}
}
