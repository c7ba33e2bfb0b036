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

package localcluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// controlPlanePrograms are the programs that KUBEBUILDER_ASSETS may contain.
var controlPlanePrograms = map[string]bool{
	"etcd": true, "kube-apiserver": true, "kube-controller-manager": true, "kubectl": true, "kubelet": true, "kube-scheduler": true,
}

// programs finds the programs and files that hack/build.sh builds.
type programs struct {
	dir    string // of hack/build.sh's results
	assets string // KUBEBUILDER_ASSETS, may be empty
}

// findPrograms returns the directory in SLUICE_BIN, or bin/ of the repository that contains the current directory.
func findPrograms() (programs, error) {
	found := programs{assets: os.Getenv("KUBEBUILDER_ASSETS")}
	if dir := os.Getenv("SLUICE_BIN"); dir != "" {
		var err error
		found.dir, err = filepath.Abs(dir)
		return found, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return programs{}, err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			found.dir = filepath.Join(dir, "bin")
			return found, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return programs{}, errors.New("set SLUICE_BIN to the directory of the local cluster's programs, or run this inside of Sluice's repository")
		}
		dir = parent
	}
}

// path returns the path of a program, or an error that explains how to build it.
func (p programs) path(name string) (string, error) {
	if controlPlanePrograms[name] && p.assets != "" {
		path := filepath.Join(p.assets, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return p.file(name)
}

// file returns the path of a file in the directory of programs, or an error that explains how to build it.
func (p programs) file(name string) (string, error) {
	path := filepath.Join(p.dir, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: run `make binaries` (or `hack/build.sh controlplane flux gitea`) first", err)
	}
	return path, nil
}

// Program returns the path of a program that hack/build.sh builds, such as "kubectl", or an error that explains how to
// build it.
func (c *Cluster) Program(name string) (string, error) {
	return c.programs.path(name)
}

// FluxCRDs returns the path of the stock CRDs of one of Flux's controllers.
func (c *Cluster) FluxCRDs(controller FluxController) (string, error) {
	return c.programs.file(filepath.Join("crds", "flux", string(controller)+".yaml"))
}
