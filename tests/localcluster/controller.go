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
	"net/http"
	"os"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// tokenSeconds is how long a controller's token is good for, from each start: longer than anybody leaves a playground
// running in one piece.
const tokenSeconds = 7 * 24 * 60 * 60

// ControllerProcess describes a controller that runs with the rights of a ServiceAccount.
type ControllerProcess struct {
	// Name tells it apart from the cluster's other processes. Required.
	Name string

	// Binary is the path of its program, or the name of one in the directory of programs (bin/). Default: Name.
	Binary string

	// Namespace is that of the ServiceAccount, and what the controller finds in RUNTIME_NAMESPACE. Default:
	// flux-system.
	Namespace string

	// ServiceAccount is whose token the controller gets: it may do what the RBAC of the cluster grants that account. It
	// must exist. Required.
	ServiceAccount string

	// Server is what the controller takes for the API server, such as a proxy: its address and CA. Default: the API
	// server.
	Server *rest.Config

	// Args are passed after --health-addr and --metrics-addr, which are set for it, and --allow-loopback-git-hosts,
	// which pipeline-controller gets.
	Args []string

	// Env are more settings of its environment, as NAME=VALUE.
	Env []string
}

// DeploymentArgs returns the args of the first container of a Deployment, from the path of its manifest.
func DeploymentArgs(path string) ([]string, error) {
	manifest, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	deployment := &appsv1.Deployment{}
	if err := yaml.Unmarshal(manifest, deployment); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(deployment.Spec.Template.Spec.Containers) == 0 {
		return nil, fmt.Errorf("%s: no containers", path)
	}
	return deployment.Spec.Template.Spec.Containers[0].Args, nil
}

// StartController runs a controller and waits until it answers at /readyz. The process belongs to the cluster, whose
// Stop ends it too. Each start of it, also a later one by Process.Start, gets a fresh token.
func (c *Cluster) StartController(ctx context.Context, controller ControllerProcess) (*Process, error) {
	if controller.Namespace == "" {
		controller.Namespace = FluxNamespace
	}
	if controller.Server == nil {
		controller.Server = c.Config
	}
	p, err := c.newController(controller.Name, c.controllerPath(controller))
	if err != nil {
		return nil, err
	}
	p.env = append(append(p.env, "RUNTIME_NAMESPACE="+controller.Namespace), controller.Env...)
	if filepath.Base(p.path) == "pipeline-controller" {
		p.args = append(p.args, "--allow-loopback-git-hosts")
	}
	p.args = append(p.args, controller.Args...)
	c.runAs(p, controller.Namespace, controller.ServiceAccount, controller.Server)
	if err := c.startProcess(ctx, p); err != nil {
		return nil, err
	}
	return p, nil
}

// runAs gives a process the token of a ServiceAccount at each of its starts.
func (c *Cluster) runAs(p *Process, namespace, serviceAccount string, server *rest.Config) {
	kubeconfig := filepath.Join(c.Dir, "home", p.Name, "kubeconfig")
	p.env = append(p.env, "KUBECONFIG="+kubeconfig)
	p.prepare = func(ctx context.Context) error {
		token, err := c.serviceAccountToken(ctx, namespace, serviceAccount)
		if err != nil {
			return err
		}
		config := rest.AnonymousClientConfig(server)
		config.BearerToken = token
		return writeKubeconfig(kubeconfig, config)
	}
}

func (c *Cluster) controllerPath(controller ControllerProcess) string {
	binary := controller.Binary
	if binary == "" {
		binary = controller.Name
	}
	if strings.ContainsRune(binary, filepath.Separator) {
		return binary
	}
	return filepath.Join(c.programs.dir, binary)
}

func (c *Cluster) serviceAccountToken(ctx context.Context, namespace, name string) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenSeconds))}}
	if err := c.client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	return request.Status.Token, nil
}

// newController describes a process with the flags that Flux's controllers and Sluice's share.
func (c *Cluster) newController(name, path string) (*Process, error) {
	var health, metrics string
	if err := freeAddresses(&health, &metrics); err != nil {
		return nil, err
	}
	p, err := c.newProcess(name, path, "--health-addr="+health, "--metrics-addr="+metrics)
	if err != nil {
		return nil, err
	}
	p.MetricsAddr = metrics
	p.ready = answersOK(http.DefaultClient, "http://"+health+"/readyz")
	return p, nil
}
