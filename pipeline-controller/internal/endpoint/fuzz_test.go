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
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/approval"
)

// FuzzServe asserts for any request that the endpoint does not panic, returns only the documented status codes and the
// same body with every 401, and creates only approvals that the target names and that have a valid signature. With
// sign, the request is signed with the right key, to reach the code behind the signature check.
func FuzzServe(f *testing.F) {
	for _, seed := range []struct {
		method, target, timestamp, signature, body string
		sign, legacy                               bool
	}{
		{http.MethodPost, prodPath, "1790000000", "", "", true, false},
		{http.MethodPost, prodPath, "1790000000", "", `{"comment":"fine"}`, true, false},
		{http.MethodPost, "/approval/shop/app/EU%2Fwest%20100%25/" + waiting, "1790000300", "", "{}", true, false},
		{http.MethodPost, "/approval/shop/app/chart/1.2.3+build.4?q", "1789999700", "", "null", true, false},
		{http.MethodPost, "/approval/shop/app/people/" + waiting, "1790000000", "", "", true, false},
		{http.MethodPost, "/approval/shop/app/prod/" + running, "1790000000", "", "", true, false},
		{http.MethodPost, prodPath, "", "", "", true, true},
		{http.MethodPost, prodPath, "", "sha256=" + macOf("guessed", ""), "", false, true},
		{http.MethodPost, prodPath, "1790000000", "sha256=" + strings.Repeat("0", 64), "", false, false},
		{http.MethodPost, prodPath, "99999999999999999999", "sha256=zz", "x", false, false},
		{http.MethodPost, "/approval/shop/app/empty/" + waiting, "1790000000", "sha256=" + macOf("", ""), "", false, true},
		{http.MethodPost, "/approval/%/..//%2F", "1", "", "", true, false},
		{http.MethodGet, prodPath, "", "", "", false, false},
		{http.MethodPut, "/promotion/shop/app/prod", "", "", "{}", false, false},
		{"", "*", "", "", strings.Repeat(" ", maxBody+1), true, true},
	} {
		f.Add(seed.method, seed.target, seed.timestamp, seed.signature, seed.body, seed.sign, seed.legacy)
	}
	documented := []int{200, 201, 400, 401, 403, 404, 405, 410, 413, 422}
	cluster := newClient(f)

	f.Fuzz(func(t *testing.T, method, target, timestamp, given, body string, sign, legacy bool) {
		var made []*pipelinesv1.PromotionApproval
		server := newServer(cluster)
		server.AllowLegacySignatures = legacy
		server.Creator = creator(func(obj client.Object) error {
			made = append(made, obj.(*pipelinesv1.PromotionApproval))
			return nil
		})
		full := "sha256=" + macOf(key, "sluice-approval-v1\n"+method+"\n"+target+"\n"+timestamp+"\n"+body)
		bodyOnly := "sha256=" + macOf(key, body)
		switch {
		case sign && legacy && timestamp == "":
			given = bodyOnly
		case sign:
			given = full
		}
		request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		request.Method, request.RequestURI = method, target
		request.Header.Set(approval.SignatureHeader, given)
		if timestamp != "" {
			request.Header.Set(approval.TimestampHeader, timestamp)
		}
		recorder := httptest.NewRecorder()
		server.ServeHTTP(recorder, request)

		if !slices.Contains(documented, recorder.Code) {
			t.Fatalf("answered %d: %s", recorder.Code, recorder.Body)
		}
		if recorder.Code == http.StatusUnauthorized && recorder.Body.String() != unauthorizedBody {
			t.Fatalf("a 401 of its own: %s", recorder.Body)
		}
		signed := strings.EqualFold(given, full) || legacy && timestamp == "" && strings.EqualFold(given, bodyOnly)
		if !signed && slices.Contains([]int{200, 201, 400, 403, 422}, recorder.Code) {
			t.Fatalf("answered %d without a signature: %s", recorder.Code, recorder.Body)
		}
		if (recorder.Code == http.StatusCreated) != (len(made) == 1) || len(made) > 1 {
			t.Fatalf("answered %d, and made %d approvals", recorder.Code, len(made))
		}
		for _, approval := range made {
			checkTarget(t, target, approval)
		}
	})
}

// checkTarget asserts that an approval is of what the target names.
func checkTarget(t *testing.T, target string, approval *pipelinesv1.PromotionApproval) {
	t.Helper()
	path, _, _ := strings.Cut(target, "?")
	asked, ok := parse(strings.TrimPrefix(path, "/approval/"))
	switch {
	case !ok, approval.Namespace != asked.Namespace, approval.Spec.PipelineRef.Name != asked.Pipeline,
		approval.Spec.Environment != asked.Environment, approval.Spec.ApprovedBy != self:
		t.Fatalf("%q made an approval in %s of %+v", target, approval.Namespace, approval.Spec)
	case !revision.Names(asked.Revision, approval.Spec.Revision):
		t.Fatalf("%q made an approval of %s", target, approval.Spec.Revision)
	}
}
