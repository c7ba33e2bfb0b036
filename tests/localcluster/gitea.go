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

package localcluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"text/template"

	"code.gitea.io/sdk/gitea"
)

// Gitea is a running Git host with pull requests.
type Gitea struct {
	// URL is its address without a trailing slash. A repository is at URL/Username/NAME.git.
	URL string

	// Username and Password are the credentials of its only user, an administrator. They work for Git over HTTP too.
	Username, Password string

	// Token is an API token of the user with all scopes. It also works as a password for Git over HTTP.
	Token string

	// Client is a client of its API with Token.
	Client *gitea.Client

	// LogPath is the path of its log.
	LogPath string

	dir     string
	process *Process
}

// StartGitea starts an empty Gitea with one user on loopback, and returns when it responds. It needs no cluster. ctx
// limits the start only. Gitea runs until Stop. If it does not start, the error contains the end of its log.
func StartGitea(ctx context.Context) (_ *Gitea, err error) {
	programs, err := findPrograms()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sluice-gitea-")
	if err != nil {
		return nil, err
	}
	g := &Gitea{Username: "sluice", Password: rand.Text(), LogPath: filepath.Join(dir, "gitea.log"), dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Stop())
		}
	}()

	if err := g.configure(programs); err != nil {
		return nil, fmt.Errorf("configuring gitea: %w", err)
	}
	if _, err := g.run(ctx, "migrate"); err != nil {
		return nil, err
	}
	if g.Token, err = g.createUser(ctx); err != nil {
		return nil, err
	}
	if err := g.process.Start(ctx); err != nil {
		return nil, err
	}
	g.Client, err = gitea.NewClient(g.URL, gitea.SetToken(g.Token))
	return g, err
}

// Stop stops it and removes its data. It may be called again.
func (g *Gitea) Stop() error {
	var err error
	if g.process != nil {
		err = g.process.Stop()
	}
	return errors.Join(err, os.RemoveAll(g.dir))
}

// CreateRepository creates an empty public repository of the user with the default branch main. It returns an error if
// the name exists.
func (g *Gitea) CreateRepository(name string) (*gitea.Repository, error) {
	repository, _, err := g.Client.CreateRepo(gitea.CreateRepoOption{Name: name, DefaultBranch: "main"})
	if err != nil {
		return nil, fmt.Errorf("creating Gitea repository %s: %w", name, err)
	}
	return repository, nil
}

// configuration is Gitea's app.ini. Of the settings that are less than obvious:
//   - [queue] TYPE: with "immediate" Gitea deadlocks after a merge.
//   - [webhook] ALLOWED_HOST_LIST: by default hooks may not call loopback, where everything here is.
//   - [server] STATIC_ROOT_PATH: options and templates are files, not part of the program.
var configuration = template.Must(template.New("app.ini").Parse(`
APP_NAME = Sluice's local Git host
RUN_MODE = prod
RUN_USER = {{.User}}
WORK_PATH = {{.Dir}}
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = {{.Root}}

[server]
PROTOCOL = http
HTTP_ADDR = {{.Host}}
HTTP_PORT = {{.Port}}
DOMAIN = {{.Host}}
ROOT_URL = {{.URL}}/
STATIC_ROOT_PATH = {{.Static}}
APP_DATA_PATH = {{.Dir}}/data
OFFLINE_MODE = true
DISABLE_SSH = true
LFS_START_SERVER = false

[database]
DB_TYPE = sqlite3
PATH = {{.Dir}}/gitea.db
SQLITE_JOURNAL_MODE = WAL

[repository]
ROOT = {{.Dir}}/repositories
DEFAULT_BRANCH = main

[security]
INSTALL_LOCK = true
SECRET_KEY = {{.SecretKey}}
PASSWORD_HASH_ALGO = pbkdf2_v2

[service]
DISABLE_REGISTRATION = true

[queue]
TYPE = channel

[webhook]
ALLOWED_HOST_LIST = loopback

[log]
MODE = console
LEVEL = Info

[session]
PROVIDER = memory

[mailer]
ENABLED = false

[cron]
ENABLED = false

[actions]
ENABLED = false

[packages]
ENABLED = false

[indexer]
REPO_INDEXER_ENABLED = false
ISSUE_INDEXER_TYPE = db
`))

func (g *Gitea) configure(programs programs) error {
	program, err := programs.path("gitea")
	if err != nil {
		return err
	}
	static, err := programs.file("gitea-static")
	if err != nil {
		return err
	}
	account, err := user.Current()
	if err != nil {
		return err
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	g.URL = "http://" + address

	var ini bytes.Buffer
	err = configuration.Execute(&ini, map[string]any{
		"User": account.Username, "Root": os.Geteuid() == 0,
		"Dir": g.dir, "Static": static,
		"Host": host, "Port": port, "URL": g.URL,
		"SecretKey": rand.Text(),
	})
	if err != nil {
		return err
	}
	path := filepath.Join(g.dir, "app.ini")
	if err := os.WriteFile(path, ini.Bytes(), 0o600); err != nil {
		return err
	}
	g.process = &Process{
		Name:    "gitea",
		LogPath: g.LogPath,
		path:    program,
		args:    []string{"--config", path, "web"},
		env:     environment(g.dir, "USER="+account.Username, "GITEA_WORK_DIR="+g.dir),
		ready:   answersOK(http.DefaultClient, g.URL+"/api/healthz"),
	}
	return nil
}

// createUser creates the user and returns its token.
func (g *Gitea) createUser(ctx context.Context) (string, error) {
	output, err := g.run(ctx, "admin", "user", "create", "--admin",
		"--username", g.Username, "--password", g.Password, "--email", g.Username+"@localhost.localdomain", "--must-change-password=false",
		"--access-token", "--access-token-name", "local", "--access-token-scopes", "all")
	if err != nil {
		return "", err
	}
	words := bytes.Fields(output)
	if len(words) == 0 {
		return "", errors.New("gitea admin user create printed no token")
	}
	return string(words[len(words)-1]), nil
}

// run runs a command of Gitea and returns its output.
func (g *Gitea) run(ctx context.Context, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, g.process.path, append([]string{"--config", filepath.Join(g.dir, "app.ini")}, args...)...)
	command.Env = g.process.env
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		// Without the arguments, which contain the password.
		return nil, fmt.Errorf("gitea %s: %w: %s%s", args[0], err, output, stderr.Bytes())
	}
	return output, nil
}
