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
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// gracePeriod is the time between SIGTERM and SIGKILL, as for a Pod.
	gracePeriod = 30 * time.Second

	// startTimeout is the timeout until a process is ready. It is long because the machine may be busy. If the process
	// exits, the wait ends immediately.
	startTimeout = 2 * time.Minute

	// quotedLog is the maximum size of the log in an error.
	quotedLog = 2 << 10
)

// Process is a process of the cluster. Its methods are safe for concurrent use.
type Process struct {
	// Name is unique in the cluster.
	Name string

	// LogPath is the file with the standard output and error of all starts.
	LogPath string

	// MetricsAddr is the host and port of /metrics. It is empty if the process is not a controller.
	MetricsAddr string

	path string
	args []string
	env  []string

	// prepare runs before each start. It may be nil.
	prepare func(context.Context) error
	// ready returns nil when the process is ready.
	ready func(context.Context) error
	// attributes changes how the system starts the process. It may be nil.
	attributes func(*syscall.SysProcAttr)

	mu     sync.Mutex // guards the fields below, and orders Start, Stop and Kill
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has ended; nil while there is none
}

// Start starts the process, also after it has ended, and waits until it is ready. ctx limits the wait only. If the
// process ends early, or is killed because it is not ready in time, the error contains the end of its log.
func (p *Process) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return fmt.Errorf("%s is already running", p.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if p.prepare != nil {
		if err := p.prepare(ctx); err != nil {
			return fmt.Errorf("preparing %s: %w", p.Name, err)
		}
	}
	if err := p.spawn(); err != nil {
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	go func(exited <-chan struct{}) {
		select {
		case <-exited:
			cancel() // there is nothing to wait for any more
		case <-ctx.Done():
		}
	}(p.exited)
	if err := poll(ctx, p.Name+" to be ready", p.ready); err != nil {
		if p.running() {
			err = errors.Join(err, p.kill())
		} else {
			err = fmt.Errorf("%s ended early: %s", p.Name, p.cmd.ProcessState)
		}
		return fmt.Errorf("%w; the end of %s:\n%s", err, p.LogPath, p.LogTail())
	}
	return nil
}

// Stop sends SIGTERM, and SIGKILL after half a minute, which is an error. It does nothing if the process does not run.
func (p *Process) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return nil
	}
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(gracePeriod):
		return errors.Join(fmt.Errorf("%s did not end within %s of SIGTERM and was killed", p.Name, gracePeriod), p.kill())
	}
}

// Kill sends SIGKILL, as in a crash. It does nothing if the process does not run.
func (p *Process) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return nil
	}
	return p.kill()
}

// Ended returns a channel that is closed when the process has ended. It is closed if the process does not run.
func (p *Process) Ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		ended := make(chan struct{})
		close(ended)
		return ended
	}
	return p.exited
}

// PID returns the process ID, or 0 if the process does not run.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return 0
	}
	return p.cmd.Process.Pid
}

func (p *Process) kill() error {
	err := p.signal(syscall.SIGKILL)
	<-p.exited
	return err
}

// signal sends a signal to the process and its children.
func (p *Process) signal(signal syscall.Signal) error {
	err := syscall.Kill(-p.cmd.Process.Pid, signal)
	if errors.Is(err, syscall.ESRCH) {
		return nil // ended in the meantime
	}
	if err != nil {
		return fmt.Errorf("sending %s to %s: %w", signal, p.Name, err)
	}
	return nil
}

func (p *Process) running() bool {
	if p.exited == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

func (p *Process) spawn() error {
	if err := os.MkdirAll(filepath.Dir(p.LogPath), 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(p.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()

	cmd := exec.Command(p.path, p.args...)
	cmd.Env = p.env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	if p.attributes != nil {
		p.attributes(cmd.SysProcAttr)
	}
	if err := startOnLastingThread(cmd); err != nil {
		return err
	}
	exited := make(chan struct{})
	p.cmd, p.exited = cmd, exited
	go func() {
		defer close(exited)
		// ProcessState has the result.
		_ = cmd.Wait()
	}()
	return nil
}

// LogTail returns the end of the log in whole lines.
func (p *Process) LogTail() string {
	log, err := os.Open(p.LogPath)
	if err != nil {
		return err.Error()
	}
	defer log.Close()
	cut := false
	if info, err := log.Stat(); err == nil && info.Size() > quotedLog {
		_, err = log.Seek(-quotedLog, io.SeekEnd)
		cut = err == nil
	}
	tail, err := io.ReadAll(io.LimitReader(log, quotedLog))
	if err != nil {
		return err.Error()
	}
	if !cut {
		return string(tail)
	}
	_, whole, _ := strings.Cut(string(tail), "\n")
	return whole
}

// toStart receives the commands for startOnLastingThread.
var toStart = sync.OnceValue(func() chan<- func() {
	requests := make(chan func())
	go func() {
		// Linux sends the parent-death signal when the thread that started the process ends, not when the parent does,
		// and Go may end threads. This one is locked to a goroutine that never ends.
		runtime.LockOSThread()
		for start := range requests {
			start()
		}
	}()
	return requests
})

func startOnLastingThread(cmd *exec.Cmd) error {
	result := make(chan error)
	toStart() <- func() { result <- cmd.Start() }
	return <-result
}

// environment is the environment of processes. It excludes the user's settings, such as KUBECONFIG or a proxy.
func environment(home string, settings ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home}, settings...)
}

// answersOK is a readiness probe. It expects status 200 from a URL.
func answersOK(httpClient *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := httpClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s", url, response.Status)
		}
		return nil
	}
}
