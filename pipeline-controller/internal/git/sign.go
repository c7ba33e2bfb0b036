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
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// leastRSA is the minimum size in bits of RSA keys that Git hosts and OpenSSH accept.
const leastRSA = 2048

// Signer signs commits. The zero value does not sign.
type Signer struct {
	// sign returns the armored signature of a commit that was created at that time.
	sign func(commit []byte, when time.Time) (string, error)
}

// signCommit adds the signature to a commit.
func (s Signer) signCommit(commit *object.Commit) error {
	if s.sign == nil {
		return nil
	}
	encoded := &plumbing.MemoryObject{}
	if err := commit.EncodeWithoutSignature(encoded); err != nil {
		return err
	}
	reader, err := encoded.Reader()
	if err != nil {
		return err
	}
	content, err := io.ReadAll(reader)
	if err != nil {
		return err
	}
	commit.PGPSignature, err = s.sign(content, commit.Committer.When)
	if err != nil {
		return fmt.Errorf("signing the commit: %w", err)
	}
	return nil
}

// NewOpenPGPSigner returns a signer with the first key that can sign in an armored key ring. The passphrase may be
// empty.
func NewOpenPGPSigner(armored, passphrase []byte) (Signer, error) {
	ring, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(armored))
	if err != nil {
		return Signer{}, fmt.Errorf("the OpenPGP key can't be read: %w", err)
	}
	for _, entity := range ring {
		if entity.PrivateKey == nil {
			continue
		}
		if err := entity.DecryptPrivateKeys(passphrase); err != nil {
			return Signer{}, errors.New("decrypting the OpenPGP key failed: check the passphrase")
		}
		return Signer{sign: func(commit []byte, when time.Time) (string, error) {
			// The same commit gets the same signature, and therefore the same hash. Keys do not sign commits from
			// before their creation.
			deterministic := false
			if made := entity.PrimaryKey.CreationTime; when.Before(made) {
				when = made
			}
			config := &packet.Config{Time: func() time.Time { return when }, NonDeterministicSignaturesViaNotation: &deterministic}
			var signature strings.Builder
			err := openpgp.ArmoredDetachSign(&signature, entity, bytes.NewReader(commit), config)
			return signature.String(), err
		}}, nil
	}
	return Signer{}, errors.New("the OpenPGP key ring has no private key")
}

// NewSSHSigner returns a signer with an SSH private key. The password may be empty.
func NewSSHSigner(identity, password []byte) (Signer, error) {
	parse := func() (ssh.Signer, error) { return ssh.ParsePrivateKey(identity) }
	if len(password) > 0 {
		parse = func() (ssh.Signer, error) { return ssh.ParsePrivateKeyWithPassphrase(identity, password) }
	}
	key, err := parse()
	if err != nil {
		return Signer{}, errors.New("reading the SSH key failed: check that it is a private key, and its password")
	}
	if public, ok := key.PublicKey().(ssh.CryptoPublicKey); ok {
		if weak, ok := public.CryptoPublicKey().(*rsa.PublicKey); ok && weak.N.BitLen() < leastRSA {
			return Signer{}, fmt.Errorf("the SSH key has %d bits: use RSA of %d bits at least, or ed25519", weak.N.BitLen(), leastRSA)
		}
	}
	return Signer{sign: func(commit []byte, _ time.Time) (string, error) {
		signature, err := sshsig.Sign(bytes.NewReader(commit), key, sshsig.HashSHA512, "git")
		if err != nil {
			return "", err
		}
		return string(sshsig.Armor(signature)), nil
	}}, nil
}
