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

// Package program compiles the programs of a release. The same source and Go version give the same bytes in any
// directory.
package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Platform is the operating system and architecture of a program, in Go's terms.
type Platform struct{ OS, Arch string }

// ParsePlatform parses the format of String.
func ParsePlatform(text string) (Platform, error) {
	system, arch, ok := strings.Cut(text, "/")
	if !ok || system == "" || arch == "" {
		return Platform{}, fmt.Errorf("platform %q must be of the form OS/ARCH, such as linux/amd64", text)
	}
	return Platform{OS: system, Arch: arch}, nil
}

func (p Platform) String() string { return p.OS + "/" + p.Arch }

// Dir is the name of the directory for what is made for the platform.
func (p Platform) Dir() string { return p.OS + "_" + p.Arch }

// Executable is the name that a program's file has on the platform.
func (p Platform) Executable(name string) string {
	if p.OS == "windows" {
		return name + ".exe"
	}
	return name
}

// Compile compiles the program of a module, which is a directory of the repository, into the file at path.
func Compile(ctx context.Context, repository, module, version string, platform Platform, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	// The time and the state of a checkout are left out: they differ between checkouts of one commit. Without the tag,
	// gRPC, which the clouds' SDKs use, registers pages that call methods by name, so that the linker keeps all methods
	// of all types: a third of pipeline-controller.
	build := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-tags=grpcnotrace",
		"-ldflags", "-s -w -X main.version="+strings.TrimPrefix(version, "v"), "-o", path, ".")
	build.Dir = filepath.Join(repository, module)
	// What a module needs is in its own go.mod; the workspace is for development.
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0", "GOOS="+platform.OS, "GOARCH="+platform.Arch)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling %s for %s: %w\n%s", module, platform, err, out)
	}
	return nil
}
