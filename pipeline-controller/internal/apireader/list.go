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

package apireader

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"strconv"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Decode decodes the part of a JSON object that is kept.
type Decode func(object []byte) (runtime.Object, error)

// List reads a page of the current objects in a namespace, or in all namespaces. The limit and the continue token are
// taken from the options. More objects than the limit are ErrTooMany.
//
// The request has no resourceVersion: with "0", a server that lags behind may return older state than before.
func (r *Reader) List(ctx context.Context, of Resource, namespace string, options metav1.ListOptions, most int, decode Decode) (*metainternalversion.List, error) {
	query := url.Values{}
	if options.Limit > 0 {
		query.Set("limit", strconv.FormatInt(options.Limit, 10))
	}
	if options.Continue != "" {
		query.Set("continue", options.Continue)
	}
	content, err := r.read(ctx, of.path(namespace), query, maxAnswer)
	if err != nil {
		return nil, err
	}
	return decodeList(content, most, decode)
}

func decodeList(content []byte, most int, decode Decode) (*metainternalversion.List, error) {
	var page struct {
		Metadata metav1.ListMeta `json:"metadata"`
		Items    json.RawMessage `json:"items"`
	}
	if json.Unmarshal(content, &page) != nil || page.Metadata.ResourceVersion == "" {
		return nil, ErrMalformed
	}
	list := &metainternalversion.List{ListMeta: page.Metadata}
	// Objects are decoded one by one, because a page may have millions of small ones.
	items := json.NewDecoder(bytes.NewReader(page.Items))
	if token, _ := items.Token(); token == nil {
		return list, nil
	} else if token != json.Delim('[') {
		return nil, ErrMalformed
	}
	for items.More() {
		if len(list.Items) == most {
			return nil, ErrTooMany
		}
		var raw json.RawMessage
		if items.Decode(&raw) != nil {
			return nil, ErrMalformed
		}
		object, err := decode(raw)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, object)
	}
	return list, nil
}
