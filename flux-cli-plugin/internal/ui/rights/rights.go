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

// Package rights asks the API server what the user may do.
package rights

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// lifetime is how long an answer is used.
	lifetime = time.Minute
	// patience is how long an answer is waited for.
	patience = 3 * time.Second
)

// Rights are the rights of the user, by namespace. Each namespace is asked about once a minute at most.
type Rights struct {
	kube client.Client
	now  func() time.Time

	mu       sync.Mutex
	answered map[string]answer
}

type answer struct {
	Rules
	at time.Time
}

// Of returns the rights of the client's user.
func Of(kube client.Client, now func() time.Time) *Rights {
	return &Rights{kube: kube, now: now, answered: map[string]answer{}}
}

// In returns the user's rights in a namespace. If the API server does not answer, they are the last known ones.
func (r *Rights) In(ctx context.Context, namespace string) Rules {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, asked := r.answered[namespace]
	if asked && r.now().Before(known.at.Add(lifetime)) {
		return known.Rules
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	if err := r.kube.Create(ctx, review); err != nil {
		if !asked {
			known.Rules = Rules{Unknown: fmt.Sprintf("asking for your rights in namespace %s failed: %s", namespace, err)}
		}
	} else {
		known.Rules = Rules{rules: review.Status.ResourceRules, incomplete: review.Status.Incomplete}
	}
	known.at = r.now()
	r.answered[namespace] = known
	return known.Rules
}

// Forget lets the next question about a namespace be asked again.
func (r *Rights) Forget(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.answered, namespace)
}

// Rules are the user's rights in one namespace.
type Rules struct {
	// Unknown says why the rights are not known. It is empty if they are.
	Unknown string

	rules      []authorizationv1.ResourceRule
	incomplete bool
}

// Allow reports whether the rules allow a verb on an object. If the API server could not tell all rules, they allow
// everything: it decides itself then.
func (r Rules) Allow(verb string, resource schema.GroupResource, name string) bool {
	return r.incomplete || slices.ContainsFunc(r.rules, func(rule authorizationv1.ResourceRule) bool {
		return has(rule.Verbs, verb) && has(rule.APIGroups, resource.Group) && has(rule.Resources, resource.Resource) &&
			(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, name))
	})
}

func has(values []string, wanted string) bool {
	return slices.Contains(values, wanted) || slices.Contains(values, "*")
}
