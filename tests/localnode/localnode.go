//go:build linux

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

// Package localnode adds a node that runs Pods to a local cluster: the system's containerd, a kubelet and the
// scheduler. It needs root.
//
// The node has its own process, mount and network namespaces. Its first process is a child of the process that starts
// it. The kernel ends that process when its parent dies, and everything in the namespaces with it. The machine's
// interfaces, firewall, mounts and settings don't change. Outside the namespaces, only files in the cluster's directory
// and control groups are created. Stop removes both.
//
// Pods reach each other directly, by Services and by name. Outside the node, they reach only the API server and the
// services that are passed to Start, by name.
package localnode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-toolkit/sluice/tests/localcluster"
	"github.com/sluice-toolkit/sluice/tests/localnode/internal/inside"
)

// Name is the node's name. kube-apiserver uses it as the address of kubelet, where a relay listens.
const Name = "localhost"

// Node is a running node.
type Node struct {
	cluster *localcluster.Cluster
	process *localcluster.Process
	// dir holds the node's files. It is part of the cluster's directory and is removed with it.
	dir string
	// groups is the name of the parent control group of Pods.
	groups string
	relays []net.Listener
}

// Service is a service outside the node that Pods can call.
type Service struct {
	// Host is the name that Pods use, such as notification-controller.flux-system.svc.cluster.local.
	Host string
	// Port is the port that Pods use.
	Port int
	// Address is the host and port on which it listens on this machine.
	Address string
}

// Start adds a node to a cluster and returns it when it is ready for Pods. ctx limits the start only. The node runs
// until Stop.
func Start(ctx context.Context, cluster *localcluster.Cluster, services ...Service) (_ *Node, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a node can be run by root only")
	}
	n := &Node{cluster: cluster, dir: filepath.Join(cluster.Dir, "node"), groups: filepath.Base(cluster.Dir)}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Stop())
		}
	}()
	if err := os.MkdirAll(n.path("var"), 0o755); err != nil {
		return nil, err
	}
	if err := makeControlGroups(n.groups); err != nil {
		return nil, err
	}
	if err := n.startScheduler(ctx); err != nil {
		return nil, err
	}
	if err := n.startInside(ctx, services); err != nil {
		return nil, err
	}
	pause, err := cluster.Program("node/pause")
	if err != nil {
		return nil, err
	}
	return n, n.ImportProgram(ctx, pauseImage, pause, "/pause", "65535:65535")
}

// Stop ends the node and all its processes immediately. The API server still lists the node. Stop may be called again.
func (n *Node) Stop() error {
	var errs []error
	if n.process != nil {
		errs = append(errs, n.process.Kill())
	}
	for _, relay := range n.relays {
		if err := relay.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, removeControlGroups(n.groups))...)
}

// path returns the path of a file in the node's directory.
func (n *Node) path(name string) string { return filepath.Join(n.dir, name) }

func (n *Node) startScheduler(ctx context.Context) error {
	path, err := n.cluster.Program("kube-scheduler")
	if err != nil {
		return err
	}
	_, err = n.cluster.StartProgram(ctx, localcluster.ProgramProcess{Name: "kube-scheduler", Path: path, Args: []string{
		"--kubeconfig=" + n.cluster.Kubeconfig,
		"--authentication-kubeconfig=" + n.cluster.Kubeconfig,
		"--authorization-kubeconfig=" + n.cluster.Kubeconfig,
		"--secure-port=0",
		"--leader-elect=false",
	}})
	return err
}

// startInside starts the first process of the node's namespaces. That process starts all others.
func (n *Node) startInside(ctx context.Context, services []Service) error {
	path, err := n.cluster.Program("node/init")
	if err != nil {
		return err
	}
	config, err := n.configure(services)
	if err != nil {
		return err
	}
	written := n.path("inside.json")
	if err := config.Write(written); err != nil {
		return err
	}
	admin, err := client.New(n.cluster.Config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return err
	}
	n.process, err = n.cluster.StartProgram(ctx, localcluster.ProgramProcess{
		Name: "node",
		Path: path,
		Args: []string{written},
		Attributes: func(attributes *syscall.SysProcAttr) {
			attributes.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET
		},
		Ready: func(ctx context.Context) error { return isReady(ctx, admin) },
	})
	return err
}

func isReady(ctx context.Context, admin client.Client) error {
	node := &corev1.Node{}
	if err := admin.Get(ctx, client.ObjectKey{Name: Name}, node); err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("its conditions are %v", node.Status.Conditions)
}

// configure writes the configuration files, opens the outer ends of the relays, and returns the configuration of the
// inside.
func (n *Node) configure(services []Service) (inside.Config, error) {
	programs, err := n.programs()
	if err != nil {
		return inside.Config{}, err
	}
	config := inside.Config{
		Var:        n.path("var"),
		Addresses:  []string{nodeAddress, nameServer},
		NameServer: net.JoinHostPort(nameServer, "53"),
		Names:      inside.Names{},
		Programs:   programs,

		ServiceRange: localcluster.ServiceRange,
		Kubeconfig:   n.path("kubeconfig"),
	}
	address := netip.MustParseAddr(localcluster.ServiceAddress)
	services = append([]Service{{Port: 443, Address: strings.TrimPrefix(n.cluster.Config.Host, "https://")}}, services...)
	for _, service := range services {
		relay, err := n.relayOut(service, address)
		if err != nil {
			return inside.Config{}, err
		}
		config.Relays = append(config.Relays, relay)
		config.Addresses = append(config.Addresses, address.String())
		if service.Host != "" {
			config.Names[service.Host] = address
		}
		address = address.Next()
	}
	relay, port, err := n.relayIn()
	if err != nil {
		return inside.Config{}, err
	}
	config.Relays = append(config.Relays, relay)
	return config, errors.Join(n.writeContainerdConfig(), n.writeKubeconfig(), n.writeKubeletConfig(port))
}

// programs returns the programs that run inside the node.
func (n *Node) programs() ([]inside.Program, error) {
	kubelet, err := n.cluster.Program("kubelet")
	if err != nil {
		return nil, err
	}
	containerd, err := exec.LookPath("containerd")
	if err != nil {
		return nil, err
	}
	return []inside.Program{
		{Command: []string{containerd, "--config=" + n.path("containerd.toml")}, Socket: n.containerdSocket()},
		{Command: []string{kubelet, "--config=" + n.path("kubelet.yaml"), "--kubeconfig=" + n.path("kubeconfig"),
			"--hostname-override=" + Name, "--node-ip=" + nodeAddress}},
	}, nil
}

// relayOut relays connections from an address inside the node to a service outside.
func (n *Node) relayOut(service Service, address netip.Addr) (inside.RelayConfig, error) {
	socket := inside.Address{Network: "unix", Address: n.path(address.String() + ".sock")}
	listener, err := socket.Listen()
	if err != nil {
		return inside.RelayConfig{}, err
	}
	n.relays = append(n.relays, listener)
	go inside.Relay(listener, inside.Address{Network: "tcp", Address: service.Address})
	return inside.RelayConfig{
		From: inside.Address{Network: "tcp", Address: netip.AddrPortFrom(address, uint16(service.Port)).String()},
		To:   socket,
	}, nil
}

// relayIn relays connections from the outside to kubelet, for logs and exec. The port is the same on both sides.
func (n *Node) relayIn() (_ inside.RelayConfig, port int, err error) {
	socket := inside.Address{Network: "unix", Address: n.path("kubelet.sock")}
	listener, err := inside.Address{Network: "tcp", Address: "127.0.0.1:0"}.Listen()
	if err != nil {
		return inside.RelayConfig{}, 0, err
	}
	n.relays = append(n.relays, listener)
	go inside.Relay(listener, socket)
	return inside.RelayConfig{
		From: socket,
		To:   inside.Address{Network: "tcp", Address: listener.Addr().String()},
	}, listener.Addr().(*net.TCPAddr).Port, nil
}

// writeKubeconfig writes the kubeconfig for kubelet: that of the administrator, with the API server's address on the
// inside.
func (n *Node) writeKubeconfig() error {
	config := clientcmdapi.NewConfig()
	config.Clusters[Name] = &clientcmdapi.Cluster{
		Server:                   "https://" + localcluster.ServiceAddress,
		CertificateAuthorityData: n.cluster.Config.CAData,
	}
	config.AuthInfos[Name] = &clientcmdapi.AuthInfo{Token: n.cluster.Config.BearerToken}
	config.Contexts[Name] = &clientcmdapi.Context{Cluster: Name, AuthInfo: Name}
	config.CurrentContext = Name
	return clientcmd.WriteToFile(*config, n.path("kubeconfig"))
}

func (n *Node) containerdSocket() string { return n.path("containerd.sock") }

func (n *Node) writeContainerdConfig() error {
	plugins, err := findCNIPlugins()
	if err != nil {
		return err
	}
	network := n.path("network")
	if err := os.Mkdir(network, 0o755); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(n.path("containerd.toml"), fmt.Appendf(nil, containerdConfig, n.containerdSocket(), pauseImage, plugins, network), 0o600),
		os.WriteFile(filepath.Join(network, "pods.conflist"), []byte(networkConfig), 0o600),
	)
}

// findCNIPlugins returns the directory of the CNI plugins.
func findCNIPlugins() (string, error) {
	for _, dir := range []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"} {
		_, err := os.Stat(filepath.Join(dir, "bridge"))
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", errors.New("found no CNI plugins: run `hack/build.sh node`")
}

func (n *Node) writeKubeletConfig(port int) error {
	return errors.Join(
		os.WriteFile(n.path("resolv.conf"), nil, 0o600), // no DNS outside the cluster
		os.WriteFile(n.path("kubelet.yaml"), fmt.Appendf(nil, kubeletConfig,
			port, n.cluster.KubeletClientCA(), n.containerdSocket(), n.groups, nameServer, n.path("resolv.conf")), 0o600),
	)
}
