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
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestMain lets the test's own program stand in for the processes that the tests start.
func TestMain(m *testing.M) {
	switch {
	case slices.Contains(os.Args, "--pretend"):
		exit(pretend())
	case slices.Contains(os.Args, "--quit"):
		fmt.Println("this is no use")
		os.Exit(3)
	case slices.Contains(os.Args, "--parent"):
		exit(parent())
	}
	os.Exit(m.Run())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// pretend is a controller that does nothing but print whom the API server takes it for.
func pretend() error {
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	api, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	review := &authenticationv1.SelfSubjectReview{}
	if err := api.Create(stop, review); err != nil {
		return err
	}
	fmt.Println(review.Status.UserInfo.Username, "in", os.Getenv("RUNTIME_NAMESPACE"))

	server := &http.Server{
		Addr:        strings.TrimPrefix(os.Args[1], "--health-addr="),
		Handler:     http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		ReadTimeout: time.Minute,
	}
	go func() {
		<-stop.Done()
		_ = server.Close()
	}()
	if err := server.ListenAndServe(); stop.Err() == nil {
		return err
	}
	fmt.Println("stopped")
	return nil
}

// parent starts a process that would run for long, prints its id and ends as by a crash.
func parent() error {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		return err
	}
	p := &Process{Name: "sleep", LogPath: filepath.Join(os.Args[2], "sleep.log"), path: sleep, args: []string{"600"}}
	if err := p.spawn(); err != nil {
		return err
	}
	fmt.Println(p.cmd.Process.Pid)
	return syscall.Kill(os.Getpid(), syscall.SIGKILL)
}
