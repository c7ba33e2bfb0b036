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

// Package upstream holds what Flux's sources are fetched from, on loopback: an OCI registry, an S3 service and a Helm
// repository.
package upstream

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// AccessKey and SecretKey are taken by the S3 service, as any others are.
const (
	AccessKey = "sluice"
	SecretKey = "sluice-secret"
)

// Server runs the three services.
type Server struct {
	oci, s3, helm *httptest.Server
	buckets       gofakes3.Backend

	mu sync.Mutex
	// charts holds, by path, what the Helm repositories serve. Guarded by mu.
	charts map[string][]byte
	// index holds, by repository, the versions that its index lists. Guarded by mu.
	index map[string][]chartVersion
}

// New starts the services.
func New() (*Server, error) {
	s := &Server{buckets: s3mem.New(), charts: map[string][]byte{}, index: map[string][]chartVersion{}}
	s.oci = httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	s.s3 = httptest.NewServer(gofakes3.New(s.buckets).Server())
	s.helm = httptest.NewServer(http.HandlerFunc(s.serveCharts))
	return s, nil
}

// Close stops the services.
func (s *Server) Close() error {
	for _, server := range []*httptest.Server{s.oci, s.s3, s.helm} {
		server.Close()
	}
	return nil
}

// S3Endpoint is the host and port of the S3 service.
func (s *Server) S3Endpoint() string { return strings.TrimPrefix(s.s3.URL, "http://") }

// CreateBucket makes an empty bucket.
func (s *Server) CreateBucket(name string) error { return s.buckets.CreateBucket(name) }

// PutObject puts an object into a bucket, in place of one with the same key.
func (s *Server) PutObject(bucket, key, content string) error {
	request, err := http.NewRequest(http.MethodPut, s.s3.URL+"/"+bucket+"/"+key, strings.NewReader(content))
	if err != nil {
		return err
	}
	return send(request, http.StatusOK)
}

func send(request *http.Request, expected int) error {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != expected {
		answer, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		return fmt.Errorf("%s %s: %s: %s", request.Method, request.URL, response.Status, answer)
	}
	return nil
}
