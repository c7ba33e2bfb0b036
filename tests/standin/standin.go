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

// Package standin provides suspended Kustomizations as applications. The tests set their status.
package standin

import (
	"context"
	"fmt"
	"time"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Application is the state of an application. Nobody else writes the status of a suspended Kustomization.
type Application struct {
	Key      client.ObjectKey
	Revision string
	// Ready is the status of the condition Ready, and Message its message.
	Ready   metav1.ConditionStatus
	Message string
}

// since is the time at which the condition Ready changed, so nothing is written if nothing changes.
var since = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

// Put makes the Kustomization, or changes what it runs. The client's scheme has to know Flux's kinds.
func (a Application) Put(ctx context.Context, in client.Client) error {
	app := &kustomizev1.Kustomization{ObjectMeta: metav1.ObjectMeta{Namespace: a.Key.Namespace, Name: a.Key.Name}}
	_, err := controllerutil.CreateOrPatch(ctx, in, app, func() error {
		app.Spec = kustomizev1.KustomizationSpec{
			Suspend: true, Interval: metav1.Duration{Duration: time.Hour}, Prune: true, Path: ".",
			SourceRef: kustomizev1.CrossNamespaceSourceReference{Kind: sourcev1.GitRepositoryKind, Name: "none"},
		}
		return nil
	})
	if err != nil {
		return err
	}
	if app.DeletionTimestamp != nil {
		return fmt.Errorf("%s %s is being deleted", kustomizev1.KustomizationKind, a.Key)
	}
	before := app.DeepCopy()
	app.Status.ObservedGeneration, app.Status.LastAppliedRevision = app.Generation, a.Revision
	app.Status.Conditions = []metav1.Condition{{
		Type: meta.ReadyCondition, Status: a.Ready, Reason: "Told", Message: a.Message, ObservedGeneration: app.Generation, LastTransitionTime: since,
	}}
	return in.Status().Patch(ctx, app, client.MergeFrom(before))
}
