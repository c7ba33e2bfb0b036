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

// Package localcluster runs a real Kubernetes control plane on this machine's loopback, and beside it, each as a
// process of its own, Flux's controllers, Sluice's controllers and a Gitea. There are no nodes: what a Deployment would
// run is started here instead.
//
// The programs are those that hack/build.sh builds into bin/, or the directory that the environment variable SLUICE_BIN
// names. etcd, kube-apiserver, kube-controller-manager and kubectl are taken from KUBEBUILDER_ASSETS where that is set
// and has them.
//
// No process outlives the one that started it: Stop ends them, and on Linux the kernel kills them should their parent
// die without calling Stop.
package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fluxcd/pkg/ssa"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FluxNamespace is the namespace of Flux and Sluice.
const FluxNamespace = "flux-system"

// pollInterval is the interval of checks while waiting.
const pollInterval = 50 * time.Millisecond

// Options configure a cluster.
type Options struct {
	// Flux lists the controllers of Flux to run. The default is none. The CRDs of all four are always installed.
	Flux []FluxController

	// KeepDir keeps the cluster's directory with its logs after Stop. By default, it is removed.
	KeepDir bool
}

// Cluster is a running control plane with controllers. Its methods are safe for concurrent use.
type Cluster struct {
	// Dir contains the files of the cluster: data, credentials, and one log for each process in logs/.
	Dir string

	// Config connects as an administrator (group system:masters) without a client-side rate limit.
	Config *rest.Config

	// Kubeconfig is the path of the same administrator's kubeconfig.
	Kubeconfig string

	// EventsAddr is the URL of notification-controller for events. It is empty if Options.Flux does not contain it.
	EventsAddr string
	// ArtifactsAddr is the host and port of source-controller's storage. It is empty until source-controller is
	// started.
	ArtifactsAddr string

	keepDir  bool
	programs programs
	etcd     string // its URL
	client   client.Client
	manager  *ssa.ResourceManager

	mu        sync.Mutex
	processes []*Process // in the order they were started
}

// Start starts a cluster and returns it once it is usable: the API answers, Flux's CRDs are Established, the namespace
// flux-system and its default ServiceAccount exist, and the controllers asked for are ready. ctx bounds the start only;
// the cluster runs until Stop.
//
// When a process ends early or does not get ready, the error quotes the end of its log, and what had been started is
// stopped.
func Start(ctx context.Context, options Options) (_ *Cluster, err error) {
	programs, err := findPrograms()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sluice-cluster-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: dir, keepDir: options.KeepDir, programs: programs}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()

	if err := c.startControlPlane(ctx); err != nil {
		return nil, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.startControllerManager(groupCtx) })
	group.Go(func() error { return c.startFlux(groupCtx, options.Flux) })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return c, nil
}

// Stop kills all processes, the last started first, and removes Dir unless it must be kept. It does not wait for
// controllers to shut down, because the cluster is not used again. It may be called more than once.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for i := len(c.processes) - 1; i >= 0; i-- {
		errs = append(errs, c.processes[i].Kill())
	}
	c.processes = nil
	if !c.keepDir {
		errs = append(errs, os.RemoveAll(c.Dir))
	}
	return errors.Join(errs...)
}

// newProcess describes a process with its own home directory and log.
func (c *Cluster) newProcess(name, path string, args ...string) (*Process, error) {
	home, err := c.subdirectory("home", name)
	if err != nil {
		return nil, err
	}
	return &Process{
		Name:    name,
		LogPath: filepath.Join(c.Dir, "logs", name+".log"),
		path:    path,
		args:    args,
		env:     environment(home),
	}, nil
}

// startProcess starts p. Stop ends it.
func (c *Cluster) startProcess(ctx context.Context, p *Process) error {
	// It must be stopped even if its start failed, because it may be running without being ready.
	c.mu.Lock()
	c.processes = append(c.processes, p)
	c.mu.Unlock()
	return p.Start(ctx)
}

// Process returns a process by name, or nil.
func (c *Cluster) Process(name string) *Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.processes {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// subdirectory creates a directory below Dir.
func (c *Cluster) subdirectory(elem ...string) (string, error) {
	path := filepath.Join(append([]string{c.Dir}, elem...)...)
	return path, os.MkdirAll(path, 0o700)
}

// poll calls probe until it returns nil. If ctx ends first, the error contains what was waited for and the last error.
func poll(ctx context.Context, what string, probe func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %w", what, ctx.Err(), err)
		case <-ticker.C:
		}
	}
}
