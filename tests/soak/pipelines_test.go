//go:build soak && linux

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

package soak

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sluice-toolkit/sluice/tests/githost"
)

// environments are the environments of each Pipeline, in order. Each has one target, in the namespace of the same name.
var environments = []string{"soak-dev", "soak-staging", "soak-prod"}

// pipeline is a Pipeline. Its application has the same name, which is unique.
type pipeline struct {
	namespace, name string
	// host has its repository. It is nil if the Pipeline promotes by notification.
	host *githost.Server
	// repository is the name of its repository, which Pipelines may share.
	repository string
	// secret is the name of the host's Secret.
	secret string
	// settings are other fields of the promotion and of its pull requests.
	promotion, pullRequest string
	// clusterRefs are the clusterRefs of the targets, by environment.
	clusterRefs map[string]string
	// doomed is true if its host or its leaf cluster is hostile, so it need not make progress.
	doomed  bool
	targets []*target

	mu sync.Mutex
	// versions counts the revisions that its first environment has run. Each is later than the ones before.
	versions int
	released map[string]time.Time // by revision
}

func (p *pipeline) String() string { return p.namespace + "/" + p.name }

// next returns the next revision of the application.
func (p *pipeline) next() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.versions++
	revision := fmt.Sprintf("v%d", p.versions)
	if p.released == nil {
		p.released = map[string]time.Time{}
	}
	p.released[revision] = time.Now()
	return revision
}

// since returns how long ago a revision was released.
func (p *pipeline) since(revision string, then time.Time) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, known := p.released[revision]
	return then.Sub(at), known
}

// target returns the target of an environment.
func (p *pipeline) target(environment string) *target {
	for i, name := range environments {
		if name == environment {
			return p.targets[i]
		}
	}
	return nil
}

// file returns the file with the application's versions. Pipelines with the same repository share it.
func (p *pipeline) file(environment string) string {
	if p.repository == p.name {
		return environment + ".yaml"
	}
	return "all.yaml"
}

// line returns the line with the version for an environment.
func (p *pipeline) line(environment, version string) string {
	return fmt.Sprintf("%s: %s # {\"$promotion\": \"%s:%s:%s\"}\n", p.key(environment), version, p.namespace, p.name, environment)
}

func (p *pipeline) key(environment string) string { return p.name + "-" + environment }

// version returns the version for an environment in the repository.
func (p *pipeline) version(environment string) (string, error) {
	content, err := p.host.ReadFile(repositoryOwner, p.repository, "main", p.file(environment))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(content)) {
		if rest, found := strings.CutPrefix(line, p.key(environment)+": "); found {
			version, _, _ := strings.Cut(rest, " ")
			return version, nil
		}
	}
	return "", fmt.Errorf("%s is not in %s", p.key(environment), p.repository)
}

func (p *pipeline) manifest() string {
	var envs strings.Builder
	for _, env := range environments {
		clusterRef := ""
		if ref := p.clusterRefs[env]; ref != "" {
			clusterRef = ", clusterRef: " + ref
		}
		fmt.Fprintf(&envs, "  - {name: %s, targets: [{namespace: %[1]s%s}]}\n", env, clusterRef)
	}
	strategy := "notification: {}"
	if p.host != nil {
		strategy = fmt.Sprintf("pull-request: {type: github, url: '%s', baseBranch: main, secretRef: {name: %s}%s}",
			p.host.RepositoryURL(repositoryOwner, p.repository), p.secret, p.pullRequest)
	}
	return fmt.Sprintf(`
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  appRef: {apiVersion: %[3]s, kind: Kustomization, name: %[2]s}
  environments:
%[4]s  promotion: {%[5]sstrategy: {%[6]s}}
`, p.namespace, p.name, kustomizeAPI, envs.String(), p.promotion, strategy)
}

// healthyPipelines returns Pipelines of a tenant whose hosts and clusters work, or recover.
func (w *world) healthyPipelines(tenant string) []*pipeline {
	var all []*pipeline
	add := func(name string, p *pipeline) {
		p.namespace, p.name = tenant, tenant+"-"+name
		if p.repository == "" {
			p.repository = p.name
		}
		all = append(all, p)
	}
	byPull := func(name string, p *pipeline) {
		p.host, p.secret = w.github, "github"
		add(name, p)
	}
	byPull("pulled", &pipeline{})
	byPull("auto", &pipeline{pullRequest: ", merge: auto"})
	byPull("shared-one", &pipeline{repository: tenant + "-shared"})
	byPull("shared-two", &pipeline{repository: tenant + "-shared"})
	byPull("approved", &pipeline{promotion: "approvals: {required: 1}, "})
	byPull("gated", &pipeline{promotion: "gates: {refs: [freeze]}, "})
	byPull("leaf", &pipeline{clusterRefs: map[string]string{"soak-staging": "{kind: Secret, name: leaf-0}", "soak-prod": "{kind: Secret, name: leaf-1}"}})
	add("notified", &pipeline{})
	add("notified-gated", &pipeline{promotion: "gates: {refs: [freeze]}, "})
	add("notified-leaf", &pipeline{clusterRefs: map[string]string{"soak-staging": "{kind: Secret, name: leaf-2}"}})
	return all
}

// doomedPipelines returns Pipelines on hostile hosts, and on clusters that never respond.
func (w *world) doomedPipelines(tenant string) []*pipeline {
	var all []*pipeline
	for _, h := range hostilities() {
		name := tenant + "-" + h.name
		all = append(all, &pipeline{namespace: tenant, name: name, host: w.hostile[h.name], repository: name, secret: h.name, doomed: true})
	}
	for _, leaf := range []string{"leaf-nowhere", "leaf-refused"} {
		name := tenant + "-" + leaf
		all = append(all, &pipeline{namespace: tenant, name: name, repository: name, doomed: true,
			clusterRefs: map[string]string{"soak-prod": "{kind: Secret, name: " + leaf + "}"}})
	}
	return all
}
