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

package endpoint

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/approval"
)

const (
	key      = "not-a-real-key"
	self     = "system:serviceaccount:flux-system:pipeline-controller"
	waiting  = "feature/a+b@sha1:6fd5f2a5b1c34c6e2b1d4f6a8c0e2f4a6b8c0d1e"
	running  = "sha1:0000000000000000000000000000000000000001"
	prodPath = "/approval/shop/app/prod/" + waiting
)

var now = time.Unix(1790000000, 0)

// objects are two Pipelines whose promotions wait, with the same key, and ways not to have a key.
const objects = `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: app, namespace: shop}
spec:
  appRef: {apiVersion: v1, kind: App, name: app}
  environments:
  - {name: dev, targets: []}
  - {name: prod, targets: []}
  - {name: canary, targets: []}
  - {name: 'EU/west 100%', targets: []}
  - {name: chart, targets: []}
  - {name: idle, targets: []}
  - {name: people, targets: [], promotion: {approvals: {required: 2, http: false}, strategy: {notification: {}, secretRef: {name: approvals}}}}
  - {name: unsigned, targets: [], promotion: {strategy: {notification: {}}}}
  - {name: lost, targets: [], promotion: {strategy: {notification: {}, secretRef: {name: lost}}}}
  - {name: keyless, targets: [], promotion: {strategy: {notification: {}, secretRef: {name: keyless}}}}
  - {name: empty, targets: [], promotion: {strategy: {notification: {}, secretRef: {name: empty}}}}
  - {name: slashed, targets: [], promotion: {strategy: {notification: {}, secretRef: {name: a/b}}}}
  - {name: nameless, targets: [], promotion: {strategy: {notification: {}, secretRef: {name: ''}}}}
  promotion: {manual: true, strategy: {notification: {}, secretRef: {name: approvals}}}
status:
  revision: REVISION
  environments:
    prod: {waitingApproval: {revision: REVISION}, promotion: {revision: REVISION, state: unapproved, startTime: "2026-09-21T14:00:00Z"}}
    canary: {waitingApproval: {revision: REVISION}, promotion: {revision: REVISION, state: unapproved, startTime: "2026-09-21T14:00:00Z"}}
    EU/west 100%: {waitingApproval: {revision: REVISION}, promotion: {revision: REVISION, state: unapproved, startTime: "2026-09-21T14:00:00Z"}}
    chart: {waitingApproval: {revision: 1.2.3+build.4}, promotion: {revision: 1.2.3+build.4, state: unapproved, startTime: "2026-09-21T14:00:00Z"}}
    people: {waitingApproval: {revision: REVISION}, promotion: {revision: REVISION, state: unapproved, startTime: "2026-09-21T14:00:00Z"}}
    idle: {waitingApproval: {revision: ''}}
    unsigned: {waitingApproval: {revision: REVISION}, promotion: {revision: REVISION, state: unapproved, startTime: "2026-09-21T14:00:00Z"}}
    lost: {waitingApproval: {revision: REVISION}, promotion: {revision: REVISION, state: unapproved, startTime: "2026-09-21T14:00:00Z"}}
    keyless: {waitingApproval: {revision: REVISION}, promotion: {revision: REVISION, state: unapproved, startTime: "2026-09-21T14:00:00Z"}}
    empty: {waitingApproval: {revision: REVISION}, promotion: {revision: REVISION, state: unapproved, startTime: "2026-09-21T14:00:00Z"}}
    slashed: {waitingApproval: {revision: REVISION}, promotion: {revision: REVISION, state: unapproved, startTime: "2026-09-21T14:00:00Z"}}
    nameless: {waitingApproval: {revision: REVISION}, promotion: {revision: REVISION, state: unapproved, startTime: "2026-09-21T14:00:00Z"}}
---
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: other, namespace: shop}
spec:
  appRef: {apiVersion: v1, kind: App, name: app}
  environments: [{name: prod, targets: []}]
  promotion: {manual: true, strategy: {notification: {}, secretRef: {name: approvals}}}
status:
  environments:
    prod: {waitingApproval: {revision: REVISION}, promotion: {revision: REVISION, state: unapproved, startTime: "2026-09-21T14:00:00Z"}}
---
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: unpromoted, namespace: shop}
spec:
  appRef: {apiVersion: v1, kind: App, name: app}
  environments: [{name: prod, targets: []}]
---
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: leaving, namespace: shop, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [finalizers.pipelines.weave.works]}
spec:
  appRef: {apiVersion: v1, kind: App, name: app}
  environments: [{name: prod, targets: []}]
  promotion: {manual: true, strategy: {notification: {}, secretRef: {name: approvals}}}
status:
  environments:
    prod: {waitingApproval: {revision: REVISION}, promotion: {revision: REVISION, state: unapproved, startTime: "2026-09-21T14:00:00Z"}}
---
{apiVersion: v1, kind: Secret, metadata: {name: approvals, namespace: shop}, data: {hmac-key: bm90LWEtcmVhbC1rZXk=}}
---
{apiVersion: v1, kind: Secret, metadata: {name: keyless, namespace: shop}, data: {token: bm90LWEtcmVhbC1rZXk=}}
---
{apiVersion: v1, kind: Secret, metadata: {name: empty, namespace: shop}, data: {hmac-key: ""}}
`

// newClient returns a client of a cluster with the objects in it.
func newClient(t testing.TB) client.WithWatch {
	t.Helper()
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(corev1.AddToScheme(scheme)).To(Succeed())
	g.Expect(pipelinesv1.AddToScheme(scheme)).To(Succeed())
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, document := range strings.Split(strings.ReplaceAll(objects, "REVISION", waiting), "\n---\n") {
		var obj client.Object = &pipelinesv1.Pipeline{}
		if strings.Contains(document, "kind: Secret") {
			obj = &corev1.Secret{}
		}
		g.Expect(yaml.UnmarshalStrict([]byte(document), obj)).To(Succeed())
		builder = builder.WithObjects(obj)
	}
	return builder.Build()
}

func newServer(c client.Client) *Server {
	return &Server{Approver: approval.Approver{
		Reader: c, Secrets: c, Creator: c,
		Username: func(context.Context) (string, error) { return self, nil },
		Now:      func() time.Time { return now },
	}}
}

// ask is a request for approval. What it is signed with can differ from what is sent.
type ask struct {
	method, target, body string
	remote               string
	header               http.Header
}

// sign signs what is asked, as of a time.
func (a *ask) sign(key string, at time.Time) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	a.header = http.Header{}
	a.header.Set(approval.TimestampHeader, timestamp)
	a.header.Set(approval.SignatureHeader, "sha256="+macOf(key, "sluice-approval-v1\n"+a.method+"\n"+a.target+"\n"+timestamp+"\n"+a.body))
}

func macOf(key, message string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(message))
	return hex.EncodeToString(mac.Sum(nil))
}

// posted is a request that is well signed.
func posted(target, body string) *ask {
	a := &ask{method: http.MethodPost, target: target, body: body, remote: "192.0.2.1:1234"}
	a.sign(key, now)
	return a
}

// to has the server answer the request.
func (a *ask) to(server *Server) *httptest.ResponseRecorder {
	request := httptest.NewRequest(a.method, a.target, bytes.NewBufferString(a.body))
	request.Header, request.RemoteAddr = a.header, a.remote
	recorder := httptest.NewRecorder()
	server.ServeHTTP(recorder, request)
	return recorder
}

// approvals returns the specs of all approvals in the cluster.
func approvals(t testing.TB, c client.Reader) []pipelinesv1.PromotionApprovalSpec {
	t.Helper()
	var list pipelinesv1.PromotionApprovalList
	NewWithT(t).Expect(c.List(t.Context(), &list)).To(Succeed())
	specs := make([]pipelinesv1.PromotionApprovalSpec, len(list.Items))
	for i := range list.Items {
		specs[i] = list.Items[i].Spec
	}
	return specs
}

// spec is that of an approval by HTTP.
func spec(pipeline, env, revision, comment string) pipelinesv1.PromotionApprovalSpec {
	s := pipelinesv1.PromotionApprovalSpec{Environment: env, Revision: revision, ApprovedBy: self, Comment: comment}
	s.PipelineRef.Name = pipeline
	return s
}

// broken is a body that ends in an error.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
