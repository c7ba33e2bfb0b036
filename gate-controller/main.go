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

// Command gate-controller holds Flux sources back while their gates are closed.
package main

import (
	"context"
	"os"
	"time"

	// The image has neither time zones nor certificate authorities.
	_ "time/tzdata"

	_ "golang.org/x/crypto/x509roots/fallback"

	fluxclient "github.com/fluxcd/pkg/runtime/client"
	fluxcontroller "github.com/fluxcd/pkg/runtime/controller"
	flag "github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/controller"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/endpoint"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/hold"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
	"github.com/sluice-toolkit/sluice/runtime/announce"
	"github.com/sluice-toolkit/sluice/runtime/manager"
)

// RBAC cannot restrict create to names.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=flux-system,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=gate-controller-leader-election,namespace=flux-system,verbs=get;update

const controllerName = "gate-controller"

type options struct {
	manager.Options
	eventsAddr string
	gatesAddr  string
	artifacts  []string
	concurrent int
}

func (o *options) bind(flags *flag.FlagSet) {
	o.BindFlags(flags)
	flags.StringVar(&o.eventsAddr, "events-addr", "", "The address of the events receiver.")
	flags.StringVar(&o.gatesAddr, "gates-addr", "",
		"The address that the endpoint for the state of gates binds to. If empty, the endpoint is disabled.")
	flags.StringSliceVar(&o.artifacts, "artifact-hosts", nil,
		"The hosts of source-controller's storage, where the artifacts of held sources are checked. If empty, lost artifacts are not restored.")
	flags.IntVar(&o.concurrent, "concurrent", 10, "The number of objects of each kind that are reconciled at the same time.")
}

func main() {
	var opts options
	opts.bind(flag.CommandLine)
	flag.Parse()
	opts.Prepare()

	if err := run(ctrl.SetupSignalHandler(), opts); err != nil {
		ctrl.Log.WithName("setup").Error(err, "stopped")
		os.Exit(1)
	}
}

func run(ctx context.Context, opts options) error {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(gatingv1.AddToScheme(scheme))
	utilruntime.Must(pipelinesv1.AddToScheme(scheme))
	utilruntime.Must(source.AddToScheme(scheme))

	selector, err := fluxcontroller.GetWatchSelector(opts.Watch)
	if err != nil {
		return err
	}
	config := fluxclient.GetConfigOrDie(opts.Client)
	lease, err := leaseOfPod(config, opts)
	if err != nil {
		return err
	}
	mgr, err := opts.New(controllerName, config, ctrl.Options{
		Scheme:                              scheme,
		Cache:                               cache.Options{DefaultTransform: hold.TrimManagedFields},
		LeaderElectionResourceLockInterface: lease,
	})
	if err != nil {
		return err
	}
	announcer, err := announce.New(mgr, opts.eventsAddr, controllerName)
	if err != nil {
		return err
	}

	setup := controller.Options{
		Concurrent: opts.concurrent,
		RateLimiter: func() workqueue.TypedRateLimiter[reconcile.Request] {
			return fluxcontroller.GetRateLimiter(opts.RateLimiter)
		},
	}
	kinds, err := source.KindsOf(mgr.GetRESTMapper())
	if err != nil {
		return err
	}
	if err := controller.IndexSources(ctx, mgr, kinds); err != nil {
		return err
	}
	for _, kind := range kinds {
		if err := (&controller.SourceReconciler{
			Client:               mgr.GetClient(),
			Announcer:            announcer,
			Kind:                 kind,
			Kinds:                kinds,
			Selector:             selector,
			ArtifactHosts:        opts.artifacts,
			Live:                 mgr.GetAPIReader(),
			NoCrossNamespaceRefs: opts.NoCrossNamespaceRefs(),
			Now:                  time.Now,
		}).SetupWithManager(mgr, setup); err != nil {
			return err
		}
	}
	if err := (&controller.GateReconciler{
		Client: mgr.GetClient(), Announcer: announcer, Kinds: kinds, NoCrossNamespaceRefs: opts.NoCrossNamespaceRefs(), Now: time.Now,
	}).SetupWithManager(ctx, mgr, setup); err != nil {
		return err
	}
	if err := metrics.Registry.Register(&controller.Metrics{Reader: mgr.GetClient(), Kinds: kinds, Now: time.Now, Elected: mgr.Elected()}); err != nil {
		return err
	}
	if opts.gatesAddr != "" {
		if err := mgr.Add(&endpoint.Server{
			Addr: opts.gatesAddr, Gates: mgr.GetClient(), Now: time.Now, Log: ctrl.Log.WithName("gates"),
		}); err != nil {
			return err
		}
	}
	return mgr.Start(ctx)
}

// leaseOfPod returns the shard's lease, held in the name of the Pod. A container that restarts in its Pod keeps the
// lease instead of waiting for it to expire, which would delay holds. The kubelet starts a container only after the
// previous one has ended, so only one process at a time uses the name. Without POD_NAME, leaseOfPod returns nil and
// every process has its own identity.
func leaseOfPod(config *rest.Config, opts options) (resourcelock.Interface, error) {
	pod := os.Getenv("POD_NAME")
	if pod == "" {
		return nil, nil
	}
	return resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, manager.Namespace(), opts.LeaderElectionID(controllerName),
		resourcelock.ResourceLockConfig{Identity: pod}, config, opts.LeaderElection.RenewDeadline)
}
