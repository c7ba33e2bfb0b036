//go:build linux

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

// Package inside contains the part of a local node that runs in its namespaces.
package inside

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// pollInterval is the interval of checks for a socket.
const pollInterval = 20 * time.Millisecond

// Config configures the inside of a node.
type Config struct {
	// Var is the directory that is mounted at /var.
	Var string
	// Addresses are addresses of the loopback interface, in addition to 127.0.0.1.
	Addresses []string
	// Relays forward connections to and from the outside.
	Relays []RelayConfig
	// Names are served at NameServer, in addition to the cluster's Services.
	Names      Names
	NameServer string
	// ServiceRange is the network of Service addresses. All of them are addresses of the node.
	ServiceRange string
	// Kubeconfig is the path of the kubeconfig for reading Services.
	Kubeconfig string
	// Programs are started in order, each after the previous one is ready.
	Programs []Program
}

// RelayConfig describes a Relay.
type RelayConfig struct {
	From, To Address
}

// Program is a program that runs as long as the node.
type Program struct {
	// Command is the program's path and its arguments.
	Command []string
	// Socket is the path at which it listens when it is ready. It may be empty.
	Socket string
}

// Write writes the configuration to a file for Run.
func (c Config) Write(path string) error {
	content, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// Run is the first process. It sets up the inside of the node from a written Config, and waits until one of its
// programs ends, which is an error. When it returns, the kernel ends all other processes of the namespace, and with
// them the mounts and the network.
func Run(path string) error {
	config, err := read(path)
	if err != nil {
		return err
	}
	if err := mountAll(config); err != nil {
		return err
	}
	if err := bringUpLoopback(config); err != nil {
		return err
	}
	if err := serve(config); err != nil {
		return err
	}
	running := map[int]string{}
	for _, program := range config.Programs {
		process, err := start(program)
		if err != nil {
			return err
		}
		running[process.Pid] = program.Command[0]
		if err := waitForSocket(program, process.Pid); err != nil {
			return err
		}
	}
	return reap(running)
}

// serve starts the services for Pods that this process provides.
func serve(config Config) error {
	for _, relay := range config.Relays {
		listener, err := relay.From.Listen()
		if err != nil {
			return err
		}
		go Relay(listener, relay.To)
	}
	conn, err := net.ListenPacket("udp", config.NameServer)
	if err != nil {
		return err
	}
	services := newServices(config.Names)
	go lookup(services.find).serve(conn)
	go func() { fmt.Fprintln(os.Stderr, "init: services:", services.follow(config.Kubeconfig)) }()
	return nil
}

func read(path string) (Config, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Config{}, err
	}
	config := Config{}
	return config, json.Unmarshal(content, &config)
}

// mountAll mounts the node's own directories at the fixed paths of its programs. No mount leaves the namespace.
func mountAll(config Config) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	const harmless = syscall.MS_NOSUID | syscall.MS_NODEV
	if err := mount("proc", "/proc", "proc", harmless|syscall.MS_NOEXEC); err != nil {
		return err
	}
	// Without noexec, because files of containers may be in it.
	if err := mount("tmpfs", "/run", "tmpfs", harmless); err != nil {
		return err
	}
	for _, dir := range []string{"lib", "log", "tmp"} {
		if err := os.MkdirAll(filepath.Join(config.Var, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink("/run", filepath.Join(config.Var, "run")); err != nil {
		return err
	}
	if err := mount(config.Var, "/var", "", syscall.MS_BIND); err != nil {
		return err
	}
	return shieldSettings()
}

// kernelSettings are settings that kubelet changes for the whole machine.
var kernelSettings = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// shieldSettings mounts files over the machine's settings, so kubelet changes these instead.
func shieldSettings() error {
	for _, setting := range kernelSettings {
		path := filepath.Join("/proc/sys", setting)
		value, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		shield := filepath.Join("/run/settings", setting)
		if err := os.MkdirAll(filepath.Dir(shield), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(shield, value, 0o644); err != nil {
			return err
		}
		if err := mount(shield, path, "", syscall.MS_BIND); err != nil {
			return err
		}
	}
	return nil
}

func mount(source, target, fstype string, flags uintptr) error {
	if err := syscall.Mount(source, target, fstype, flags, ""); err != nil {
		return fmt.Errorf("mounting %s on %s: %w", source, target, err)
	}
	return nil
}

func bringUpLoopback(config Config) error {
	commands := []string{"link set dev lo up", "route add local " + config.ServiceRange + " dev lo table local"}
	for _, address := range config.Addresses {
		commands = append(commands, "address add "+address+"/32 dev lo")
	}
	for _, command := range commands {
		if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", command, err, out)
		}
	}
	return nil
}

// start starts a program. reap waits for it: exec.Cmd is not used, because its Wait would compete with reap.
func start(program Program) (*os.Process, error) {
	return os.StartProcess(program.Command[0], program.Command, &os.ProcAttr{Files: []*os.File{nil, os.Stdout, os.Stderr}})
}

// waitForSocket waits until a program listens at its socket. The outside sets the timeout.
func waitForSocket(program Program, pid int) error {
	for program.Socket != "" {
		conn, err := Address{"unix", program.Socket}.Dial()
		if err == nil {
			return conn.Close()
		}
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
		var status syscall.WaitStatus
		if ended, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil); ended == pid || err != nil {
			return ending(program.Command[0], status)
		}
		time.Sleep(pollInterval)
	}
	return nil
}

// reap reaps all processes, as the first process of a namespace must, until one of the programs ends.
func reap(running map[int]string) error {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("waiting for processes: %w", err)
		}
		if name, ok := running[pid]; ok {
			return ending(name, status)
		}
	}
}

func ending(name string, status syscall.WaitStatus) error {
	if status.Signaled() {
		return fmt.Errorf("%s was ended by signal %q", name, status.Signal())
	}
	return fmt.Errorf("%s ended with exit status %d", name, status.ExitStatus())
}
