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

package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	notificationv1 "github.com/fluxcd/notification-controller/api/v1beta3"
	eventv1 "github.com/fluxcd/pkg/apis/event/v1beta1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// NotificationMessage returns the message of the event that promotes a revision by notification.
func NotificationMessage(pipeline types.NamespacedName, env, revision string) string {
	return fmt.Sprintf("Promote pipeline %s to %s with version %s", pipeline, env, revision)
}

// unheard warns of environments that are promoted by notification, and for whose event there is no Alert. It returns ""
// if there are none, or if Alerts can't be read.
func (p *planner) unheard() string {
	if p.Alerts == nil {
		return ""
	}
	var unheard []string
	for env := range p.pipeline.PromotedEnvironments() {
		if promotion := p.pipeline.PromotionInto(env); promotion == nil || promotion.Strategy.Notification == nil {
			continue
		}
		name := types.NamespacedName{Namespace: p.pipeline.Namespace, Name: p.pipeline.Name}
		message := NotificationMessage(name, env.Name, p.pipeline.Status.Revision)
		if !slices.ContainsFunc(p.Alerts.Items, func(alert notificationv1.Alert) bool { return takes(&alert, &p.pipeline, message) }) {
			unheard = append(unheard, env.Name)
		}
	}
	if len(unheard) == 0 {
		return ""
	}
	return fmt.Sprintf("no Alert matches the notifications for %s: create an Alert for this Pipeline", strings.Join(unheard, ", "))
}

// takes reports whether notification-controller dispatches an event about the Pipeline for the Alert.
func takes(alert *notificationv1.Alert, pipeline *pipelinesv1.Pipeline, message string) bool {
	spec := &alert.Spec
	if spec.Suspend || spec.EventSeverity == eventv1.EventSeverityError || !selects(alert, pipeline) {
		return false
	}
	matches := func(expression string) bool {
		compiled, err := regexp.Compile(expression)
		return err == nil && compiled.MatchString(message)
	}
	return (len(spec.InclusionList) == 0 || slices.ContainsFunc(spec.InclusionList, matches)) && !slices.ContainsFunc(spec.ExclusionList, matches)
}

// selects reports whether the Pipeline is one of the Alert's event sources.
func selects(alert *notificationv1.Alert, pipeline *pipelinesv1.Pipeline) bool {
	for _, source := range alert.Spec.EventSources {
		namespace := source.Namespace
		if namespace == "" {
			namespace = alert.Namespace
		}
		if source.Kind == pipelinesv1.PipelineKind && namespace == pipeline.Namespace && (source.Name == "*" || source.Name == pipeline.Name) &&
			labels.SelectorFromSet(source.MatchLabels).Matches(labels.Set(pipeline.Labels)) {
			return true
		}
	}
	return false
}
