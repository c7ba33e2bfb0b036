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

package promote

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/scm"
)

// gitUser is the user name for tokens if the Secret has none.
const gitUser = "git"

// credentials are the content of a Secret for a Git host.
type credentials struct {
	// git is for Git. It is empty if app replaces it.
	git git.Credentials
	// token is for the API.
	token string
	// app replaces both.
	app      *scm.GitHubApp
	caBundle []byte
}

// readCredentials reads the Secret of a pull-request strategy. It is read for each use and never cached, so the
// controller needs no permission to list Secrets, and a corrected Secret takes effect immediately.
func readCredentials(ctx context.Context, reader client.Reader, name types.NamespacedName) (credentials, error) {
	var secret corev1.Secret
	if err := reader.Get(ctx, name, &secret); err != nil {
		return credentials{}, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	c := credentials{caBundle: secret.Data["ca.crt"]}
	if c.caBundle == nil {
		c.caBundle = secret.Data["caFile"]
	}
	if len(secret.Data["identity"]) > 0 {
		c.git.SSH = git.SSHKey{
			Identity: secret.Data["identity"], Passphrase: secret.Data["password"], KnownHosts: secret.Data["known_hosts"],
		}
	}
	var err error
	if c.app, err = scm.GitHubAppFromSecret(secret.Data); c.app != nil || err != nil {
		if err != nil {
			err = fmt.Errorf("Secret %s: %w", name, err)
		}
		return c, err
	}
	value := func(keys ...string) string {
		for _, key := range keys {
			if len(secret.Data[key]) > 0 {
				return strings.TrimRight(string(secret.Data[key]), "\r\n")
			}
		}
		return ""
	}
	if len(c.git.SSH.Identity) > 0 {
		c.token = value("token", "bearerToken")
		if c.token == "" {
			return credentials{}, fmt.Errorf("Secret %s has an 'identity' for Git, and no 'token' for the API of the Git host", name)
		}
		// For URLs that are not reached by SSH after all.
		c.git.Username, c.git.Password = gitUser, c.token
		return c, nil
	}
	// Git hosts accept an API token as the password for Git, and vice versa. Existing Secrets contain one or both.
	if c.token = value("token", "bearerToken", "password"); c.token == "" {
		return credentials{}, fmt.Errorf("Secret %s has neither 'token' nor 'password'", name)
	}
	c.git = git.Credentials{Username: value("username"), Password: value("password", "token"), BearerToken: value("bearerToken")}
	if c.git.Username == "" {
		c.git.Username = gitUser
	}
	return c, nil
}

// readSigner reads the key that signs commits. It returns nil if none is configured.
func readSigner(ctx context.Context, reader client.Reader, namespace string, commit *pipelinesv1.CommitSettings) (git.Signer, error) {
	if commit == nil || commit.SigningKey == nil {
		return git.Signer{}, nil
	}
	name := types.NamespacedName{Namespace: namespace, Name: commit.SigningKey.SecretRef.Name}
	var secret corev1.Secret
	if err := reader.Get(ctx, name, &secret); err != nil {
		return git.Signer{}, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	key, password, newSigner := "git.asc", "passphrase", git.NewOpenPGPSigner
	if commit.SigningKey.Type == pipelinesv1.SigningKeySSH {
		key, password, newSigner = "identity", "password", git.NewSSHSigner
	}
	if len(secret.Data[key]) == 0 {
		return git.Signer{}, fmt.Errorf("Secret %s has no '%s' to sign commits with", name, key)
	}
	signer, err := newSigner(secret.Data[key], secret.Data[password])
	if err != nil {
		return git.Signer{}, fmt.Errorf("Secret %s: %w", name, err)
	}
	return signer, nil
}
