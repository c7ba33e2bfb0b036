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
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldManager owns what Apply applies.
const fieldManager = "sluice-local"

func newManager(c client.Client) *ssa.ResourceManager {
	return ssa.NewResourceManager(c, polling.NewStatusPoller(c, c.RESTMapper(), polling.Options{}), ssa.Owner{Field: fieldManager})
}

// Apply applies the documents of a YAML or JSON stream as Flux does: on the server's side, as administrator and with
// field manager sluice-local. CRDs, Namespaces and ClusterRoles go first, and are waited for until they are Current, as
// kstatus says. Every object of a stage is tried before any of it is applied, and what would change nothing is left as
// it is. Objects of a namespaced kind must name their namespace.
func (c *Cluster) Apply(ctx context.Context, manifests []byte) error {
	return c.apply(ctx, manifests)
}

// ApplyKustomization applies what `kubectl kustomize` builds from a directory, as Apply does, without the objects of
// the kinds named: of an install whose controllers run as processes, that is "Deployment".
func (c *Cluster) ApplyKustomization(ctx context.Context, dir string, withoutKinds ...string) error {
	kubectl, err := c.programs.path("kubectl")
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, kubectl, "kustomize", dir)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	manifests, err := command.Output()
	if err != nil {
		return fmt.Errorf("kubectl kustomize %s: %w: %s", dir, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return c.apply(ctx, manifests, withoutKinds...)
}

func (c *Cluster) apply(ctx context.Context, manifests []byte, withoutKinds ...string) error {
	objects, err := utils.ReadObjects(bytes.NewReader(manifests))
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool {
		return slices.Contains(withoutKinds, object.GetKind())
	})
	_, err = c.manager.ApplyAllStaged(ctx, objects, ssa.ApplyOptions{WaitInterval: pollInterval, WaitTimeout: startTimeout})
	return err
}
