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
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lister lists objects of several kinds for a person who may not be allowed to list all of them.
type lister struct {
	kube client.Client
	// everywhere asks for the objects of all namespaces, and for those of the namespace where that is denied.
	everywhere bool
	namespace  string
	// onlyHere are kinds that were listed in the namespace though all namespaces were asked for.
	onlyHere []string
	// denied are kinds that could not even be listed there.
	denied []string
}

// list reads the objects of a kind. A kind that the cluster does not serve has none, and neither has one that may not be listed.
func (l *lister) list(ctx context.Context, kind string, objects client.ObjectList) error {
	if l.everywhere {
		if done, err := l.try(ctx, kind, objects); done || err != nil {
			return err
		}
	}
	done, err := l.try(ctx, kind, objects, client.InNamespace(l.namespace))
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

// try lists objects unless that is denied.
func (l *lister) try(ctx context.Context, kind string, objects client.ObjectList, options ...client.ListOption) (done bool, _ error) {
	switch err := l.kube.List(ctx, objects, options...); {
	case err == nil, apimeta.IsNoMatchError(err):
		return true, nil
	case apierrors.IsForbidden(err):
		return false, nil
	default:
		return false, fmt.Errorf("listing kind %s failed: %w", kind, err)
	}
}

// warn tells which kinds were listed in one namespace only.
func (l *lister) warn(log logger) {
	if len(l.onlyHere) > 0 {
		log.warningf("you may not list %s in all namespaces: only what is in %s namespace is shown", strings.Join(l.onlyHere, ", "), l.namespace)
	}
}

// denial tells which kinds could not be listed. It is empty if all could.
func (l *lister) denial() string {
	if len(l.denied) == 0 {
		return ""
	}
	return fmt.Sprintf("you may not list %s in %s namespace", strings.Join(l.denied, ", "), l.namespace)
}
