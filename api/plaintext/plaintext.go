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

// Package plaintext makes text that others wrote safe to show: in messages, events and logs, and on a terminal.
package plaintext

import (
	"strings"
	"unicode"
)

// Line returns text as one line of what can be seen. Spaces and line ends of any kind become one space each. Characters that can't be
// seen are left out: those that give orders to a terminal, and those that hide text or change the order in which it is read.
func Line(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || unicode.IsSpace(r) {
			return r
		}
		return -1
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// Cut returns text, or as many of its characters as most says and an ellipsis.
func Cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// IsWord reports whether text is all characters that can be seen, without a space. The empty text is.
func IsWord(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r == ' ' || r == unicode.ReplacementChar || !unicode.IsPrint(r) })
}
