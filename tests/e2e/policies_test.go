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

package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// attempt is a write of the status of a source, or of a Gate. Each one is decided by one part of one policy.
type attempt struct {
	name string
	// kind is GitRepository by default. namespace is that of Flux by default.
	kind, namespace string
	// was is the status before. It is written while the source has no gates, so everything is allowed.
	was map[string]any
	// gates is the patch by which the source then has gates.
	gates string
	// becomes is the status that is written, by an administrator or by an editor of this namespace.
	becomes  map[string]any
	byEditor bool
	// refusal is part of the error. It is empty if the write is allowed.
	refusal string
}

const (
	notOpen      = "new artifact blocked: GatesOpen is not True for this generation"
	notOpenChart = "new artifact blocked: its HelmRepository has gates, and GatesOpen is not True for this generation"
	notOpenFor   = "new artifact blocked: its gates are closed, or gate-controller has not evaluated them yet"
	closedGate   = "is closed"
	policies     = "policies"
)

var (
	oldDigest = "sha256:" + strings.Repeat("a", 64)
	newDigest = "sha256:" + strings.Repeat("b", 64)
	oldCommit = "sha1:" + strings.Repeat("c", 40)
	newCommit = "sha1:" + strings.Repeat("d", 40)
	newer     = "main@" + newCommit
)

// theArtifact returns the artifact that a source has published before, with changes. A nil removes a field.
func theArtifact(changes map[string]any) map[string]any {
	artifact := map[string]any{
		"revision": "main@" + oldCommit, "digest": oldDigest, "path": "old.tar.gz", "url": "http://127.0.0.1/old.tar.gz", "lastUpdateTime": "2026-01-01T00:00:00Z",
	}
	maps.Copy(artifact, changes)
	maps.DeleteFunc(artifact, func(_ string, value any) bool { return value == nil })
	return artifact
}

// aNewArtifact returns another artifact, with changes.
func aNewArtifact(changes map[string]any) map[string]any {
	artifact := theArtifact(map[string]any{"revision": newer, "digest": newDigest, "path": "new.tar.gz"})
	maps.Copy(artifact, changes)
	maps.DeleteFunc(artifact, func(_ string, value any) bool { return value == nil })
	return artifact
}

// says returns a condition that gate-controller has set for a generation.
func says(name, status string, generation int64, message string) map[string]any {
	return map[string]any{
		"type": name, "status": status, "observedGeneration": generation, "message": message, "reason": "Told", "lastTransitionTime": "2026-01-01T00:00:00Z",
	}
}

// aStatus returns a status. The artifact may be nil.
func aStatus(artifact map[string]any, conditions ...any) map[string]any {
	status := map[string]any{"conditions": append([]any{}, conditions...)}
	if artifact != nil {
		status["artifact"] = artifact
	}
	return status
}

// gatedBy returns the patch that annotates a source with gates.
func gatedBy(annotations ...string) string {
	var parts []string
	for i := 0; i < len(annotations); i += 2 {
		parts = append(parts, fmt.Sprintf("%q:%q", annotations[i], annotations[i+1]))
	}
	return `{"metadata":{"annotations":{` + strings.Join(parts, ",") + `}}}`
}

// attempts returns the writes by which each part of the policies is tested.
func attempts() []attempt {
	const inherited, late, early = gatingv1.InheritedGatesAnnotation, "2026-06-01T00:00:00Z", "2026-05-31T23:59:59Z"
	var all []attempt
	add := func(name, refusal, gates string, becomes map[string]any, more ...func(*attempt)) {
		tried := attempt{name: name, refusal: refusal, gates: gates, becomes: becomes}
		for _, change := range more {
			change(&tried)
		}
		all = append(all, tried)
	}
	with := func(was map[string]any) func(*attempt) { return func(a *attempt) { a.was = was } }
	published := with(aStatus(theArtifact(nil)))
	// kept makes an editor write the status, in which conditions stay as they were.
	kept := func(a *attempt) {
		a.byEditor = true
		a.was = map[string]any{"conditions": a.becomes["conditions"]}
	}
	ofKind := func(kind string) func(*attempt) { return func(a *attempt) { a.kind = kind } }
	open := func(generation int64) any { return says(gatingv1.GatesOpenCondition, "True", generation, "") }
	passes := func(message string) any { return says(gatingv1.RevisionPassesCondition, "True", 1, message) }
	lost := func(message string) any { return says(gatingv1.ArtifactLostCondition, "True", 1, message) }
	whole := func(status map[string]any) string {
		return status["revision"].(string) + "@" + status["digest"].(string)
	}
	fetched, recorded := aNewArtifact(nil), whole(aNewArtifact(nil))

	// Each set of gates is read by one policy alone, which refuses and admits the same artifacts.
	for _, policy := range []struct {
		name, gates, refusal, kind string
		generation                 int64
	}{
		{"sluice-gated-sources", gatedBy(gatingv1.GatesAnnotation, "policies-closed", gatingv1.RequireAnnotation, "oneOf"), notOpen, "", 1},
		{"sluice-charts-of-gated-repositories", `{"spec":{"sourceRef":{"name":"policies-gated"}}}`, notOpenChart, sourcev1.HelmChartKind, 2},
	} {
		of, generation := ofKind(policy.kind), policy.generation
		passes := func(message string) any { return says(gatingv1.RevisionPassesCondition, "True", generation, message) }
		add(policy.name+": no condition", policy.refusal, policy.gates, aStatus(fetched), of)
		add(policy.name+": open", "", policy.gates, aStatus(fetched, open(generation)), of)
		add(policy.name+": not open", policy.refusal, policy.gates, aStatus(fetched, says(gatingv1.GatesOpenCondition, "False", generation, "")), of)
		add(policy.name+": open in another generation", policy.refusal, policy.gates, aStatus(fetched, open(generation-1)), of)
		add(policy.name+": another condition is True", policy.refusal, policy.gates, aStatus(fetched, says("Ready", "True", generation, "")), of)
		add(policy.name+": the same artifact", "", policy.gates, aStatus(theArtifact(map[string]any{"lastUpdateTime": late})), of, published)
		add(policy.name+": another revision", policy.refusal, policy.gates, aStatus(theArtifact(map[string]any{"revision": newer})), of, published)
		add(policy.name+": another digest", policy.refusal, policy.gates, aStatus(theArtifact(map[string]any{"digest": newDigest})), of, published)
		add(policy.name+": another path", policy.refusal, policy.gates, aStatus(theArtifact(map[string]any{"path": "new.tar.gz"})), of, published)
		add(policy.name+": no artifact", "", policy.gates, aStatus(nil), of, published)

		add(policy.name+": the revision of a pass", "", policy.gates, aStatus(fetched, passes(newer+" until "+late)), of)
		add(policy.name+": the digest of a pass", "", policy.gates, aStatus(fetched, passes(newCommit+" until "+late)), of)
		add(policy.name+": a revision that is a digest", "", policy.gates, aStatus(aNewArtifact(map[string]any{"revision": newCommit}), passes(newCommit+" until "+late)), of)
		add(policy.name+": the second of two passes", "", policy.gates, aStatus(fetched, passes("v1 until "+late+"; "+newer+" until "+late)), of)
		add(policy.name+": the branch of a pass", policy.refusal, policy.gates, aStatus(fetched, passes("main until "+late)), of)
		add(policy.name+": a part of the revision of a pass", policy.refusal, policy.gates, aStatus(fetched, passes(newer+"e until "+late)), of)
		add(policy.name+": a pass that ended", policy.refusal, policy.gates, aStatus(aNewArtifact(map[string]any{"lastUpdateTime": late}), passes(newer+" until "+late)), of)
		add(policy.name+": a pass that is about to end", "", policy.gates, aStatus(aNewArtifact(map[string]any{"lastUpdateTime": early}), passes(newer+" until "+late)), of)
		add(policy.name+": a pass that does not count", policy.refusal, policy.gates, aStatus(fetched, says(gatingv1.RevisionPassesCondition, "False", generation, newer+" until "+late)), of)
		add(policy.name+": a pass in another generation", policy.refusal, policy.gates, aStatus(fetched, says(gatingv1.RevisionPassesCondition, "True", generation-1, newer+" until "+late)), of)
		add(policy.name+": a pass in another condition", policy.refusal, policy.gates, aStatus(fetched, says("Ready", "True", generation, newer+" until "+late)), of)
		add(policy.name+": the revision of a pass, by an editor", policy.refusal, policy.gates, aStatus(fetched, passes(newer+" until "+late)), of, kept)

		add(policy.name+": the lost artifact", "", policy.gates, aStatus(fetched, lost(recorded+" was lost")), of)
		add(policy.name+": another digest than that of the lost artifact", policy.refusal, policy.gates, aStatus(aNewArtifact(map[string]any{"digest": oldDigest}), lost(recorded+" was lost")), of)
		add(policy.name+": another revision than that of the lost artifact", policy.refusal, policy.gates, aStatus(aNewArtifact(map[string]any{"revision": "v1"}), lost(recorded+" was lost")), of)
		add(policy.name+": an artifact that the message names later", policy.refusal, policy.gates, aStatus(fetched, lost("v1 was lost, and not "+recorded)), of)
		add(policy.name+": a lost artifact that does not count", policy.refusal, policy.gates, aStatus(fetched, says(gatingv1.ArtifactLostCondition, "False", 1, recorded+" was lost")), of)
		add(policy.name+": a lost artifact in another condition", policy.refusal, policy.gates, aStatus(fetched, says("Ready", "True", generation, recorded+" was lost")), of)
		add(policy.name+": the lost artifact, by an editor", policy.refusal, policy.gates, aStatus(fetched, lost(recorded+" was lost")), of, kept)
	}

	const one = "sluice-gated-sources: "
	add(one+"gates in the spec", notOpen, `{"spec":{"gates":{"require":"oneOf","refs":["policies-closed"]}}}`, aStatus(fetched))
	add(one+"gates in the spec, found open before they were there", notOpen, `{"spec":{"gates":{"require":"oneOf","refs":["policies-closed"]}}}`, aStatus(fetched, open(1)))
	add(one+"an empty list of gates in the spec", "", `{"spec":{"gates":{"refs":[]}}}`, aStatus(fetched))
	add(one+"an annotation without gates", "", gatedBy(gatingv1.GatesAnnotation, " "), aStatus(fetched))
	add(one+"inherited gates", notOpen, gatedBy(inherited, "oneOf policies-closed,policies-open"), aStatus(fetched))
	add(one+"gates that the CRD has lost", notOpen, gatedBy(gatingv1.GatedByAnnotation, gatingv1.GatedBySpec), aStatus(fetched))
	add(one+"other annotations", "", gatedBy("example.com/gates", "policies-closed"), aStatus(fetched))

	const charts = "sluice-charts-of-gated-repositories: "
	chart := func(repository, kind string) func(*attempt) {
		return func(a *attempt) {
			a.kind = sourcev1.HelmChartKind
			a.gates = fmt.Sprintf(`{"spec":{"sourceRef":{"kind":%q,"name":%q}}}`, kind, repository)
		}
	}
	add(charts+"gates in annotations", notOpenChart, "", aStatus(fetched), chart("policies-annotated", sourcev1.HelmRepositoryKind))
	add(charts+"an annotation without gates", "", "", aStatus(fetched), chart("policies-blank", sourcev1.HelmRepositoryKind))
	add(charts+"an empty list of gates in the spec", "", "", aStatus(fetched), chart("policies-empty", sourcev1.HelmRepositoryKind))
	add(charts+"a repository that does not exist", "", "", aStatus(fetched), chart("policies-missing", sourcev1.HelmRepositoryKind))
	add(charts+"a GitRepository of the name", "", "", aStatus(fetched), chart("policies-gated", sourcev1.GitRepositoryKind))

	// GatesOpen is True, so sluice-gated-sources allows everything.
	const gates = "sluice-closed-gates: "
	closed := func(name string) string { return gatedBy(gatingv1.GatesAnnotation, name) }
	opened := aStatus(fetched, open(1))
	add(gates+"in an annotation", closedGate, closed("policies-closed"), opened)
	add(gates+"in a list", closedGate, closed("policies-open, policies-closed"), opened)
	add(gates+"with a namespace", closedGate, closed("flux-system/policies-closed"), opened)
	add(gates+"of another namespace", "", closed("elsewhere/policies-closed"), opened)
	add(gates+"of another name", "", closed("policies-closed-2"), opened)
	add(gates+"one is enough", "", gatedBy(gatingv1.GatesAnnotation, "policies-closed", gatingv1.RequireAnnotation, "oneOf"), opened)
	add(gates+"all are required", closedGate, gatedBy(gatingv1.GatesAnnotation, "policies-closed", gatingv1.RequireAnnotation, "all"), opened)
	add(gates+"in the spec", closedGate, `{"spec":{"gates":{"refs":["policies-closed"]}}}`, aStatus(fetched, open(2)))
	add(gates+"in the spec, with a namespace", closedGate, `{"spec":{"gates":{"require":"all","refs":["flux-system/policies-closed"]}}}`, aStatus(fetched, open(2)))
	add(gates+"in the spec, one is enough", "", `{"spec":{"gates":{"require":"oneOf","refs":["policies-closed"]}}}`, aStatus(fetched, open(2)))
	add(gates+"inherited", closedGate, gatedBy(inherited, "policies-open,policies-closed"), opened)
	add(gates+"inherited, and open", "", gatedBy(inherited, "policies-open"), opened)
	add(gates+"inherited, with a namespace", closedGate, gatedBy(inherited, "flux-system/policies-closed"), opened)
	add(gates+"inherited, one is enough", "", gatedBy(inherited, "oneOf policies-open,policies-closed"), opened)
	add(gates+"open", "", closed("policies-open"), opened)
	add(gates+"in flux-system, for a source elsewhere", closedGate, closed("flux-system/policies-closed"), opened, func(a *attempt) { a.namespace = policies })
	add(gates+"in flux-system, which a source elsewhere does not name", "", closed("policies-closed"), opened, func(a *attempt) { a.namespace = policies })

	add(gates+"the same artifact", "", closed("policies-closed"), aStatus(theArtifact(map[string]any{"lastUpdateTime": late}), open(1)), published)
	add(gates+"another revision", closedGate, closed("policies-closed"), aStatus(theArtifact(map[string]any{"revision": newer}), open(1)), published)
	add(gates+"another digest", closedGate, closed("policies-closed"), aStatus(theArtifact(map[string]any{"digest": newDigest}), open(1)), published)
	add(gates+"another path", closedGate, closed("policies-closed"), aStatus(theArtifact(map[string]any{"path": "new.tar.gz"}), open(1)), published)
	add(gates+"no artifact", "", closed("policies-closed"), aStatus(nil, open(1)), published)

	add(gates+"announced as open", "", closed("policies-timed"), opened)
	add(gates+"at the announced time", closedGate, closed("policies-timed"), aStatus(aNewArtifact(map[string]any{"lastUpdateTime": late}), open(1)))
	add(gates+"just before the announced time", "", closed("policies-timed"), aStatus(aNewArtifact(map[string]any{"lastUpdateTime": early}), open(1)))
	add(gates+"announced as closed", closedGate, closed("policies-timed-closed"), opened)
	add(gates+"announced before an edit", closedGate, closed("policies-timed-edited"), opened)
	add(gates+"announced as open, with no end", "", closed("policies-timed-forever"), opened)
	add(gates+"with windows, not announced", closedGate, closed("policies-timed-new"), opened)
	add(gates+"with other windows, not announced", closedGate, closed("policies-opening-new"), opened)
	add(gates+"with an override, not announced", closedGate, closed("policies-overridden-new"), opened)

	add(gates+"the revision of a pass", "", closed("policies-passing"), opened)
	add(gates+"the digest of a pass", "", closed("policies-passing-digest"), opened)
	add(gates+"a revision that is a digest", "", closed("policies-passing-digest"), aStatus(aNewArtifact(map[string]any{"revision": newCommit}), open(1)))
	add(gates+"the branch of a pass", closedGate, closed("policies-passing-branch"), opened)
	add(gates+"another revision than that of the pass", closedGate, closed("policies-passing"), aStatus(aNewArtifact(map[string]any{"revision": "v1"}), open(1)))
	add(gates+"a pass that ended", closedGate, closed("policies-passing"), aStatus(aNewArtifact(map[string]any{"lastUpdateTime": late}), open(1)))
	add(gates+"a pass before an edit", closedGate, closed("policies-passing-edited"), opened)
	add(gates+"the revision of a pass, by an editor", closedGate, closed("policies-passing"), opened, kept)
	add(gates+"the lost artifact", "", closed("policies-closed"), aStatus(fetched, open(1), lost(recorded+" was lost")))
	add(gates+"another digest than that of the lost artifact", closedGate, closed("policies-closed"), aStatus(aNewArtifact(map[string]any{"digest": oldDigest}), open(1), lost(recorded+" was lost")))
	add(gates+"a lost artifact that does not count", closedGate, closed("policies-closed"), aStatus(fetched, open(1), says(gatingv1.ArtifactLostCondition, "False", 1, recorded+" was lost")))
	add(gates+"a lost artifact in another condition", closedGate, closed("policies-closed"), aStatus(fetched, open(1), says("Ready", "True", 1, recorded+" was lost")))
	add(gates+"the lost artifact, by an editor", closedGate, closed("policies-closed"), aStatus(fetched, open(1), lost(recorded+" was lost")), kept)

	// UID stands for the UID of the source.
	external := ofKind(sourcev1.ExternalArtifactKind)
	openFor := func(value string, more ...string) string {
		return gatedBy(append([]string{gatingv1.GatesAnnotation, "policies-open", gatingv1.OpenForAnnotation, value}, more...)...)
	}
	const outside = "sluice-gated-external-artifacts: "
	add(outside+"open", "", openFor("UID/1  policies-open"), aStatus(fetched), external)
	add(outside+"open, one is enough", "", openFor("UID/1 oneOf policies-open", gatingv1.RequireAnnotation, "oneOf"), aStatus(fetched), external)
	add(outside+"open while all were required", notOpenFor, openFor("UID/1  policies-open", gatingv1.RequireAnnotation, "oneOf"), aStatus(fetched), external)
	add(outside+"another object was open", notOpenFor, openFor("0b5c/1  policies-open"), aStatus(fetched), external)
	add(outside+"open in another generation", notOpenFor, openFor("UID/0  policies-open"), aStatus(fetched), external)
	add(outside+"other gates were open", notOpenFor, openFor("UID/1  policies-open-2"), aStatus(fetched), external)
	add(outside+"not open", notOpenFor, openFor("-"), aStatus(fetched), external)
	add(outside+"not evaluated", notOpenFor, closed("policies-open"), aStatus(fetched), external)
	add(outside+"conditions do not count", notOpenFor, closed("policies-open"), aStatus(fetched, open(1), passes(newer+" until "+late), lost(recorded+" was lost")), external)
	add(outside+"an annotation without gates", "", closed(" "), aStatus(fetched), external)
	add(outside+"the same artifact", "", closed("policies-open"), aStatus(theArtifact(map[string]any{"lastUpdateTime": late})), external, published)
	add(outside+"another revision", notOpenFor, closed("policies-open"), aStatus(theArtifact(map[string]any{"revision": newer})), external, published)
	add(outside+"another digest", notOpenFor, closed("policies-open"), aStatus(theArtifact(map[string]any{"digest": newDigest})), external, published)
	add(outside+"no artifact", "", closed("policies-open"), aStatus(nil), external, published)
	add(gates+"a lost artifact of an ExternalArtifact", closedGate, gatedBy(gatingv1.GatesAnnotation, "policies-closed", gatingv1.OpenForAnnotation, "UID/1  policies-closed"),
		aStatus(fetched, lost(recorded+" was lost")), external)

	const ours = "sluice-gates-open: "
	right := "requires the verb release on gates in all namespaces"
	everything := func() (conditions []any) {
		for _, name := range gatingv1.SourceConditions {
			conditions = append(conditions, says(name, "True", 1, "told"))
		}
		return conditions
	}
	for _, name := range gatingv1.SourceConditions {
		was := says(name, "True", 1, "told")
		untrusted := func(a *attempt) { a.byEditor = true }
		add(ours+name+" is made True", right, closed("policies-open"), aStatus(nil, was), untrusted)
		add(ours+name+" is reworded", right, closed("policies-open"), aStatus(nil, says(name, "True", 1, "forged")), untrusted, with(aStatus(nil, was)))
		add(ours+name+" is made True in another generation", right, closed("policies-open"), aStatus(nil, says(name, "True", 2, "told")), untrusted, with(aStatus(nil, was)))
		add(ours+name+" is kept", "", closed("policies-open"), aStatus(nil, was, says("Ready", "True", 1, "")), untrusted, with(aStatus(nil, was)))
		add(ours+name+" is made False", "", closed("policies-open"), aStatus(nil, says(name, "False", 1, "")), untrusted, with(aStatus(nil, was)))
		add(ours+name+" is removed", "", closed("policies-open"), aStatus(nil), untrusted, with(aStatus(nil, was)))
		add(ours+name+" is removed with all conditions", "", closed("policies-open"), map[string]any{}, untrusted, with(aStatus(nil, was)))
		add(ours+name+" is written twice beside the others", "a source can have only one condition", closed("policies-open"), aStatus(nil, append(everything(), says(name, "False", 1, ""))...),
			untrusted, with(aStatus(nil, everything()...)))
		add(ours+name+" is written twice", "a source can have only one condition", closed("policies-open"), aStatus(nil, was, says(name, "False", 1, "")), untrusted, with(aStatus(nil, was)))
	}
	add(ours+"another condition is made True", "", closed("policies-open"), aStatus(nil, says("Ready", "True", 1, "")), func(a *attempt) { a.byEditor = true })

	const inForce = "sluice-passes-in-force: "
	pass := func(revision, expires string) any { return map[string]any{"revision": revision, "expires": expires} }
	of := func(generation int64, passes ...any) map[string]any {
		return map[string]any{"observedGeneration": generation, "passes": append([]any{}, passes...)}
	}
	first, second := pass(newer, early), pass("v1", early)
	byEditor := func(a *attempt) { a.kind, a.byEditor = gatingv1.GateKind, true }
	add(inForce+"a pass is added", right, "{}", of(1, first), byEditor)
	add(inForce+"a pass is added by an administrator", "", "{}", of(1, first), ofKind(gatingv1.GateKind))
	add(inForce+"a pass is added beside another", right, "{}", of(1, first, second), byEditor, with(of(1, first)))
	add(inForce+"a pass is replaced", right, "{}", of(1, second), byEditor, with(of(1, first)))
	add(inForce+"a pass is extended", right, "{}", of(1, pass(newer, late)), byEditor, with(of(1, first)))
	add(inForce+"a pass is confirmed for another generation", right, "{}", of(2, first), byEditor, with(of(1, first)))
	add(inForce+"a pass is confirmed for the first time", right, "{}", of(1, first), byEditor, with(map[string]any{"passes": []any{first}}))
	add(inForce+"passes are kept", "", "{}", map[string]any{"observedGeneration": int64(1), "passes": []any{first}, "held": int64(1)}, byEditor, with(of(1, first)))
	add(inForce+"a pass is removed", "", "{}", of(1, second), byEditor, with(of(1, first, second)))
	add(inForce+"all passes are removed", "", "{}", of(2), byEditor, with(of(1, first)))
	return all
}

// theGates are the gates of the attempts, and their status.
var theGates = []struct{ name, spec, status string }{
	{"policies-open", `closed: false`, ""},
	{"policies-timed", timedSpec, `{observedGeneration: 1, nextTransitionTime: "2026-06-01T00:00:00Z", conditions: [` + openNow + `]}`},
	{"policies-timed-closed", timedSpec, `{observedGeneration: 1, nextTransitionTime: "2026-06-01T00:00:00Z", conditions: [` + strings.ReplaceAll(openNow, `"True"`, `"False"`) + `]}`},
	{"policies-timed-edited", timedSpec, `{observedGeneration: 7, nextTransitionTime: "2026-06-01T00:00:00Z", conditions: [` + openNow + `]}`},
	{"policies-timed-forever", timedSpec, `{observedGeneration: 1, conditions: [` + openNow + `]}`},
	{"policies-timed-new", timedSpec, ""},
	{"policies-opening-new", `closed: false, openDuring: [{name: later, from: "2030-01-01T00:00", to: "2030-01-02T00:00"}]`, ""},
	{"policies-overridden-new", `closed: false, override: {closed: true, until: "2099-01-01T00:00:00Z", reason: none}`, ""},
	{"policies-passing", `closed: true`, `{observedGeneration: 1, passes: [{revision: "` + newer + `", expires: "2026-06-01T00:00:00Z"}]}`},
	{"policies-passing-digest", `closed: true`, `{observedGeneration: 1, passes: [{revision: "` + newCommit + `", expires: "2026-06-01T00:00:00Z"}]}`},
	{"policies-passing-branch", `closed: true`, `{observedGeneration: 1, passes: [{revision: main, expires: "2026-06-01T00:00:00Z"}]}`},
	{"policies-passing-edited", `closed: true`, `{observedGeneration: 7, passes: [{revision: "` + newer + `", expires: "2026-06-01T00:00:00Z"}]}`},
	{"policies-closed", `closed: true`, ""}, // the last one
}

const (
	timedSpec = `closed: false, closedDuring: [{name: later, from: "2030-01-01T00:00", to: "2030-01-02T00:00"}]`
	openNow   = `{type: Open, status: "True", reason: Open, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}`
)

// specs are specs of the objects that are written, by kind. The sources are suspended.
var specs = map[string]string{
	sourcev1.GitRepositoryKind:    `interval: 1h, suspend: true, url: "http://127.0.0.1/none"`,
	sourcev1.HelmChartKind:        `interval: 1h, suspend: true, chart: app, sourceRef: {kind: HelmRepository, name: policies-missing}`,
	sourcev1.ExternalArtifactKind: `sourceRef: {apiVersion: v1, kind: ConfigMap, name: none}`,
	gatingv1.GateKind:             `closed: true`,
}

// write writes the status of a new source of a name, without effect.
func (a *attempt) write(ctx context.Context, editor client.Client, name string) error {
	GinkgoHelper()
	kind, namespace, api := a.kind, a.namespace, sourceAPI
	if kind == gatingv1.GateKind {
		api = gatingAPI
	}
	if kind == "" {
		kind = sourcev1.GitRepositoryKind
	}
	if namespace == "" {
		namespace = flux
	}
	source := object(api, kind, namespace, name)
	apply(ctx, "{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: %s}, spec: {%s}}", api, kind, name, namespace, specs[kind])
	defer func() { Expect(world.Client.Delete(ctx, source)).To(Succeed()) }()
	patch := func(as client.Client, status map[string]any, options ...client.SubResourcePatchOption) error {
		is := now(ctx, []*unstructured.Unstructured{source})[0]
		should := is.DeepCopy()
		should.Object["status"] = status
		return as.Status().Patch(ctx, should, client.MergeFrom(is), options...)
	}
	if a.was != nil {
		if err := patch(world.Client, a.was); err != nil {
			return fmt.Errorf("before it has gates: %v", err)
		}
	}
	uid := now(ctx, []*unstructured.Unstructured{source})[0].GetUID()
	gates := []byte(strings.ReplaceAll(a.gates, "UID", string(uid)))
	if err := world.Client.Patch(ctx, source.DeepCopy(), client.RawPatch(types.MergePatchType, gates)); err != nil {
		return fmt.Errorf("giving it gates: %v", err)
	}
	var as client.Client = world.Client
	if a.byEditor {
		as = editor
	}
	return patch(as, a.becomes, client.DryRunAll)
}

// mismatch describes an attempt that the policies do not decide as expected. It is empty if they do.
func (a *attempt) mismatch(err error) string {
	switch {
	case a.refusal == "" && err != nil:
		return fmt.Sprintf("%s: should be allowed: %s", a.name, err)
	case a.refusal != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), a.refusal)):
		return fmt.Sprintf("%s: should be refused with %q, not: %v", a.name, a.refusal, err)
	}
	return ""
}

var _ = Describe("The policies of the backstop", func() {
	It("admit and refuse writes of the status of sources and Gates, each as one part of them says", func(ctx SpecContext) {
		Expect(world.GateController.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(world.GateController.Start(ctx)).To(Succeed()) })
		editor := fluxEditor(ctx)
		apply(ctx, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: policies, namespace: flux-system}
rules: [{apiGroups: [gating.toolkit.fluxcd.io], resources: [gates/status], verbs: [patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: policies, namespace: flux-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: policies}
subjects: [{kind: ServiceAccount, name: flux-editor, namespace: flux-system}]
`)
		Eventually(ctx, may("flux-editor", authorizationv1.ResourceAttributes{
			Verb: "patch", Group: gatingv1.GroupVersion.Group, Resource: "gates", Subresource: "status", Namespace: flux})).Should(BeTrue())
		apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", policies)
		for name, more := range map[string]string{
			"policies-gated":     `spec: {interval: 1h, suspend: true, url: "http://127.0.0.1/none", gates: {require: oneOf, refs: [policies-closed]}}`,
			"policies-empty":     `spec: {interval: 1h, suspend: true, url: "http://127.0.0.1/none", gates: {refs: []}}`,
			"policies-annotated": `spec: {interval: 1h, suspend: true, url: "http://127.0.0.1/none"}`,
			"policies-blank":     `spec: {interval: 1h, suspend: true, url: "http://127.0.0.1/none"}`,
		} {
			annotation := map[string]string{"policies-annotated": "policies-closed", "policies-blank": " "}[name]
			apply(ctx, "{apiVersion: %s, kind: HelmRepository, metadata: {name: %s, namespace: flux-system, annotations: {%s}}, %s}", sourceAPI, name,
				map[bool]string{true: fmt.Sprintf("%s: %q", gatingv1.GatesAnnotation, annotation)}[annotation != ""], more)
			DeferCleanup(func(ctx SpecContext) { deleteAll(ctx, object(sourceAPI, sourcev1.HelmRepositoryKind, flux, name)) })
		}
		for _, gate := range theGates {
			obj := object(gatingAPI, gatingv1.GateKind, flux, gate.name)
			DeferCleanup(func(ctx SpecContext) { deleteAll(ctx, obj) })
			apply(ctx, "{apiVersion: %s, kind: Gate, metadata: {name: %s, namespace: flux-system}, spec: {%s}}", gatingAPI, gate.name, gate.spec)
			if gate.status != "" {
				Expect(world.Client.Status().Patch(ctx, obj.DeepCopy(), client.RawPatch(types.MergePatchType, toJSON(`{status: `+gate.status+`}`)))).To(Succeed())
			}
		}
		all := attempts()
		By("waiting until the policies have seen the last gate")
		for _, first := range all {
			if first.name == "sluice-closed-gates: in an annotation" {
				tries := 0
				Eventually(ctx, func(ctx context.Context) string {
					tries++
					return first.mismatch(first.write(ctx, editor, fmt.Sprint("policies-first-", tries)))
				}).Should(BeEmpty())
			}
		}
		var mismatches []string
		for i, attempt := range all {
			if mismatch := attempt.mismatch(attempt.write(ctx, editor, fmt.Sprint("policies-", i))); mismatch != "" {
				mismatches = append(mismatches, mismatch)
			}
		}
		Expect(mismatches).To(BeEmpty())
	})
})

// toJSON converts YAML.
func toJSON(text string) []byte {
	GinkgoHelper()
	converted, err := yaml.YAMLToJSON([]byte(text))
	Expect(err).NotTo(HaveOccurred())
	return converted
}
