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

// Package manager sets up what both controllers run in, as Flux's own controllers are set up.
package manager

import (
	"os"

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

// Options are the settings that both controllers have.
type Options struct {
	MetricsAddr, HealthAddr string
	Client                  fluxclient.Options
	Log                     logger.Options
	LeaderElection          leaderelection.Options
	RateLimiter             fluxcontroller.RateLimiterOptions
	Watch                   fluxcontroller.WatchOptions
	ACL                     acl.Options
}

// BindFlags makes flags of the options.
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

// Namespace is the one that the controller runs in.
func Namespace() string { return os.Getenv("RUNTIME_NAMESPACE") }

// OnlyNamespace is the one that the controller sees; empty where it sees all.
func (o *Options) OnlyNamespace() string {
	if o.Watch.AllNamespaces {
		return ""
	}
	return Namespace()
}

// NoCrossNamespaceRefs reports whether references across namespaces are denied. A controller of one namespace sees no others.
func (o *Options) NoCrossNamespaceRefs() bool {
	return o.ACL.NoCrossNamespaceRefs || !o.Watch.AllNamespaces
}

// LeaderElectionID is one for each shard of a controller, so that each has a leader of its own.
func (o *Options) LeaderElectionID(controller string) string {
	id := controller + "-leader-election"
	if o.Watch.LabelSelector == "" {
		return id
	}
	return leaderelection.GenerateID(id, o.Watch.LabelSelector)
}

// Prepare sets up the process: its log, and its memory limit.
func (o *Options) Prepare() {
	logger.SetLogger(logger.NewLogger(o.Log))
	limitMemory()
}

// New returns the manager of a controller, with probes. Of its settings, scheme, cache and the lock of the lease are taken from the caller.
func (o *Options) New(controller string, config *rest.Config, settings ctrl.Options) (ctrl.Manager, error) {
	if namespace := o.OnlyNamespace(); namespace != "" || !o.Watch.AllNamespaces {
		settings.Cache.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	settings.Logger = ctrl.Log
	settings.Metrics = metricsserver.Options{BindAddress: o.MetricsAddr, ExtraHandlers: pprof.GetHandlers()}
	settings.HealthProbeBindAddress = o.HealthAddr
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
