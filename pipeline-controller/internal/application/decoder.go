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
	"encoding/json"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

var (
	// ErrMalformed means that the JSON is not an API object. It does not quote the JSON.
	ErrMalformed = errors.New("it is not an object")
	// ErrTooLarge means that a field is larger than any controller writes.
	ErrTooLarge = errors.New("one of its fields is too large")
)

// Object is the part of an application object that is kept.
type Object struct {
	metav1.TypeMeta
	// ObjectMeta contains only the name, the namespace and the resourceVersion, which client-go's reflector needs.
	metav1.ObjectMeta
	State State
}

// Key returns the namespace and name.
func (o *Object) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
}

// DeepCopyObject implements runtime.Object.
func (o *Object) DeepCopyObject() runtime.Object {
	deep := *o
	deep.ObjectMeta = *o.ObjectMeta.DeepCopy()
	return &deep
}

// Decoder decodes the objects of a kind. It is safe for concurrent use.
type Decoder struct {
	gvk    schema.GroupVersionKind
	kind   kind
	fields *fields
	// revision replaces the revision extractor of the kind; nil if there is no expression.
	revision func(raw []byte) (string, error)
}

// NewDecoder returns the Decoder of a kind in a version. If expr is not empty, it determines the revision of an object.
func NewDecoder(gvk schema.GroupVersionKind, expr string) *Decoder {
	as := kindOf(gvk.GroupKind())
	d := &Decoder{gvk: gvk, kind: as, fields: fieldsAt(slices.Concat([]string{"metadata.generation", "spec.suspend"},
		as.revision.fields, as.readiness.fields, as.sources.fields, as.follows.fields, as.held.fields, as.lost.fields))}
	if expr != "" {
		d.revision = revisionBy(expr)
	}
	return d
}

// revisionBy returns a function that evaluates the expression.
func revisionBy(expr string) func(raw []byte) (string, error) {
	compiled, err := CompileRevision(expr)
	if err != nil {
		return func([]byte) (string, error) { return "", err }
	}
	return compiled.evaluate
}

// Decode decodes an object from an untrusted sender. It needs at most a small multiple of the size of the JSON. Errors
// are ErrMalformed and ErrTooLarge.
func (d *Decoder) Decode(raw []byte) (*Object, error) {
	parts, err := d.fields.split(raw)
	if err != nil {
		return nil, ErrMalformed
	}
	var metadata struct {
		Namespace, Name, ResourceVersion string
		UID                              types.UID
		Generation                       int64
	}
	if part := parts["metadata"]; len(part) > 0 && json.Unmarshal(part, &metadata) != nil {
		return nil, ErrMalformed
	}
	if len(metadata.Namespace) > validation.DNS1123LabelMaxLength || len(metadata.Name) > validation.DNS1123SubdomainMaxLength {
		return nil, ErrMalformed
	}
	content, err := d.fields.decode(parts)
	if err != nil {
		return nil, err
	}
	obj := &unstructured.Unstructured{Object: content}
	obj.SetGroupVersionKind(d.gvk)
	obj.SetNamespace(metadata.Namespace)
	obj.SetName(metadata.Name)
	obj.SetUID(metadata.UID)
	o := &Object{State: d.state(obj, raw)}
	o.Namespace, o.Name, o.ResourceVersion = metadata.Namespace, metadata.Name, metadata.ResourceVersion
	return o, nil
}

// state returns an object's state. The state is unknown if its revision is invalid.
func (d *Decoder) state(obj *unstructured.Unstructured, raw []byte) State {
	if d.revision == nil {
		revision := d.kind.revision.from(obj)
		if err := checkRevision(revision, "in its status"); err != nil {
			return Unknown(err.Error())
		}
		return stateOf(obj, d.kind, revision)
	}
	revision, err := d.revision(raw)
	if err == nil {
		err = checkRevision(revision, "from the expression")
	}
	if err != nil {
		return UnknownBecause(pipelinesv1.RevisionExpressionFailedReason, "spec.revision.expr: "+err.Error(), time.Time{})
	}
	return stateOf(obj, d.kind, revision)
}
