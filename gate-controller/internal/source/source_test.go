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

package source

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	imagev1 "github.com/fluxcd/image-automation-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// fluxTypes are Flux's own types of these kinds.
var fluxTypes = map[string]reflect.Type{
	sourcev1.GitRepositoryKind:  reflect.TypeFor[sourcev1.GitRepository](),
	sourcev1.OCIRepositoryKind:  reflect.TypeFor[sourcev1.OCIRepository](),
	sourcev1.BucketKind:         reflect.TypeFor[sourcev1.Bucket](),
	sourcev1.HelmRepositoryKind: reflect.TypeFor[sourcev1.HelmRepository](),
	sourcev1.HelmChartKind:      reflect.TypeFor[sourcev1.HelmChart](),

	sourcev1.ExternalArtifactKind:     reflect.TypeFor[sourcev1.ExternalArtifact](),
	imagev1.ImageUpdateAutomationKind: reflect.TypeFor[imagev1.ImageUpdateAutomation](),
}

func TestTheKindsAreThoseOfFlux(t *testing.T) {
	g := NewWithT(t)
	g.Expect(gatingv1.SourceGroupVersion).To(Equal(sourcev1.GroupVersion))
	g.Expect(gatingv1.ImageGroupVersion).To(Equal(imagev1.GroupVersion))
	var kinds []schema.GroupVersionKind
	for _, kind := range Kinds {
		kinds = append(kinds, kind.WithKind(kind.Name))
		g.Expect(fluxTypes).To(HaveKey(kind.Name))
		g.Expect(reflect.TypeOf(kind.New()).Elem().Name()).To(Equal(kind.Name))
		g.Expect(reflect.TypeOf(kind.NewList()).Elem().Name()).To(Equal(kind.Name + "List"))
	}
	g.Expect(kinds).To(Equal(gatingv1.HeldKinds()))
	g.Expect(kinds).To(HaveLen(len(fluxTypes)))
}

func TestExternalArtifactsAndImageUpdateAutomationsMayBeMissing(t *testing.T) {
	g := NewWithT(t)
	mapper := apimeta.NewDefaultRESTMapper(nil)
	names := func() []string {
		kinds, err := KindsOf(mapper)
		g.Expect(err).NotTo(HaveOccurred())
		var names []string
		for _, kind := range kinds {
			names = append(names, kind.Name)
		}
		return names
	}
	g.Expect(names()).To(Equal(gatingv1.SourceKinds))
	mapper.Add(imagev1.GroupVersion.WithKind(imagev1.ImageUpdateAutomationKind), apimeta.RESTScopeNamespace)
	mapper.Add(sourcev1.GroupVersion.WithKind(sourcev1.ExternalArtifactKind), apimeta.RESTScopeNamespace)
	g.Expect(names()).To(Equal(append(slices.Clone(gatingv1.SourceKinds), sourcev1.ExternalArtifactKind, imagev1.ImageUpdateAutomationKind)))
}

// The manifests name the kinds in lists. Each list must have all of them.
func TestTheInstallKnowsTheKinds(t *testing.T) {
	g := NewWithT(t)
	lists := map[string][]string{}
	for _, policy := range decode[admissionregistrationv1.ValidatingAdmissionPolicy](t, "gate-controller/backstop.yaml") {
		if policy.Spec.MatchConstraints == nil {
			continue // a binding
		}
		for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
			if !slices.Equal(rule.Resources, []string{"helmcharts/status"}) { // what charts inherit
				lists["policy "+policy.Name] = rule.Resources
			}
		}
	}
	for _, role := range decode[rbacv1.ClusterRole](t, "rbac/gate-controller_role.yaml") {
		for _, rule := range role.Rules {
			switch {
			case slices.Contains(rule.APIGroups, sourcev1.GroupVersion.Group):
				lists["rights to "+rule.Resources[0]] = rule.Resources
			case slices.Contains(rule.Resources, "customresourcedefinitions"):
				lists["rights to CRDs"] = rule.ResourceNames
			}
		}
	}
	g.Expect(lists).To(HaveLen(6))
	g.Expect(lists["rights to buckets"]).To(ContainElement("externalartifacts"), "without their status")
	lists["rights to buckets"] = slices.DeleteFunc(lists["rights to buckets"], func(name string) bool { return name == "externalartifacts" })
	for where, list := range lists {
		var names []any
		for _, name := range list {
			name = strings.TrimSuffix(name, "/status")
			names = append(names, strings.TrimSuffix(name, "."+sourcev1.GroupVersion.Group))
		}
		g.Expect(resources()).To(ConsistOf(names...), where)
	}

	component := decode[struct {
		Patches []struct {
			Target struct {
				Name string `json:"name"`
			} `json:"target"`
		} `json:"patches"`
	}](t, "components/gated-sources/kustomization.yaml")[0]
	for _, resource := range resources() {
		g.Expect(resource + "." + sourcev1.GroupVersion.Group).To(MatchRegexp("^(?:" + component.Patches[0].Target.Name + ")$"))
	}
}

// A policy can't refer to the variables of another one, so the backstop repeats them.
func TestThePoliciesOfTheBackstopAgree(t *testing.T) {
	expressions := map[string]string{}
	for _, policy := range decode[admissionregistrationv1.ValidatingAdmissionPolicy](t, "gate-controller/backstop.yaml") {
		for _, variable := range policy.Spec.Variables {
			first, repeated := expressions[variable.Name]
			expressions[variable.Name] = variable.Expression
			if repeated {
				NewWithT(t).Expect(variable.Expression).To(Equal(first), policy.Name+" repeats "+variable.Name)
			}
		}
	}
	NewWithT(t).Expect(expressions).To(HaveKey("passes"))
}

// resources are the names of the kinds in API paths.
func resources() []string {
	var names []string
	for _, kind := range gatingv1.SourceKinds {
		plural, _ := apimeta.UnsafeGuessKindToResource(gatingv1.SourceGroupVersion.WithKind(kind))
		names = append(names, plural.Resource)
	}
	return names
}

// decode reads the documents of a file. Those of other kinds come out empty or with fewer fields.
func decode[T any](t *testing.T, file string) []T {
	t.Helper()
	g := NewWithT(t)
	content, err := os.Open(filepath.Join("..", "..", "..", "config", file))
	g.Expect(err).NotTo(HaveOccurred())
	defer content.Close()
	var documents []T
	for decoder := yaml.NewYAMLOrJSONDecoder(content, 4096); ; {
		var document T
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return documents
		}
		g.Expect(err).NotTo(HaveOccurred())
		documents = append(documents, document)
	}
}

// The views have the same fields for all kinds, and spec.gates.
func TestEachViewHasTheFieldsOfFluxsType(t *testing.T) {
	const (
		gates     = "spec.gates is not in it"
		ofCharts  = "spec.sourceRef is not in it"
		ofHelm    = "spec.type is not in it"
		mayBeLeft = "spec.sourceRef is never left out of it"
	)
	for kind, want := range map[string][]string{
		sourcev1.GitRepositoryKind:  {gates, ofHelm, ofCharts},
		sourcev1.OCIRepositoryKind:  {gates, ofHelm, ofCharts},
		sourcev1.BucketKind:         {gates, ofHelm, ofCharts},
		sourcev1.HelmRepositoryKind: {gates, ofCharts},
		sourcev1.HelmChartKind:      {gates, ofHelm, mayBeLeft},

		sourcev1.ExternalArtifactKind:     {gates, "spec.suspend is not in it", ofHelm, "status.observedGeneration is not in it", "status.lastHandledReconcileAt is not in it"},
		imagev1.ImageUpdateAutomationKind: {gates, ofHelm, mayBeLeft, "status.artifact is not in it"},
	} {
		t.Run(kind, func(t *testing.T) {
			for _, of := range Kinds {
				if of.Name == kind {
					got := differences("", reflect.TypeOf(of.New()).Elem(), fluxTypes[kind])
					NewWithT(t).Expect(got).To(Equal(want))
				}
			}
		})
	}
}

func TestDifferencesAreFound(t *testing.T) {
	type deep struct {
		Name string `json:"name"`
	}
	type inlined struct {
		Count int64 `json:"count,omitempty"`
	}
	type flux struct {
		inlined `json:",inline"`
		Deep    *deep  `json:"deep,omitempty"`
		List    []deep `json:"list"`
	}
	for _, test := range []struct {
		name string
		view any
		want []string
	}{
		{"less is no difference", struct{}{}, nil},
		{"nor is a pointer", struct {
			Deep deep `json:"deep,omitempty"`
		}{}, nil},
		{"nor is what another struct holds inline", struct {
			Count int64 `json:"count,omitempty"`
		}{}, nil},
		{"another name", struct {
			Counted int64 `json:"counted,omitempty"`
		}{}, []string{"counted is not in it"}},
		{"another type", struct {
			Count int32 `json:"count,omitempty"`
		}{}, []string{"count is int64 in it, not int32"}},
		{"what may be left out, and may not", struct {
			Count int64  `json:"count"`
			List  []deep `json:"list,omitempty"`
		}{}, []string{"count may be left out of it", "list is never left out of it"}},
		{"one in a list below", struct {
			List []struct {
				Name bool `json:"name"`
			} `json:"list"`
		}{}, []string{"list.name is string in it, not bool"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			NewWithT(t).Expect(differences("", reflect.TypeOf(test.view), reflect.TypeFor[flux]())).To(Equal(test.want))
		})
	}
}

// differences compares a view with a type, field by field, by their JSON names.
func differences(path string, view, flux reflect.Type) []string {
	view, flux = element(view), element(flux)
	switch {
	case view == flux:
		return nil
	case view.Kind() != flux.Kind():
		return []string{fmt.Sprintf("%s is %s in it, not %s", path, flux.Kind(), view.Kind())}
	case view.Kind() == reflect.Slice:
		return differences(path, view.Elem(), flux.Elem())
	case view.Kind() != reflect.Struct:
		return nil
	}
	var found []string
	theirs := fieldsOf(flux)
	for _, field := range reflect.VisibleFields(view) {
		name, optional := inJSON(field)
		if name == "" {
			continue
		}
		at := strings.TrimPrefix(path+"."+name, ".")
		their, ok := theirs[name]
		if !ok {
			found = append(found, at+" is not in it")
			continue
		}
		switch _, theirOptional := inJSON(their); {
		case optional && !theirOptional:
			found = append(found, at+" is never left out of it")
		case !optional && theirOptional:
			found = append(found, at+" may be left out of it")
		}
		found = append(found, differences(at, field.Type, their.Type)...)
	}
	return found
}

// fieldsOf returns the fields of a struct by their JSON names, including those of inlined structs.
func fieldsOf(of reflect.Type) map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	for _, field := range reflect.VisibleFields(of) {
		if name, _ := inJSON(field); name != "" {
			fields[name] = field
		}
	}
	return fields
}

// inJSON returns the field's JSON name, which is empty for an inlined struct, and whether it may be omitted.
func inJSON(field reflect.StructField) (name string, optional bool) {
	name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name, strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
}

func element(of reflect.Type) reflect.Type {
	if of.Kind() == reflect.Pointer {
		return of.Elem()
	}
	return of
}
