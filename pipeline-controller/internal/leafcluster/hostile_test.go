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
	"fmt"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

func TestWhatALeafSendsTakesNoMultipleOfItsSize(t *testing.T) {
	// What is the same for all sizes: as many objects as may be.
	const size, objects = 2 << 20, 64 << 20
	for _, element := range []string{"{}", "[]", "0", `{"a":0}`} {
		many := strings.Repeat(element+",", size/len(element)) + element
		t.Run("a page of "+element, func(t *testing.T) {
			page := []byte(`{"metadata":{"resourceVersion":"1"},"items":[` + many + `]}`)
			NewWithT(t).Expect(allocated(func() { _, _ = observeList(page, someKind, maxObjects) })).To(BeNumerically("<", 12*size+objects))
		})
		for _, where := range []string{`"spec":[%s]`, `"metadata":{"annotations":[%s]}`, `"status":{"conditions":[%s]}`, `"status":{"inventory":[%s]}`} {
			t.Run("an object of "+element+" in "+where, func(t *testing.T) {
				object := []byte("{" + fmt.Sprintf(where, many) + "}")
				NewWithT(t).Expect(allocated(func() { _, _ = observe(object, someKind) })).To(BeNumerically("<", 12*size))
			})
		}
	}
}

func TestANameThatIsNoneIsNotKept(t *testing.T) {
	for _, field := range []string{"name", "namespace"} {
		_, err := observe([]byte(`{"metadata":{"`+field+`":"`+strings.Repeat("x", 254)+`"}}`), someKind)
		NewWithT(t).Expect(err).To(MatchError(errNonsense))
	}
}
