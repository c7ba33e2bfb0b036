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

package v1alpha1

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/fluxcd/pkg/apis/acl"
)

const (
	// GatesOpenCondition on a Flux source is True while its gates let new artifacts out.
	GatesOpenCondition = "GatesOpen"

	// NewArtifactsBlocked follows the evaluation in the message of each condition GatesOpen that is False.
	NewArtifactsBlocked = "; new artifacts are blocked"

	// AllGatesOpenReason says that every referenced gate is open, or that none is referenced.
	AllGatesOpenReason = "AllGatesOpen"
	// OneGateOpenReason says that 'oneOf' is required and a gate is open.
	OneGateOpenReason = "OneGateOpen"
	// GateClosedReason says that a gate which would have to be open is closed.
	GateClosedReason = "GateClosed"
	// GateNotFoundReason says that a gate which would have to be open does not exist.
	GateNotFoundReason = "GateNotFound"
	// AccessDeniedReason says that a gate which would have to be open is one of another namespace, and may not be referred to.
	AccessDeniedReason = acl.AccessDeniedReason

	// HoldFailedReason says that the gates of a source are closed but its hold could not be placed.
	HoldFailedReason = "HoldFailed"
	// ReleaseFailedReason says that the gates of a source are open but its hold could not be released.
	ReleaseFailedReason = "ReleaseFailed"
)

// Evaluation is what a set of gates amounts to.
type Evaluation struct {
	// Open reports whether the gates let new things through.
	Open bool
	// Reason is one of AllGatesOpenReason, OneGateOpenReason, GateClosedReason, GateNotFoundReason, AccessDeniedReason.
	Reason string
	// Message names the gates that were inspected with their states, those that hold things back first. Gates that don't fit into
	// 10,000 characters are counted instead.
	Message string
}

// maxMessage, in characters, leaves a condition, which may have 32768, room for two sets of gates and for what else went wrong.
const maxMessage = 10000

// Evaluate decides whether the referenced gates are open. It is the one place that does: both controllers and the CLI call it.
// A reference that found doesn't have counts as a missing gate. A gate that is missing, or that may not be referred to, is never
// open. No references, nil included, is open.
func Evaluate(refs *GateReferences, found Found) Evaluation {
	if refs == nil || len(refs.Refs) == 0 {
		return Evaluation{Open: true, Reason: AllGatesOpenReason, Message: "no gates are referenced"}
	}

	var missing, denied, closed, open []string
	for _, ref := range refs.Refs {
		switch finding := found[ref]; {
		case finding.Denied != "":
			denied = append(denied, fmt.Sprintf("gate %s may not be referred to: %s", ref, finding.Denied))
		case finding.Gate == nil:
			missing = append(missing, fmt.Sprintf("gate %s does not exist", ref))
		case finding.Gate.Spec.Closed:
			closed = append(closed, describe(ref, "closed", finding.Gate))
		default:
			open = append(open, describe(ref, "open", finding.Gate))
		}
	}

	oneOf := refs.Require == RequireOneOf
	switch {
	case oneOf && len(open) > 0:
		return Evaluation{Open: true, Reason: OneGateOpenReason, Message: join(open, missing, denied, closed)}
	case len(missing) > 0:
		return Evaluation{Reason: GateNotFoundReason, Message: join(missing, denied, closed, open)}
	case len(denied) > 0:
		return Evaluation{Reason: AccessDeniedReason, Message: join(denied, closed, open)}
	case len(closed) > 0:
		return Evaluation{Reason: GateClosedReason, Message: join(closed, open)}
	default:
		return Evaluation{Open: true, Reason: AllGatesOpenReason, Message: join(open)}
	}
}

func describe(ref GateReference, state string, gate *Gate) string {
	if reason := gate.Reason(); reason != "" {
		return fmt.Sprintf("gate %s is %s (%s)", ref, state, reason)
	}
	return fmt.Sprintf("gate %s is %s", ref, state)
}

func join(groups ...[]string) string {
	all := slices.Concat(groups...)
	message, length := "", 0
	for i, text := range all {
		if i > 0 {
			text = "; " + text
		}
		if length += utf8.RuneCountInString(text); length > maxMessage {
			return fmt.Sprintf("%s; and %d more", message, len(all)-i)
		}
		message += text
	}
	return message
}
