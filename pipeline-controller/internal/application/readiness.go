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
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// readiness is the readiness of what an object runs.
type readiness struct {
	// status is Unknown during reconciliation.
	status metav1.ConditionStatus
	// message explains why it is not ready. It is empty otherwise.
	message string
}

var unreconciled = readiness{metav1.ConditionFalse, "the latest change is not reconciled yet"}

// readyCondition reads the Ready condition. It counts only if it was set for the current generation: right after a
// change of the spec, it still describes the previous spec.
var readyCondition = extractor[readiness]{
	fields: []string{"status.observedGeneration", "status.conditions"},
	read: func(obj *unstructured.Unstructured) readiness {
		if !observed(obj.Object, obj.GetGeneration(), "status", "observedGeneration") {
			return unreconciled
		}
		if condition := conditionOf(obj, meta.ReadyCondition); condition != nil {
			return readinessIn(condition, obj.GetGeneration())
		}
		return readiness{metav1.ConditionFalse, "it has no Ready condition yet"}
	},
}

// kstatusReadiness reads the readiness of a workload with kstatus, which supports Kubernetes' own kinds.
var kstatusReadiness = extractor[readiness]{
	fields: []string{"metadata.deletionTimestamp", "spec", "status"},
	read: func(obj *unstructured.Unstructured) readiness {
		result, err := status.Compute(obj)
		switch {
		case err != nil:
			return readiness{metav1.ConditionFalse, err.Error()}
		case result.Status == status.CurrentStatus:
			return readiness{status: metav1.ConditionTrue}
		case result.Status == status.InProgressStatus:
			return readiness{metav1.ConditionUnknown, result.Message}
		}
		return readiness{metav1.ConditionFalse, result.Message}
	},
}

// conditionOf returns an object's condition of a type, or nil.
func conditionOf(obj *unstructured.Unstructured, of string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, entry := range conditions {
		if condition, ok := entry.(map[string]any); ok && condition["type"] == of {
			return condition
		}
	}
	return nil
}

func readinessIn(condition map[string]any, generation int64) readiness {
	if !observed(condition, generation, "observedGeneration") {
		return unreconciled
	}
	if condition["status"] == string(metav1.ConditionTrue) {
		return readiness{status: metav1.ConditionTrue}
	}
	message, _ := condition["message"].(string)
	if message == "" {
		message = "not ready"
	}
	if condition["status"] == string(metav1.ConditionUnknown) {
		return readiness{metav1.ConditionUnknown, message}
	}
	return readiness{metav1.ConditionFalse, message}
}

// observed reports whether the observed generation in the field is the given one. It is true for kinds without that
// field.
func observed(in map[string]any, generation int64, field ...string) bool {
	value, found, err := unstructured.NestedInt64(in, field...)
	return err != nil || !found || value == generation
}
