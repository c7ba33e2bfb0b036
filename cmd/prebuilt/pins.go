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
package main

import (
	"fmt"
	"strings"
)

// pin is something to download.
type pin struct {
	// from is the URL of a file, or of an archive if its name ends in .tar.gz; or the reference of an image, with a
	// digest.
	from string
	// sum is the checksum of a file or an archive: its algorithm, sha256 or sha512, and hexadecimal digits. An image
	// has none: its reference says it all.
	sum string
	// architecture chooses among the platforms of an image, which is for Linux.
	architecture string
	// binaries are the paths in the archive or the image, by the name that each gets. A file has an empty path.
	binaries map[string]string
}

// paths returns the names of the binaries by their paths.
func (p pin) paths() map[string]string {
	paths := map[string]string{}
	for name, path := range p.binaries {
		paths[path] = name
	}
	return paths
}

// isImage reports whether the pin is an image of a registry.
func (p pin) isImage() bool { return strings.Contains(p.from, "@sha256:") }

const (
	envtest = "1.36.2"
	gitea   = "1.26.4"
)

// envtestSums are from envtest-releases.yaml of kubernetes-sigs/controller-tools, by platform.
var envtestSums = map[string]string{
	"linux/amd64": "sha512:ea743186c8a799f5cf8faf16969f86189d003cb7d130e0ac4b58789f1e5748dcf30ebe91c837a10d5ac415383da3e10b9e64d65785c938c23e739781cfb76f08",
}

// giteaSums are the checksums of the binaries, by platform. dl.gitea.com has each in a file that ends in .sha256.
var giteaSums = map[string]string{
	"linux/amd64": "sha256:0faa36d151918f8f7d6e0f3ae67597d1c338583d695add146ac393109d0fc44a",
}

// images hold a binary each. envtest has no kube-controller-manager, so it is of the same version of Kubernetes.
var images = map[string]string{
	"kube-controller-manager": "registry.k8s.io/kube-controller-manager:v" + envtest + "@sha256:b3add29a00c3c4763c75a09ec94915e3d0d590b93b3850a97d52970fbd2b2c12",
	"source-controller":       "ghcr.io/fluxcd/source-controller:v1.9.5@sha256:6f20d232d596a758c923d2861f23511718fc303b8a2e36a1434a7c736b9f4268",
	"kustomize-controller":    "ghcr.io/fluxcd/kustomize-controller:v1.9.5@sha256:a3a955eb2bc432c2eaa94d2d3714e3beae7fdf17586fd23aadf71ab597ac3339",
	"helm-controller":         "ghcr.io/fluxcd/helm-controller:v1.6.4@sha256:8ff15409e46d354338045f483d58ca9cb35dffa2f87e4addd1f5eba1e6a9175f",
	"notification-controller": "ghcr.io/fluxcd/notification-controller:v1.9.3@sha256:071c351a0fb163eeb6a2bb82f1e894f51b6b0734216d2e97d3d99c9ab9d710b9",
}

// pinsFor returns what a platform needs. It is an error if not all of it is pinned.
func pinsFor(system, architecture string) ([]pin, error) {
	platform := system + "/" + architecture
	if envtestSums[platform] == "" || giteaSums[platform] == "" {
		return nil, fmt.Errorf("no prebuilt binaries are pinned for %s", platform)
	}
	pins := []pin{{
		from: fmt.Sprintf("https://github.com/kubernetes-sigs/controller-tools/releases/download/envtest-v%[1]s/envtest-v%[1]s-%[2]s-%[3]s.tar.gz",
			envtest, system, architecture),
		sum: envtestSums[platform],
		binaries: map[string]string{
			"etcd": "controller-tools/envtest/etcd", "kube-apiserver": "controller-tools/envtest/kube-apiserver", "kubectl": "controller-tools/envtest/kubectl",
		},
	}, {
		from:     fmt.Sprintf("https://dl.gitea.com/gitea/%[1]s/gitea-%[1]s-%[2]s-%[3]s", gitea, system, architecture),
		sum:      giteaSums[platform],
		binaries: map[string]string{"gitea": ""},
	}}
	for name, image := range images {
		pins = append(pins, pin{from: image, architecture: architecture, binaries: map[string]string{name: "usr/local/bin/" + name}})
	}
	return pins, nil
}
