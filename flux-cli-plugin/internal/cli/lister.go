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
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lister lists objects of several kinds for users that may lack the permission to list some of them.
type lister struct {
	kube client.Client
	// everywhere lists all namespaces, and falls back to the namespace if that is denied.
	everywhere bool
	namespace  string
	// name and labels limit the lists, if they are set.
	name   string
	labels labels.Selector
	// onlyHere are the kinds that were listed in the namespace, because listing all namespaces was denied.
	onlyHere []string
	// denied are the kinds that could not be listed in the namespace either.
	denied []string
	// unserved is the number of kinds that the cluster does not have.
	unserved int
}

// list lists the objects of a kind. The result is empty if the cluster does not serve the kind, or if the request is
// denied.
func (l *lister) list(ctx context.Context, kind string, objects client.ObjectList) error {
	selected := selection{namespace: l.namespace, everywhere: l.everywhere, name: l.name, labels: l.labels}
	if l.everywhere {
		if done, err := l.try(ctx, kind, objects, selected); done || err != nil {
			return err
		}
		selected.everywhere = false
	}
	done, err := l.try(ctx, kind, objects, selected)
	switch {
	case err != nil:
		return err
	case !done:
		l.denied = append(l.denied, kind)
	case l.everywhere:
		l.onlyHere = append(l.onlyHere, kind)
	}
	return nil
}

// try lists objects, and reports whether the request was allowed.
func (l *lister) try(ctx context.Context, kind string, objects client.ObjectList, selected selection) (done bool, _ error) {
	switch err := l.kube.List(ctx, objects, selected.options()...); {
	case apimeta.IsNoMatchError(err):
		l.unserved++
		return true, nil
	case err == nil:
		return true, nil
	case apierrors.IsForbidden(err):
		return false, nil
	default:
		return false, fmt.Errorf("listing kind %s failed: %w", kind, err)
	}
}

// limits returns which kinds were listed in one namespace only, or "".
func (l *lister) limits() string {
	if len(l.onlyHere) == 0 {
		return ""
	}
	return fmt.Sprintf("you may not list %s in all namespaces: showing namespace %s only", strings.Join(l.onlyHere, ", "), l.namespace)
}

// warn prints the limits.
func (l *lister) warn(log logger) {
	if limits := l.limits(); limits != "" {
		log.warningf("%s", limits)
	}
}

// denial returns which kinds could not be listed, or "".
func (l *lister) denial() string {
	if len(l.denied) == 0 {
		return ""
	}
	return fmt.Sprintf("you may not list %s in %s namespace", strings.Join(l.denied, ", "), l.namespace)
}
