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

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// get reads an object. Messages call it by the noun. If it does not exist, the error contains the names of existing
// objects.
func get(ctx context.Context, kube client.Client, noun string, key client.ObjectKey, obj client.Object, instead client.ObjectList) error {
	err := kube.Get(ctx, key, obj)
	switch {
	case err == nil:
		return nil
	case apimeta.IsNoMatchError(err):
		return notServed(kube, obj)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s %s not found in %s namespace%s", noun, key.Name, key.Namespace, namesInstead(ctx, kube, noun, key.Namespace, instead))
	default:
		return fmt.Errorf("reading %s %s failed: %w", noun, key.Name, err)
	}
}

// list lists objects. Messages call them by the noun.
func list(ctx context.Context, kube client.Client, noun string, objects client.ObjectList, options ...client.ListOption) error {
	err := kube.List(ctx, objects, options...)
	switch {
	case err == nil:
		return nil
	case apimeta.IsNoMatchError(err):
		return notServed(kube, objects)
	default:
		return fmt.Errorf("listing %s failed: %w", plural(noun), err)
	}
}

// within limits a list to the namespace, unless all is true.
func within(namespace string, all bool) client.ListOption {
	if all {
		return client.InNamespace("")
	}
	return client.InNamespace(namespace)
}

func notServed(kube client.Client, obj runtime.Object) error {
	kind, err := apiutil.GVKForObject(obj, kube.Scheme())
	if err != nil {
		return err
	}
	return fmt.Errorf("the cluster does not serve %s: check that Sluice is installed", kind.GroupVersion())
}

// namesInstead appends the names of existing objects to a not-found error. Without permission to list them, the error
// remains as it is.
func namesInstead(ctx context.Context, kube client.Client, noun, namespace string, objects client.ObjectList) string {
	const most = 10
	if err := kube.List(ctx, objects, client.InNamespace(namespace)); err != nil {
		return ""
	}
	all := items(objects)
	if len(all) == 0 {
		return fmt.Sprintf(", which has no %ss", noun)
	}
	var names []string
	for _, obj := range all[:min(most, len(all))] {
		names = append(names, obj.GetName())
	}
	if len(all) > most {
		names = append(names, "…")
	}
	return ", which has: " + strings.Join(names, ", ")
}

// items returns the objects of a list.
func items(objects client.ObjectList) []client.Object {
	var all []client.Object
	// It fails only for objects that are not lists, and then the result is empty.
	_ = apimeta.EachListItem(objects, func(item runtime.Object) error {
		if obj, ok := item.(client.Object); ok {
			all = append(all, obj)
		}
		return nil
	})
	return all
}

// create creates an object. With --verbose, it prints the object first.
func create(ctx context.Context, kube client.Client, log logger, show bool, obj client.Object) error {
	if show {
		kind, err := apiutil.GVKForObject(obj, kube.Scheme())
		if err != nil {
			return err
		}
		obj.GetObjectKind().SetGroupVersionKind(kind)
		text, err := json.Marshal(obj)
		if err != nil {
			return err
		}
		log.generatef("%s", text)
	}
	return kube.Create(ctx, obj)
}
