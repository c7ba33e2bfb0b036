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

package view

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
)

// Event is an event of an object.
type Event struct {
	Type, Reason, Message, Age string
}

// mostEvents are shown.
const mostEvents = 50

// eventsOf returns the events of an object, newest first.
func (v *View) eventsOf(kind string, object client.Object) []Event {
	var events []*corev1.Event
	for _, event := range v.Events {
		if involved := event.InvolvedObject; involved.Kind == kind && involved.Namespace == object.GetNamespace() && involved.Name == object.GetName() && isSluices(involved.APIVersion) {
			events = append(events, event)
		}
	}
	slices.SortStableFunc(events, func(a, b *corev1.Event) int { return describe.LastSeen(b).Compare(describe.LastSeen(a)) })
	var shown []Event
	for _, event := range events[:min(len(events), mostEvents)] {
		shown = append(shown, Event{Type: event.Type, Reason: event.Reason, Message: plaintext.Line(event.Message), Age: describe.EventAge(event, v.Now)})
	}
	return shown
}

// isSluices excludes kinds of the same name of other projects.
func isSluices(version string) bool {
	return strings.HasPrefix(version, pipelinesv1.GroupVersion.Group+"/") || strings.HasPrefix(version, gatingv1.GroupVersion.Group+"/")
}

// yamlOf returns an object as kubectl prints it.
func yamlOf(object client.Object, version, kind string) string {
	copied, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return ""
	}
	copied.SetManagedFields(nil)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(copied)
	if err != nil {
		return err.Error()
	}
	content["apiVersion"], content["kind"] = version, kind
	text, err := yaml.Marshal(content)
	if err != nil {
		return err.Error()
	}
	return visible(string(text))
}

// visible writes characters that can't be seen, and those that turn the direction of the text, as their codes.
func visible(text string) string {
	var shown strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) || r == '\n' {
			shown.WriteRune(r)
		} else {
			fmt.Fprintf(&shown, "\\u%04x", r)
		}
	}
	return shown.String()
}

// Command is a command that shows or does the same.
type Command struct{ What, Text string }

func commands(pairs ...string) []Command {
	var commands []Command
	for i := 0; i < len(pairs); i += 2 {
		commands = append(commands, Command{pairs[i], pairs[i+1]})
	}
	return commands
}

func kubectlGet(resource string, object client.Object) string {
	return fmt.Sprintf("kubectl get %s %s -n %s -o yaml", resource, object.GetName(), object.GetNamespace())
}
