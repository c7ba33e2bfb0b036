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

package controller

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/hold"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
	"github.com/sluice-toolkit/sluice/runtime/gates"
)

const (
	// InvalidGatesReason means that a source's annotations do not name its gates correctly.
	InvalidGatesReason = "InvalidGates"
	// GatesFieldLostReason means that a source had gates in its spec until its CRD lost the field.
	GatesFieldLostReason = "GatesFieldLost"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=gitrepositories.source.toolkit.fluxcd.io;ocirepositories.source.toolkit.fluxcd.io;buckets.source.toolkit.fluxcd.io;helmrepositories.source.toolkit.fluxcd.io;helmcharts.source.toolkit.fluxcd.io,verbs=get

// gating is the evaluation of a source's gates, and the claim that follows from it.
type gating struct {
	gatingv1.Evaluation
	claim hold.Claim
	// passes are the revisions that may pass the gates although they are not open, and are not published yet.
	passes []gatingv1.PassInForce
	// loss is the condition ArtifactLost, or nil.
	loss *metav1.Condition
	// recheck means that the cache does not have the gates, so no event reports their changes.
	recheck bool
}

// recheckInterval is how often gates that the cache does not have are evaluated.
const recheckInterval = 2 * time.Minute

// gatingOf evaluates the gates of a source, including those it inherits. It returns nil for a source without gates.
//
// A source that had gates in its spec, and has none there in the cache, is read from the API server: its CRD may have
// lost the field, or lost and regained it, and there is no event for that. obj is then updated to what the API server
// has.
func (r *SourceReconciler) gatingOf(ctx context.Context, obj source.Source) (*gating, error) {
	result, err := r.evaluator().gatingBy(ctx, r.Client, obj)
	if err != nil || !hold.On(obj).BySpec || result != nil && result.claim.BySpec {
		return result, err
	}
	live := r.Kind.New()
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(obj), live); err != nil {
		return nil, err
	}
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(live).Elem())
	if result, err = r.evaluator().gatingBy(ctx, r.Live, obj); err != nil {
		return nil, err
	}
	if hold.On(obj).BySpec && (result == nil || !result.claim.BySpec) {
		result, err = r.lostGating(ctx, obj, result)
	}
	if result != nil {
		result.recheck = true
	}
	return result, err
}

// evaluator evaluates the gates of objects.
type evaluator struct {
	// cache reads gates.
	cache client.Reader
	// live reads from the API server instead of the cache.
	live                 client.Reader
	noCrossNamespaceRefs bool
	now                  func() time.Time
}

func (r *SourceReconciler) evaluator() evaluator {
	return evaluator{cache: r.Client, live: r.Live, noCrossNamespaceRefs: r.NoCrossNamespaceRefs, now: r.Now}
}

// gatingBy evaluates the gates of a source, with the HelmRepository that the reader returns. It returns nil for a
// source without gates.
func (e evaluator) gatingBy(ctx context.Context, reader client.Reader, obj source.Source) (*gating, error) {
	set, err := e.gatesOf(ctx, reader, obj)
	if set == nil || err != nil {
		return nil, err
	}
	now := e.now()
	result := &gating{Evaluation: set.evaluate("", now)}
	// Nothing but its suspension holds an ImageUpdateAutomation back, so no single revision can pass. The backstop for
	// ExternalArtifacts knows no passes.
	if !result.Open && !source.CommitsImages(obj) && !source.IsExternal(obj) {
		set = set.fixed(now)
		evaluate := func(rev string) gatingv1.Evaluation { return set.evaluate(rev, now) }
		result.passes = passing(evaluate, set.candidates(obj, now), result.NextChange)
		result.loss = lossAt(obj, now)
	}
	for _, pass := range result.passes {
		result.NextChange = earlier(result.NextChange, pass.Expires.Time)
	}
	if result.loss != nil {
		result.NextChange = earlier(result.NextChange, lossEnd(result.loss))
	}
	result.claim = hold.Claim{
		Suspend:   !result.Open && len(result.passes) == 0 && !restores(result.loss),
		Inherited: describeInherited(set.inherited.refs),
		BySpec:    set.bySpec,
	}
	return result, nil
}

// gatesOfSource are the gates of a source: its own, and those that a HelmChart inherits from its HelmRepository.
type gatesOfSource struct {
	own, inherited gateList
	// repository is the name of the HelmRepository.
	repository string
	// bySpec means that some are in the spec of the source or the HelmRepository, and not in annotations.
	bySpec bool
}

// gateList is a list of references, with the gates that they name.
type gateList struct {
	refs *gatingv1.GateReferences
	// invalid is the error of annotations that name no gates. They count as closed.
	invalid error
	found   gatingv1.Found
}

func (l gateList) isEmpty() bool { return l.refs == nil && l.invalid == nil }

// evaluate decides whether the gates are open, or let a revision pass.
func (l gateList) evaluate(rev string, now time.Time) gatingv1.Evaluation {
	if l.invalid != nil {
		return gatingv1.Evaluation{Reason: InvalidGatesReason, Message: l.invalid.Error()}
	}
	return gatingv1.EvaluateRevision(l.refs, l.found, rev, now)
}

// gatesOf returns the gates of a source, or nil if it has none.
func (e evaluator) gatesOf(ctx context.Context, reader client.Reader, obj source.Source) (*gatesOfSource, error) {
	set := &gatesOfSource{repository: source.HelmRepositoryOf(obj), bySpec: obj.Gated().Spec.Gates != nil}
	set.own.refs, set.own.invalid = source.References(obj)
	repository, err := e.repositoryOf(ctx, reader, obj)
	if err != nil {
		return nil, err
	}
	if repository != nil {
		set.inherited.refs, set.inherited.invalid = source.References(repository)
		set.bySpec = set.bySpec || len(references(repository.Spec.Gates)) > 0
	}
	if set.own.isEmpty() && set.inherited.isEmpty() {
		return nil, nil
	}
	for _, list := range []*gateList{&set.own, &set.inherited} {
		if list.found, err = e.find(ctx, obj.GetNamespace(), list.refs); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// evaluate decides whether all gates of the source are open, or let a revision pass.
func (g *gatesOfSource) evaluate(rev string, now time.Time) gatingv1.Evaluation {
	if g.inherited.isEmpty() {
		return g.own.evaluate(rev, now)
	}
	inherited := g.inherited.evaluate(rev, now)
	inherited.Message = fmt.Sprintf("inherited from HelmRepository %s: %s", g.repository, inherited.Message)
	if g.own.isEmpty() {
		return inherited
	}
	return both(g.own.evaluate(rev, now), inherited)
}

// fixed returns the gates in the state that they have at a time.
func (g *gatesOfSource) fixed(now time.Time) *gatesOfSource {
	set := *g
	set.own.found, set.inherited.found = fixed(g.own.found, now), fixed(g.inherited.found, now)
	return &set
}

// candidates returns the revisions that may pass them.
func (g *gatesOfSource) candidates(obj source.Source, now time.Time) []string {
	return slices.Concat(candidates(g.own.refs, g.own.found, obj, now), candidates(g.inherited.refs, g.inherited.found, obj, now))
}

// find returns the gates that an object in the namespace refers to.
func (e evaluator) find(ctx context.Context, namespace string, refs *gatingv1.GateReferences) (gatingv1.Found, error) {
	return gates.NewFinder(ctx, e.cache, e.noCrossNamespaceRefs).Find(namespace, references(refs))
}

// repositoryOf returns the HelmRepository of a HelmChart. It returns nil for other sources, and if there is none. If
// the cache does not have it, it is read from the API server: the cache may be behind that of the HelmCharts, and the
// gates of the HelmRepository must not be missed.
func (e evaluator) repositoryOf(ctx context.Context, reader client.Reader, obj source.Source) (*source.HelmRepository, error) {
	name := source.HelmRepositoryOf(obj)
	if name == "" {
		return nil, nil
	}
	repository, key := &source.HelmRepository{}, types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}
	err := reader.Get(ctx, key, repository)
	if apierrors.IsNotFound(err) {
		err = e.live.Get(ctx, key, repository)
	}
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return repository, nil
}

// both is open if both evaluations are. A closed one comes first.
func both(a, b gatingv1.Evaluation) gatingv1.Evaluation {
	if a.Open && !b.Open {
		a, b = b, a
	}
	a.Message += "; " + b.Message
	a.NextChange = earlier(a.NextChange, b.NextChange)
	return a
}

// earlier returns the earlier of two times. A zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func describeInherited(refs *gatingv1.GateReferences) string {
	var names []string
	for _, ref := range references(refs) {
		names = append(names, string(ref))
	}
	list := strings.Join(names, ",")
	if len(names) > 1 && refs.Require == gatingv1.RequireOneOf {
		return "oneOf " + list
	}
	return list
}

// lostGating keeps a source as it is if its CRD lost the field spec.gates, as happens when stock CRDs replace those
// patched by config/components/gated-sources. A held source must not be released that way. The next write of the
// source, even of its status, removes the gates themselves, so they don't return with the field, and the source stays
// as it is until it is applied again. The same holds for a HelmChart whose HelmRepository lost its gates. Remaining
// gates, named by annotations, can still close the source. If the CRD has the field, someone removed the gates, and the
// remaining ones count.
func (r *SourceReconciler) lostGating(ctx context.Context, obj source.Source, left *gating) (*gating, error) {
	claim, kind := hold.On(obj), r.Kind.Name
	if claim.Inherited != "" {
		kind = gatingv1.HelmRepositoryKind
	}
	lost := conditions.GetReason(obj, gatingv1.GatesOpenCondition) == GatesFieldLostReason
	if !lost {
		has, err := r.hasGatesField(ctx, kind)
		if has || err != nil {
			return left, err
		}
	}
	// A missing hold does not mean that the gates were open: 'flux resume' or Git may have removed spec.suspend.
	open := conditions.IsTrue(obj, gatingv1.GatesOpenCondition) && !claim.Suspend && (left == nil || left.Open)
	claim.Suspend = !open
	return &gating{
		Evaluation: gatingv1.Evaluation{
			Open:   open,
			Reason: GatesFieldLostReason,
			Message: fmt.Sprintf("the CRD of %s no longer has the field spec.gates, so the source stays as it is; apply config/components/gated-sources, and then the source again; to release it, remove the annotation %s",
				kind, gatingv1.GatedByAnnotation),
		},
		claim: claim,
		loss:  conditions.Get(obj, gatingv1.ArtifactLostCondition),
	}, nil
}

// hasGatesField reports whether a kind has spec.gates in the version that gate-controller reads.
func (r *SourceReconciler) hasGatesField(ctx context.Context, kind string) (bool, error) {
	mapping, err := r.RESTMapper().RESTMapping(gatingv1.SourceGroupVersion.WithKind(kind).GroupKind(), gatingv1.SourceGroupVersion.Version)
	if err != nil {
		return false, err
	}
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	name := mapping.Resource.GroupResource().String()
	if err := r.Live.Get(ctx, types.NamespacedName{Name: name}, crd); err != nil {
		return false, fmt.Errorf("looking for spec.gates in CRD %s: %w", name, err)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	return slices.ContainsFunc(versions, func(entry any) bool {
		version, ok := entry.(map[string]any)
		if !ok || version["name"] != gatingv1.SourceGroupVersion.Version {
			return false
		}
		_, found, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema", "properties", "spec", "properties", "gates")
		return found
	}), nil
}

func references(refs *gatingv1.GateReferences) []gatingv1.GateReference {
	if refs == nil {
		return nil
	}
	return refs.Refs
}
