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

// Package plaintext makes text from untrusted sources safe to show in messages, events, logs and terminals.
package plaintext

import (
	"strings"
	"unicode"
)

// Line returns text as a single line of visible characters. Each sequence of spaces and line breaks becomes one space.
// Invisible characters are removed: control sequences of terminals, and characters that hide text or change its reading
// order.
func Line(text string) string {
	if isLine(text) {
		return text
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || unicode.IsSpace(r) {
			return r
		}
		return -1
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// isLine reports whether Line changes nothing of the text, if it is ASCII as most texts are. It allocates nothing.
func isLine(text string) bool {
	space := true
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == ' ' && space {
			return false
		}
		space = c == ' '
	}
	return !space || text == ""
}

// Cut returns at most most characters of text, followed by an ellipsis if it was longer.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// IsWord reports whether all characters of text are visible and none is a space. The empty text is a word.
func IsWord(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r == ' ' || r == unicode.ReplacementChar || !unicode.IsPrint(r) })
}
