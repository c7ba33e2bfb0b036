//go:build e2e_node && linux

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
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sluice-toolkit/sluice/tests/localcluster"
	"github.com/sluice-toolkit/sluice/tests/localnode"
)

// localWorld is a cluster of one node on this machine. Flux's controllers run in pods, from Flux's own manifests.
type localWorld struct {
	cluster *localcluster.Cluster
	node    *localnode.Node
}

// kubectlImage is the image of config/samples/freeze-schedule-kubectl. Other clusters pull it.
const kubectlImage = "registry.k8s.io/kubectl:v1.36.3"

var fluxControllers = []string{"source-controller", "kustomize-controller", "notification-controller"}

func startLocalWorld(ctx context.Context) (_ *localWorld, err error) {
	w := &localWorld{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.stop())
		}
	}()
	if w.cluster, err = localcluster.Start(ctx, localcluster.Options{}); err != nil {
		return nil, err
	}
	if w.node, err = localnode.Start(ctx, w.cluster); err != nil {
		return nil, err
	}
	kubectl, err := w.cluster.Program("kubectl")
	if err != nil {
		return nil, err
	}
	if err := w.node.ImportProgram(ctx, kubectlImage, kubectl, "/bin/kubectl", ""); err != nil {
		return nil, err
	}
	if err := w.provideVolume(ctx); err != nil {
		return nil, err
	}
	return w, w.installFlux(ctx)
}

// provideVolume creates a volume for the only claim, in place of a StorageClass.
func (w *localWorld) provideVolume(ctx context.Context) error {
	dir := filepath.Join(w.cluster.Dir, "volume")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return w.cluster.Apply(ctx, fmt.Appendf(nil, `
apiVersion: v1
kind: PersistentVolume
metadata: {name: stories}
spec:
  capacity: {storage: 10Gi}
  accessModes: [ReadWriteOnce]
  local: {path: %s}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]}]}}
`, dir))
}

func (w *localWorld) stop() error {
	var errs []error
	if w.node != nil {
		errs = append(errs, w.node.Stop())
	}
	if w.cluster != nil {
		errs = append(errs, w.cluster.Stop())
	}
	return errors.Join(errs...)
}

func (w *localWorld) Kubeconfig() string { return w.cluster.Kubeconfig }

func (w *localWorld) Provide(ctx context.Context, layout string) error {
	return w.node.Import(ctx, layout)
}

// installFlux installs Flux's controllers as its own install has them. Their CRDs are in every local cluster.
func (w *localWorld) installFlux(ctx context.Context) error {
	flux, err := moduleDir(ctx, "flux-cli", "github.com/fluxcd/flux2/v2")
	if err != nil {
		return err
	}
	dir := filepath.Join(w.cluster.Dir, "flux")
	resources := []string{"rbac", "policies"}
	for _, resource := range resources {
		if err := os.CopyFS(filepath.Join(dir, resource), os.DirFS(filepath.Join(flux.Dir, "manifests", resource))); err != nil {
			return err
		}
	}
	for _, controller := range fluxControllers {
		if err := w.addFluxController(ctx, flux.Dir, dir, controller); err != nil {
			return err
		}
		resources = append(resources, controller)
	}
	kustomization := "namespace: " + localcluster.FluxNamespace + "\nresources: [" + strings.Join(resources, ", ") + "]\n"
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(kustomization), 0o600); err != nil {
		return err
	}
	return w.cluster.ApplyKustomization(ctx, dir)
}

// addFluxController writes a kustomization of a controller, like Flux's own, and imports its image into the node.
func (w *localWorld) addFluxController(ctx context.Context, flux, dir, name string) error {
	module, err := moduleDir(ctx, "flux", "github.com/fluxcd/"+name)
	if err != nil {
		return err
	}
	dir = filepath.Join(dir, name)
	// Flux's own kustomization has these from a release on GitHub.
	resources := []string{"account.yaml", "deployment.yaml"}
	files := map[string]string{"deployment.yaml": filepath.Join(module.Dir, "config", "manager", "deployment.yaml")}
	if service := filepath.Join(module.Dir, "config", "manager", "service.yaml"); exists(service) {
		resources = append(resources, "service.yaml")
		files["service.yaml"] = service
	}
	for _, file := range []string{"account.yaml", "labels.yaml", "patch.yaml"} {
		files[file] = filepath.Join(flux, "manifests", "bases", name, file)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for file, from := range files {
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			return err
		}
	}
	kustomization := fmt.Sprintf(`resources: [%s]
transformers: [labels.yaml]
patches: [{target: {kind: Deployment, name: %s}, path: patch.yaml}]
images: [{name: fluxcd/%[2]s, newName: ghcr.io/fluxcd/%[2]s, newTag: %[3]s}]
`, strings.Join(resources, ", "), name, module.Version)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(kustomization), 0o600); err != nil {
		return err
	}
	program, err := w.cluster.Program(name)
	if err != nil {
		return err
	}
	return w.node.ImportProgram(ctx, "ghcr.io/fluxcd/"+name+":"+module.Version, program, "/usr/local/bin/"+name, "65534:65534")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// module is a module as the go command describes it.
type module struct{ Dir, Version string }

// moduleDir finds a module that a module of hack/ pins.
func moduleDir(ctx context.Context, pinnedBy, path string) (module, error) {
	var found module
	command := exec.CommandContext(ctx, "go", "list", "-mod=readonly", "-m", "-json", path)
	command.Dir = filepath.Join(root, "hack", pinnedBy)
	command.Env = append(os.Environ(), "GOWORK=off")
	out, err := command.Output()
	if err != nil {
		return found, fmt.Errorf("go list -m %s: %w", path, err)
	}
	return found, json.Unmarshal(out, &found)
}
