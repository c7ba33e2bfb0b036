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

package localnode

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

const (
	eventually = time.Minute
	// kubectlImage has kubectl, which works as a client and as a server.
	kubectlImage = "sluice.local/kubectl:1"
)

// TestMain lets the test binary run as the process that starts a node and is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "--parent" {
		fmt.Fprintln(os.Stderr, parent())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestNode runs its parts in order on one node.
func TestNode(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "outside at "+r.URL.Path)
	}))
	t.Cleanup(outside.Close)
	cluster, err := localcluster.Start(ctx, localcluster.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { NewWithT(t).Expect(cluster.Stop()).To(Succeed()) })
	machine := stateOfMachine(g)

	started := time.Now()
	node, err := Start(ctx, cluster, Service{Host: "outside.default.svc.cluster.local", Port: 8080, Address: outside.Listener.Addr().String()})
	g.Expect(err).NotTo(HaveOccurred())
	t.Logf("started in %s", time.Since(started).Round(time.Millisecond))
	t.Cleanup(func() { NewWithT(t).Expect(node.Stop()).To(Succeed()) })
	program, err := cluster.Program("kubectl")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(node.ImportProgram(ctx, kubectlImage, program, "/bin/kubectl", "65532:65532")).To(Succeed())

	kubectl := func(g Gomega, args ...string) string {
		command := exec.CommandContext(ctx, program, append([]string{"--kubeconfig=" + cluster.Kubeconfig}, args...)...)
		out, err := command.CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), string(out))
		return string(out)
	}
	logOf := func(g Gomega, pod string, args ...string) string {
		kubectl(g, append([]string{"run", pod, "--image=" + kubectlImage, "--restart=Never", "--"}, args...)...)
		kubectl(g, "wait", "pod/"+pod, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=1m")
		return kubectl(g, "logs", pod)
	}

	t.Run("a Pod asks the API server as its ServiceAccount", func(t *testing.T) {
		NewWithT(t).Expect(logOf(NewWithT(t), "asks", "auth", "whoami")).To(ContainSubstring("system:serviceaccount:default:default"))
	})
	t.Run("a Pod calls a service outside by its name", func(t *testing.T) {
		log := logOf(NewWithT(t), "calls", "--server=http://outside.default:8080", "get", "--raw=/here")
		NewWithT(t).Expect(log).To(Equal("outside at /here"))
	})
	t.Run("a Pod is ready when its probe says so, and has logs and exec", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(cluster.Apply(ctx, fmt.Appendf(nil, `
apiVersion: v1
kind: Pod
metadata: {name: serves, namespace: default, labels: {app: serves}}
spec:
  containers:
  - name: proxy
    image: %s
    args: [proxy, --address=0.0.0.0, --accept-hosts=.*]
    readinessProbe: {httpGet: {port: 8001, path: /version}, periodSeconds: 1}
`, kubectlImage))).To(Succeed())
		kubectl(g, "wait", "pod/serves", "--for=condition=Ready", "--timeout=1m")
		g.Expect(kubectl(g, "exec", "serves", "--", "/bin/kubectl", "version", "--client")).To(ContainSubstring("Client Version"))
	})
	t.Run("a Pod calls another one by the name of its Service", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(cluster.Apply(ctx, []byte(`
apiVersion: v1
kind: Service
metadata: {name: api, namespace: default}
spec: {selector: {app: serves}, ports: [{name: http, port: 80, targetPort: 8001}]}
`))).To(Succeed())
		g.Expect(logOf(g, "calls-service", "--server=http://api.default.svc.cluster.local", "get", "--raw=/version")).To(ContainSubstring("gitVersion"))
	})
	t.Run("the machine looks as it did before", func(t *testing.T) {
		NewWithT(t).Expect(stateOfMachine(NewWithT(t))).To(Equal(machine))
	})
	t.Run("stopped, it leaves neither processes nor control groups", func(t *testing.T) {
		g := NewWithT(t)
		namespace := processNamespace(g, cluster.Dir)
		// The first process, containerd and kubelet, and for the running Pod its shim, its pause process and its own
		// process.
		g.Expect(processesOf(g, cluster.Dir, namespace)).To(HaveLen(6))
		g.Expect(controlGroups(g, cluster.Dir)).NotTo(BeEmpty())

		g.Expect(node.Stop()).To(Succeed())

		g.Expect(processesOf(g, cluster.Dir, namespace)).To(BeEmpty())
		g.Expect(controlGroups(g, cluster.Dir)).To(BeEmpty())
		g.Expect(node.Stop()).To(Succeed(), "stopping again does nothing")
		g.Expect(cluster.Stop()).To(Succeed())
		g.Expect(cluster.Dir).NotTo(BeADirectory())
	})
}

func TestNodeDiesWithItsParent(t *testing.T) {
	g := NewWithT(t)
	self, err := os.Executable()
	g.Expect(err).NotTo(HaveOccurred())
	command := exec.CommandContext(t.Context(), self, "--parent")
	out, err := command.Output()
	g.Expect(err).To(MatchError("signal: killed"))
	dir, namespace, ok := strings.Cut(strings.TrimSpace(string(out)), " ")
	g.Expect(ok).To(BeTrue(), string(out))
	g.Expect(namespace).To(HavePrefix("pid:["))

	g.Eventually(func() []string { return processesOf(g, dir, namespace) }, eventually).Should(BeEmpty())
	// Only files and empty groups remain.
	g.Expect(removeControlGroups(filepath.Base(dir))).To(Succeed())
	g.Expect(os.RemoveAll(dir)).To(Succeed())
}

// parent starts a node, prints the cluster's directory and the node's process namespace, and exits as in a crash.
func parent() error {
	ctx := context.Background()
	cluster, err := localcluster.Start(ctx, localcluster.Options{})
	if err != nil {
		return err
	}
	if _, err := Start(ctx, cluster); err != nil {
		return err
	}
	g := NewGomega(func(message string, _ ...int) { panic(message) })
	fmt.Println(cluster.Dir, processNamespace(g, cluster.Dir))
	return syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// stateOfMachine returns the state of the machine that a node must not change.
func stateOfMachine(g Gomega) map[string]string {
	state := map[string]string{}
	files := []string{"/proc/self/mountinfo", "/proc/sys/net/ipv4/ip_forward"}
	for _, setting := range []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	} {
		files = append(files, filepath.Join("/proc/sys", setting))
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		state[file] = string(content)
	}
	interfaces, err := net.Interfaces()
	g.Expect(err).NotTo(HaveOccurred())
	for _, each := range interfaces {
		addresses, err := each.Addrs()
		g.Expect(err).NotTo(HaveOccurred())
		state["interface "+each.Name] = fmt.Sprint(addresses)
	}
	for _, dir := range []string{"/run/containerd", "/run/netns", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers", "/var/log/pods"} {
		names, _ := filepath.Glob(filepath.Join(dir, "*"))
		state[dir] = strings.Join(names, " ")
	}
	return state
}

// processNamespace returns the process namespace of a cluster's node, by its first process.
func processNamespace(g Gomega, clusterDir string) string {
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	g.Expect(err).NotTo(HaveOccurred())
	for _, path := range commands {
		command, _ := os.ReadFile(path) // the process may have ended
		if bytes.Contains(command, []byte(filepath.Join(clusterDir, "node", "inside.json"))) {
			namespace, err := os.Readlink(filepath.Join(filepath.Dir(path), "ns", "pid"))
			g.Expect(err).NotTo(HaveOccurred())
			return namespace
		}
	}
	g.Expect(commands).To(BeNil(), "the node's first process is not among them")
	return ""
}

// processesOf lists the processes of a cluster's node: those in its namespace, and those of containers. Containers have
// nested namespaces and are identified by their control groups.
func processesOf(g Gomega, clusterDir, namespace string) []string {
	processes, err := filepath.Glob("/proc/[0-9]*")
	g.Expect(err).NotTo(HaveOccurred())
	var found []string
	for _, process := range processes {
		of, _ := os.Readlink(filepath.Join(process, "ns", "pid"))
		groups, _ := os.ReadFile(filepath.Join(process, "cgroup"))
		if of == namespace || bytes.Contains(groups, []byte("/"+filepath.Base(clusterDir)+"/")) {
			found = append(found, process)
		}
	}
	return found
}

func controlGroups(g Gomega, clusterDir string) []string {
	roots, err := hierarchies()
	g.Expect(err).NotTo(HaveOccurred())
	var found []string
	for _, root := range roots {
		groups, err := filepath.Glob(filepath.Join(root, filepath.Base(clusterDir)))
		g.Expect(err).NotTo(HaveOccurred())
		found = append(found, groups...)
	}
	return found
}
