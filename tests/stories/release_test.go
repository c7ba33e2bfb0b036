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
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// The versions of the releases that the Makefile has made, from the same sources.
const (
	previousVersion = "v0.1.0"
	thisVersion     = "v0.2.0"
)

// altered is the tag of an artifact that somebody has changed. Nobody has signed it.
const altered = "altered"

// signer signs what is published; its public half is all that the cluster knows.
var signer *ecdsa.PrivateKey

func releaseDir(version, what string) string { return filepath.Join(bin, "stories", version, what) }

func artifactURL() string { return "oci://" + upon.registry + "/sluice-manifests" }

// publish pushes the artifacts of both releases, signed, and an altered one.
func publish(ctx context.Context) {
	GinkgoHelper()
	var err error
	signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	for _, version := range []string{previousVersion, thisVersion} {
		Expect(sign(ctx, push(ctx, version, releaseDir(version, "manifests")))).To(Succeed())
	}
	dir := GinkgoT().TempDir()
	Expect(os.CopyFS(dir, os.DirFS(releaseDir(thisVersion, "manifests")))).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, "default", "backdoor.yaml"), []byte("# not ours\n"), 0o600)).To(Succeed())
	push(ctx, altered, dir)
	public, err := x509.MarshalPKIXPublicKey(signer.Public())
	Expect(err).NotTo(HaveOccurred())
	apply(ctx, "{apiVersion: v1, kind: Secret, metadata: {name: sluice-signer, namespace: flux-system}, data: {cosign.pub: %s}}",
		base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})))
}

// push pushes a directory as Flux's users do, and returns the digest.
func push(ctx context.Context, tag, dir string) v1.Hash {
	GinkgoHelper()
	pushing := command(ctx, "flux", "push", "artifact", artifactURL()+":"+tag, "--path="+dir, "--source=stories", "--revision="+tag, "--insecure-registry", "--output=json")
	pushing.Env = append(pushing.Env, "HTTP_PROXY="+upon.proxy)
	var stderr bytes.Buffer
	pushing.Stderr = &stderr
	out, err := pushing.Output()
	Expect(err).NotTo(HaveOccurred(), stderr.String())
	var pushed struct{ Digest string }
	Expect(json.Unmarshal(out, &pushed)).To(Succeed())
	digest, err := v1.NewHash(pushed.Digest)
	Expect(err).NotTo(HaveOccurred())
	return digest
}

// sign gives an artifact a signature, in the format of cosign: https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md
func sign(ctx context.Context, artifact v1.Hash) error {
	repository := strings.TrimPrefix(artifactURL(), "oci://")
	payload := fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":%q},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`,
		repository, artifact)
	sum := sha256.Sum256(payload)
	signature, err := signer.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		return err
	}
	image, err := mutate.Append(empty.Image, mutate.Addendum{
		Layer:       static.NewLayer(payload, "application/vnd.dev.cosign.simplesigning.v1+json"),
		Annotations: map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(signature)},
	})
	if err != nil {
		return err
	}
	reference, err := name.ParseReference(repository + ":" + strings.ReplaceAll(artifact.String(), ":", "-") + ".sig")
	if err != nil {
		return err
	}
	return remote.Write(reference, image, remote.WithContext(ctx), remote.WithTransport(upon.transport))
}
