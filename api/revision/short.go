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

package revision

import "strings"

// shortHex is the number of hex digits in shortened digests, as in Git and Flux.
const shortHex = 8

// Short returns rev with an abbreviated digest, such as "main@sha1:0123abcd".
func Short(rev string) string {
	name, dig := split(rev)
	if dig == "" {
		return rev
	}
	algorithm, hex, _ := strings.Cut(dig, ":")
	dig = algorithm + ":" + hex[:min(len(hex), shortHex)]
	if name == "" {
		return dig
	}
	return name + "@" + dig
}
