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

package action_test

import (
	"net/url"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/action"
)

func TestArgs(t *testing.T) {
	on := func(verb action.Verb, change func(*action.Request)) action.Request {
		request := action.Request{Verb: verb, Namespace: "apps", Name: "shop"}
		if change != nil {
			change(&request)
		}
		return request
	}
	for _, tt := range []struct {
		name    string
		request action.Request
		want    string
		err     string
	}{
		{
			name:    "an approval names its environment and its revision",
			request: on(action.Approve, func(r *action.Request) { r.Environment, r.Revision, r.Comment = "prod", "v1@sha1:ab", "looks good" }),
			want:    "approve|promotion|shop|--namespace=apps|--env=prod|--revision=v1@sha1:ab|--comment=looks good|--yes|--wait=false",
		},
		{name: "an approval of anything is refused", request: on(action.Approve, func(r *action.Request) { r.Environment = "prod" }), err: "an approval needs an environment and a revision"},
		{
			name:    "a gate is closed for a time",
			request: on(action.Close, func(r *action.Request) { r.For, r.Reason = "2h", "--wait=true; rm -rf" }),
			want:    "close|gate|shop|--namespace=apps|--for=2h|--reason=--wait=true; rm -rf|--wait=false",
		},
		{name: "a gate is opened for good", request: on(action.Open, nil), want: "open|gate|shop|--namespace=apps|--wait=false"},
		{
			name:    "a revision passes",
			request: on(action.Pass, func(r *action.Request) { r.For, r.Reason, r.Revision = "2h", "INC-4711", "sha1:ab" }),
			want:    "pass|gate|shop|--namespace=apps|--revision=sha1:ab|--for=2h|--reason=INC-4711",
		},
		{name: "a pipeline is reconciled", request: on(action.Reconcile, nil), want: "pipeline|reconcile|shop|--namespace=apps|--wait=false"},
		{name: "or forced", request: on(action.Reconcile, func(r *action.Request) { r.Force = "true" }), want: "pipeline|reconcile|shop|--namespace=apps|--force=true|--wait=false"},
		{name: "or suspended", request: on(action.Suspend, nil), want: "pipeline|suspend|shop|--namespace=apps"},
		{name: "or resumed", request: on(action.Resume, nil), want: "pipeline|resume|shop|--namespace=apps|--wait=false"},
		{name: "a name that is a flag is refused", request: on(action.Suspend, func(r *action.Request) { r.Name = "--all" }), err: "the name of the object is invalid"},
		{name: "so is a namespace that is a path", request: on(action.Suspend, func(r *action.Request) { r.Namespace = "a/b" }), err: "the name of the object is invalid"},
		{name: "so is a duration that is none", request: on(action.Open, func(r *action.Request) { r.For = "soon" }), err: "the duration is invalid"},
		{name: "so is any other command", request: on("uninstall", nil), err: `there is no action "uninstall"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			args, err := tt.request.Args()
			if tt.err != "" {
				g.Expect(err).To(MatchError(tt.err))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(strings.Join(action.Unattended(args), "|")).To(Equal(tt.want))
		})
	}
}

func TestCommandIsForAShell(t *testing.T) {
	g := NewWithT(t)
	g.Expect(action.Command([]string{"close", "gate", "freeze", "--reason=it's late; $(rm)"})).To(Equal(`flux close gate freeze --reason='it'\''s late; $(rm)'`))
}

func TestPathKeepsTheRequest(t *testing.T) {
	g := NewWithT(t)
	request := action.Request{Verb: action.Approve, Namespace: "apps", Name: "shop", Environment: "eu+prod&x=1", Revision: "main@sha1:ab"}
	parsed, err := url.Parse(request.Path())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(action.RequestOf(strings.TrimPrefix(parsed.Path, "/actions/"), parsed.Query())).To(Equal(request))
}
