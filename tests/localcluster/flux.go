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

package localcluster

import (
	"context"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"
)

// FluxController is the name of a controller of Flux.
type FluxController string

// The controllers of Flux that a cluster can run.
const (
	SourceController       FluxController = "source-controller"
	KustomizeController    FluxController = "kustomize-controller"
	HelmController         FluxController = "helm-controller"
	NotificationController FluxController = "notification-controller"
)

var fluxControllers = []FluxController{SourceController, KustomizeController, HelmController, NotificationController}

// sourceControllerRights are the permissions of source-controller in Flux's install. The others are administrators
// there too.
const sourceControllerRights = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: source-controller, namespace: ` + FluxNamespace + `}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: source-controller}
rules:
- {apiGroups: [source.toolkit.fluxcd.io], resources: ["*"], verbs: ["*"]}
- {apiGroups: [""], resources: [namespaces, secrets, configmaps, serviceaccounts], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [serviceaccounts/token], verbs: [create]}
- {apiGroups: [""], resources: [events], verbs: [create, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: source-controller}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: source-controller}
subjects: [{kind: ServiceAccount, name: source-controller, namespace: ` + FluxNamespace + `}]
`

// startFlux installs Flux's CRDs, namespace and permissions, and starts the controllers.
func (c *Cluster) startFlux(ctx context.Context, controllers []FluxController) error {
	if err := c.installFlux(ctx); err != nil {
		return fmt.Errorf("installing Flux's CRDs: %w", err)
	}
	var events string
	if slices.Contains(controllers, NotificationController) {
		var err error
		if events, err = freeAddress(); err != nil {
			return err
		}
		c.EventsAddr = "http://" + events + "/"
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, controller := range controllers {
		group.Go(func() error {
			_, err := c.startFluxController(ctx, controller, events)
			return err
		})
	}
	return group.Wait()
}

// StartFlux starts another controller of Flux and waits until it is ready. It can't start notification-controller,
// because the others need its address.
func (c *Cluster) StartFlux(ctx context.Context, controller FluxController) (*Process, error) {
	if controller == NotificationController {
		return nil, fmt.Errorf("%s can be started only with the cluster", controller)
	}
	return c.startFluxController(ctx, controller, "")
}

func (c *Cluster) installFlux(ctx context.Context) error {
	manifests := []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + FluxNamespace + "}\n")
	for _, controller := range fluxControllers {
		path, err := c.FluxCRDs(controller)
		if err != nil {
			return err
		}
		crds, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		manifests = append(append(manifests, "---\n"...), crds...)
	}
	return c.Apply(ctx, append(manifests, "---"+sourceControllerRights...))
}

func (c *Cluster) startFluxController(ctx context.Context, controller FluxController, events string) (*Process, error) {
	path, err := c.programs.path(string(controller))
	if err != nil {
		return nil, err
	}
	p, err := c.newController(string(controller), path)
	if err != nil {
		return nil, err
	}
	p.env = append(p.env, "RUNTIME_NAMESPACE="+FluxNamespace)
	if controller == SourceController {
		c.runAs(p, FluxNamespace, string(controller), c.Config)
	} else {
		p.env = append(p.env, "KUBECONFIG="+c.Kubeconfig)
	}
	flags, err := c.fluxFlags(controller, events)
	if err != nil {
		return nil, err
	}
	p.args = append(p.args, flags...)
	return p, c.startProcess(ctx, p)
}

// fluxFlags returns the flags of a controller. events is the address of notification-controller, or empty if it does
// not run.
func (c *Cluster) fluxFlags(controller FluxController, events string) ([]string, error) {
	toEvents := "--events-addr=" + c.EventsAddr
	switch controller {
	case SourceController:
		storage, err := c.subdirectory("artifacts")
		if err != nil {
			return nil, err
		}
		address, err := freeAddress()
		if err != nil {
			return nil, err
		}
		c.ArtifactsAddr = address
		return []string{toEvents, "--storage-path=" + storage, "--storage-addr=" + address, "--storage-adv-addr=" + address}, nil
	case KustomizeController:
		// Shorter than Flux's 30 s, so users wait less. Kustomizations of ExternalArtifacts are off by default.
		return []string{toEvents, "--requeue-dependency=5s", "--feature-gates=ExternalArtifact=true"}, nil
	case HelmController:
		return []string{toEvents, "--requeue-dependency=5s"}, nil
	case NotificationController:
		receiver, err := freeAddress()
		if err != nil {
			return nil, err
		}
		return []string{"--events-addr=" + events, "--receiverAddr=" + receiver}, nil
	default:
		return nil, fmt.Errorf("Flux has no controller %q here", controller)
	}
}
