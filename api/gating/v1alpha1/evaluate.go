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
	"time"
	"unicode/utf8"

	"github.com/fluxcd/pkg/apis/acl"

	"github.com/sluice-toolkit/sluice/api/revision"
)

const (
	// GatesOpenCondition on a Flux source is True while its gates allow new artifacts.
	GatesOpenCondition = "GatesOpen"

	// RevisionPassesCondition on a Flux source is True while its closed gates let single revisions pass, which its
	// message names. The backstop reads the message.
	RevisionPassesCondition = "RevisionPasses"
	// ArtifactLostCondition on a Flux source is True while its gates are not open and source-controller no longer has
	// its artifact. The message begins with '<revision>@<digest>' of that artifact, which may be published again.
	ArtifactLostCondition = "ArtifactLost"

	// NewArtifactsBlocked follows the evaluation in the message of GatesOpen=False.
	NewArtifactsBlocked = "; new artifacts are blocked"

	// AllGatesOpenReason means that every referenced gate is open, or that none is referenced.
	AllGatesOpenReason = "AllGatesOpen"
	// OneGateOpenReason means that 'oneOf' is required and a gate is open.
	OneGateOpenReason = "OneGateOpen"
	// RevisionPassesReason means that the gates are not open, but let the revision pass.
	RevisionPassesReason = "RevisionPasses"
	// GateClosedReason means that a required gate is closed.
	GateClosedReason = "GateClosed"
	// GateNotFoundReason means that a required gate does not exist.
	GateNotFoundReason = "GateNotFound"
	// AccessDeniedReason means that access to a required gate in another namespace is denied.
	AccessDeniedReason = acl.AccessDeniedReason

	// HoldFailedReason means that the gates of a source are closed but suspending it failed.
	HoldFailedReason = "HoldFailed"
	// ReleaseFailedReason means that the gates of a source are open but releasing it failed.
	ReleaseFailedReason = "ReleaseFailed"
)

// Evaluation is the state of a set of gates at a time.
// +kubebuilder:object:generate=false
type Evaluation struct {
	// Open reports whether the gates allow new revisions, or the revision that was asked for.
	Open bool
	// Reason is one of AllGatesOpenReason, OneGateOpenReason, RevisionPassesReason, GateClosedReason,
	// GateNotFoundReason, AccessDeniedReason.
	Reason string
	// Message names the evaluated gates with their states, blocking gates first. Gates that don't fit into 10,000
	// characters are counted instead.
	Message string
	// NextChange is when the first of the gates opens or closes by itself, which outdates the message. It is zero if
	// none does.
	NextChange time.Time
	// NextTransition is NextChange if Open changes at that time, else zero.
	NextTransition time.Time
}

// maxMessage, in characters, leaves room in a condition of 32,768 for two sets of gates and for other errors.
const maxMessage = 10000

// Evaluate decides whether the referenced gates are open at a time. Both controllers and the CLI call it. A reference
// that is not in found counts as a missing gate. A gate that is missing, or to which access is denied, is never open.
// No references, including nil, count as open.
func Evaluate(refs *GateReferences, found Found, now time.Time) Evaluation {
	return EvaluateRevision(refs, found, "", now)
}

// EvaluateRevision decides whether the referenced gates are open at a time, or let one revision pass. No pass lets an
// empty revision through.
func EvaluateRevision(refs *GateReferences, found Found, rev string, now time.Time) Evaluation {
	if refs == nil || len(refs.Refs) == 0 {
		return Evaluation{Open: true, Reason: AllGatesOpenReason, Message: "no gates are referenced"}
	}
	evaluation := evaluate(refs, found, rev, now)
	if next := evaluation.NextChange; !next.IsZero() && evaluate(refs, found, rev, next).Open != evaluation.Open {
		evaluation.NextTransition = next
	}
	return evaluation
}

func evaluate(refs *GateReferences, found Found, rev string, now time.Time) Evaluation {
	var missing, denied, closed, passed, open []string
	var next time.Time
	for _, ref := range refs.Refs {
		switch finding := found[ref]; {
		case finding.Denied != "":
			denied = append(denied, fmt.Sprintf("gate %s: access denied: %s", ref, finding.Denied))
		case finding.Gate == nil:
			missing = append(missing, fmt.Sprintf("gate %s not found", ref))
		default:
			state := finding.Gate.StateAt(now)
			next = earlier(next, state.Until)
			passes := finding.Gate.passes(rev, now)
			switch {
			case !state.Closed:
				open = append(open, describe(ref, state))
			case !passes.IsZero():
				next = earlier(next, passes)
				passed = append(passed, fmt.Sprintf("%s, but lets %s pass until %s", describe(ref, state), rev, passes.UTC().Format(time.RFC3339)))
			default:
				closed = append(closed, describe(ref, state))
			}
		}
	}

	result := func(open bool, reason string, groups ...[]string) Evaluation {
		return Evaluation{Open: open, Reason: reason, Message: join(groups...), NextChange: next}
	}
	switch {
	case refs.Require == RequireOneOf && len(open) > 0:
		return result(true, OneGateOpenReason, open, missing, denied, closed, passed)
	case refs.Require == RequireOneOf && len(passed) > 0:
		return result(true, RevisionPassesReason, passed, missing, denied, closed)
	case len(missing) > 0:
		return result(false, GateNotFoundReason, missing, denied, closed, passed, open)
	case len(denied) > 0:
		return result(false, AccessDeniedReason, denied, closed, passed, open)
	case len(closed) > 0:
		return result(false, GateClosedReason, closed, passed, open)
	case len(passed) > 0:
		return result(true, RevisionPassesReason, passed, open)
	default:
		return result(true, AllGatesOpenReason, open)
	}
}

// Passing returns the passes in force. There are none while the status describes an earlier generation, so a change of
// the spec revokes them without waiting for gate-controller.
func (g *Gate) Passing(now time.Time) []PassInForce {
	if g.Status.ObservedGeneration != g.Generation {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(g.Status.Passes), func(pass PassInForce) bool { return !now.Before(pass.Expires.Time) })
}

// passes returns until when the gate lets a revision pass. It is zero if it does not.
func (g *Gate) passes(rev string, now time.Time) time.Time {
	var until time.Time
	for _, pass := range g.Passing(now) {
		if rev != "" && revision.Names(pass.Revision, rev) && pass.Expires.After(until) {
			until = pass.Expires.Time
		}
	}
	return until
}

func describe(ref GateReference, state State) string {
	if state.Reason != "" {
		return fmt.Sprintf("gate %s is %s (%s)", ref, state, state.Reason)
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
