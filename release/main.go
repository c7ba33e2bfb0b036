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

// Command release makes what a release of Sluice consists of: images, the artifact that Flux installs, and the plugin
// of the Flux CLI. The Makefile, the tests and the release workflow all run it. The caller sets the version; no file of
// the repository has it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/sluice-toolkit/sluice/release/program"
)

// release is what is made.
type release struct {
	// repository is the directory of the source.
	repository string
	// dir is what everything is written to.
	dir string
	// version is that of the release, such as v0.2.0.
	version string
	// revision is the commit.
	revision string
	// registry is where images and the artifact are found: an address with a path.
	registry string
	// platforms are those of the images, or of the plugin.
	platforms []program.Platform
	// downloads is the URL below which the plugin's archives are found.
	downloads string
	// flux is the path of the Flux CLI.
	flux string
}

const usage = `usage: release COMMAND -version VERSION -revision COMMIT [FLAG]...

commands:
  images     compiles the programs, and writes the images and the manifests that name them
  push       pushes these images, and these manifests as an artifact, and prints where each can be found
  plugin     compiles the plugin, and writes its archives, their checksums and its manifest for Flux's plugin catalog

flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var r release
	var platforms string
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&r.repository, "repository", ".", "the directory of Sluice's source")
	flags.StringVar(&r.dir, "dir", filepath.Join("bin", "release"), "the directory that everything is written to")
	flags.StringVar(&r.version, "version", "", "the version, such as v0.2.0")
	flags.StringVar(&r.revision, "revision", "", "the commit")
	flags.StringVar(&r.registry, "registry", "ghcr.io/sluice-toolkit", "where images and the artifact are found")
	flags.StringVar(&platforms, "platforms", "", "the platforms, such as linux/amd64,linux/arm64; by default all that are released")
	flags.StringVar(&r.downloads, "downloads", "", "the URL below which the plugin's archives are found; by default that of the release on GitHub")
	flags.StringVar(&r.flux, "flux", filepath.Join("bin", "flux"), "the Flux CLI, which pushes the artifact")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	if len(args) == 0 {
		flags.Usage()
		return errors.New("a command is required")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	if r.downloads == "" {
		r.downloads = source + "/releases/download/" + r.version
	}
	switch args[0] {
	case "images":
		return r.on(platforms, imagePlatforms, func() error { return r.images(ctx) })
	case "push":
		return r.push(ctx, os.Stdout)
	case "plugin":
		return r.on(platforms, pluginPlatforms, func() error { return r.plugin(ctx) })
	}
	flags.Usage()
	return fmt.Errorf("unknown command %q", args[0])
}

var (
	// versions are those of Semantic Versioning, without build metadata: tags of images have no '+'.
	versions = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)
	commits  = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

func (r *release) check() error {
	if !versions.MatchString(r.version) {
		return fmt.Errorf("-version %q must be a semantic version that begins with v, such as v0.2.0", r.version)
	}
	if !commits.MatchString(r.revision) {
		return fmt.Errorf("-revision %q must be a commit, with all its 40 digits", r.revision)
	}
	return nil
}

func (r *release) on(platforms, all string, do func() error) error {
	if platforms == "" {
		platforms = all
	}
	for _, text := range strings.Split(platforms, ",") {
		platform, err := program.ParsePlatform(text)
		if err != nil {
			return err
		}
		r.platforms = append(r.platforms, platform)
	}
	return do()
}

// path is that of a file or directory that is written.
func (r *release) path(elements ...string) string {
	return filepath.Join(append([]string{r.dir}, elements...)...)
}
