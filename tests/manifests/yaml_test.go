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

package manifests

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-toolkit/sluice/tests/codeblock"
)

var (
	// hereDocument begins one: the word that ends it may be quoted, and then nothing in it is expanded.
	hereDocument = regexp.MustCompile(`<<-?(['"]?)(\w+)['"]?\s*$`)
	loop         = regexp.MustCompile(`(?m)^\s*for (\w+) in ([^;]+); do`)
	export       = regexp.MustCompile(`(?m)^\s*export (\w+)=(\S+)`)
)

// placeholder is the value of a variable that the reader's own shell would fill in.
const placeholder = "placeholder"

// yamlIn returns the YAML of a page: its blocks of YAML, and the here-documents of its blocks of shell, once for each
// value of the loops that those are in.
func yamlIn(page string) []codeblock.Block {
	var found []codeblock.Block
	exported := map[string]string{}
	for _, match := range export.FindAllStringSubmatch(page, -1) {
		exported[match[1]] = match[2]
	}
	for _, block := range codeblock.In(page) {
		switch block.Language {
		case "yaml":
			found = append(found, block)
		case "sh", "console":
			found = append(found, hereDocuments(block, exported)...)
		}
	}
	return found
}

func hereDocuments(block codeblock.Block, exported map[string]string) []codeblock.Block {
	var found []codeblock.Block
	lines := slices.Collect(strings.Lines(block.Text))
	for at := 0; at < len(lines); at++ {
		match := hereDocument.FindStringSubmatch(lines[at])
		if match == nil {
			continue
		}
		before := strings.Join(lines[:at], "")
		document := codeblock.Block{Language: "yaml", Line: block.Line + at + 1}
		for at++; at < len(lines) && strings.TrimSpace(lines[at]) != match[2]; at++ {
			document.Text += lines[at]
		}
		if match[1] != "" {
			found = append(found, document)
			continue
		}
		for _, variables := range loopsAround(before) {
			expanded := document
			maps.Copy(variables, exported)
			expanded.Text = expand(document.Text, variables)
			found = append(found, expanded)
		}
	}
	return found
}

// loopsAround returns the values that the variable of the last loop before a place takes, or one set without any.
func loopsAround(before string) []map[string]string {
	loops := loop.FindAllStringSubmatch(before, -1)
	if len(loops) == 0 {
		return []map[string]string{{}}
	}
	last := loops[len(loops)-1]
	var found []map[string]string
	for _, value := range strings.Fields(last[2]) {
		found = append(found, map[string]string{last[1]: value})
	}
	return found
}

var variable = regexp.MustCompile(`\$\{?(\w+)\}?`)

func expand(text string, variables map[string]string) string {
	return variable.ReplaceAllStringFunc(text, func(match string) string {
		if value, ok := variables[variable.FindStringSubmatch(match)[1]]; ok {
			return value
		}
		return placeholder
	})
}
