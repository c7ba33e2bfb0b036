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

	"github.com/fluxcd/pkg/runtime/acl"
	fluxclient "github.com/fluxcd/pkg/runtime/client"
	fluxcontroller "github.com/fluxcd/pkg/runtime/controller"
	"github.com/fluxcd/pkg/runtime/leaderelection"
	"github.com/fluxcd/pkg/runtime/logger"
	"github.com/fluxcd/pkg/runtime/pprof"
	"github.com/fluxcd/pkg/runtime/probes"
	flag "github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/controller"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/hold"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=flux-system,verbs=get;create;update;patch

const controllerName = "gate-controller"

type options struct {
	metricsAddr, eventsAddr, healthAddr string
	concurrent                          int
	client                              fluxclient.Options
	log                                 logger.Options
	leaderElection                      leaderelection.Options
	rateLimiter                         fluxcontroller.RateLimiterOptions
	watch                               fluxcontroller.WatchOptions
	acl                                 acl.Options
}

func (o *options) bind(flags *flag.FlagSet) {
	flags.StringVar(&o.metricsAddr, "metrics-addr", ":8080", "The address the metric endpoint binds to.")
	flags.StringVar(&o.eventsAddr, "events-addr", "", "The address of the events receiver.")
	flags.StringVar(&o.healthAddr, "health-addr", ":9440", "The address the health endpoint binds to.")
	flags.IntVar(&o.concurrent, "concurrent", 4, "The number of objects of each kind that are reconciled at the same time.")
	o.client.BindFlags(flags)
	o.log.BindFlags(flags)
	o.leaderElection.BindFlags(flags)
	o.rateLimiter.BindFlags(flags)
	o.watch.BindFlags(flags)
	o.acl.BindFlags(flags)
}

func main() {
	var opts options
	opts.bind(flag.CommandLine)
	flag.Parse()
	logger.SetLogger(logger.NewLogger(opts.log))

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

	selector, err := fluxcontroller.GetWatchSelector(opts.watch)
	if err != nil {
		return err
	}
	cacheOptions := cache.Options{DefaultTransform: hold.TrimManagedFields}
	namespace := os.Getenv("RUNTIME_NAMESPACE")
	if !opts.watch.AllNamespaces {
		cacheOptions.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}

	mgr, err := ctrl.NewManager(fluxclient.GetConfigOrDie(opts.client), ctrl.Options{
		Scheme:                        scheme,
		Logger:                        ctrl.Log,
		Cache:                         cacheOptions,
		Metrics:                       metricsserver.Options{BindAddress: opts.metricsAddr, ExtraHandlers: pprof.GetHandlers()},
		HealthProbeBindAddress:        opts.healthAddr,
		LeaderElection:                opts.leaderElection.Enable,
		LeaderElectionReleaseOnCancel: opts.leaderElection.ReleaseOnCancel,
		LeaseDuration:                 &opts.leaderElection.LeaseDuration,
		RenewDeadline:                 &opts.leaderElection.RenewDeadline,
		RetryPeriod:                   &opts.leaderElection.RetryPeriod,
		LeaderElectionID:              leaderElectionID(opts.watch.LabelSelector),
		LeaderElectionNamespace:       namespace,
	})
	if err != nil {
		return err
	}
	probes.SetupChecks(mgr, ctrl.Log.WithName("setup"))
	announcer, err := controller.NewAnnouncer(mgr, opts.eventsAddr, controllerName)
	if err != nil {
		return err
	}

	setup := controller.Options{
		Concurrent: opts.concurrent,
		RateLimiter: func() workqueue.TypedRateLimiter[reconcile.Request] {
			return fluxcontroller.GetRateLimiter(opts.rateLimiter)
		},
	}
	if err := controller.IndexSources(ctx, mgr); err != nil {
		return err
	}
	for _, kind := range source.Kinds {
		if err := (&controller.SourceReconciler{
			Client:    mgr.GetClient(),
			Announcer: announcer,
			Kind:      kind,
			Selector:  selector,
			Live:      mgr.GetAPIReader(),
			// A controller of one namespace sees no others.
			NoCrossNamespaceRefs: opts.acl.NoCrossNamespaceRefs || !opts.watch.AllNamespaces,
		}).SetupWithManager(mgr, setup); err != nil {
			return err
		}
	}
	if err := (&controller.GateReconciler{Client: mgr.GetClient()}).SetupWithManager(ctx, mgr, setup); err != nil {
		return err
	}
	if err := metrics.Registry.Register(&controller.Metrics{Reader: mgr.GetClient(), Elected: mgr.Elected()}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// leaderElectionID is one for each shard, so that each has a leader of its own.
func leaderElectionID(labelSelector string) string {
	const id = controllerName + "-leader-election"
	if labelSelector == "" {
		return id
	}
	return leaderelection.GenerateID(id, labelSelector)
}
