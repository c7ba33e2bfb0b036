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

package monitoring

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// ResourceInfo is the configuration of kube-state-metrics for a kind.
type ResourceInfo struct {
	schema.GroupVersionKind
	metric string
	// labels are paths to values in an object.
	labels map[string][]string
}

// ResourceInfos reads the configuration of kube-state-metrics in a checkout.
func ResourceInfos(root string) ([]ResourceInfo, error) {
	content, err := os.ReadFile(filepath.Join(root, "config", "samples", "kube-state-metrics.yaml"))
	if err != nil {
		return nil, err
	}
	type paths map[string][]string
	var values struct {
		KubeStateMetrics struct {
			RBAC                map[string]any `json:"rbac"`
			CustomResourceState struct {
				Enabled bool `json:"enabled"`
				Config  struct {
					Spec struct {
						Resources []struct {
							GroupVersionKind schema.GroupVersionKind `json:"groupVersionKind"`
							MetricNamePrefix string                  `json:"metricNamePrefix"`
							Metrics          []struct {
								Name string `json:"name"`
								Help string `json:"help"`
								Each struct {
									Type string `json:"type"`
									Info struct {
										LabelsFromPath paths `json:"labelsFromPath"`
									} `json:"info"`
								} `json:"each"`
								LabelsFromPath paths `json:"labelsFromPath"`
							} `json:"metrics"`
						} `json:"resources"`
					} `json:"spec"`
				} `json:"config"`
			} `json:"customResourceState"`
		} `json:"kube-state-metrics"`
	}
	if err := yaml.UnmarshalStrict(content, &values); err != nil {
		return nil, err
	}
	var found []ResourceInfo
	for _, resource := range values.KubeStateMetrics.CustomResourceState.Config.Spec.Resources {
		for _, metric := range resource.Metrics {
			info := ResourceInfo{resource.GroupVersionKind, resource.MetricNamePrefix + "_" + metric.Name, map[string][]string{}}
			maps.Copy(info.labels, metric.Each.Info.LabelsFromPath)
			maps.Copy(info.labels, metric.LabelsFromPath)
			found = append(found, info)
		}
	}
	return found, nil
}

// Expose returns the metric of an object, as kube-state-metrics exposes it. A label without a value is left out.
func (r ResourceInfo) Expose(object *unstructured.Unstructured) string {
	labels := []string{
		fmt.Sprintf("customresource_group=%q", r.Group), fmt.Sprintf("customresource_version=%q", r.Version),
		fmt.Sprintf("customresource_kind=%q", r.Kind),
	}
	for _, label := range slices.Sorted(maps.Keys(r.labels)) {
		if value := valueAt(object.Object, r.labels[label]); value != nil {
			labels = append(labels, fmt.Sprintf("%s=%q", label, fmt.Sprint(value)))
		}
	}
	return r.metric + "{" + strings.Join(labels, ",") + "} 1\n"
}

// valueAt returns the value at a path, or nil. [key=value] selects the element of a list whose field has that value.
func valueAt(from any, path []string) any {
	for _, element := range path {
		switch at := from.(type) {
		case map[string]any:
			from = at[element]
		case []any:
			key, value, _ := strings.Cut(strings.Trim(element, "[]"), "=")
			from = nil
			for _, item := range at {
				if fields, ok := item.(map[string]any); ok && fields[key] == value {
					from = item
				}
			}
		default:
			return nil
		}
	}
	return from
}
