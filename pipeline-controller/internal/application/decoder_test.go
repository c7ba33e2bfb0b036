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

package application_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
)

var someKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "App"}

// allocated returns how much memory a function asks for.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestAnObjectTakesNoMultipleOfItsSize(t *testing.T) {
	const size = 2 << 20
	decoder := application.NewDecoder(someKind, "")
	for _, element := range []string{"{}", "[]", "0", `{"a":0}`} {
		many := strings.Repeat(element+",", size/len(element)) + element
		for _, where := range []string{`"spec":[%s]`, `"metadata":{"annotations":[%s]}`, `"status":{"conditions":[%s]}`, `"status":{"inventory":[%s]}`} {
			t.Run("an object of "+element+" in "+where, func(t *testing.T) {
				object := []byte("{" + fmt.Sprintf(where, many) + "}")
				NewWithT(t).Expect(allocated(func() { _, _ = decoder.Decode(object) })).To(BeNumerically("<", 12*size))
			})
		}
	}
	for _, where := range []string{"{%s}", `{"status":{%s}}`} {
		t.Run("an object of fields that nobody asked for, as "+where, func(t *testing.T) {
			object := []byte(fmt.Sprintf(where, strings.Repeat(`"a":0,`, size/6)+`"b":0`))
			NewWithT(t).Expect(allocated(func() { _, _ = decoder.Decode(object) })).To(BeNumerically("<", 12*size))
		})
	}
}

func TestANameThatIsNoneIsNotKept(t *testing.T) {
	for _, field := range []string{"name", "namespace"} {
		_, err := application.NewDecoder(someKind, "").Decode([]byte(`{"metadata":{"` + field + `":"` + strings.Repeat("x", 254) + `"}}`))
		NewWithT(t).Expect(err).To(MatchError(application.ErrMalformed))
	}
}

func TestWhatIsNoObjectIsAnError(t *testing.T) {
	for _, test := range []struct {
		name, raw string
		want      error
	}{
		{"no JSON", "{", application.ErrMalformed},
		{"a list", "[]", application.ErrMalformed},
		{"metadata of another shape", `{"metadata":[]}`, application.ErrMalformed},
		{"a name that is a number", `{"metadata":{"name":7}}`, application.ErrMalformed},
		{"a field that is too large", `{"status":{"lastAppliedRevision":"` + strings.Repeat("x", 256<<10) + `"}}`, application.ErrTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := application.NewDecoder(someKind, "").Decode([]byte(test.raw))
			NewWithT(t).Expect(err).To(MatchError(test.want))
		})
	}
}
