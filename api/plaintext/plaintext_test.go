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

package plaintext

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestLine(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"text of any script is kept", "Größe 生产 🚀 (a/b: \"c\")", "Größe 生产 🚀 (a/b: \"c\")"},
		{"a line of ASCII is kept", "gate a is closed (INC-1)", "gate a is closed (INC-1)"},
		{"spaces at the beginning and the end are left out", " a  b ", "a b"},
		{"only spaces are nothing", "  ", ""},
		{"nothing stays nothing", "", ""},
		{"the last character of ASCII is invisible", "a\x7fb", "ab"},
		{"lines become one", " a\r\nb\tc\u2028d \u00a0 e\n", "a b c d e"},
		{"escape sequences lose what makes them one", "\x1b[2Ja\x1b]0;title\x07b\u009b1mc", "[2Ja]0;titleb1mc"},
		{"a carriage return does not overwrite what is before it", "ready\rbroken", "ready broken"},
		{"the order of reading is not changed", "a\u202eb\u2066c\u200fd", "abcd"},
		{"hidden characters are left out", "a\u200bb\ufeffc\u00add\U000e0041e", "abcde"},
		{"bytes that are no text are shown as such", "a\xffb", "a�b"},
	} {
		t.Run(tt.name, func(t *testing.T) { NewWithT(t).Expect(Line(tt.text)).To(Equal(tt.want)) })
	}
}

func TestIsWord(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       bool
	}{
		{"nothing", "", true},
		{"a revision of Git", "main@sha1:0123abcd", true},
		{"a branch with a slash and letters of another script", "feature/größe-生产@sha1:0123abcd", true},
		{"a version of a chart", "1.2.3-rc.1+0cdf2ab6ec12", true},
		{"a sentence", "call 555-0100", false},
		{"a line end", "v1\n", false},
		{"an escape sequence", "v1\x1b[2J", false},
		{"a space of another kind", "v1\u00a0x", false},
		{"a mark that reverses what follows", "v1\u202ex", false},
		{"bytes that are no text", "v1\xff", false},
	} {
		t.Run(tt.name, func(t *testing.T) { NewWithT(t).Expect(IsWord(tt.text)).To(Equal(tt.want)) })
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"text that is short enough stays", "äbc", "äbc"},
		{"longer text is cut between characters", "äbcd", "äbc…"},
		{"nothing stays nothing", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) { NewWithT(t).Expect(Cut(tt.text, 3)).To(Equal(tt.want)) })
	}
}
