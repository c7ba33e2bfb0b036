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
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"code.gitea.io/sdk/gitea"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-toolkit/sluice/release/image"
)

// The namespace and the images of what the stories bring along: a registry and a Git host.
const (
	ownNamespace  = "stories"
	registryImage = "sluice.local/registry:1"
	giteaImage    = "sluice.local/gitea:1"

	gitUser     = "sluice"
	gitPassword = "a-password-for-stories"
	gitURL      = "http://gitea." + ownNamespace + ".svc.cluster.local:3000"
)

// hosts are the registry and the Git host, in the cluster, and how the test reaches them.
type hosts struct {
	// registry is the address of the registry: the IP address of the Service, because clients use HTTP for registries
	// at private addresses.
	registry string
	git      *gitea.Client
	// transport reaches both by the addresses that they have in the cluster.
	transport *http.Transport
	// proxy is the URL of a proxy that does the same for other programs.
	proxy string
}

func startHosts(ctx context.Context) *hosts {
	GinkgoHelper()
	layout := filepath.Join(GinkgoT().TempDir(), "images")
	Expect(writeImages(ctx, layout)).To(Succeed())
	Expect(world.Provide(ctx, layout)).To(Succeed())
	apply(ctx, hostsManifest, registryImage, giteaImage, gitUser, gitPassword)
	for _, name := range []string{"registry", "gitea"} {
		kubectl(ctx, "--namespace="+ownNamespace, "rollout", "status", "deployment/"+name, "--timeout=3m")
	}
	service := &corev1.Service{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: ownNamespace, Name: "registry"}, service)).To(Succeed())
	h := &hosts{registry: service.Spec.ClusterIP + ":5000"}

	forwarded := map[string]string{
		h.registry:                            forward("service/registry", 5000),
		strings.TrimPrefix(gitURL, "http://"): forward("service/gitea", 3000),
	}
	dialer := &net.Dialer{}
	h.transport = &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if local, ok := forwarded[address]; ok {
			address = local
		}
		return dialer.DialContext(ctx, network, address)
	}}
	h.proxy = serveProxy(h.transport)
	var err error
	h.git, err = gitea.NewClient(gitURL, gitea.SetBasicAuth(gitUser, gitPassword), gitea.SetHTTPClient(&http.Client{Transport: h.transport}))
	Expect(err).NotTo(HaveOccurred())
	return h
}

var forwarding = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+)`)

// forward forwards a port of this machine to one in the cluster, and returns its address.
func forward(service string, port int) string {
	GinkgoHelper()
	command := kubectlCommand(context.Background(), "--namespace="+ownNamespace, "port-forward", service, fmt.Sprintf(":%d", port))
	out, err := command.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(command.Start()).To(Succeed())
	DeferCleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait() // it says that it was killed
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if match := forwarding.FindStringSubmatch(lines.Text()); match != nil {
			go func() {
				for lines.Scan() { // so that it can continue to write
				}
			}()
			return match[1]
		}
	}
	Fail("kubectl port-forward " + service + " ended early")
	return ""
}

// serveProxy serves plain HTTP for others by a transport, and returns the URL.
func serveProxy(transport http.RoundTripper) string {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	server := &http.Server{Handler: &httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, Transport: transport}}
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(server.Close)
	return "http://" + listener.Addr().String()
}

// writeImages writes the images of the hosts.
func writeImages(ctx context.Context, dir string) error {
	registry, err := image.Image{
		Files:      []image.File{image.Program("/registry", filepath.Join(bin, "node", "registry"))},
		Entrypoint: []string{"/registry"},
		User:       "65532:65532",
	}.Build("linux", runtime.GOARCH)
	if err != nil {
		return err
	}
	files, err := giteaFiles(ctx)
	if err != nil {
		return err
	}
	gitea, err := image.Image{
		Files: files, Entrypoint: []string{"/usr/local/bin/gitea"}, User: "1000:1000",
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/data", "USER=git", "GITEA_WORK_DIR=/data"},
	}.Build("linux", runtime.GOARCH)
	if err != nil {
		return err
	}
	return image.WriteLayout(dir, image.Named{Image: registry, Names: []string{registryImage}}, image.Named{Image: gitea, Names: []string{giteaImage}})
}

// giteaFiles are Gitea, Git and what its hooks run, as they are on this machine, with the libraries that they are
// linked to.
func giteaFiles(ctx context.Context) ([]image.File, error) {
	programs := map[string]string{"/usr/local/bin/gitea": filepath.Join(bin, "gitea")}
	for _, name := range []string{"git", "bash", "env", "cat", "basename", "dirname"} {
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, err
		}
		programs["/usr/bin/"+name] = path
	}
	files := []image.File{
		image.Link("/bin/sh", "/usr/bin/bash"),
		image.Text("/etc/passwd", "git:x:1000:1000::/data:/usr/bin/bash\n"),
		image.Scratch("/tmp"),
	}
	for _, name := range []string{"git", "git-upload-pack", "git-receive-pack", "git-upload-archive"} {
		files = append(files, image.Link("/usr/lib/git-core/"+name, "/usr/bin/git"))
	}
	var linked []string
	for path, source := range programs {
		files = append(files, image.Program(path, source))
		libraries, err := librariesOf(ctx, source)
		if err != nil {
			return nil, err
		}
		linked = append(linked, libraries...)
	}
	slices.Sort(linked)
	for _, library := range slices.Compact(linked) {
		files = append(files, image.Program(library, library))
	}
	static := filepath.Join(bin, "gitea-static")
	return files, filepath.WalkDir(static, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		inside, err := filepath.Rel(static, path)
		files = append(files, image.Program("/usr/share/gitea/"+inside, path))
		return err
	})
}

var library = regexp.MustCompile(`(?m)(?:=> |^\s+)(/\S+) \(0x`)

// librariesOf returns the paths of the libraries that a program is linked to.
func librariesOf(ctx context.Context, program string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "ldd", program).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w: %s", program, err, out)
	}
	var found []string
	for _, match := range library.FindAllStringSubmatch(string(out), -1) {
		found = append(found, match[1])
	}
	return found, nil
}

// create creates a repository, with a first commit if wanted.
func (h *hosts) create(repository string, withCommit bool) {
	GinkgoHelper()
	_, _, err := h.git.CreateRepo(gitea.CreateRepoOption{Name: repository, DefaultBranch: "main", AutoInit: withCommit})
	Expect(err).NotTo(HaveOccurred())
}

// commit commits files to the main branch of a repository, and creates the repository if it is missing.
func (h *hosts) commit(repository string, files map[string]string) {
	GinkgoHelper()
	if _, response, err := h.git.GetRepo(gitUser, repository); response != nil && response.StatusCode == http.StatusNotFound {
		h.create(repository, true)
	} else {
		Expect(err).NotTo(HaveOccurred())
	}
	for path, content := range files {
		options := gitea.FileOptions{Message: "Change " + path, BranchName: "main"}
		encoded := base64.StdEncoding.EncodeToString([]byte(content))
		existing, _, err := h.git.GetContents(gitUser, repository, "main", path)
		if err != nil {
			_, _, err = h.git.CreateFile(gitUser, repository, path, gitea.CreateFileOptions{FileOptions: options, Content: encoded})
		} else {
			_, _, err = h.git.UpdateFile(gitUser, repository, path, gitea.UpdateFileOptions{FileOptions: options, SHA: existing.SHA, Content: encoded})
		}
		Expect(err).NotTo(HaveOccurred())
	}
}

// release commits a version of an application to its repository, and tags it.
func (h *hosts) release(repository, version string) {
	GinkgoHelper()
	h.commit(repository, map[string]string{"deploy/app.yaml": application(version)})
	_, _, err := h.git.CreateTag(gitUser, repository, gitea.CreateTagOption{TagName: version, Target: "main"})
	Expect(err).NotTo(HaveOccurred())
}

// token creates an API token with a name.
func (h *hosts) token(name string) string {
	GinkgoHelper()
	token, _, err := h.git.CreateAccessToken(gitea.CreateAccessTokenOption{Name: name, Scopes: []gitea.AccessTokenScope{gitea.AccessTokenScopeAll}})
	Expect(err).NotTo(HaveOccurred())
	return token.Token
}

// repositoryURL returns the clone address of a repository in the cluster.
func repositoryURL(name string) string { return gitURL + "/" + gitUser + "/" + name + ".git" }

// pullRequests returns the pull requests of a repository in any state.
func (h *hosts) pullRequests(repository string) []*gitea.PullRequest {
	GinkgoHelper()
	all, _, err := h.git.ListRepoPullRequests(gitUser, repository, gitea.ListPullRequestsOptions{State: gitea.StateAll})
	Expect(err).NotTo(HaveOccurred())
	return all
}

// merge merges a pull request once Gitea has found that it can be merged.
func (h *hosts) merge(ctx context.Context, repository string, number int64) {
	GinkgoHelper()
	Eventually(ctx, func() (bool, error) {
		merged, _, err := h.git.MergePullRequest(gitUser, repository, number, gitea.MergePullRequestOption{Style: gitea.MergeStyleMerge})
		return merged, err
	}).Should(BeTrue())
}

// hostsManifest takes the images of the registry and of Gitea, and Gitea's user and password.
const hostsManifest = `
apiVersion: v1
kind: Namespace
metadata: {name: ` + ownNamespace + `}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: registry, namespace: ` + ownNamespace + `}
spec:
  selector: {matchLabels: {app: registry}}
  template:
    metadata: {labels: {app: registry}}
    spec:
      containers:
      - name: registry
        image: %[1]s
        imagePullPolicy: IfNotPresent
        readinessProbe: {httpGet: {port: 5000, path: /v2/}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: registry, namespace: ` + ownNamespace + `}
spec: {selector: {app: registry}, ports: [{port: 5000}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: gitea, namespace: ` + ownNamespace + `}
data:
  app.ini: |
    RUN_MODE = prod
    RUN_USER = git
    WORK_PATH = /data
    [server]
    HTTP_PORT = 3000
    ROOT_URL = ` + gitURL + `/
    STATIC_ROOT_PATH = /usr/share/gitea
    APP_DATA_PATH = /data/data
    OFFLINE_MODE = true
    DISABLE_SSH = true
    [database]
    DB_TYPE = sqlite3
    PATH = /data/gitea.db
    SQLITE_JOURNAL_MODE = WAL
    [repository]
    ROOT = /data/repositories
    [security]
    INSTALL_LOCK = true
    PASSWORD_HASH_ALGO = pbkdf2_v2
    [service]
    DISABLE_REGISTRATION = true
    [queue]
    TYPE = channel
    [log]
    MODE = console
    LEVEL = Warn
    [session]
    PROVIDER = memory
    [cron]
    ENABLED = false
    [actions]
    ENABLED = false
    [packages]
    ENABLED = false
    [indexer]
    ISSUE_INDEXER_TYPE = db
  setup: |
    set -e
    cat /etc/gitea/app.ini >/data/app.ini
    gitea --config /data/app.ini migrate
    gitea --config /data/app.ini admin user create --admin --username %[3]s --password %[4]s --email %[3]s@localhost.localdomain --must-change-password=false
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: gitea, namespace: ` + ownNamespace + `}
spec:
  selector: {matchLabels: {app: gitea}}
  template:
    metadata: {labels: {app: gitea}}
    spec:
      securityContext: {fsGroup: 1000}
      initContainers:
      - name: setup
        image: %[2]s
        imagePullPolicy: IfNotPresent
        command: [bash, /etc/gitea/setup]
        volumeMounts: [{name: data, mountPath: /data}, {name: config, mountPath: /etc/gitea}]
      containers:
      - name: gitea
        image: %[2]s
        imagePullPolicy: IfNotPresent
        args: [--config, /data/app.ini, web]
        readinessProbe: {httpGet: {port: 3000, path: /api/healthz}, periodSeconds: 1}
        volumeMounts: [{name: data, mountPath: /data}]
      volumes:
      - {name: data, emptyDir: {}}
      - {name: config, configMap: {name: gitea}}
---
apiVersion: v1
kind: Service
metadata: {name: gitea, namespace: ` + ownNamespace + `}
spec: {selector: {app: gitea}, ports: [{port: 3000}]}
`
