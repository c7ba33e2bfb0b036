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

// Package playground is the world of the demo and of the e2e suite: a local cluster with Flux and both controllers, a
// Gitea with the repositories of an application and of its fleet, and a Pipeline that promotes the application from dev
// to staging and prod.
package playground

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

// Environments are the environments of the Pipeline, in order.
var Environments = []string{"dev", "staging", "prod"}

const (
	// PipelineName is the Pipeline's name. It is in the namespace of Flux, as the gate and the sources are.
	PipelineName = "app"
	// GateName is the gate that holds prod back: its source, and the promotions into it.
	GateName = "change-freeze"
	// FirstVersion is the tag that every environment runs at first.
	FirstVersion = "v1.0.0"
)

//go:embed manifests
var manifests embed.FS

// Playground is the running world.
type Playground struct {
	// Cluster with Flux.
	Cluster *localcluster.Cluster
	// Git hosts the repositories app and fleet.
	Git *localcluster.Gitea
	// Client is an administrator's, and knows Kubernetes', Flux's and Sluice's kinds.
	Client client.WithWatch
	// GateController and PipelineController are Sluice's controllers, with the rights that config/ gives them.
	GateController, PipelineController *localcluster.Process

	root string
}

// Options say how to start a Playground.
type Options struct {
	// Flux lists controllers of Flux to run in addition to source-controller and kustomize-controller.
	Flux []localcluster.FluxController
	// KeepDir leaves the logs in place when the playground is stopped.
	KeepDir bool
	// Progress is called for each step. It may be nil.
	Progress func(step string)
}

// Start starts the world, up to where Sluice runs and nothing is deployed.
func Start(ctx context.Context, options Options) (_ *Playground, err error) {
	root, err := repositoryRoot()
	if err != nil {
		return nil, err
	}
	p := &Playground{root: root}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Stop())
		}
	}()
	tell := options.Progress
	if tell == nil {
		tell = func(string) {}
	}

	tell("starting etcd, kube-apiserver, kube-controller-manager and Flux")
	p.Cluster, err = localcluster.Start(ctx, localcluster.Options{
		Flux:    append([]localcluster.FluxController{localcluster.SourceController, localcluster.KustomizeController}, options.Flux...),
		KeepDir: options.KeepDir,
	})
	if err != nil {
		return nil, err
	}
	tell("installing Sluice as config/ says, and starting its controllers")
	if err := p.installSluice(ctx); err != nil {
		return nil, err
	}
	tell("starting Gitea")
	p.Git, err = localcluster.StartGitea(ctx)
	return p, err
}

// Stop ends the world.
func (p *Playground) Stop() error {
	var errs []error
	if p.Git != nil {
		errs = append(errs, p.Git.Stop())
	}
	if p.Cluster != nil {
		errs = append(errs, p.Cluster.Stop())
	}
	return errors.Join(errs...)
}

// installSluice applies config/default and the components that change Flux's CRDs. The Deployments are left out: the
// controllers run as processes, with tokens of their ServiceAccounts.
func (p *Playground) installSluice(ctx context.Context) error {
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), sourcev1.AddToScheme(scheme), kustomizev1.AddToScheme(scheme), helmv2.AddToScheme(scheme),
		gatingv1.AddToScheme(scheme), pipelinesv1.AddToScheme(scheme))
	if err != nil {
		return err
	}
	if p.Client, err = client.NewWithWatch(p.Cluster.Config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if err := p.customizeFlux(ctx); err != nil {
		return err
	}
	if err := p.Cluster.ApplyKustomization(ctx, filepath.Join(p.root, "config", "default"), "Deployment"); err != nil {
		return err
	}
	if p.GateController, err = p.startController(ctx, "gate-controller", "--artifact-hosts="+p.Cluster.ArtifactsAddr); err != nil {
		return err
	}
	// The port is any: the controller's log says which.
	p.PipelineController, err = p.startController(ctx, "pipeline-controller", "--approval-addr=127.0.0.1:0")
	return err
}

func (p *Playground) startController(ctx context.Context, name string, args ...string) (*localcluster.Process, error) {
	return p.Cluster.StartController(ctx, localcluster.ControllerProcess{
		Name: name, ServiceAccount: name, Args: append(args, "--events-addr="+p.Cluster.EventsAddr, "--log-level=debug"),
	})
}

// customizeFlux does what a user does in flux-system/kustomization.yaml: it adds spec.gates to Flux's sources, and Gate
// and Pipeline to the kinds of Alerts.
func (p *Playground) customizeFlux(ctx context.Context) error {
	dir := filepath.Join(p.Cluster.Dir, "flux-system")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var crds []byte
	for _, controller := range []localcluster.FluxController{localcluster.SourceController, localcluster.NotificationController} {
		path, err := p.Cluster.FluxCRDs(controller)
		if err != nil {
			return err
		}
		more, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		crds = append(append(crds, "---\n"...), more...)
	}
	if err := os.WriteFile(filepath.Join(dir, "gotk-components.yaml"), crds, 0o644); err != nil {
		return err
	}
	components, err := filepath.Rel(dir, filepath.Join(p.root, "config", "components"))
	if err != nil {
		return err
	}
	kustomization := fmt.Sprintf("resources: [gotk-components.yaml]\ncomponents: [%[1]s/gated-sources, %[1]s/alert-kinds]\n", components)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(kustomization), 0o644); err != nil {
		return err
	}
	return p.Cluster.ApplyKustomization(ctx, dir)
}

// render fills the manifests in that are named by a path below manifests/.
func (p *Playground) render(name string, values any) (string, error) {
	parsed, err := template.ParseFS(manifests, "manifests/"+name)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = parsed.Execute(&text, values)
	return text.String(), err
}

// repositoryRoot finds the checkout that this program is run in.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("this is not a checkout of Sluice: no go.work in this directory or above")
}
