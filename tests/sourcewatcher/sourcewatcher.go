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

// Package sourcewatcher is a stand-in for Flux's source-watcher, because the module proxy does not serve its module.
// Its requests to the API server are those of source-watcher 2.2: it applies an ExternalArtifact with the common
// metadata, and then its whole status with the conditions, as the same field manager. The first artifact that is
// refused ends the run, and retries back off. It differs from source-watcher in these ways:
//
//   - It supports only GitRepositories in the same namespace as sources, copies only directories, and has no path
//     patterns.
//   - It deletes nothing. source-watcher deletes files and ExternalArtifacts that the generator no longer names, and
//     those of a deleted generator.
//   - A successful run is not repeated after an interval. The next one notices a missing artifact of an
//     ExternalArtifact, but neither a changed one nor a missing or changed file.
//   - It does not validate specs, ignores the annotation that disables a generator, and emits no events.
package sourcewatcher

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/fluxcd/pkg/runtime/patch"
	"github.com/fluxcd/pkg/runtime/predicates"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	swapi "github.com/fluxcd/source-watcher/api/v2/v1beta1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Manager is its field manager.
const Manager = "source-watcher"

// Rights are the permissions of source-watcher in Flux's install, for the ServiceAccount of that name.
const Rights = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: source-watcher, namespace: flux-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: source-watcher}
rules:
- {apiGroups: [source.toolkit.fluxcd.io, source.extensions.fluxcd.io], resources: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: source-watcher}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: source-watcher}
subjects: [{kind: ServiceAccount, name: source-watcher, namespace: flux-system}]
`

type watcher struct {
	client.Client
	dir string
	url string
}

// Start starts the stand-in. It stops when the returned function is called.
func Start(config *rest.Config, dir string) (stop func() error, _ error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(sourcev1.AddToScheme(scheme), swapi.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.Impersonate.UserName = "system:serviceaccount:flux-system:source-watcher"
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return nil, err
	}
	files := httptest.NewServer(http.FileServer(http.Dir(dir)))
	w := &watcher{Client: mgr.GetClient(), dir: dir, url: files.URL}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&swapi.ArtifactGenerator{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicates.ReconcileRequestedPredicate{}))).
		Watches(&sourcev1.GitRepository{}, handler.EnqueueRequestsFromMapFunc(w.generatorsOf), builder.WithPredicates(artifactChanged())).
		WithOptions(controller.Options{
			SkipNameValidation: new(true),
			RateLimiter:        workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](750*time.Millisecond, 15*time.Minute), // Flux's defaults
		}).
		Complete(w)
	if err != nil {
		files.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return func() error {
		cancel()
		files.Close()
		return <-ended
	}, nil
}

// artifactChanged passes new artifacts only. Other changes of a source must not shorten the time between retries.
func artifactChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*sourcev1.GitRepository).GetArtifact(), e.ObjectNew.(*sourcev1.GitRepository).GetArtifact()
		return after != nil && !before.HasRevision(after.Revision)
	}}
}

func (w *watcher) generatorsOf(ctx context.Context, repository client.Object) []reconcile.Request {
	var all swapi.ArtifactGeneratorList
	if err := w.List(ctx, &all, client.InNamespace(repository.GetNamespace())); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for _, generator := range all.Items {
		if slices.ContainsFunc(generator.Spec.Sources, func(source swapi.SourceReference) bool { return source.Name == repository.GetName() }) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&generator)})
		}
	}
	return requests
}

// dependencyInterval is when a run is repeated whose sources could not be fetched. It is no error, so it does not back
// off.
const dependencyInterval = 5 * time.Second

// errSources means that the sources of a generator could not be fetched.
var errSources = errors.New("fetch sources failed")

// Reconcile makes the artifacts of a generator, and writes its conditions and the request that it has handled.
func (w *watcher) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, _ error) {
	generator := &swapi.ArtifactGenerator{}
	if err := w.Get(ctx, req.NamespacedName, generator); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	patcher := patch.NewSerialPatcher(generator, w.Client)
	err := w.generate(ctx, generator, patcher)
	switch {
	case err == nil:
		conditions.MarkTrue(generator, meta.ReadyCondition, meta.SucceededReason, "reconciliation succeeded")
		conditions.Delete(generator, meta.ReconcilingCondition)
	case errors.Is(err, errSources):
		conditions.MarkFalse(generator, meta.ReadyCondition, swapi.SourceFetchFailedReason, "%s", err)
		result.RequeueAfter, err = dependencyInterval, nil
	default:
		conditions.MarkFalse(generator, meta.ReadyCondition, meta.ReconciliationFailedReason, "%s", err)
	}
	if requestedAt, ok := meta.ReconcileAnnotationValue(generator.Annotations); ok {
		generator.Status.SetLastHandledReconcileRequest(requestedAt)
	}
	return result, errors.Join(err, client.IgnoreNotFound(w.patch(ctx, generator, patcher)))
}

// patch writes the status and the conditions of a generator.
func (w *watcher) patch(ctx context.Context, generator *swapi.ArtifactGenerator, patcher *patch.SerialPatcher) error {
	return patcher.Patch(ctx, generator, patch.WithOwnedConditions{Conditions: []string{meta.ReadyCondition, meta.ReconcilingCondition}},
		patch.WithForceOverwriteConditions{}, patch.WithFieldOwner(Manager))
}

func (w *watcher) generate(ctx context.Context, generator *swapi.ArtifactGenerator, patcher *patch.SerialPatcher) error {
	observed := map[string]swapi.ObservedSource{}
	for _, source := range generator.Spec.Sources {
		repository := &sourcev1.GitRepository{}
		if err := w.Get(ctx, client.ObjectKey{Namespace: generator.Namespace, Name: source.Name}, repository); err != nil {
			return fmt.Errorf("%w: %w", errSources, err)
		}
		artifact := repository.GetArtifact()
		if artifact == nil {
			return fmt.Errorf("%w: source %s is not ready", errSources, source.Name)
		}
		observed[source.Alias] = swapi.ObservedSource{Digest: artifact.Digest, Revision: artifact.Revision, URL: artifact.URL}
	}
	digest := swapi.HashObservedSources(observed)
	if upToDate, err := w.upToDate(ctx, generator, digest); upToDate || err != nil {
		return err
	}
	// Like every run that may publish, it begins with Ready=Unknown.
	conditions.MarkReconciling(generator, meta.ProgressingReason, "reconciliation in progress")
	conditions.MarkUnknown(generator, meta.ReadyCondition, meta.ProgressingReason, "reconciliation in progress")
	if err := w.patch(ctx, generator, patcher); err != nil {
		return err
	}
	files := map[string]map[string][]byte{}
	for alias, source := range observed {
		var err error
		if files[alias], err = download(ctx, source.URL); err != nil {
			return fmt.Errorf("%w: %w", errSources, err)
		}
	}
	for _, output := range generator.Spec.OutputArtifacts {
		artifact, err := w.build(generator.Namespace, output, files)
		if err != nil {
			return fmt.Errorf("%s build failed: %w", output.Name, err)
		}
		if output.Revision != "" {
			artifact.Revision = observed[strings.TrimPrefix(output.Revision, "@")].Revision
		}
		if err := w.publish(ctx, generator, output.Name, artifact); err != nil {
			return fmt.Errorf("%s reconcile failed: %w", output.Name, err)
		}
	}
	generator.Status.ObservedSourcesDigest = digest
	return nil
}

// upToDate reports whether the last run has succeeded for the same sources, and its artifacts are still there.
func (w *watcher) upToDate(ctx context.Context, generator *swapi.ArtifactGenerator, digest string) (bool, error) {
	ready := apimeta.FindStatusCondition(generator.Status.Conditions, meta.ReadyCondition)
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != generator.Generation || digest != generator.Status.ObservedSourcesDigest {
		return false, nil
	}
	for _, output := range generator.Spec.OutputArtifacts {
		external := &sourcev1.ExternalArtifact{}
		err := w.Get(ctx, client.ObjectKey{Namespace: generator.Namespace, Name: output.Name}, external)
		if err != nil || external.Status.Artifact == nil {
			return false, client.IgnoreNotFound(err)
		}
	}
	return true, nil
}

// publish applies the ExternalArtifact, and then its status.
func (w *watcher) publish(ctx context.Context, generator *swapi.ArtifactGenerator, name string, artifact *meta.Artifact) error {
	external := &sourcev1.ExternalArtifact{
		TypeMeta: metav1.TypeMeta{APIVersion: sourcev1.GroupVersion.String(), Kind: sourcev1.ExternalArtifactKind},
		ObjectMeta: metav1.ObjectMeta{Namespace: generator.Namespace, Name: name, Labels: map[string]string{
			"app.kubernetes.io/managed-by": Manager, swapi.ArtifactGeneratorLabel: string(generator.UID),
		}},
		Spec: sourcev1.ExternalArtifactSpec{SourceRef: &meta.NamespacedObjectKindReference{
			APIVersion: swapi.GroupVersion.String(), Kind: swapi.ArtifactGeneratorKind, Namespace: generator.Namespace, Name: generator.Name,
		}},
	}
	if common := generator.Spec.CommonMetadata; common != nil {
		maps.Copy(external.Labels, common.Labels)
		external.Annotations = maps.Clone(common.Annotations)
	}
	applied, err := runtime.DefaultUnstructuredConverter.ToUnstructured(external)
	if err != nil {
		return err
	}
	delete(applied, "status")
	obj := &unstructured.Unstructured{Object: applied}
	if err := w.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(Manager), client.ForceOwnership); err != nil {
		return fmt.Errorf("failed to apply ExternalArtifact: %w", err)
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&sourcev1.ExternalArtifactStatus{
		Artifact: artifact,
		Conditions: []metav1.Condition{{
			Type: meta.ReadyCondition, Status: metav1.ConditionTrue, Reason: meta.SucceededReason, Message: "Artifact is ready",
			ObservedGeneration: obj.GetGeneration(), LastTransitionTime: metav1.Now(),
		}},
	})
	if err != nil {
		return err
	}
	// The rest of the object, with its resource version, is what the first request returned.
	obj.SetManagedFields(nil)
	obj.Object["status"] = status
	if err := w.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(Manager)); err != nil {
		return fmt.Errorf("failed to patch ExternalArtifact status: %w", err)
	}
	return nil
}

// build copies directories of sources into an artifact. The same files make the same digest.
func (w *watcher) build(namespace string, output swapi.OutputArtifact, sources map[string]map[string][]byte) (*meta.Artifact, error) {
	content := map[string][]byte{}
	for _, operation := range output.Copy {
		alias, from, _ := strings.Cut(strings.TrimPrefix(operation.From, "@"), "/")
		to := strings.TrimPrefix(operation.To, "@artifact/")
		for name, data := range sources[alias] {
			if rest, found := strings.CutPrefix(name, strings.TrimSuffix(from, "**")); found {
				content[path.Join(to, rest)] = data
			}
		}
	}
	if len(content) == 0 {
		return nil, errors.New("no files match")
	}
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	archive := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content[name]))}); err != nil {
			return nil, err
		}
		if _, err := archive.Write(content[name]); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		return nil, err
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(packed.Bytes()))
	file := path.Join("externalartifact", namespace, output.Name, sum+".tar.gz")
	if err := os.MkdirAll(filepath.Join(w.dir, path.Dir(file)), 0o755); err != nil {
		return nil, err
	}
	return &meta.Artifact{
		Path: file, URL: w.url + "/" + file, Revision: "latest@sha256:" + sum, Digest: "sha256:" + sum, LastUpdateTime: metav1.Now(),
	}, os.WriteFile(filepath.Join(w.dir, file), packed.Bytes(), 0o644)
}

// download returns the files of an artifact.
func download(ctx context.Context, url string) (map[string][]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	compressed, err := gzip.NewReader(response.Body)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %s: %w", url, response.Status, err)
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag == tar.TypeReg {
			if files[path.Clean(header.Name)], err = io.ReadAll(archive); err != nil {
				return nil, err
			}
		}
	}
}
