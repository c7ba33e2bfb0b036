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

package approval

import (
	"encoding/hex"
	"testing"

	. "github.com/onsi/gomega"
)

// What the guide says that openssl prints.
func TestTheGuidesSignatureIsRight(t *testing.T) {
	g := NewWithT(t)
	mac, err := hex.DecodeString("c33377f677dc11501137891b8a25fa326ff826b9681dd0d35207a0f2416d2986")
	g.Expect(err).NotTo(HaveOccurred())
	signed := signature{mac: mac, message: message("POST", "/approval/flux-system/app/prod/v1.1.0@sha1:6fd5f2a5b1c3", "1790000000", []byte(`{"comment":"smoke tests passed"}`))}
	g.Expect(signed.matches([]byte("not-a-real-key"))).To(BeTrue())
	g.Expect(signed.matches([]byte("another"))).To(BeFalse())
}
