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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/source"
)

// gatedSource is a source that gates can hold, with its object.
type gatedSource struct {
	source.Source
	object *unstructured.Unstructured
}

// sources lists all sources that gates can hold. OCI HelmRepositories have no artifact to hold; their charts have.
func (l *lister) sources(ctx context.Context) ([]gatedSource, error) {
	var all []gatedSource
	for _, held := range gatingv1.HeldKinds() {
		kind, objects := held.Kind, &unstructured.UnstructuredList{}
		objects.SetGroupVersionKind(held.GroupVersion().WithKind(kind + "List"))
		if err := l.list(ctx, kind, objects); err != nil {
			return nil, err
		}
		for i := range objects.Items {
			found, gated, err := source.Of(kind, &objects.Items[i])
			if err != nil {
				return nil, err
			}
			if gated {
				all = append(all, gatedSource{found, &objects.Items[i]})
			}
		}
	}
	return all, nil
}

// tree shows whether gates hold the source, and whether its artifact is lost.
func (s *gatedSource) tree() tree {
	shown := leaf("%s: %s", s, s.Describe())
	if loss := gatingv1.DescribeLoss(s.Status.Conditions); loss != "" {
		shown.add(leaf("%s", loss))
	}
	return shown
}
