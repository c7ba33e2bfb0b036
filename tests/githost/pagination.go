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

package githost

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

const (
	defaultPerPage = 30
	maxPerPage     = 100
)

// page returns the requested part of the items, and the header with links to the other parts.
func page[T any](r *request, items []T) ([]T, http.Header) {
	query := r.URL.Query()
	perPage := min(positive(query.Get("per_page"), defaultPerPage), maxPerPage)
	number := positive(query.Get("page"), 1)
	last := max(1, (len(items)+perPage-1)/perPage)

	var links []string
	link := func(rel string, to int) {
		query.Set("page", strconv.Itoa(to))
		links = append(links, fmt.Sprintf(`<%s%s?%s>; rel="%s"`, r.repo.host, r.URL.EscapedPath(), query.Encode(), rel))
	}
	if number > 1 {
		link("prev", min(number-1, last))
	}
	if number < last {
		link("next", number+1)
		link("last", last)
	}
	if number > 1 {
		link("first", 1)
	}
	header := http.Header{}
	if len(links) > 0 {
		header.Set("Link", strings.Join(links, ", "))
	}
	if number > last {
		return items[:0], header
	}
	start := (number - 1) * perPage
	return items[start:min(start+perPage, len(items))], header
}

func positive(text string, otherwise int) int {
	if number, err := strconv.Atoi(text); err == nil && number > 0 {
		return number
	}
	return otherwise
}
