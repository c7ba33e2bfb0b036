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

package cli

import (
	"errors"
	"time"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
)

// changesShown is the number of future changes that are shown.
const changesShown = 5

// changesOf lists when a gate opens and closes by itself, in the reader's time zone and in those of its windows.
func changesOf(gate *gatingv1.Gate, changes []gatingv1.Change, reader *time.Location) tree {
	shown := leaf("next changes")
	for _, change := range changes {
		shown.add(leaf("%s", describe.Change(gate, change, reader)))
	}
	return shown
}

// parseTime reads a time that a person has typed, in the zone where it has none.
func parseTime(text string, zone *time.Location) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.Truncate(time.Second), nil
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errors.New("must be a time such as 2026-12-24T06:00, or 2026-12-24T06:00:00Z")
}
