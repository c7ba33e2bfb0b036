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
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// maxField limits each decoded field. No controller writes more.
const maxField = 256 << 10

// fields are the fields of a JSON object that are decoded. Decoding the whole object would need many times its size in
// memory.
type fields struct {
	names []string
	// nested maps a field to the fields in it that are decoded. Fields without an entry are decoded as a whole.
	nested map[string]*fields
	// shape is a struct with one json.RawMessage for each name, in the same order. A map would need memory for every
	// name that the sender makes up.
	shape reflect.Type
}

// fieldsAt returns the fields at dot-separated paths.
func fieldsAt(paths []string) *fields {
	below := map[string][]string{}
	for _, path := range paths {
		name, rest, _ := strings.Cut(path, ".")
		below[name] = append(below[name], rest)
	}
	f := &fields{names: slices.Sorted(maps.Keys(below)), nested: map[string]*fields{}}
	var members []reflect.StructField
	for i, name := range f.names {
		members = append(members, reflect.StructField{
			Name: "F" + strconv.Itoa(i), Type: reflect.TypeFor[json.RawMessage](), Tag: reflect.StructTag(`json:"` + name + `"`),
		})
		if !slices.Contains(below[name], "") {
			f.nested[name] = fieldsAt(below[name])
		}
	}
	f.shape = reflect.StructOf(members)
	return f
}

// split returns the JSON of the fields by name. It returns an error if raw is not a JSON object.
func (f *fields) split(raw []byte) (map[string]json.RawMessage, error) {
	object := reflect.New(f.shape)
	if err := json.Unmarshal(raw, object.Interface()); err != nil {
		return nil, err
	}
	parts := map[string]json.RawMessage{}
	for i, name := range f.names {
		if part := object.Elem().Field(i).Bytes(); len(part) > 0 {
			parts[name] = part
		}
	}
	return parts, nil
}

// decode returns the values of the fields, as in an unstructured object.
func (f *fields) decode(parts map[string]json.RawMessage) (map[string]any, error) {
	values := map[string]any{}
	for name, part := range parts {
		if nested := f.nested[name]; nested != nil {
			inner, err := nested.split(part)
			if err != nil {
				continue // only objects have these fields
			}
			value, err := nested.decode(inner)
			if err != nil {
				return nil, err
			}
			values[name] = value
			continue
		}
		if len(part) > maxField {
			return nil, ErrTooLarge
		}
		var value any
		if utiljson.Unmarshal(part, &value) == nil && value != nil {
			values[name] = value
		}
	}
	return values, nil
}
