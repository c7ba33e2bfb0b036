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
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/action"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/rights"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/world"
)

// uiCommand serves the page.
type uiCommand struct {
	cluster   *clusterFlags
	port      int
	noBrowser bool
	readOnly  bool
}

// newUICommand returns the command. It exists twice: as a subcommand of pipeline, and as one of flux sluice. words is how
// it is called.
func newUICommand(words string, cluster *clusterFlags) *cobra.Command {
	command := &uiCommand{cluster: cluster}
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Show pipelines and gates in the browser",
		Long: `Show pipelines and gates in the browser, until the command is interrupted: what runs where, what
waits for what, and what you can do about it. Changes appear by themselves.

The page is served on this machine only, and opens in the browser with an address that works once.
It has the rights of your kubeconfig. It installs nothing in the cluster and never reads a Secret.

Actions ask for confirmation, and do what the commands of the same names do: approve, open and close
gates, let revisions pass, reconcile, suspend and resume. With --read-only, there are none.

It shows all namespaces that you may list. Otherwise it shows those of --namespace and of the
kubeconfig's context.`,
		Example: fmt.Sprintf(`  # Open the page in the browser
  %[1]s

  # Print the address, and do not open it
  %[1]s --no-browser --port 8080`, words),
		Args: cobra.NoArgs,
		RunE: command.run,
	}
	cmd.Flags().IntVar(&command.port, "port", 0, "the port on 127.0.0.1; defaults to any free port")
	cmd.Flags().BoolVar(&command.noBrowser, "no-browser", false, "print the address, and do not open it")
	cmd.Flags().BoolVar(&command.readOnly, "read-only", false, "show no actions, and refuse them")
	_ = cmd.RegisterFlagCompletionFunc("port", cobra.NoFileCompletions)
	return cmd
}

func (c *uiCommand) run(cmd *cobra.Command, _ []string) error {
	if c.port < 0 || c.port > 65535 {
		return errors.New("--port must be between 0 and 65535")
	}
	ctx, log := cmd.Context(), loggerFor(cmd)
	handler, err := c.handler(cmd)
	if err != nil {
		return err
	}
	server, err := ui.Listen(c.port, handler.Routes())
	if err != nil {
		return fmt.Errorf("serving the page failed: %w", err)
	}
	log.actionf("serving the page to this machine, until Ctrl-C")
	fmt.Fprintln(cmd.OutOrStdout(), server.URL())
	if !c.noBrowser {
		if err := c.cluster.openBrowser(server.URL()); err != nil {
			log.warningf("the browser did not start (%s): open the address yourself; it works once", err)
		}
	}
	return server.Serve(ctx)
}

// handler connects to the cluster and starts to watch it.
func (c *uiCommand) handler(cmd *cobra.Command) (*ui.Handler, error) {
	timeout := c.cluster.timeout
	c.cluster.timeout = 0 // a watch has no end
	kube, namespace, err := c.cluster.connect(cmd)
	if err != nil {
		return nil, err
	}
	starting, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	user, err := ownName(starting, kube)
	if err != nil {
		return nil, err
	}
	asked := rights.Of(kube, c.cluster.now)
	namespaces, err := c.namespaces(starting, kube, asked, namespace)
	if err != nil {
		return nil, err
	}
	started, err := world.Start(cmd.Context(), starting, world.Options{Kube: kube, Namespaces: namespaces, Now: c.cluster.now})
	if err != nil {
		return nil, err
	}
	handler := &ui.Handler{World: started, Rights: asked, User: user, Cluster: c.cluster.contextName(), Streams: ui.NewStreams()}
	if !c.readOnly {
		handler.Run = func(ctx context.Context, args []string) (string, error) {
			return c.runCommand(ctx, loggerFor(cmd), args)
		}
	}
	return handler, nil
}

// runCommand runs another command of this program as the same user, and returns what it prints.
func (c *uiCommand) runCommand(ctx context.Context, log logger, args []string) (output string, _ error) {
	log.actionf("%s", action.Command(args))
	program := newProgram("sluice", "", outside{
		// The flags of this command say which cluster it is. Warnings of the API server are part of the output.
		dial: func(cmd *cobra.Command, _ *clusterFlags) (client.WithWatch, error) {
			return c.cluster.dial(cmd, c.cluster)
		},
		isTerminal: func(any) bool { return false }, now: c.cluster.now, watchInterval: c.cluster.watchInterval,
	})
	var out bytes.Buffer
	program.SetArgs(args)
	program.SetIn(strings.NewReader(""))
	program.SetOut(&out)
	program.SetErr(&out)
	err := program.ExecuteContext(ctx)
	return out.String(), err
}

// namespaces returns the namespaces to watch if not all can be listed: those where the user may list Pipelines or Gates,
// or if namespaces can't be listed, that of the flags and that of the kubeconfig's context.
func (c *uiCommand) namespaces(ctx context.Context, kube client.Client, asked *rights.Rights, own string) ([]string, error) {
	found := unique(slices.DeleteFunc([]string{own, c.cluster.contextNamespace()}, func(name string) bool { return name == "" }))
	if kube.List(ctx, &pipelinesv1.PipelineList{}, client.Limit(1)) == nil && kube.List(ctx, &gatingv1.GateList{}, client.Limit(1)) == nil {
		return found, nil
	}
	all := &corev1.NamespaceList{}
	switch err := kube.List(ctx, all); {
	case apierrors.IsForbidden(err):
		return found, nil
	case err != nil:
		return nil, fmt.Errorf("listing namespaces failed: %w", err)
	}
	var listed []string
	for i := range all.Items {
		name := all.Items[i].Name
		rules := asked.In(ctx, name)
		if rules.Allow("list", pipelinesv1.GroupVersion.WithResource("pipelines").GroupResource(), "") ||
			rules.Allow("list", gatingv1.GroupVersion.WithResource("gates").GroupResource(), "") {
			listed = append(listed, name)
		}
	}
	if len(listed) == 0 {
		return found, nil
	}
	return listed, nil
}

// openBrowser opens an address in the user's browser.
func openBrowser(address string) error {
	switch runtime.GOOS {
	case "windows":
		return exec.Command("rundll32", "url.dll,FileProtocolHandler", address).Start()
	case "darwin":
		return exec.Command("open", address).Start()
	}
	return exec.Command("xdg-open", address).Start()
}
