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
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// eventOf is an event of an object, which was seen some time ago.
func eventOf(namespace, apiVersion, kind, name, level, reason string, ago time.Duration, changes ...func(*corev1.Event)) *corev1.Event {
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: name + "." + reason},
		InvolvedObject: corev1.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name},
		Type:           level, Reason: reason, Message: "message of " + reason, FirstTimestamp: *at(-ago), LastTimestamp: *at(-ago), Count: 1,
	}
	for _, change := range changes {
		change(event)
	}
	return event
}

func TestPipelineEvents(t *testing.T) {
	const ours = "pipelines.weave.works/v1alpha1"
	events := []client.Object{
		eventOf("flux-system", ours, "Pipeline", "app", "Normal", "Promoted", time.Minute),
		eventOf("flux-system", ours, "Pipeline", "app", "Warning", "PromotionFailed", 5*time.Minute, func(event *corev1.Event) {
			event.Count, event.FirstTimestamp = 3, *at(-time.Hour)
		}),
		eventOf("flux-system", ours, "Pipeline", "shop", "Normal", "Waits", 0, func(event *corev1.Event) {
			event.FirstTimestamp, event.LastTimestamp, event.Count, event.EventTime = metav1.Time{}, metav1.Time{}, 0, metav1.MicroTime{Time: now.Add(-3 * time.Minute)}
		}),
		eventOf("flux-system", "tekton.dev/v1", "Pipeline", "app", "Normal", "Started", time.Minute),
		eventOf("flux-system", "kustomize.toolkit.fluxcd.io/v1", "Kustomization", "app", "Normal", "Applied", time.Minute),
		eventOf("team", ours, "Pipeline", "site", "Normal", "Merged", 2*time.Minute),
		waiting(),
	}
	testCommands(t, []commandTest{
		{
			name:    "events are listed, the oldest first, without those of other kinds",
			command: "flux-pipeline events",
			objects: events,
			wantOut: `
LAST SEEN          TYPE      REASON            OBJECT          MESSAGE
5m (x3 over 60m)   Warning   PromotionFailed   Pipeline/app    message of PromotionFailed
3m                 Normal    Waits             Pipeline/shop   message of Waits
60s                Normal    Promoted          Pipeline/app    message of Promoted
`,
		},
		{
			name:    "those of one pipeline",
			command: "flux-pipeline events shop --no-header",
			objects: events,
			wantOut: "3m    Normal   Waits   Pipeline/shop   message of Waits\n",
		},
		{
			name:    "those of a type, in all namespaces",
			command: "flux-pipeline events -A --types normal --no-header",
			objects: events,
			wantOut: "" +
				"flux-system   3m    Normal   Waits      Pipeline/shop   message of Waits\n" +
				"team          2m    Normal   Merged     Pipeline/site   message of Merged\n" +
				"flux-system   60s   Normal   Promoted   Pipeline/app    message of Promoted\n",
		},
		{
			name:    "an empty list is not an error, as in flux",
			command: "flux-pipeline events app",
			objects: []client.Object{waiting()},
			wantLog: "✗ no events found in flux-system namespace\n",
		},
		{
			name:    "those of a pipeline that does not exist are one",
			command: "flux-pipeline events site",
			objects: events,
			wantErr: "pipeline site not found in flux-system namespace, which has: app",
		},
		{
			name:    "another type is refused",
			command: "flux-pipeline events --types error",
			wantErr: "--types must be Normal or Warning",
		},
	})
}
