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

// Package manifests applies every manifest of config/ and of the pages as a dry run.
package manifests

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

const (
	root         = "../.."
	fieldManager = "test-manifests"
)

// Files of programs have these groups. They are not objects of a cluster.
const (
	kustomizeGroup = "kustomize.config.k8s.io"
	apiServerGroup = "apiserver.config.k8s.io"
)

// world is a cluster with Flux's CRDs, Sluice and its samples, without controllers.
type world struct {
	cluster *localcluster.Cluster
	admin   client.Client
	kubectl string
}

func TestManifests(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	w := newWorld(ctx, t)

	t.Run("config", func(t *testing.T) {
		directories, files := w.configured(NewWithT(t))
		for _, dir := range directories {
			t.Run(dir, func(t *testing.T) {
				g := NewWithT(t)
				w.apply(ctx, g, w.build(ctx, g, t.TempDir(), dir))
			})
		}
		for _, file := range files {
			t.Run(file, func(t *testing.T) {
				g := NewWithT(t)
				content, err := os.ReadFile(filepath.Join(root, file))
				g.Expect(err).NotTo(HaveOccurred())
				w.apply(ctx, g, string(content))
			})
		}
	})

	applied := 0
	for _, page := range pages(g) {
		content, err := os.ReadFile(filepath.Join(root, page))
		g.Expect(err).NotTo(HaveOccurred())
		for _, block := range yamlIn(string(content)) {
			t.Run(fmt.Sprintf("%s:%d", page, block.Line), func(t *testing.T) {
				applied += w.apply(ctx, NewWithT(t), block.Text)
			})
		}
	}
	g.Expect(applied).To(BeNumerically(">", 30), "manifests were found in the pages")
}

func newWorld(ctx context.Context, t *testing.T) *world {
	g := NewWithT(t)
	cluster, err := localcluster.Start(ctx, localcluster.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { NewWithT(t).Expect(cluster.Stop()).To(Succeed()) })
	w := &world{cluster: cluster}
	w.kubectl, err = cluster.Program("kubectl")
	g.Expect(err).NotTo(HaveOccurred())
	w.admin, err = client.New(cluster.Config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	more, err := filepath.Glob(filepath.Join(root, "tests", "crds", "*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	operator := module(ctx, g, "prometheus-operator", "github.com/prometheus-operator/prometheus-operator")
	for _, kind := range []string{"podmonitors", "prometheusrules"} {
		more = append(more, filepath.Join(operator, "example", "prometheus-operator-crd", "monitoring.coreos.com_"+kind+".yaml"))
	}
	for _, file := range more {
		crd, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(cluster.Apply(ctx, crd)).To(Succeed())
	}
	// Each of the components would apply Flux's CRDs without the changes of the others. An applied Deployment would
	// keep its fields.
	components := w.wrap(ctx, g, t.TempDir(), "config/components/gitops-clusters", "config/components/gated-sources", "config/components/alert-kinds")
	g.Expect(cluster.ApplyKustomization(ctx, components, "Deployment")).To(Succeed())
	// Some of the pages change what they take for granted, which is in the samples.
	for _, dir := range []string{"config/default", "config/samples"} {
		g.Expect(cluster.ApplyKustomization(ctx, filepath.Join(root, dir))).To(Succeed())
	}
	return w
}

// module returns the directory of a module that one of hack/ pins.
func module(ctx context.Context, g *WithT, pinnedBy, path string) string {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", path)
	command.Dir = filepath.Join(root, "hack", pinnedBy)
	command.Env = append(os.Environ(), "GOWORK=off")
	out, err := command.Output()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	var found struct{ Dir string }
	g.Expect(json.Unmarshal(out, &found)).To(Succeed())
	return found.Dir
}

// configured returns the directories of config/ that have a kustomization, and the files with manifests that none of
// these names.
func (w *world) configured(g *WithT) (directories, files []string) {
	named := map[string]bool{}
	var all []string
	g.Expect(fs.WalkDir(os.DirFS(root), "config", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		if entry.Name() != "kustomization.yaml" {
			all = append(all, path)
			return nil
		}
		directories = append(directories, filepath.Dir(path))
		kustomization := readKustomization(g, path)
		for _, resource := range kustomization.Resources {
			named[filepath.Join(filepath.Dir(path), resource)] = true
		}
		for _, patch := range kustomization.Patches {
			named[filepath.Join(filepath.Dir(path), patch.Path)] = true
		}
		return nil
	})).To(Succeed())
	g.Expect(directories).NotTo(BeEmpty())
	for _, file := range all {
		if !named[file] {
			files = append(files, file)
		}
	}
	return directories, files
}

// kustomization contains the fields of a kustomization.yaml that the test reads.
type kustomization struct {
	Kind       string   `json:"kind"`
	Resources  []string `json:"resources"`
	Components []string `json:"components"`
	Patches    []struct {
		Path string `json:"path"`
	} `json:"patches"`
}

func readKustomization(g *WithT, path string) kustomization {
	content, err := os.ReadFile(filepath.Join(root, path))
	g.Expect(err).NotTo(HaveOccurred())
	var read kustomization
	g.Expect(yaml.Unmarshal(content, &read)).To(Succeed(), path)
	return read
}

// build returns the manifests of a directory of config/. A component is built with what it changes: Sluice, Flux's CRDs
// and source-controller, or a Kustomization.
func (w *world) build(ctx context.Context, g *WithT, scratch, dir string) string {
	path := filepath.Join(root, dir)
	if readKustomization(g, filepath.Join(dir, "kustomization.yaml")).Kind == "Component" {
		path = w.wrap(ctx, g, scratch, dir)
	}
	command := exec.CommandContext(ctx, w.kubectl, "kustomize", path)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	built, err := command.Output()
	g.Expect(err).NotTo(HaveOccurred(), stderr.String())
	return string(built)
}

const fluxKustomization = `apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: app, namespace: flux-system}
spec: {interval: 10m, path: ./, prune: true, wait: true, sourceRef: {kind: GitRepository, name: app}}
`

// wrap makes a kustomization with components in it.
func (w *world) wrap(ctx context.Context, g *WithT, scratch string, components ...string) string {
	relative := func(dir string) string {
		path, err := relativeTo(scratch, filepath.Join(root, dir))
		g.Expect(err).NotTo(HaveOccurred())
		return path
	}
	var named []string
	for _, component := range components {
		named = append(named, relative(component))
	}
	resources := fluxKustomization
	for _, controller := range []localcluster.FluxController{localcluster.SourceController, localcluster.KustomizeController, localcluster.NotificationController} {
		path, err := w.cluster.FluxCRDs(controller)
		g.Expect(err).NotTo(HaveOccurred())
		crds, err := os.ReadFile(path)
		g.Expect(err).NotTo(HaveOccurred())
		resources += "---\n" + string(crds)
	}
	deployment, err := os.ReadFile(filepath.Join(module(ctx, g, "flux", "github.com/fluxcd/source-controller"), "config", "manager", "deployment.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.Mkdir(filepath.Join(scratch, "flux"), 0o700)).To(Succeed())
	for name, content := range map[string]string{
		"flux/deployment.yaml":    string(deployment),
		"flux/kustomization.yaml": "namespace: flux-system\nresources: [deployment.yaml]\n",
		"resources.yaml":          resources,
		"kustomization.yaml":      fmt.Sprintf("resources: [resources.yaml, flux, %s]\ncomponents: [%s]\n", relative("config/default"), strings.Join(named, ", ")),
	} {
		g.Expect(os.WriteFile(filepath.Join(scratch, name), []byte(content), 0o600)).To(Succeed())
	}
	return scratch
}

func relativeTo(dir, path string) (string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	return filepath.Rel(dir, path)
}

// pages are the pages that people write. Pages that are generated from the types are not among them.
func pages(g *WithT) []string {
	var found []string
	g.Expect(fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (path == "bin" || path == "docs/api" || path != "." && strings.HasPrefix(entry.Name(), ".")) {
			return fs.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			found = append(found, path)
		}
		return nil
	})).To(Succeed())
	return found
}

// apply runs a dry run of the documents of a stream, and returns their number. A document without kind is a part of a
// manifest, and is only parsed.
func (w *world) apply(ctx context.Context, g *WithT, stream string) int {
	applied := 0
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(stream)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return applied
		}
		g.Expect(err).NotTo(HaveOccurred())
		var content any
		g.Expect(yaml.UnmarshalStrict(document, &content)).To(Succeed(), string(document))
		fields, _ := content.(map[string]any)
		object := &unstructured.Unstructured{Object: fields}
		if object.GetKind() == "" {
			continue
		}
		switch object.GroupVersionKind().Group {
		case kustomizeGroup:
			w.checkKustomization(g, document)
		case apiServerGroup:
		default:
			g.Expect(w.applyObject(ctx, object)).To(Succeed(), string(document))
		}
		applied++
	}
}

// checkKustomization checks that the components that a page has people copy exist.
func (w *world) checkKustomization(g *WithT, document []byte) {
	var read kustomization
	g.Expect(yaml.Unmarshal(document, &read)).To(Succeed())
	for _, component := range read.Components {
		g.Expect(filepath.Join(root, "config/components", component, "kustomization.yaml")).To(BeAnExistingFile())
	}
}

// applyObject applies an object on trial, in its namespace, which it makes. One without a name is created.
func (w *world) applyObject(ctx context.Context, object *unstructured.Unstructured) error {
	namespaced, err := w.admin.IsObjectNamespaced(object)
	if err != nil {
		return err
	}
	if namespaced {
		if object.GetNamespace() == "" {
			object.SetNamespace(metav1.NamespaceDefault)
		}
		err := w.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: object.GetNamespace()}})
		if client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}
	as, err := w.authorOf(object)
	if err != nil {
		return err
	}
	if object.GetName() == "" {
		return as.Create(ctx, object, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
	}
	return as.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.DryRunAll, client.ForceOwnership, client.FieldOwner(fieldManager))
}

// authorOf returns the client for an object: an approval or a pass must be created in one's own name.
func (w *world) authorOf(object *unstructured.Unstructured) (client.Client, error) {
	field, named := map[string]string{pipelinesv1.PromotionApprovalKind: "approvedBy", gatingv1.GatePassKind: "grantedBy"}[object.GetKind()]
	if !named {
		return w.admin, nil
	}
	name, _, err := unstructured.NestedString(object.Object, "spec", field)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(w.cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:masters"}}
	return client.New(config, client.Options{Mapper: w.admin.RESTMapper()})
}
