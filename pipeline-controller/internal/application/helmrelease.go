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

package application

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluice-toolkit/sluice/api/revision"
)

// trackedDigits is how many digits of an artifact's digest helm-controller adds to a chart's version.
const trackedDigits = 12

// chartVersion reads the chart's version. v2beta1 and v2beta2 have lastAppliedRevision. v2 replaced it with a history
// of releases, newest first, of which only the deployed one is running.
var chartVersion = extractor[string]{
	fields: append([]string{"status.history"}, lastAppliedRevision.fields...),
	read: func(obj *unstructured.Unstructured) string {
		if revision := lastAppliedRevision.read(obj); revision != "" {
			return revision
		}
		history, _, _ := unstructured.NestedSlice(obj.Object, "status", "history")
		for _, entry := range history {
			release, ok := entry.(map[string]any)
			if ok && release["status"] == "deployed" {
				version, _ := release["chartVersion"].(string)
				artifact, _ := release["ociDigest"].(string)
				return chartRevision(version, artifact)
			}
		}
		return ""
	},
}

// chartRevision combines a chart's version with the digest of the artifact of its OCIRepository. helm-controller adds
// the first digits of the digest to the version, so that version is not a tag of the repository. If the artifact's tag
// is not a version, it is included too.
// https://github.com/fluxcd/helm-controller/blob/v1.6.4/internal/controller/helmrelease_controller.go#L904
func chartRevision(version, artifact string) string {
	digest := revision.Digest(artifact)
	_, hex, _ := strings.Cut(digest, ":")
	if len(hex) < trackedDigits {
		return version
	}
	plain, tracked := strings.CutSuffix(version, "+"+hex[:trackedDigits])
	if !tracked {
		return version
	}
	if artifact != digest {
		return artifact
	}
	return plain + "@" + digest
}
