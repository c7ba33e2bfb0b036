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
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1alpha1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1alpha1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
)

const gatesType = "Gates"

var (
	sourceGroupVersion = schema.GroupVersion{Group: "source.toolkit.fluxcd.io", Version: "v1"}
	sourceKinds        = []string{"GitRepository", "OCIRepository", "Bucket", "HelmRepository", "HelmChart"}
)

// source is the part of a Flux source that gates are about.
type source struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Gates *gatingv1alpha1.GateReferences `json:"gates"`
		Type  string                         `json:"type"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// names tells whether the source refers to the gate, or inherits it. What can't be understood names no gate.
func (s *source) names(gate client.ObjectKey) bool {
	own := s.Spec.Gates
	if own == nil {
		own, _ = gatingv1alpha1.ReferencesFromAnnotations(s.Annotations)
	}
	// It is a list of gates with, perhaps, what is required of them before it.
	inherited := s.Annotations[gatingv1alpha1.InheritedGatesAnnotation]
	if _, gates, found := strings.Cut(inherited, " "); found {
		inherited = gates
	}
	fromRepository, _ := gatingv1alpha1.ReferencesFromAnnotations(map[string]string{gatingv1alpha1.GatesAnnotation: inherited})
	return refersTo(own, s.Namespace, gate) || refersTo(fromRepository, s.Namespace, gate)
}

func refersTo(refs *gatingv1alpha1.GateReferences, namespace string, gate client.ObjectKey) bool {
	return refs != nil && slices.ContainsFunc(refs.Refs, func(ref gatingv1alpha1.GateReference) bool {
		return ref.NamespacedName(namespace) == gate
	})
}

// describe says whether gates hold the source.
func (s *source) describe() string {
	condition := meta.FindStatusCondition(s.Status.Conditions, gatingv1alpha1.GatesOpenCondition)
	switch {
	case condition == nil:
		return "gate-controller has not looked at it yet"
	case condition.Status == metav1.ConditionFalse:
		return "held: " + condition.Message
	default:
		return "not held: " + condition.Message
	}
}

// sourcesOf shows the sources that name a gate.
func sourcesOf(ctx context.Context, kube client.Client, log logger, gate *gatingv1alpha1.Gate) (*tree, error) {
	shown := &tree{line: "sources"}
	for _, kind := range sourceKinds {
		objects := &unstructured.UnstructuredList{}
		objects.SetGroupVersionKind(sourceGroupVersion.WithKind(kind + "List"))
		err := listReferrers(ctx, kube, log, kind, gate, objects)
		switch {
		case meta.IsNoMatchError(err):
			continue // without the kind there is none that could be held
		case err != nil:
			return nil, err
		}
		for i := range objects.Items {
			var found source
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects.Items[i].Object, &found); err != nil {
				return nil, fmt.Errorf("reading %s %s/%s failed: %w", kind, objects.Items[i].GetNamespace(), objects.Items[i].GetName(), err)
			}
			// An OCI HelmRepository has nothing that could be held: its charts have.
			if found.names(client.ObjectKeyFromObject(gate)) && (kind != "HelmRepository" || found.Spec.Type != "oci") {
				shown.add(leaf("%s/%s/%s: %s", kind, found.Namespace, found.Name, found.describe()))
			}
		}
	}
	if len(shown.branches) == 0 {
		shown.line = "no source names it"
	}
	return shown, nil
}

// pipelinesOf shows the promotions that name a gate.
func pipelinesOf(ctx context.Context, kube client.Client, log logger, gate *gatingv1alpha1.Gate) (*tree, error) {
	pipelines := &pipelinesv1alpha1.PipelineList{}
	if err := listReferrers(ctx, kube, log, pipelinesv1alpha1.PipelineKind, gate, pipelines); err != nil && !meta.IsNoMatchError(err) {
		return nil, err
	}
	shown := &tree{line: "promotions"}
	for i := range pipelines.Items {
		pipeline := &pipelines.Items[i]
		for j := range pipeline.Spec.Environments {
			env := &pipeline.Spec.Environments[j]
			promotion := pipeline.PromotionInto(env)
			// Nothing is promoted into the first one.
			if j > 0 && promotion != nil && refersTo(promotion.Gates, pipeline.Namespace, client.ObjectKeyFromObject(gate)) {
				shown.add(leaf("Pipeline/%s/%s: %s: %s", pipeline.Namespace, pipeline.Name, env.Name, heldByGates(pipeline, env.Name)))
			}
		}
	}
	if len(shown.branches) == 0 {
		shown.line = "no pipeline names it"
	}
	return shown, nil
}

// heldByGates says whether a promotion waits for gates.
func heldByGates(pipeline *pipelinesv1alpha1.Pipeline, env string) string {
	record, promotion := recordOf(pipeline, env), pipeline.PromotionInto(pipeline.Environment(env))
	byPeople := promotion == nil || !promotion.MergesItself()
	if record == nil || record.State.Ended() || record.State == pipelinesv1alpha1.PromotionCreated && byPeople {
		return "does not wait"
	}
	for _, precondition := range record.Preconditions {
		if precondition.Type == gatesType && !precondition.Met {
			return fmt.Sprintf("%s waits: %s", revision.Short(record.Revision), precondition.Message)
		}
	}
	return "does not wait"
}

// listReferrers lists objects that may name the gate. Those of other namespaces may only if the gate allows it, so that nobody
// needs to read other namespaces for a gate that doesn't.
func listReferrers(ctx context.Context, kube client.Client, log logger, kind string, gate *gatingv1alpha1.Gate, objects client.ObjectList) error {
	if gate.Spec.AccessFrom != nil {
		err := kube.List(ctx, objects)
		switch {
		case err == nil, meta.IsNoMatchError(err):
			return err
		case !apierrors.IsForbidden(err):
			return fmt.Errorf("listing kind %s failed: %w", kind, err)
		}
		log.warningf("you may not list kind %s in all namespaces, so that only what is in %s namespace is shown of it", kind, gate.Namespace)
	}
	err := kube.List(ctx, objects, client.InNamespace(gate.Namespace))
	if err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("listing kind %s failed: %w", kind, err)
	}
	return err
}
