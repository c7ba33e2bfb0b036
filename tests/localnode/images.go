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
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/sluice-toolkit/sluice/release/image"
)

// Import imports the images of a directory in the OCI image layout into the node, under their names. Pods can use them
// without a registry.
func (n *Node) Import(ctx context.Context, dir string) error {
	ctr := exec.CommandContext(ctx, "ctr", "--address="+n.containerdSocket(), "--namespace=k8s.io", "images", "import", "-")
	in, err := ctr.StdinPipe()
	if err != nil {
		return err
	}
	written := make(chan error, 1)
	go func() {
		archive := tar.NewWriter(in)
		written <- errors.Join(archive.AddFS(os.DirFS(dir)), archive.Close(), in.Close())
	}()
	if out, err := ctr.CombinedOutput(); err != nil {
		return fmt.Errorf("importing the images of %s: ctr: %w: %s", dir, err, out)
	}
	return <-written
}

// ImportProgram imports an image of one statically linked program into the node.
func (n *Node) ImportProgram(ctx context.Context, name, program, path, user string) error {
	built, err := image.Image{Files: []image.File{image.Program(path, program)}, Entrypoint: []string{path}, User: user}.Build("linux", runtime.GOARCH)
	if err != nil {
		return err
	}
	dir := n.path("image")
	defer os.RemoveAll(dir)
	if err := image.WriteLayout(dir, image.Named{Image: built, Names: []string{name}}); err != nil {
		return err
	}
	return n.Import(ctx, dir)
}
