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

// Package action turns what a person has confirmed on the page into the command that does it. It runs nothing.
package action

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
)

// Verb is what is done.
type Verb string

// The verbs. Approve, Reconcile, Suspend and Resume are for Pipelines, and the others are for Gates.
const (
	Approve   Verb = "approve"
	Reconcile Verb = "reconcile"
	Suspend   Verb = "suspend"
	Resume    Verb = "resume"
	Open      Verb = "open"
	Close     Verb = "close"
	Pass      Verb = "pass"
)

// OfGates reports whether the verb is for Gates.
func (v Verb) OfGates() bool { return v == Open || v == Close || v == Pass }

// Known reports whether there is such a verb.
func (v Verb) Known() bool {
	return slices.Contains([]Verb{Approve, Reconcile, Suspend, Resume, Open, Close, Pass}, v)
}

// Request is what a person has confirmed.
type Request struct {
	Verb      Verb   `json:"-"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Environment and Revision are of a promotion to approve. Revision is also what may pass a gate.
	Environment string `json:"environment"`
	Revision    string `json:"revision"`
	// For is how long. It may be empty for opening and closing.
	For     string `json:"for"`
	Reason  string `json:"reason"`
	Comment string `json:"comment"`
	// Force is "true" to start a promotion again.
	Force string `json:"force"`
}

// RequestOf reads the part of a request that is known before it is confirmed.
func RequestOf(verb string, query url.Values) Request {
	return Request{
		Verb: Verb(verb), Namespace: query.Get("namespace"), Name: query.Get("name"),
		Environment: query.Get("environment"), Revision: query.Get("revision"),
	}
}

// Path returns the address of the question about the request.
func (r Request) Path() string {
	query := url.Values{"namespace": {r.Namespace}, "name": {r.Name}}
	if r.Environment != "" {
		query.Set("environment", r.Environment)
	}
	if r.Revision != "" {
		query.Set("revision", r.Revision)
	}
	return "/actions/" + string(r.Verb) + "?" + query.Encode()
}

// Args returns the arguments of 'flux' that do it.
func (r Request) Args() ([]string, error) {
	if len(validation.IsDNS1123Subdomain(r.Name)) > 0 || len(validation.IsDNS1123Label(r.Namespace)) > 0 {
		return nil, errors.New("the name of the object is invalid")
	}
	if r.For != "" {
		if _, err := time.ParseDuration(r.For); err != nil {
			return nil, errors.New("the duration is invalid")
		}
	}
	where := []string{r.Name, "--namespace=" + r.Namespace}
	switch r.Verb {
	case Approve:
		if r.Environment == "" || r.Revision == "" {
			return nil, errors.New("an approval needs an environment and a revision")
		}
		return append(slices.Concat([]string{"approve", "promotion"}, where), flags("env", r.Environment, "revision", r.Revision, "comment", r.Comment)...), nil
	case Reconcile:
		return append(slices.Concat([]string{"pipeline", "reconcile"}, where), flags("force", r.Force)...), nil
	case Suspend, Resume:
		return slices.Concat([]string{"pipeline", string(r.Verb)}, where), nil
	case Open, Close:
		return append(slices.Concat([]string{string(r.Verb), "gate"}, where), flags("for", r.For, "reason", r.Reason)...), nil
	case Pass:
		return append(slices.Concat([]string{"pass", "gate"}, where), flags("revision", r.Revision, "for", r.For, "reason", r.Reason)...), nil
	}
	return nil, fmt.Errorf("there is no action %q", r.Verb)
}

// Unattended returns arguments that make the command neither ask nor wait: the person has confirmed it, and the page
// shows what follows.
func Unattended(args []string) []string {
	switch args[0] {
	case "approve":
		return append(slices.Clone(args), "--yes", "--wait=false")
	case "open", "close":
		return append(slices.Clone(args), "--wait=false")
	case "pipeline":
		if args[1] != "suspend" {
			return append(slices.Clone(args), "--wait=false")
		}
	}
	return args
}

// flags returns those that have a value. Each is one argument, whatever its value is.
func flags(pairs ...string) []string {
	var given []string
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			given = append(given, "--"+pairs[i]+"="+pairs[i+1])
		}
	}
	return given
}

// Command returns arguments of 'flux' as they are typed in a shell.
func Command(args []string) string {
	words := []string{"flux"}
	for _, arg := range args {
		name, value, isFlag := strings.Cut(arg, "=")
		if isFlag && strings.HasPrefix(arg, "--") {
			words = append(words, name+"="+why.Quote(value))
		} else {
			words = append(words, why.Quote(arg))
		}
	}
	return strings.Join(words, " ")
}
