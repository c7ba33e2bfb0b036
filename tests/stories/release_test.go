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

package stories

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/tests/cosign"
)

// The versions of the releases that the Makefile has made, from the same sources.
const (
	previousVersion = "v0.1.0"
	thisVersion     = "v0.2.0"
)

// altered is the tag of an artifact that was changed and not signed.
const altered = "altered"

func releaseDir(version, what string) string { return filepath.Join(bin, "stories", version, what) }

func artifactURL() string { return "oci://" + upon.registry + "/sluice-manifests" }

// publish pushes the artifacts of both releases, signed, and an altered one.
func publish(ctx context.Context) {
	GinkgoHelper()
	// The cluster knows only its public half.
	signer, err := cosign.NewKey()
	Expect(err).NotTo(HaveOccurred())
	for _, version := range []string{previousVersion, thisVersion} {
		digest := push(ctx, version, releaseDir(version, "manifests"))
		Expect(signer.Sign(ctx, strings.TrimPrefix(artifactURL(), "oci://")+"@"+digest, remote.WithTransport(upon.transport))).To(Succeed())
	}
	dir := GinkgoT().TempDir()
	Expect(os.CopyFS(dir, os.DirFS(releaseDir(thisVersion, "manifests")))).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, "default", "backdoor.yaml"), []byte("# not ours\n"), 0o600)).To(Succeed())
	push(ctx, altered, dir)
	public, err := signer.Public()
	Expect(err).NotTo(HaveOccurred())
	apply(ctx, "{apiVersion: v1, kind: Secret, metadata: {name: sluice-signer, namespace: flux-system}, data: {cosign.pub: %s}}",
		base64.StdEncoding.EncodeToString(public))
}

// push pushes a directory as Flux's users do, and returns the digest.
func push(ctx context.Context, tag, dir string) string {
	GinkgoHelper()
	pushing := command(ctx, "flux", "push", "artifact", artifactURL()+":"+tag, "--path="+dir, "--source=stories", "--revision="+tag, "--insecure-registry", "--output=json")
	pushing.Env = append(pushing.Env, "HTTP_PROXY="+upon.proxy)
	var stderr bytes.Buffer
	pushing.Stderr = &stderr
	out, err := pushing.Output()
	Expect(err).NotTo(HaveOccurred(), stderr.String())
	var pushed struct{ Digest string }
	Expect(json.Unmarshal(out, &pushed)).To(Succeed())
	return pushed.Digest
}
