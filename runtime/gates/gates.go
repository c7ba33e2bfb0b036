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

// Package gates finds the gates that objects in a cluster refer to.
package gates

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// NewFinder returns a Finder that reads gates and namespace labels with the reader.
func NewFinder(ctx context.Context, reader client.Reader, noCrossNamespaceRefs bool) gatingv1.Finder {
	return gatingv1.Finder{
		Gate: func(name types.NamespacedName) (*gatingv1.Gate, error) {
			gate := &gatingv1.Gate{}
			if err := reader.Get(ctx, name, gate); err != nil {
				return nil, client.IgnoreNotFound(err)
			}
			return gate, nil
		},
		NamespaceLabels: func(name string) (map[string]string, error) {
			return NamespaceLabels(ctx, reader, name)
		},
		NoCrossNamespaceRefs: noCrossNamespaceRefs,
	}
}

// NamespaceLabels returns the labels of a namespace.
func NamespaceLabels(ctx context.Context, reader client.Reader, name string) (map[string]string, error) {
	metadata := NamespaceMetadata()
	err := reader.Get(ctx, client.ObjectKey{Name: name}, metadata)
	return metadata.Labels, err
}

// NamespaceMetadata is the part of Namespaces that is read and cached.
func NamespaceMetadata() *metav1.PartialObjectMetadata {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace
}
