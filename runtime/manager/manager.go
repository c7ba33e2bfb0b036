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

// Package manager sets up the controller manager of both controllers, as in Flux's own controllers.
package manager

import (
	"os"
	"time"

	"github.com/fluxcd/pkg/runtime/acl"
	fluxclient "github.com/fluxcd/pkg/runtime/client"
	fluxcontroller "github.com/fluxcd/pkg/runtime/controller"
	"github.com/fluxcd/pkg/runtime/leaderelection"
	"github.com/fluxcd/pkg/runtime/logger"
	"github.com/fluxcd/pkg/runtime/pprof"
	"github.com/fluxcd/pkg/runtime/probes"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Options are the settings of both controllers.
type Options struct {
	MetricsAddr, HealthAddr string
	Client                  fluxclient.Options
	Log                     logger.Options
	LeaderElection          leaderelection.Options
	RateLimiter             fluxcontroller.RateLimiterOptions
	Watch                   fluxcontroller.WatchOptions
	ACL                     acl.Options
}

// BindFlags binds the options to flags.
func (o *Options) BindFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.MetricsAddr, "metrics-addr", ":8080", "The address the metric endpoint binds to.")
	flags.StringVar(&o.HealthAddr, "health-addr", ":9440", "The address the health endpoint binds to.")
	o.Client.BindFlags(flags)
	o.Log.BindFlags(flags)
	o.LeaderElection.BindFlags(flags)
	o.RateLimiter.BindFlags(flags)
	o.Watch.BindFlags(flags)
	o.ACL.BindFlags(flags)
}

// Namespace returns the namespace of the controller.
func Namespace() string { return os.Getenv("RUNTIME_NAMESPACE") }

// OnlyNamespace returns the only namespace that the controller watches, or "" for all.
func (o *Options) OnlyNamespace() string {
	if o.Watch.AllNamespaces {
		return ""
	}
	return Namespace()
}

// NoCrossNamespaceRefs reports whether cross-namespace references are disabled. A controller that watches a single
// namespace cannot follow any.
func (o *Options) NoCrossNamespaceRefs() bool {
	return o.ACL.NoCrossNamespaceRefs || !o.Watch.AllNamespaces
}

// LeaderElectionID returns the ID of a controller's lease. It differs between shards, so each shard has its own leader.
func (o *Options) LeaderElectionID(controller string) string {
	id := controller + "-leader-election"
	if o.Watch.LabelSelector == "" {
		return id
	}
	return leaderelection.GenerateID(id, o.Watch.LabelSelector)
}

// Prepare sets up the logger and the memory limit of the process.
func (o *Options) Prepare() {
	logger.SetLogger(logger.NewLogger(o.Log))
	limitMemory()
}

// gracePeriod is how long a controller that is stopped waits for what it is doing. It is shorter than
// terminationGracePeriodSeconds of the Deployments, so that the lease is released before the kubelet kills the process.
const gracePeriod = 15 * time.Second

// New returns the manager of a controller, with health probes. The caller provides the scheme, the cache and the lock
// of the lease.
func (o *Options) New(controller string, config *rest.Config, settings ctrl.Options) (ctrl.Manager, error) {
	if namespace := o.OnlyNamespace(); namespace != "" || !o.Watch.AllNamespaces {
		settings.Cache.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	if config.QPS >= 0 {
		// Flux's client has no limit of its own if the API server has one.
		ctrl.Log.WithName("setup").Info("the API server does not report API Priority and Fairness, so requests to it are limited", "perSecond", config.QPS)
	}
	settings.Logger = ctrl.Log
	settings.Metrics = metricsserver.Options{BindAddress: o.MetricsAddr, ExtraHandlers: pprof.GetHandlers()}
	settings.HealthProbeBindAddress = o.HealthAddr
	settings.GracefulShutdownTimeout = new(gracePeriod)
	settings.LeaderElection = o.LeaderElection.Enable
	settings.LeaderElectionReleaseOnCancel = o.LeaderElection.ReleaseOnCancel
	settings.LeaseDuration = &o.LeaderElection.LeaseDuration
	settings.RenewDeadline = &o.LeaderElection.RenewDeadline
	settings.RetryPeriod = &o.LeaderElection.RetryPeriod
	settings.LeaderElectionID = o.LeaderElectionID(controller)
	settings.LeaderElectionNamespace = Namespace()
	mgr, err := ctrl.NewManager(config, settings)
	if err != nil {
		return nil, err
	}
	probes.SetupChecks(mgr, ctrl.Log.WithName("setup"))
	return mgr, nil
}
