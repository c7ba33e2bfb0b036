//go:build e2e_node

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

package stories

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// World is the cluster of the stories, with Flux.
type World interface {
	// Kubeconfig is the path of the kubeconfig of an administrator.
	Kubeconfig() string
	// Provide makes the images of a directory in the OCI image layout available to pods, under their names.
	Provide(ctx context.Context, layout string) error
}

// Settings of the environment.
const (
	// kubeconfigVariable names the kubeconfig of a cluster. Without it, the stories create a cluster on this machine.
	kubeconfigVariable = "E2E_KUBECONFIG"
	// loadVariable is a command that loads an archive of images into the nodes of that cluster. The archive's path is
	// added to it.
	loadVariable = "E2E_LOAD"
)

// someCluster is the cluster of a kubeconfig, on kind or elsewhere.
type someCluster struct {
	kubeconfig string
	load       string
}

func (c someCluster) Kubeconfig() string { return c.kubeconfig }

func (c someCluster) Provide(ctx context.Context, layout string) error {
	dir, err := os.MkdirTemp("", "sluice-images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	archive := filepath.Join(dir, "images.tar")
	for _, command := range [][]string{
		{"tar", "--create", "--file", archive, "--directory", layout, "."},
		{"sh", "-c", c.load + ` "$0"`, archive},
	} {
		if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command[0], err, out)
		}
	}
	return nil
}
