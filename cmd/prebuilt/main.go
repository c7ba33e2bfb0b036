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
// Command prebuilt downloads the binaries of the local cluster that make demo otherwise builds. All are pinned by
// checksum or digest.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
)

func main() {
	dir := flag.String("dir", filepath.Join("bin", "prebuilt"), "the directory of the binaries")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = responseTimeout
	if err := run(ctx, downloader{transport, os.Stderr}, runtime.GOOS, runtime.GOARCH, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "✗", err)
		os.Exit(1)
	}
}

// run downloads what a platform needs. Its error says what else can be done.
func run(ctx context.Context, d downloader, system, architecture, dir string) error {
	pins, err := pinsFor(system, architecture)
	if err == nil {
		err = d.install(ctx, pins, dir)
	}
	if err != nil {
		return fmt.Errorf("%w\n'make demo' without PREBUILT builds the same binaries from Go modules, in about a quarter of an hour", err)
	}
	return nil
}
