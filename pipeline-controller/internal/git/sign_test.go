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

package git

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"io"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/hiddeco/sshsig"
	. "github.com/onsi/gomega"
	"golang.org/x/crypto/ssh"
)

// openPGPKey returns an armored private key, encrypted if there is a passphrase, and its armored public half.
func openPGPKey(t *testing.T, passphrase string) (private []byte, public string) {
	t.Helper()
	g := NewWithT(t)
	entity, err := openpgp.NewEntity("Sluice", "", "sluice@example.com", nil)
	g.Expect(err).NotTo(HaveOccurred())
	armored := func(kind string, serialize func(io.Writer) error) []byte {
		var out bytes.Buffer
		w, err := armor.Encode(&out, kind, nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(serialize(w)).To(Succeed())
		g.Expect(w.Close()).To(Succeed())
		return out.Bytes()
	}
	public = string(armored(openpgp.PublicKeyType, entity.Serialize))
	if passphrase != "" {
		g.Expect(entity.EncryptPrivateKeys([]byte(passphrase), nil)).To(Succeed())
	}
	return armored(openpgp.PrivateKeyType, func(w io.Writer) error { return entity.SerializePrivateWithoutSigning(w, nil) }), public
}

func sshKey(t *testing.T, key any, password string) []byte {
	t.Helper()
	var block *pem.Block
	var err error
	if password == "" {
		block, err = ssh.MarshalPrivateKey(key, "")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(password))
	}
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return pem.EncodeToMemory(block)
}

func TestCommitsAreSigned(t *testing.T) {
	s := newServer(t)
	s.newRepository(t, "fleet").commit("main", map[string]file{"a": {"100644", "x"}})
	// signed commits with a signer, twice, and returns the commit as it is stored.
	signed := func(t *testing.T, signer Signer) *object.Commit {
		t.Helper()
		g := NewWithT(t)
		checkout := checkOut(t, s.remote("fleet"), "main")
		change := map[string][]byte{"a": []byte("y")}
		hash, err := checkout.Commit(change, "m", robot, noon, signer)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(checkout.Commit(change, "m", robot, noon, signer)).To(Equal(hash), "the same commit gets the same signature")
		commit, err := object.GetCommit(checkout.written, plumbing.NewHash(hash))
		g.Expect(err).NotTo(HaveOccurred())
		return commit
	}

	t.Run("with an OpenPGP key", func(t *testing.T) {
		g := NewWithT(t)
		private, public := openPGPKey(t, "open sesame")
		signer, err := NewOpenPGPSigner(private, []byte("open sesame"))
		g.Expect(err).NotTo(HaveOccurred())
		_, err = signed(t, signer).Verify(public)
		g.Expect(err).NotTo(HaveOccurred())
	})
	t.Run("with an SSH key", func(t *testing.T) {
		g := NewWithT(t)
		public, private, err := ed25519.GenerateKey(rand.Reader)
		g.Expect(err).NotTo(HaveOccurred())
		signer, err := NewSSHSigner(sshKey(t, private, "open sesame"), []byte("open sesame"))
		g.Expect(err).NotTo(HaveOccurred())
		commit := signed(t, signer)

		signature, err := sshsig.Unarmor([]byte(commit.PGPSignature))
		g.Expect(err).NotTo(HaveOccurred())
		payload := &plumbing.MemoryObject{}
		g.Expect(commit.EncodeWithoutSignature(payload)).To(Succeed())
		reader, err := payload.Reader()
		g.Expect(err).NotTo(HaveOccurred())
		trusted, err := ssh.NewPublicKey(public)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(sshsig.Verify(reader, signature, trusted, signature.HashAlgorithm, "git")).To(Succeed())
	})
}

func TestKeysThatCannotSignAreRefusedWithoutRepeatingThem(t *testing.T) {
	locked, public := openPGPKey(t, "open sesame")
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	_, strong, err := ed25519.GenerateKey(rand.Reader)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())

	for _, test := range []struct {
		name          string
		new           func(key, password []byte) (Signer, error)
		key, password []byte
		message       string
	}{
		{"no OpenPGP key", NewOpenPGPSigner, []byte("s3cr3t"), nil, "can't be read"},
		{"an OpenPGP key without its private half", NewOpenPGPSigner, []byte(public), nil, "no private key"},
		{"a wrong passphrase", NewOpenPGPSigner, locked, []byte("s3cr3t"), "check the passphrase"},
		{"no SSH key", NewSSHSigner, []byte("s3cr3t"), nil, "reading the SSH key failed"},
		{"a wrong password", NewSSHSigner, sshKey(t, strong, "open sesame"), []byte("s3cr3t"), "and its password"},
		{"a missing password", NewSSHSigner, sshKey(t, strong, "open sesame"), nil, "and its password"},
		{"a weak RSA key", NewSSHSigner, sshKey(t, weak, ""), nil, "1024 bits"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := test.new(test.key, test.password)
			g.Expect(err).To(MatchError(ContainSubstring(test.message)))
			g.Expect(err.Error()).NotTo(ContainSubstring("s3cr3t"))
		})
	}
}
