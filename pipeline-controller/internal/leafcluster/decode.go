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

package leafcluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/target"
)

const (
	// maxEvent bounds one event of a watch: an API server takes no objects larger than some 3 MB.
	maxEvent = 16 << 20
	// maxField bounds each field of a status that is decoded. No controller writes as much.
	maxField = 256 << 10
)

// observed is all that is kept of an application object.
type observed struct {
	metav1.TypeMeta
	// ObjectMeta has the name, the namespace and the resourceVersion only: the reflector wants them.
	metav1.ObjectMeta
	state target.State
}

func (o *observed) name() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
}

// DeepCopyObject makes it a runtime.Object.
func (o *observed) DeepCopyObject() runtime.Object {
	deep := *o
	deep.ObjectMeta = *o.ObjectMeta.DeepCopy()
	return &deep
}

// observe takes from an object what is kept. The rest is not decoded: it would take many times its size.
func observe(raw []byte, kind schema.GroupVersionKind) (*observed, error) {
	var object struct {
		Metadata struct {
			Namespace, Name, ResourceVersion string
			UID                              types.UID
			Generation                       int64
		}
		Status json.RawMessage
	}
	if json.Unmarshal(raw, &object) != nil {
		return nil, errNonsense
	}
	metadata := object.Metadata
	if len(metadata.Namespace) > validation.DNS1123LabelMaxLength || len(metadata.Name) > validation.DNS1123SubdomainMaxLength {
		return nil, errNonsense
	}
	status, err := observeStatus(object.Status)
	if err != nil {
		return nil, err
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	obj.SetGroupVersionKind(kind)
	obj.SetNamespace(metadata.Namespace)
	obj.SetName(metadata.Name)
	obj.SetUID(metadata.UID)
	obj.SetGeneration(metadata.Generation)
	o := &observed{state: target.StateOf(obj)}
	o.Namespace, o.Name, o.ResourceVersion = metadata.Namespace, metadata.Name, metadata.ResourceVersion
	return o, nil
}

// observeStatus takes from a status what target.StateOf reads.
func observeStatus(raw json.RawMessage) (map[string]any, error) {
	var fields struct{ ObservedGeneration, LastAppliedRevision, Conditions, History json.RawMessage }
	// A status of another shape has none of them.
	_ = json.Unmarshal(raw, &fields)
	status := map[string]any{}
	for name, field := range map[string]json.RawMessage{
		"observedGeneration": fields.ObservedGeneration, "lastAppliedRevision": fields.LastAppliedRevision,
		"conditions": fields.Conditions, "history": fields.History,
	} {
		if len(field) > maxField {
			return nil, errTooLarge
		}
		var value any
		if len(field) > 0 && utiljson.Unmarshal(field, &value) == nil && value != nil {
			status[name] = value
		}
	}
	return status, nil
}

// observedList is a page of a list.
type observedList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []observed
}

// DeepCopyObject makes it a runtime.Object.
func (l *observedList) DeepCopyObject() runtime.Object {
	deep := *l
	deep.Items = make([]observed, len(l.Items))
	for i := range l.Items {
		deep.Items[i] = *l.Items[i].DeepCopyObject().(*observed)
	}
	return &deep
}

// observeList takes from a page what is kept of each object, of which there may be a number.
func observeList(content []byte, kind schema.GroupVersionKind, most int) (*observedList, error) {
	var page struct {
		Metadata metav1.ListMeta `json:"metadata"`
		Items    json.RawMessage `json:"items"`
	}
	if json.Unmarshal(content, &page) != nil || page.Metadata.ResourceVersion == "" {
		return nil, errNonsense
	}
	list := &observedList{ListMeta: page.Metadata}
	// One by one: a page may have millions of small ones.
	items := json.NewDecoder(bytes.NewReader(page.Items))
	if token, _ := items.Token(); token == nil {
		return list, nil
	} else if token != json.Delim('[') {
		return nil, errNonsense
	}
	for items.More() {
		if len(list.Items) == most {
			return nil, errTooMany
		}
		var raw json.RawMessage
		if items.Decode(&raw) != nil {
			return nil, errNonsense
		}
		object, err := observe(raw, kind)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, *object)
	}
	return list, nil
}

// eventDecoder reads the events of a watch, none of which may be larger than maxEvent.
type eventDecoder struct {
	body io.ReadCloser
	// cancel ends the request.
	cancel context.CancelFunc
	kind   schema.GroupVersionKind
	// admit may refuse an object.
	admit func(types.NamespacedName) error
	// failed is told why the watch can't go on, unless it was ended by the server.
	failed func(error)

	limit *io.LimitedReader
	json  *json.Decoder
}

// Decode returns the next event. What can't be understood ends the watch in such a way that the reflector lists anew: to go on would
// be to miss an event.
func (d *eventDecoder) Decode() (apiwatch.EventType, runtime.Object, error) {
	if d.json == nil {
		d.limit = &io.LimitedReader{R: d.body}
		d.json = json.NewDecoder(d.limit)
	}
	d.limit.N = maxEvent
	var event struct {
		Type   apiwatch.EventType `json:"type"`
		Object json.RawMessage    `json:"object"`
	}
	if err := d.json.Decode(&event); err != nil {
		return d.ended(err)
	}
	if event.Type == apiwatch.Error {
		status := &metav1.Status{}
		if json.Unmarshal(event.Object, status) != nil {
			return d.giveUp(errNonsense)
		}
		// The message is not for us to repeat.
		status.Message = ""
		return apiwatch.Error, status, nil
	}
	object, err := observe(event.Object, d.kind)
	if err != nil {
		return d.giveUp(err)
	}
	if event.Type == apiwatch.Added || event.Type == apiwatch.Modified {
		if err := d.admit(object.name()); err != nil {
			return d.giveUp(err)
		}
	}
	return event.Type, object, nil
}

func (d *eventDecoder) ended(err error) (apiwatch.EventType, runtime.Object, error) {
	var syntax *json.SyntaxError
	var unexpected *json.UnmarshalTypeError
	switch {
	case d.limit.N <= 0:
		return d.giveUp(errTooLarge)
	case errors.As(err, &syntax), errors.As(err, &unexpected):
		return d.giveUp(errNonsense)
	}
	return "", nil, err
}

func (d *eventDecoder) giveUp(err error) (apiwatch.EventType, runtime.Object, error) {
	d.failed(err)
	return apiwatch.Error, reporter{}.AsObject(err), nil
}

// Close ends the watch.
func (d *eventDecoder) Close() {
	d.cancel()
	_ = d.body.Close()
}

// reporter makes of any error what has the reflector list anew.
type reporter struct{}

// AsObject returns what the reflector is told.
func (reporter) AsObject(error) runtime.Object {
	status := apierrors.NewResourceExpired("").Status()
	return &status
}
