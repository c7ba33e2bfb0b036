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
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// longestWatch is the duration of a watch if the options have no timeout.
const longestWatch = 10 * time.Minute

// Follower handles the events of a watch.
type Follower struct {
	// Decode decodes the part of an event's object that is kept. An error ends the watch.
	Decode func(event apiwatch.EventType, object []byte) (runtime.Object, error)
	// Failed is called with the error that ended the watch, unless the server ended it.
	Failed func(error)
}

// Watch watches the objects in a namespace, or in all namespaces. The resourceVersion and the timeout are taken from
// the options. If the server does not respond in time, the error is context.DeadlineExceeded.
func (r *Reader) Watch(ctx context.Context, of Resource, namespace string, options metav1.ListOptions, answerWithin time.Duration, follower Follower) (apiwatch.Interface, error) {
	query := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {options.ResourceVersion}}
	lasts := longestWatch
	if options.TimeoutSeconds != nil {
		query.Set("timeoutSeconds", strconv.FormatInt(*options.TimeoutSeconds, 10))
		lasts = time.Duration(*options.TimeoutSeconds) * time.Second
	}
	// Normally the server ends the watch. The timeout is for a server that disappeared silently.
	watching, cancel := context.WithTimeout(ctx, lasts+RequestTimeout)
	unanswered := time.AfterFunc(answerWithin, cancel)
	body, err := r.get(watching, of.path(namespace), query)
	if !unanswered.Stop() && err == nil {
		_ = body.Close()
		err = context.DeadlineExceeded
	}
	if err != nil {
		if watching.Err() != nil {
			err = context.DeadlineExceeded
		}
		cancel()
		return nil, err
	}
	return apiwatch.NewStreamWatcher(&eventDecoder{body: body, cancel: cancel, follower: follower}, reporter{}), nil
}

// eventDecoder reads the events of a watch. No event may be larger than maxObject.
type eventDecoder struct {
	body io.ReadCloser
	// cancel cancels the request.
	cancel   context.CancelFunc
	follower Follower

	limit *io.LimitedReader
	json  *json.Decoder
}

// Decode returns the next event. A malformed event ends the watch so that the reflector lists again: continuing would
// miss the event.
func (d *eventDecoder) Decode() (apiwatch.EventType, runtime.Object, error) {
	if d.json == nil {
		d.limit = &io.LimitedReader{R: d.body}
		d.json = json.NewDecoder(d.limit)
	}
	d.limit.N = maxObject
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
			return d.giveUp(ErrMalformed)
		}
		// The message is untrusted.
		status.Message = ""
		return apiwatch.Error, status, nil
	}
	object, err := d.follower.Decode(event.Type, event.Object)
	if err != nil {
		return d.giveUp(err)
	}
	return event.Type, object, nil
}

func (d *eventDecoder) ended(err error) (apiwatch.EventType, runtime.Object, error) {
	var syntax *json.SyntaxError
	var unexpected *json.UnmarshalTypeError
	switch {
	case d.limit.N <= 0:
		return d.giveUp(ErrTooLarge)
	case errors.As(err, &syntax), errors.As(err, &unexpected):
		return d.giveUp(ErrMalformed)
	}
	return "", nil, err
}

func (d *eventDecoder) giveUp(err error) (apiwatch.EventType, runtime.Object, error) {
	d.follower.Failed(err)
	return apiwatch.Error, reporter{}.AsObject(err), nil
}

// Close ends the watch.
func (d *eventDecoder) Close() {
	d.cancel()
	_ = d.body.Close()
}

// reporter turns every error into one that makes the reflector list again.
type reporter struct{}

// AsObject returns the error for the reflector.
func (reporter) AsObject(error) runtime.Object {
	status := apierrors.NewResourceExpired("").Status()
	return &status
}
