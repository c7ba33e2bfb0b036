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

// Package codeblock finds the fenced code blocks in Markdown pages, so tests can run them.
package codeblock

import "strings"

const fence = "```"

// Block is a code block.
type Block struct {
	// Language is the info string of the opening fence, such as yaml.
	Language string
	// Line is the number of its first line in the page.
	Line int
	// Text is the content, without the indentation of the fence.
	Text string
}

// In returns the code blocks of a page, in order.
func In(page string) []Block {
	var found []Block
	var open *Block
	var indentation string
	number := 0
	for line := range strings.Lines(page) {
		number++
		trimmed := strings.TrimSpace(line)
		switch {
		case open == nil && strings.HasPrefix(trimmed, fence):
			indentation, _, _ = strings.Cut(line, fence)
			open = &Block{Language: strings.TrimPrefix(trimmed, fence), Line: number + 1}
		case open != nil && trimmed == fence:
			found = append(found, *open)
			open = nil
		case open != nil:
			open.Text += strings.TrimPrefix(line, indentation)
		}
	}
	return found
}
