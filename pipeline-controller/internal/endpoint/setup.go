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

package endpoint

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/approval"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/receiver"
)

// Options are the settings of the endpoint.
type Options struct {
	// Addr is the address to listen on. If it is empty, the endpoint is disabled.
	Addr string
	// AllowLegacySignatures accepts signatures that cover only the body.
	AllowLegacySignatures bool
}

// BindFlags binds the options to flags.
func (o *Options) BindFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Addr, "approval-addr", ":9292", "The address that the endpoint for approvals and webhooks binds to. If empty, the endpoint is disabled.")
	flags.BoolVar(&o.AllowLegacySignatures, "allow-legacy-approval-signatures", false,
		"Accept approvals whose signature does not cover the path and time. Anyone who sees such a request can replay it.")
}

// SetupWithManager adds the endpoint to the manager. Approvals are in the name that username returns.
func SetupWithManager(mgr ctrl.Manager, options Options, username func(context.Context) (string, error)) error {
	if options.Addr == "" {
		return nil
	}
	for _, requests := range []prometheus.Collector{approvalRequests, webhookRequests} {
		if err := metrics.Registry.Register(requests); err != nil {
			return err
		}
	}
	log := ctrl.Log.WithName("approvals")
	webhooks := receiver.New(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetClient(), log)
	if err := mgr.Add(webhooks); err != nil {
		return err
	}
	return mgr.Add(&Server{
		Addr: options.Addr,
		Approver: approval.Approver{
			Reader:                mgr.GetClient(),
			Secrets:               mgr.GetAPIReader(),
			Creator:               mgr.GetClient(),
			Username:              username,
			AllowLegacySignatures: options.AllowLegacySignatures,
			Now:                   time.Now,
			Log:                   log,
		},
		Webhooks: webhooks,
	})
}
