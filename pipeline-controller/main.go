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

// Command pipeline-controller promotes revisions from environment to environment, as defined by Pipelines.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	// The image has neither time zones nor certificate authorities.
	_ "time/tzdata"

	_ "golang.org/x/crypto/x509roots/fallback"

	notificationv1 "github.com/fluxcd/notification-controller/api/v1beta3"
	fluxclient "github.com/fluxcd/pkg/runtime/client"
	fluxcontroller "github.com/fluxcd/pkg/runtime/controller"
	flag "github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/source"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	gitopsv1 "github.com/sluice-toolkit/sluice/api/gitops/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/approval"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/controller"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/endpoint"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hostnet"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/leafcluster"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/promote"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/scm"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/workpool"
	"github.com/sluice-toolkit/sluice/runtime/announce"
	"github.com/sluice-toolkit/sluice/runtime/gates"
	"github.com/sluice-toolkit/sluice/runtime/manager"
)

// Who may create objects can't be restricted to names.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=flux-system,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=pipeline-controller-leader-election,namespace=flux-system,verbs=get;update

const controllerName = "pipeline-controller"

type options struct {
	manager.Options
	eventsAddr                       string
	concurrent, concurrentPromotions int
	network                          hostnet.Network
	endpoint                         endpoint.Options
}

func (o *options) bind(flags *flag.FlagSet) {
	o.BindFlags(flags)
	flags.StringVar(&o.eventsAddr, "events-addr", "", "The address of the events receiver. Events, including promotions by notification, are sent to it.")
	flags.IntVar(&o.concurrent, "concurrent", 4, "The number of concurrent Pipeline reconciles.")
	flags.IntVar(&o.concurrentPromotions, "concurrent-promotions", 24,
		"The number of concurrent promotions, and of concurrent checks of pull requests. "+
			"Each namespace can use a third of it, each Git host half, and each Git host of a namespace a sixth.")
	flags.BoolVar(&o.network.AllowLoopback, "allow-loopback-git-hosts", false,
		"Allow Git hosts at loopback addresses, for tests. Users who can create Pipelines can then make the controller connect to its own container.")
	o.endpoint.BindFlags(flags)
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
	utilruntime.Must(gitopsv1.AddToScheme(scheme))
	utilruntime.Must(notificationv1.AddToScheme(scheme))

	selector, err := fluxcontroller.GetWatchSelector(opts.Watch)
	if err != nil {
		return err
	}
	mgr, err := opts.New(controllerName, fluxclient.GetConfigOrDie(opts.Client), ctrl.Options{
		Scheme: scheme,
		Cache: cache.Options{
			// A write without managed fields leaves them as they are.
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				// The managed fields of a Gate show who turned it.
				&gatingv1.Gate{}:                 {Transform: func(gate any) (any, error) { return gate, nil }},
				&pipelinesv1.Pipeline{}:          {Label: selector},
				&pipelinesv1.PromotionApproval{}: {Transform: controller.TrimApproval},
			},
		},
	})
	if err != nil {
		return err
	}
	announcer, err := announce.New(mgr, opts.eventsAddr, controllerName)
	if err != nil {
		return err
	}

	// A container has the same process number after each restart, and what it left on its volume is removed.
	clones, err := git.NewClones(filepath.Join(os.TempDir(), fmt.Sprintf("sluice-git-%d", os.Getpid())))
	if err != nil {
		return err
	}
	uncached, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: scheme, Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return err
	}
	readAlerts, err := controller.MayReadAlerts(ctx, uncached, opts.OnlyNamespace())
	if err != nil {
		return err
	}
	clusters, err := leafcluster.New(leafcluster.Options{
		Config:               mgr.GetConfig(),
		Client:               mgr.GetHTTPClient(),
		Objects:              uncached,
		Mapper:               mgr.GetRESTMapper(),
		Namespace:            opts.OnlyNamespace(),
		NoCrossNamespaceRefs: opts.NoCrossNamespaceRefs(),
		NamespaceLabels: func(ctx context.Context, name string) (map[string]string, error) {
			return gates.NamespaceLabels(ctx, mgr.GetClient(), name)
		},
	})
	if err != nil {
		return err
	}
	ownName := approval.OwnName(mgr.GetClient())
	actions, polls := workpool.New(workpool.Share(opts.concurrentPromotions)), workpool.New(workpool.Share(opts.concurrentPromotions))
	reconciler := &controller.PipelineReconciler{
		Client:               mgr.GetClient(),
		Announcer:            announcer,
		Live:                 mgr.GetAPIReader(),
		PullRequests:         promote.NewPullRequests(mgr.GetAPIReader(), scm.NewHosts(opts.network), clones),
		Notifications:        &promote.Notifications{Address: opts.eventsAddr, Controller: controllerName},
		Targets:              clusters,
		Actions:              actions,
		Polls:                polls,
		HTTPApprover:         ownName,
		ReadAlerts:           readAlerts,
		NoCrossNamespaceRefs: opts.NoCrossNamespaceRefs(),
		Now:                  time.Now,
	}
	if err := reconciler.SetupWithManager(ctx, mgr, controller.Options{
		Concurrent:  opts.concurrent,
		RateLimiter: fluxcontroller.GetRateLimiter(opts.RateLimiter),
		Sources:     []source.Source{clusters, actions, polls},
		Confined:    opts.OnlyNamespace() != "",
	}); err != nil {
		return err
	}
	if err := errors.Join(mgr.Add(ctrlmanager.RunnableFunc(actions.Drain)), mgr.Add(ctrlmanager.RunnableFunc(polls.Drain))); err != nil {
		return err
	}
	if err := endpoint.SetupWithManager(mgr, opts.endpoint, ownName); err != nil {
		return err
	}
	if err := errors.Join(
		metrics.Registry.Register(&controller.Metrics{Reader: mgr.GetClient(), Elected: mgr.Elected()}),
		metrics.Registry.Register(clusters),
	); err != nil {
		return err
	}
	return errors.Join(mgr.Start(ctx), clones.Close())
}
