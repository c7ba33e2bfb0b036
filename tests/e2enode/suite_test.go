//go:build e2e_node && linux

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

// Package e2enode plays the stories that need pods, on a real node: the install as config/ has it, and gates that CronJobs turn.
// It needs root, and is built with the tag e2e_node only, so that `make test` runs without.
package e2enode

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
	"github.com/sluice-toolkit/sluice/tests/localnode"
)

const (
	flux = localcluster.FluxNamespace

	// kubectlImage is what config/samples/freeze-schedule-kubectl runs.
	kubectlImage = "registry.k8s.io/kubectl:v1.36.3"
)

var (
	// manifests is the directory of the release's.
	manifests string

	cluster *localcluster.Cluster
	node    *localnode.Node
	admin   client.Client
)

func TestE2ENode(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Sluice in pods")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	ctrl.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(90 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	SetDefaultConsistentlyDuration(6 * time.Second)
	SetDefaultConsistentlyPollingInterval(200 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()

	var err error
	cluster, err = localcluster.Start(ctx, localcluster.Options{
		Flux: []localcluster.FluxController{localcluster.SourceController, localcluster.NotificationController},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(cluster.Stop()).To(Succeed()) })
	events, err := url.Parse(cluster.EventsAddr)
	Expect(err).NotTo(HaveOccurred())
	node, err = localnode.Start(ctx, cluster,
		localnode.Service{Host: "notification-controller." + flux + ".svc.cluster.local", Port: 80, Address: events.Host})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(node.Stop()).To(Succeed()) })

	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(sourcev1.AddToScheme(scheme))
	utilruntime.Must(gatingv1.AddToScheme(scheme))
	utilruntime.Must(pipelinesv1.AddToScheme(scheme))
	admin, err = client.New(cluster.Config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())

	images, err := cluster.Program("release/images")
	Expect(err).NotTo(HaveOccurred(), "`make images` builds them")
	Expect(node.Import(ctx, images)).To(Succeed())
	program, err := cluster.Program("kubectl")
	Expect(err).NotTo(HaveOccurred())
	Expect(node.ImportProgram(ctx, kubectlImage, program, "/bin/kubectl", "")).To(Succeed())
	manifests, err = cluster.Program("release/manifests")
	Expect(err).NotTo(HaveOccurred())
	// Stricter than Flux's own install, whose namespace only warns.
	kubectl(ctx, "label", "namespace", flux, "pod-security.kubernetes.io/enforce=restricted")
	kubectl(ctx, "apply", "--server-side", "--kustomize", filepath.Join(manifests, "default"))
})

var _ = ReportAfterEach(func(report SpecReport) {
	if !report.Failed() || cluster == nil {
		return
	}
	for _, question := range []string{
		"get all,gates,buckets", "get events --sort-by=.metadata.creationTimestamp", "describe pods",
		"logs deployment/gate-controller --tail=50", "logs deployment/pipeline-controller --tail=50",
	} {
		answer, _ := kubectlCommand(context.Background(), strings.Fields(question)...).CombinedOutput()
		AddReportEntry("kubectl "+question, string(answer))
	}
})

// kubectlCommand is a command of an administrator in the namespace of Flux.
func kubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	GinkgoHelper()
	path, err := cluster.Program("kubectl")
	Expect(err).NotTo(HaveOccurred())
	command := exec.CommandContext(ctx, path, append([]string{"--namespace=" + flux}, args...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig, "HOME="+filepath.Join(cluster.Dir, "home"))
	return command
}

// kubectl runs kubectl, which must succeed, and returns what it prints.
func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := kubectlCommand(ctx, args...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "kubectl %s: %s", strings.Join(args, " "), out)
	return string(out)
}
