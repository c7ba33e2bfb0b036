//go:build e2e_node

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

// Package stories tests Sluice as users see it, from the installation by Flux to the uninstallation, on any cluster
// with Flux. The stories use only the installed product: its Pods, roles and policies, and the Flux CLI with the
// plugin.
//
// E2E_KUBECONFIG names the cluster. Without it, the cluster is a node of this machine. Use a cluster for tests: the
// stories close gates, install and remove Sluice, and label flux-system so that its Pods must meet the Pod Security
// Standard 'restricted'.
package stories

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

const (
	// root is the root of the repository, from this directory.
	root = "../.."
	flux = "flux-system"
)

var (
	// bin is the directory of the programs that the Makefile builds.
	bin   string
	world World
	admin client.Client
	upon  *hosts
)

func TestStories(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Sluice on a cluster")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	ctrl.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	SetDefaultConsistentlyDuration(6 * time.Second)
	SetDefaultConsistentlyPollingInterval(200 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()

	var err error
	bin, err = programs()
	Expect(err).NotTo(HaveOccurred())
	Expect(os.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))).To(Succeed())
	world = startWorld(ctx)

	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	utilruntime.Must(sourcev1.AddToScheme(scheme))
	utilruntime.Must(kustomizev1.AddToScheme(scheme))
	utilruntime.Must(gatingv1.AddToScheme(scheme))
	utilruntime.Must(pipelinesv1.AddToScheme(scheme))
	config, err := clientcmd.BuildConfigFromFlags("", world.Kubeconfig())
	Expect(err).NotTo(HaveOccurred())
	admin, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())

	// This is stricter than Flux's own install, whose namespace only warns.
	kubectl(ctx, "label", "--overwrite", "namespace", flux, "pod-security.kubernetes.io/enforce=restricted")
	for _, version := range []string{previousVersion, thisVersion} {
		Expect(world.Provide(ctx, releaseDir(version, "images"))).To(Succeed())
	}
	upon = startHosts(ctx)
	publish(ctx)
})

// programs returns the directory where the local cluster finds programs.
func programs() (string, error) {
	if dir := os.Getenv("SLUICE_BIN"); dir != "" {
		return filepath.Abs(dir)
	}
	return filepath.Abs(filepath.Join(root, "bin"))
}

func startWorld(ctx context.Context) World {
	GinkgoHelper()
	if kubeconfig := os.Getenv(kubeconfigVariable); kubeconfig != "" {
		load := os.Getenv(loadVariable)
		Expect(load).NotTo(BeEmpty(), "set "+loadVariable+" to a command that loads an archive of images into the cluster's nodes, such as 'kind load image-archive'")
		return someCluster{kubeconfig: kubeconfig, load: load}
	}
	started, err := startLocalWorld(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(started.stop()).To(Succeed()) })
	return started
}

var _ = ReportAfterEach(func(report SpecReport) {
	if !report.Failed() || admin == nil {
		return
	}
	for _, question := range []string{
		"get pods,jobs --all-namespaces", "get gitrepositories,ocirepositories,kustomizations --all-namespaces",
		"get gates,pipelines --all-namespaces", "get events --all-namespaces --sort-by=.metadata.creationTimestamp",
		"logs deployment/gate-controller --tail=30", "logs deployment/pipeline-controller --tail=30",
	} {
		answer, _ := kubectlCommand(context.Background(), strings.Fields(question)...).CombinedOutput()
		AddReportEntry("kubectl "+question, string(answer))
	}
})

// kubectlCommand is a command of an administrator, in the namespace of Flux if no other is named.
func kubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	return command(ctx, "kubectl", append([]string{"--namespace=" + flux}, args...)...)
}

// command is one of an administrator's programs.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	made := exec.CommandContext(ctx, program, args...)
	made.Env = append(os.Environ(), "KUBECONFIG="+world.Kubeconfig(), "FLUXCD_PLUGINS="+filepath.Join(bin, "plugins"))
	return made
}

// kubectl runs kubectl, which must succeed, and returns what it prints.
func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := kubectlCommand(ctx, args...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "kubectl %s: %s", strings.Join(args, " "), out)
	return string(out)
}

// fluxCLI runs the Flux CLI, with the plugin, which must succeed, and returns what it prints.
func fluxCLI(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := command(ctx, "flux", args...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "flux %s: %s", strings.Join(args, " "), out)
	return string(out)
}

// apply applies manifests as an administrator does.
func apply(ctx context.Context, manifests string, args ...any) {
	GinkgoHelper()
	applying := command(ctx, "kubectl", "apply", "--server-side", "--force-conflicts", "--filename=-")
	applying.Stdin = strings.NewReader(format(manifests, args...))
	out, err := applying.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
}

// remove deletes an object, if there is one, and waits until it is gone.
func remove(ctx context.Context, args ...string) {
	GinkgoHelper()
	kubectl(ctx, append([]string{"delete", "--ignore-not-found", "--timeout=2m"}, args...)...)
}
