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
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // for kubeconfigs that log in with OIDC
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

const (
	namespaceEnv        = "FLUX_SYSTEM_NAMESPACE"
	followKubeConfigEnv = "FLUX_NS_FOLLOWS_KUBE_CONTEXT"

	// fieldOwner is the field manager of flux's own commands. It does not depend on the name of this binary.
	fieldOwner = gatingv1.TurningManager
)

// clusterFlags are the persistent flags of flux, with the same defaults. flux passes them to plugins unparsed.
type clusterFlags struct {
	outside

	kubeconfig        *genericclioptions.ConfigFlags
	timeout           time.Duration
	verbose           bool
	followKubeContext bool
	qps               float32
	burst             int
}

func (f *clusterFlags) bind(root *cobra.Command) {
	f.kubeconfig = genericclioptions.NewConfigFlags(false)
	*f.kubeconfig.Namespace = defaultNamespace()
	f.kubeconfig.Timeout = nil   // flux has --timeout instead of --request-timeout
	f.kubeconfig.APIServer = nil // flux has no short form -s of --server

	flags := root.PersistentFlags()
	f.kubeconfig.AddFlags(flags)
	f.kubeconfig.APIServer = flags.String("server", "", "The address and port of the Kubernetes API server")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "timeout for this operation")
	flags.BoolVar(&f.verbose, "verbose", false, "print generated objects")
	flags.BoolVar(&f.followKubeContext, "ns-follows-kube-context", false,
		"use the namespace from the kubeconfig context instead of the default flux-system namespace, can also be set via "+followKubeConfigEnv+" env var")
	flags.Float32Var(&f.qps, "kube-api-qps", 50, "The maximum queries-per-second of requests sent to the Kubernetes API.")
	flags.IntVar(&f.burst, "kube-api-burst", 300, "The maximum burst queries-per-second of requests sent to the Kubernetes API.")
}

func defaultNamespace() string {
	if namespace := os.Getenv(namespaceEnv); isNamespace(namespace) {
		return namespace
	}
	return "flux-system"
}

func isNamespace(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// namespace returns the namespace of --namespace, or of the kubeconfig's context if --ns-follows-kube-context is set,
// or $FLUX_SYSTEM_NAMESPACE, or flux-system.
func (f *clusterFlags) namespace(cmd *cobra.Command) (string, error) {
	namespace := *f.kubeconfig.Namespace
	if !cmd.Flags().Changed("namespace") {
		if fromEnv := os.Getenv(namespaceEnv); fromEnv != "" && !isNamespace(fromEnv) {
			loggerFor(cmd).warningf("ignoring invalid %s: %q", namespaceEnv, fromEnv)
		}
		if f.followKubeContext || os.Getenv(followKubeConfigEnv) != "" {
			if fromContext := f.contextNamespace(); fromContext != "" {
				namespace = fromContext
			}
		}
	}
	if !isNamespace(namespace) {
		return "", fmt.Errorf("namespace must be a valid DNS label: %q", namespace)
	}
	return namespace, nil
}

// contextName returns the name of the kubeconfig's context.
func (f *clusterFlags) contextName() string {
	if *f.kubeconfig.Context != "" {
		return *f.kubeconfig.Context
	}
	config, err := f.kubeconfig.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return ""
	}
	return config.CurrentContext
}

// contextNamespace returns the namespace of the kubeconfig's context. It is empty if the kubeconfig has none or is
// invalid: the client reports errors of the kubeconfig later.
func (f *clusterFlags) contextNamespace() string {
	config, err := f.kubeconfig.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return ""
	}
	if context, ok := config.Contexts[f.contextName()]; ok {
		return context.Namespace
	}
	return ""
}

// connect returns a client for the cluster of the flags, and the namespace to use.
func (f *clusterFlags) connect(cmd *cobra.Command) (client.WithWatch, string, error) {
	namespace, err := f.namespace(cmd)
	if err != nil {
		return nil, "", err
	}
	kube, err := f.dial(cmd, f)
	return kube, namespace, err
}

func dial(cmd *cobra.Command, f *clusterFlags) (client.WithWatch, error) {
	config, err := f.kubeconfig.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("kubernetes configuration load failed: %w", err)
	}
	config.QPS, config.Burst = f.qps, f.burst
	// The discovery client accepts no context, so this is its only timeout.
	config.Timeout = f.timeout
	// Admission policies can return warnings.
	config.WarningHandler = rest.NewWarningWriter(cmd.ErrOrStderr(), rest.WarningWriterOptions{Deduplicate: true})

	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme, FieldOwner: fieldOwner})
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(gatingv1.AddToScheme(scheme), pipelinesv1.AddToScheme(scheme), authenticationv1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme), corev1.AddToScheme(scheme))
	return scheme, err
}

// ownName returns the name that the API server knows the user by.
func ownName(ctx context.Context, kube client.Client) (string, error) {
	self := &authenticationv1.SelfSubjectReview{}
	if err := kube.Create(ctx, self); err != nil {
		return "", fmt.Errorf("looking up your user name failed: %w", err)
	}
	return self.Status.UserInfo.Username, nil
}
