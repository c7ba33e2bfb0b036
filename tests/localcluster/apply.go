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
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldManager owns what Apply applies.
const fieldManager = "sluice-local"

// Apply applies the documents of a YAML or JSON stream on the server's side, as administrator and with
// field manager sluice-local, whose fields it takes over from others. Namespaces and CRDs go first, and CRDs are
// waited for until they are Established. Objects of a namespaced kind must name their namespace.
func (c *Cluster) Apply(ctx context.Context, manifests []byte) error {
	return c.apply(ctx, manifests)
}

// ApplyKustomization applies what `kubectl kustomize` builds from a directory, as Apply does, without the objects of the kinds
// named: of an install whose controllers run as processes, that is "Deployment".
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
	objects, err := decode(manifests)
	if err != nil {
		return err
	}
	var first, rest []*unstructured.Unstructured
	for _, object := range objects {
		switch {
		case slices.Contains(withoutKinds, object.GetKind()):
		case isNamespace(object), isCRD(object):
			first = append(first, object)
		default:
			rest = append(rest, object)
		}
	}
	if err := c.applyAll(ctx, first); err != nil {
		return err
	}
	if err := c.waitForCRDs(ctx, first); err != nil {
		return err
	}
	return c.applyAll(ctx, rest)
}

func (c *Cluster) applyAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		err := c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(fieldManager), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
		}
	}
	return nil
}

func decode(manifests []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d of the manifests: %w", len(objects)+1, err)
		}
		if len(object.Object) == 0 {
			continue // an empty document, or one of comments only
		}
		objects = append(objects, object)
	}
}

func isNamespace(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().GroupKind() == corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind()
}

func isCRD(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().GroupKind() == apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition").GroupKind()
}

// waitForCRDs waits for those of the objects that are CRDs.
func (c *Cluster) waitForCRDs(ctx context.Context, objects []*unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, object := range objects {
		if !isCRD(object) {
			continue
		}
		err := poll(ctx, "CRD "+object.GetName()+" to be Established", func(ctx context.Context) error {
			return c.isEstablished(ctx, object.GetName())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) isEstablished(ctx context.Context, name string) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.client.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return err
	}
	for _, condition := range crd.Status.Conditions {
		if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
			return nil
		}
	}
	return errors.New("it is not yet")
}
