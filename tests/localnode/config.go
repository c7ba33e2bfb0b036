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

package localnode

const (
	// nodeAddress is the node's own address. Pods have other addresses.
	nodeAddress = "10.244.1.1"

	// nameServer is the address of the DNS server for Pods.
	nameServer = "10.244.1.2"

	// pauseImage is the image of the container that holds a Pod's namespaces.
	pauseImage = "sluice.local/pause:1"
)

// containerdConfig has placeholders for containerd's socket, the pause image, and the directories of CNI plugins and
// their configuration. containerd 1.5 to 2 support this version of the format.
const containerdConfig = `version = 2

[grpc]
address = %q

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = %q
# Where containers are run in a container, nobody may make a process safer from running out of memory than its parent.
restrict_oom_score_adj = true
# Its profiles are the machine's, not a container's.
disable_apparmor = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = %q
conf_dir = %q
`

// networkConfig is the Pod network: a bridge that connects Pods and the node.
const networkConfig = `{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "pods",
      "isGateway": true,
      "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}
    }
  ]
}
`

// kubeletConfig has placeholders for kubelet's port, the CA of its clients, containerd's socket, the control group of
// Pods, the DNS server, and the configuration of DNS outside the cluster.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: %d
healthzPort: 0
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: false}
  x509: {clientCAFile: %q}
# Only kube-apiserver has a certificate.
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://%s
cgroupDriver: cgroupfs
cgroupRoot: /%s
# Both versions of control groups will do.
failCgroupV1: false
failSwapOn: false
clusterDNS: [%s]
clusterDomain: cluster.local
resolvConf: %q
makeIPTablesUtilChains: false
# However full the machine's disk is, nothing is evicted, and no image removed that can't be pulled again.
imageGCHighThresholdPercent: 100
evictionHard:
  memory.available: 0%%
  nodefs.available: 0%%
  nodefs.inodesFree: 0%%
  imagefs.available: 0%%
  imagefs.inodesFree: 0%%
`
