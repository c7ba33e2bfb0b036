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

// longestWatch is how long a watch lasts whose options don't say.
const longestWatch = 10 * time.Minute

// Follower takes what a watch brings.
type Follower struct {
	// Decode takes from the JSON of an event's object what is kept of it. An error ends the watch.
	Decode func(event apiwatch.EventType, object []byte) (runtime.Object, error)
	// Failed is told why the watch can't go on, unless it was the server that ended it.
	Failed func(error)
}

// Watch follows the objects in a namespace, or in all, by the resourceVersion and the timeout of the options. If the server has not answered
// within a time, the error is context.DeadlineExceeded.
func (r *Reader) Watch(ctx context.Context, of Resource, namespace string, options metav1.ListOptions, answerWithin time.Duration, follower Follower) (apiwatch.Interface, error) {
	query := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {options.ResourceVersion}}
	lasts := longestWatch
	if options.TimeoutSeconds != nil {
		query.Set("timeoutSeconds", strconv.FormatInt(*options.TimeoutSeconds, 10))
		lasts = time.Duration(*options.TimeoutSeconds) * time.Second
	}
	// It is the server that ends the watch. Should the server be gone without a trace, this does.
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

// eventDecoder reads the events of a watch, none of which may be larger than maxObject.
type eventDecoder struct {
	body io.ReadCloser
	// cancel ends the request.
	cancel   context.CancelFunc
	follower Follower

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
		// The message is not for us to repeat.
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

// reporter makes of any error what has the reflector list anew.
type reporter struct{}

// AsObject returns what the reflector is told.
func (reporter) AsObject(error) runtime.Object {
	status := apierrors.NewResourceExpired("").Status()
	return &status
}
