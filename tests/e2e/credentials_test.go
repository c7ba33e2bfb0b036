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

package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/githost"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

// secrets contains what must not be visible anywhere, with the parts that identify each.
type secrets struct {
	mu sync.Mutex
	// spelled returns the encodings of a secret or of a part of it.
	spelled []string
}

// value returns a secret with characters that are encoded differently in URLs, JSON and headers. All encodings contain
// its core.
func (s *secrets) value(name string) string {
	core := "Kx7q" + name + "W9zt"
	s.add(core)
	return `p4ss+/ "` + core + `&=%`
}

// token returns a secret with characters that every header accepts.
func (s *secrets) token(name string) string {
	core := "Kx7q" + name + "W9zt"
	s.add(core)
	return "tok_" + core + "+/="
}

func (s *secrets) add(core string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spelled = append(s.spelled, core, hex.EncodeToString([]byte(core)))
	// Its base64 encoding depends on what comes before, so the first and last characters differ.
	for before := range 3 {
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + core))
		s.spelled = append(s.spelled, encoded[4:len(encoded)-4])
	}
}

// addPEM adds each line of a key, except the one that all SSH keys share.
func (s *secrets) addPEM(key []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(string(key)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") && !strings.HasPrefix(line, "b3BlbnNzaC1rZXkt") && len(line) > 30 {
			s.spelled = append(s.spelled, line[:30])
		}
	}
}

// addSent adds what a host received, in the form that the controller sent.
func (s *secrets) addSent(header string) {
	if _, value, _ := strings.Cut(header, " "); len(value) > 20 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.spelled = append(s.spelled, value[len(value)-20:])
	}
}

// in returns the secrets that are in a text.
func (s *secrets) in(text string) (found []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, spelled := range s.spelled {
		if at := strings.Index(text, spelled); at >= 0 {
			found = append(found, fmt.Sprintf("%s in: %s", spelled, text[max(0, at-200):min(len(text), at+200)]))
		}
	}
	return found
}

// repeat writes everything that a request contained to the parts of a response that errors quote.
func (s *secrets) repeat(w http.ResponseWriter, r *http.Request, status int) {
	authorization := r.Header.Get("Authorization")
	s.addSent(authorization)
	user, password, _ := r.BasicAuth()
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	text := fmt.Sprintf("refused %s (%s) (%s:%s) %s %s", authorization, strings.TrimPrefix(authorization, "Bearer "), user, password, r.Header.Get("Private-Token"), body)
	if status/100 == 3 {
		w.Header().Set("Location", "https://user:"+password+"@127.0.0.1:1/?token="+strings.ReplaceAll(authorization, " ", "+"))
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="`+strconv.Quote(text)+`"`)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"message": text, "error": text, "typeKey": text, "errors": []map[string]string{{"message": text}}})
}

var _ = Describe("No credential", Ordered, ContinueOnFailure, func() {
	const process = "pipeline-controller-trace"
	var (
		known      = &secrets{}
		repeater   *httptest.Server
		controller *localcluster.Process
		sshKey     []byte
		appKey     []byte
	)
	repeatsStatus := regexp.MustCompile(`repeats-(\d{3})`)
	// repository is a working one on the fake of GitHub.
	repository := func(name string) string {
		GinkgoHelper()
		Expect(github.AddRepository(owner, name)).To(Succeed())
		_, err := github.CommitFiles(owner, name, "main", map[string]string{
			"app.yaml": fmt.Sprintf("tag: v1.0.0 # {\"$promotion\": \"flux-system:%s:two:tag\"}\n", name)}, "Begin")
		Expect(err).NotTo(HaveOccurred())
		return github.RepositoryURL(owner, name)
	}
	makeSecret := func(ctx context.Context, name string, data map[string]string) {
		GinkgoHelper()
		secret := &corev1.Secret{StringData: data}
		secret.Namespace, secret.Name = flux, name
		Expect(world.Client.Create(ctx, secret)).To(Succeed())
	}
	authority := func(server *httptest.Server) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	}

	BeforeAll(func(ctx SpecContext) {
		// It repeats every request in its response, with the status in the repository's name. One of them gives an App
		// its token.
		repeater = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status := http.StatusUnauthorized
			if found := repeatsStatus.FindStringSubmatch(r.URL.Path); found != nil {
				status, _ = strconv.Atoi(found[1])
			}
			if strings.HasSuffix(r.URL.Path, "/installations/7/access_tokens") {
				known.addSent(r.Header.Get("Authorization"))
				w.WriteHeader(http.StatusCreated)
				fmt.Fprintf(w, `{"token":%q,"expires_at":%q}`, known.token("installation"), time.Now().Add(time.Hour).Format(time.RFC3339))
				return
			}
			known.repeat(w, r, status)
		}))
		repeater.Config.ErrorLog = log.New(io.Discard, "", 0)
		repeater.StartTLS()
		DeferCleanup(repeater.Close)

		_, private, err := ed25519.GenerateKey(rand.Reader)
		Expect(err).NotTo(HaveOccurred())
		block, err := ssh.MarshalPrivateKey(private, "")
		Expect(err).NotTo(HaveOccurred())
		sshKey = pem.EncodeToMemory(block)
		known.addPEM(sshKey)
		rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
		Expect(err).NotTo(HaveOccurred())
		appKey = pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey)})
		known.addPEM(appKey)

		_, err = world.Git.CreateRepository("discreet")
		Expect(err).NotTo(HaveOccurred())
		for namespace, version := range map[string]string{"discreet-one": "v2.0.0", "discreet-two": "v1.0.0"} {
			Expect(world.Release("discreet", version)).To(Succeed())
			deploy(ctx, "discreet", namespace, version)
		}

		Expect(world.PipelineController.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(world.PipelineController.Start(ctx)).To(Succeed()) })
		controller, err = world.Cluster.StartController(ctx, localcluster.ControllerProcess{
			Name: process, Binary: "pipeline-controller", ServiceAccount: "pipeline-controller",
			Args: []string{"--log-level=trace", "--events-addr=" + world.Cluster.EventsAddr, "--approval-addr=127.0.0.1:0"},
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() error { return controller.Stop() })
	})

	// Otherwise, the Pipelines would fail forever, and their finalizers too.
	AfterAll(func(ctx SpecContext) {
		Expect(controller.Stop()).To(Succeed())
		var pipelines pipelinesv1.PipelineList
		Expect(world.Client.List(ctx, &pipelines, client.InNamespace(flux))).To(Succeed())
		for i := range pipelines.Items {
			if pipeline := &pipelines.Items[i]; strings.HasPrefix(pipeline.Name, "discreet-") {
				Expect(world.Client.Patch(ctx, pipeline, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
				Expect(world.Client.Delete(ctx, pipeline)).To(Succeed())
			}
		}
	})

	// promote creates a Pipeline whose promotion is due immediately.
	promote := func(ctx context.Context, name, strategy string) {
		GinkgoHelper()
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %[1]s, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: discreet}
  environments:
  - {name: one, targets: [{namespace: discreet-one}]}
  - {name: two, targets: [{namespace: discreet-two}]}
  promotion: {strategy: {%[2]s}}
`, name, strategy)
	}
	pullRequest := func(name, kind, address, more string) string {
		return fmt.Sprintf(`pull-request: {type: %s, url: %q, baseBranch: main, secretRef: {name: %s}%s}`, kind, address, name, more)
	}
	// fails waits until an attempt has failed.
	fails := func(ctx context.Context, name, because string) {
		GinkgoHelper()
		Eventually(ctx, record(name, "two")).Should(And(haveState("failed"), HaveField("LastError", ContainSubstring(because))))
	}
	// expectUnseenByProcesses checks the arguments and environments of all processes.
	expectUnseenByProcesses := func() {
		GinkgoHelper()
		for _, pattern := range []string{"/proc/[0-9]*/cmdline", "/proc/[0-9]*/environ"} {
			files, err := filepath.Glob(pattern)
			Expect(err).NotTo(HaveOccurred())
			for _, file := range files {
				// The process may have ended, or belong to another user.
				if content, err := os.ReadFile(file); err == nil {
					Expect(known.in(string(content))).To(BeEmpty(), file)
				}
			}
		}
	}

	DescribeTable("is exposed when a promotion fails", func(ctx SpecContext, name, because string, strategy func(ctx context.Context, name string) string) {
		promote(ctx, name, strategy(ctx, name))
		fails(ctx, name, because)
		expectUnseenByProcesses()
	},
		Entry("with a wrong token", "discreet-wrong", "unauthorized", func(ctx context.Context, name string) string {
			makeSecret(ctx, name, map[string]string{"token": known.token("wrong"), "ca.crt": string(github.CA())})
			return pullRequest(name, "github", repository(name), "")
		}),
		Entry("at a host that can't be reached", "discreet-cut", "discreet-cut", func(ctx context.Context, name string) string {
			makeSecret(ctx, name, map[string]string{"username": "u", "password": known.value("cut"), "ca.crt": string(github.CA())})
			github.FailNext("", name, githost.Always, githost.CutBefore())
			return pullRequest(name, "github", repository(name), "")
		}),
		Entry("at an address where nobody is", "discreet-nobody", "refused", func(ctx context.Context, name string) string {
			makeSecret(ctx, name, map[string]string{"token": known.token("nobody")})
			return pullRequest(name, "gitea", "https://127.0.0.1:1/acme/fleet", "")
		}),
		Entry("because of the base branch", "discreet-base", "branch", func(ctx context.Context, name string) string {
			github.AddToken(githost.Token{Value: known.token("base"), Login: "sluice-bot"})
			makeSecret(ctx, name, map[string]string{"token": known.token("base"), "ca.crt": string(github.CA())})
			Expect(github.AddRepository(owner, name)).To(Succeed())
			return pullRequest(name, "github", github.RepositoryURL(owner, name), "")
		}),
		Entry("because of an unknown certificate authority", "discreet-authority", "certificate", func(ctx context.Context, name string) string {
			makeSecret(ctx, name, map[string]string{"token": known.token("authority")})
			return pullRequest(name, "github", repository(name), "")
		}),
		Entry("because of a bundle of authorities that is none", "discreet-bundle", "CA bundle", func(ctx context.Context, name string) string {
			makeSecret(ctx, name, map[string]string{"token": known.token("bundle"), "ca.crt": known.value("bundle2")})
			return pullRequest(name, "github", repository(name), "")
		}),
		Entry("with a user and password in the URL", "discreet-url", "unauthorized", func(ctx context.Context, name string) string {
			makeSecret(ctx, name, map[string]string{"token": known.token("besides"), "ca.crt": string(github.CA())})
			return pullRequest(name, "github", strings.Replace(repository(name), "https://", "https://"+url.UserPassword("user", known.token("url")).String()+"@", 1), "")
		}),
		Entry("with a user and password in a URL that is none", "discreet-nourl", "URL", func(ctx context.Context, name string) string {
			makeSecret(ctx, name, map[string]string{"token": known.token("nourl")})
			return pullRequest(name, "github", "https://user:"+known.token("nourl2")+"@host:port/acme/fleet%zz", "")
		}),
		Entry("with a token in the query of the URL", "discreet-query", "refused", func(ctx context.Context, name string) string {
			makeSecret(ctx, name, map[string]string{"token": known.token("query")})
			return pullRequest(name, "github", "https://127.0.0.1:1/acme/fleet?token="+known.token("query2"), "")
		}),
		Entry("because the clone is cut off", "discreet-clone", "cloning", func(ctx context.Context, name string) string {
			github.AddToken(githost.Token{Value: known.token("clone"), Login: "sluice-bot"})
			makeSecret(ctx, name, map[string]string{"token": known.token("clone"), "ca.crt": string(github.CA())})
			github.FailNext("POST", name+".git/git-upload-pack", githost.Always, githost.CutBefore())
			return pullRequest(name, "github", repository(name), "")
		}),
		Entry("because the host refuses the clone, and repeats what it was sent", "discreet-refused", "discreet-refused", func(ctx context.Context, name string) string {
			github.AddToken(githost.Token{Value: known.token("refused"), Login: "sluice-bot"})
			makeSecret(ctx, name, map[string]string{"username": "u", "password": known.value("refused2"), "token": known.token("refused"), "ca.crt": string(github.CA())})
			github.FailNext("", name+".git/info/refs", githost.Always, func(w http.ResponseWriter, r *http.Request, _ http.Handler) { known.repeat(w, r, http.StatusTeapot) })
			return pullRequest(name, "github", repository(name), "")
		}),
		Entry("because the host refuses the push", "discreet-readonly", "unauthorized", func(ctx context.Context, name string) string {
			github.AddToken(githost.Token{Value: known.token("readonly"), Login: "sluice-bot", Access: githost.ReadAccess})
			makeSecret(ctx, name, map[string]string{"token": known.token("readonly"), "ca.crt": string(github.CA())})
			return pullRequest(name, "github", repository(name), "")
		}),
		Entry("because of a rate limit", "discreet-limit", "rate limited", func(ctx context.Context, name string) string {
			github.AddToken(githost.Token{Value: known.token("limit"), Login: "sluice-bot"})
			github.SetRateLimit(known.token("limit"), 0, time.Now().Add(time.Hour))
			makeSecret(ctx, name, map[string]string{"token": known.token("limit"), "ca.crt": string(github.CA())})
			return pullRequest(name, "github", repository(name), "")
		}),
		Entry("because of an OpenPGP key that is none", "discreet-gpg", "OpenPGP", func(ctx context.Context, name string) string {
			github.AddToken(githost.Token{Value: known.token("gpg"), Login: "sluice-bot"})
			makeSecret(ctx, name, map[string]string{"token": known.token("gpg"), "ca.crt": string(github.CA()),
				"git.asc": "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n" + known.token("gpg2") + "\n-----END PGP PRIVATE KEY BLOCK-----\n", "passphrase": known.value("gpg3")})
			return pullRequest(name, "github", repository(name), ", commit: {signingKey: {secretRef: {name: discreet-gpg}}}")
		}),
		Entry("because of the password of an SSH key", "discreet-ssh", "SSH key", func(ctx context.Context, name string) string {
			github.AddToken(githost.Token{Value: known.token("ssh"), Login: "sluice-bot"})
			makeSecret(ctx, name, map[string]string{"token": known.token("ssh"), "ca.crt": string(github.CA())})
			makeSecret(ctx, name+"-key", map[string]string{"identity": string(sshKey)[:60] + known.token("ssh2") + string(sshKey)[60:], "password": known.value("ssh3")})
			return pullRequest(name, "github", repository(name), ", commit: {signingKey: {type: ssh, secretRef: {name: discreet-ssh-key}}}")
		}),
		Entry("at a host of SSH where nobody is", "discreet-git-ssh", "discreet-git-ssh", func(ctx context.Context, name string) string {
			makeSecret(ctx, name, map[string]string{"identity": string(sshKey), "known_hosts": "127.0.0.1 " + known.token("hosts"), "token": known.token("gitssh"), "ca.crt": string(github.CA())})
			return pullRequest(name, "github", "ssh://git@127.0.0.1:1/acme/"+name, "")
		}),
		Entry("with a key of a GitHub App that is none", "discreet-app", "RSA", func(ctx context.Context, name string) string {
			makeSecret(ctx, name, map[string]string{"githubAppID": "1", "githubAppInstallationID": "2", "githubAppPrivateKey": known.value("app"), "ca.crt": authority(repeater)})
			return pullRequest(name, "github", repeater.URL+"/acme/repeats-401", "")
		}),
		Entry("with a GitHub App that is refused", "discreet-app-refused", "", func(ctx context.Context, name string) string {
			makeSecret(ctx, name, map[string]string{"githubAppID": "1", "githubAppInstallationID": "2", "githubAppPrivateKey": string(appKey), "ca.crt": authority(repeater)})
			return pullRequest(name, "github", repeater.URL+"/acme/repeats-401", "")
		}),
		Entry("with a GitHub App's token that is refused", "discreet-app-token", "", func(ctx context.Context, name string) string {
			makeSecret(ctx, name, map[string]string{"githubAppID": "1", "githubAppInstallationID": "7", "githubAppPrivateKey": string(appKey), "ca.crt": authority(repeater)})
			return pullRequest(name, "github", repeater.URL+"/acme/repeats-500", "")
		}),
	)

	for _, kind := range []string{"github", "gitlab", "gitea", "bitbucket-server", "azure-devops"} {
		for _, status := range []int{302, 400, 401, 403, 404, 422, 429, 500} {
			It(fmt.Sprintf("is exposed when a host of type %s responds with %d and repeats what it was sent", kind, status), func(ctx SpecContext) {
				name := fmt.Sprintf("discreet-%s-%d", kind, status)
				core := fmt.Sprintf("%sx%d", strings.ReplaceAll(kind, "-", ""), status)
				makeSecret(ctx, name, map[string]string{"username": "u", "password": known.value(core), "token": known.token(core + "t"), "ca.crt": authority(repeater)})
				path := fmt.Sprintf("/acme/repeats-%d", status)
				switch kind {
				case "azure-devops":
					path = fmt.Sprintf("/acme/fleet/_git/repeats-%d", status)
				case "bitbucket-server":
					path = fmt.Sprintf("/scm/acme/repeats-%d.git", status)
				}
				promote(ctx, name, pullRequest(name, kind, repeater.URL+path, ""))
				fails(ctx, name, "")
			})
		}
	}

	DescribeTable("is exposed when a leaf cluster can't be read", func(ctx SpecContext, name, cluster, user string) {
		name = "discreet-leaf-" + name
		quoted := func(text string) string {
			return strings.ReplaceAll(strings.ReplaceAll(text, "REPEATER", repeater.URL), "NAME", strings.ReplaceAll(name, "-", ""))
		}
		kubeconfig := fmt.Sprintf("{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {certificate-authority-data: %s, %s}}], users: [{name: u, user: {%s}}], contexts: [{name: x, context: {cluster: c, user: u}}], current-context: x}",
			base64.StdEncoding.EncodeToString([]byte(authority(repeater))), quoted(cluster), quoted(user))
		known.token(strings.ReplaceAll(name, "-", ""))
		makeSecret(ctx, name, map[string]string{"value": kubeconfig})
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %[1]s, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: discreet}
  environments:
  - {name: one, targets: [{namespace: discreet-one}]}
  - {name: two, targets: [{namespace: discreet-two, clusterRef: {kind: Secret, name: %[1]s}}]}
  promotion: {strategy: {notification: {}}}
`, name)
		Eventually(ctx, ready(name)).Should(HaveField("Reason", "TargetNotReadable"))
		Eventually(ctx, field(object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name), "status", "environments", "two", "targets")).Should(
			ContainElement(HaveKeyWithValue("error", Not(ContainSubstring("connecting")))))
	},
		Entry("whose kubeconfig is none", "none", "server: [", "token: tok_Kx7qNAMEW9zt"),
		Entry("that refuses its token, and repeats it", "token-401", "server: REPEATER/repeats-401", "token: tok_Kx7qNAMEW9zt"),
		Entry("that forbids what is asked, and repeats it", "token-403", "server: REPEATER/repeats-403", "token: tok_Kx7qNAMEW9zt"),
		Entry("that fails, and repeats what it is asked", "token-500", "server: REPEATER/repeats-500", "token: tok_Kx7qNAMEW9zt"),
		Entry("that leads elsewhere, with what it was asked", "token-302", "server: REPEATER/repeats-302", "token: tok_Kx7qNAMEW9zt"),
		Entry("that refuses a password, and repeats it", "password", "server: REPEATER/repeats-401", "username: u, password: tok_Kx7qNAMEW9zt"),
		Entry("where nobody is", "nobody", "server: 'https://127.0.0.1:1'", "token: tok_Kx7qNAMEW9zt"),
		Entry("whose address has a password", "address", "server: 'https://u:tok_Kx7qNAMEW9zt@127.0.0.1:1'", "token: other"),
		Entry("whose address is none, and has a password", "noaddress", "server: 'https://u:tok_Kx7qNAMEW9zt@host:port'", "token: other"),
		Entry("behind a proxy that wants a password", "proxy", "server: 'https://127.0.0.1:1', proxy-url: 'http://u:tok_Kx7qNAMEW9zt@127.0.0.1:1'", "token: other"),
		Entry("whose kubeconfig would run a program", "exec", "server: 'https://127.0.0.1:1'", "exec: {apiVersion: client.authentication.k8s.io/v1, command: cat, args: [tok_Kx7qNAMEW9zt], interactiveMode: Never}"),
		Entry("whose client key is none", "key", "server: 'https://127.0.0.1:1'", "client-certificate-data: S3g3cU5BTUVXOXp0, client-key-data: S3g3cU5BTUVXOXp0, token: tok_Kx7qNAMEW9zt"),
	)

	It("is exposed when a promotion succeeds", func(ctx SpecContext) {
		const name = "discreet-well"
		github.AddToken(githost.Token{Value: known.token("well"), Login: "sluice-bot"})
		makeSecret(ctx, name, map[string]string{"token": known.token("well"), "ca.crt": string(github.CA()), "webhook-secret": known.value("webhook")})
		makeSecret(ctx, name+"-key", map[string]string{"identity": string(sshKey), "hmac-key": known.value("hmac")})
		promote(ctx, name, pullRequest(name, "github", repository(name), ", commit: {signingKey: {type: ssh, secretRef: {name: discreet-well-key}}}")+", secretRef: {name: discreet-well-key}")
		Eventually(ctx, record(name, "two")).Should(haveState("created"))

		By("sending it webhooks and approvals")
		var address string
		Eventually(func() []string {
			text, err := logOf(process)
			Expect(err).NotTo(HaveOccurred())
			found := servingApprovals.FindStringSubmatch(text)
			if len(found) > 1 {
				address = found[1]
			}
			return found
		}).ShouldNot(BeEmpty())
		post := func(path, body string, header map[string]string) int {
			GinkgoHelper()
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+path, strings.NewReader(body))
			Expect(err).NotTo(HaveOccurred())
			for key, value := range header {
				request.Header.Set(key, value)
			}
			response, err := http.DefaultClient.Do(request)
			Expect(err).NotTo(HaveOccurred())
			Expect(response.Body.Close()).To(Succeed())
			return response.StatusCode
		}
		sign := func(key, text string) string {
			mac := hmac.New(sha256.New, []byte(key))
			mac.Write([]byte(text))
			sum := hex.EncodeToString(mac.Sum(nil))
			known.mu.Lock()
			defer known.mu.Unlock()
			known.spelled = append(known.spelled, sum)
			return sum
		}
		Expect(post("/webhook/flux-system/"+name, "{}", map[string]string{"X-Gitlab-Token": known.value("guess")})).To(Equal(http.StatusUnauthorized))
		Expect(post("/webhook/flux-system/"+name, "{}", map[string]string{"X-Hub-Signature-256": "sha256=" + sign(known.value("webhook"), "{}")})).To(BeNumerically("<", 300))
		target := "/approval/flux-system/" + name + "/two/v9.9.9"
		now := strconv.FormatInt(time.Now().Unix(), 10)
		right := sign(known.value("hmac"), "sluice-approval-v1\nPOST\n"+target+"\n"+now+"\n")
		Expect(post(target, "", map[string]string{"X-Sluice-Timestamp": now, "X-Signature": "sha256=" + strings.Repeat("0", 64)})).To(Equal(http.StatusUnauthorized))
		Expect(post(target, "", map[string]string{"X-Sluice-Timestamp": now, "X-Signature": "sha256=" + right})).To(Equal(http.StatusUnprocessableEntity))
		expectUnseenByProcesses()
	})

	// This is the last spec: it checks what all others have left.
	It("is in any log, event, status, metric or pull request", func(ctx SpecContext) {
		pulls, err := github.PullRequests(owner, "discreet-well")
		Expect(err).NotTo(HaveOccurred())
		Expect(pulls).To(HaveLen(1))
		texts := map[string]string{"pull requests": fmt.Sprintf("%+v", pulls), "metrics": metrics(ctx, controller)}

		var pipelines pipelinesv1.PipelineList
		Expect(world.Client.List(ctx, &pipelines, client.InNamespace(flux))).To(Succeed())
		for i := range pipelines.Items {
			pipeline := &pipelines.Items[i]
			// Credentials in a URL of the spec are visible to everyone.
			pipeline.Spec = pipelinesv1.PipelineSpec{}
			encoded, err := json.Marshal(pipeline)
			Expect(err).NotTo(HaveOccurred())
			texts["Pipeline "+pipeline.Name] = string(encoded)
		}
		var events corev1.EventList
		Expect(world.Client.List(ctx, &events)).To(Succeed())
		Expect(events.Items).To(ContainElement(HaveField("InvolvedObject.Name", "discreet-wrong")))
		encoded, err := json.Marshal(events)
		Expect(err).NotTo(HaveOccurred())
		texts["events"] = string(encoded)

		// Stopping it flushes its log.
		Expect(controller.Stop()).To(Succeed())
		logs, err := filepath.Glob(filepath.Join(world.Cluster.Dir, "logs", "*.log"))
		Expect(err).NotTo(HaveOccurred())
		for _, path := range logs {
			content, err := os.ReadFile(path)
			Expect(err).NotTo(HaveOccurred())
			texts[path] = string(content)
		}
		Expect(texts[filepath.Join(world.Cluster.Dir, "logs", process+".log")]).To(ContainSubstring(`"level":"trace"`), "all levels are logged")
		for where, text := range texts {
			Expect(known.in(text)).To(BeEmpty(), where)
		}
	})
})
