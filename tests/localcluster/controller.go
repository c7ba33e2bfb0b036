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

// tokenSeconds is the lifetime of a controller's token, from each start.
const tokenSeconds = 7 * 24 * 60 * 60

// ControllerProcess describes a controller that runs with the permissions of a ServiceAccount.
type ControllerProcess struct {
	// Name is unique among the cluster's processes. Required.
	Name string

	// Binary is the path of its program, or its name in the directory of programs (bin/). The default is Name.
	Binary string

	// Namespace is the namespace of the ServiceAccount, and the value of RUNTIME_NAMESPACE. The default is flux-system.
	Namespace string

	// ServiceAccount is the account whose token the controller uses. It must exist. Required.
	ServiceAccount string

	// Server is the address and CA that the controller uses as its API server, such as those of a proxy. The default is
	// the API server.
	Server *rest.Config

	// Args are additional flags. --health-addr and --metrics-addr are set, and pipeline-controller gets
	// --allow-loopback-git-hosts.
	Args []string

	// Env are additional environment variables, as NAME=VALUE.
	Env []string
}

// DeploymentArgs returns the args of the first container of a Deployment in a manifest.
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

// StartController starts a controller and waits until /readyz responds. Stop of the cluster ends it. Each start,
// including later ones by Process.Start, uses a new token.
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

// runAs gives a process a new token of a ServiceAccount at each start.
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

// newController describes a process with the common flags of Flux's and Sluice's controllers.
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
