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

// fieldManager is the field manager of Apply.
const fieldManager = "sluice-local"

func newManager(c client.Client) *ssa.ResourceManager {
	return ssa.NewResourceManager(c, polling.NewStatusPoller(c, c.RESTMapper(), polling.Options{}), ssa.Owner{Field: fieldManager})
}

// Apply applies the documents of a YAML or JSON stream as Flux does: with server-side apply, as an administrator, and
// with field manager sluice-local. It applies CRDs, Namespaces and ClusterRoles first, and waits until they are Current
// in kstatus. It runs a dry run of every object of a stage before it applies any, and skips objects without changes.
// Objects of a namespaced kind must have a namespace.
func (c *Cluster) Apply(ctx context.Context, manifests []byte) error {
	return c.apply(ctx, manifests)
}

// ApplyKustomization applies the output of `kubectl kustomize` for a directory, as Apply does. It omits objects of the
// given kinds, such as "Deployment" if the controllers run as processes.
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
