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

package scm

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// inUse returns the memory use in bytes.
func inUse() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func TestHeadersThatNobodyReadsAreNotKept(t *testing.T) {
	const pages = 500
	g := NewWithT(t)
	var unchanged int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if page, err := strconv.Atoi(r.URL.Query().Get("page")); err == nil && page < pages {
			w.Header().Set("X-Next-Page", strconv.Itoa(page+1))
		}
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("X-Noise", strings.Repeat("x", 40<<10))
		if r.Header.Get("If-None-Match") != "" {
			unchanged++
			w.Header().Del("X-Next-Page")
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write([]byte("[]"))
	}))
	t.Cleanup(server.Close)
	hosts := NewHosts(onLoopback)
	host, err := hosts.Open("gitlab", Repository{URL: server.URL + "/org/fleet", Token: "t0ken"})
	g.Expect(err).NotTo(HaveOccurred())
	before := inUse()
	g.Expect(host.Find(t.Context(), "b")).To(BeEmpty())
	g.Expect(inUse()-before).To(BeNumerically("<", 4<<20), "bytes that are kept of answers")
	g.Expect(host.Find(t.Context(), "b")).To(BeEmpty())
	g.Expect(unchanged).To(Equal(pages), "what comes next is known of each page")
	runtime.KeepAlive(hosts)
}

func TestCredentialsAreKeptWithinBounds(t *testing.T) {
	g := NewWithT(t)
	var clock clock
	hosts := hostsAt(&clock)
	open := func(token string, certificates []byte) *apiClient {
		host, err := hosts.Open("github", Repository{URL: "https://github.example.com/org/fleet", Token: Token(token), CABundle: certificates})
		g.Expect(err).NotTo(HaveOccurred())
		return host.(*gitHub).api
	}
	limited := open("limited", nil).transport.budget
	limited.until = clock.now().Add(time.Minute)
	for i := range mostBudgets + 100 {
		clock.set(clock.now().Add(time.Millisecond))
		open(fmt.Sprint(i), nil)
		open("busy", nil)
	}
	g.Expect(hosts.clients).To(HaveLen(mostClients))
	g.Expect(hosts.budgets).To(HaveLen(mostBudgets))
	g.Expect(open("limited", nil).transport.budget).To(BeIdenticalTo(limited), "a limit is not forgotten")
	busy := open("busy", nil)
	open("another", nil)
	g.Expect(open("busy", nil)).To(BeIdenticalTo(busy), "what is used is kept")
}

func TestCertificatesOfCredentialsAreKeptWithinBounds(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	bundle = append(bundle, strings.Repeat("#", mostCertificates/4)...)
	hosts := NewHosts(onLoopback)
	for i := range 10 {
		_, err := hosts.Open("gitea", Repository{URL: server.URL + "/org/fleet", Token: Token(fmt.Sprint(i)), CABundle: bundle})
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(hosts.clients).To(HaveLen(3))
}

func TestResponsesAreKeptWithinBounds(t *testing.T) {
	g := NewWithT(t)
	kept := newArchive()
	size := func() (all int) {
		for of := range kept.of {
			one := 0
			for key, response := range of.kept {
				one += response.size(key)
			}
			g.Expect(of.size).To(Equal(one))
			g.Expect(one).To(BeNumerically("<=", mostKept))
			all += one
		}
		g.Expect(kept.size).To(Equal(all))
		return all
	}
	little := kept.open()
	little.keep("a", keptResponse{tag: "t", body: make([]byte, 1000)})
	for range 2 * mostKeptOfAll / mostKept {
		one := kept.open()
		for i := range 100 {
			one.keep(fmt.Sprint(i), keptResponse{tag: "t", body: make([]byte, largestKept/2)})
			one.keep("the same", keptResponse{tag: "t", body: make([]byte, i)})
		}
	}
	g.Expect(size()).To(And(BeNumerically("<=", mostKeptOfAll), BeNumerically(">", mostKeptOfAll/2)))
	g.Expect(little.kept).To(HaveKey("a"), "who keeps little keeps it")
	for _, large := range []keptResponse{
		{tag: "t", body: make([]byte, largestKept)},
		{tag: strings.Repeat("t", largestKept)},
		{tag: "t", header: http.Header{"Link": {"", strings.Repeat("l", largestKept)}}},
	} {
		little.keep("a", large)
		g.Expect(little.kept).To(BeEmpty())
	}
	for of := range kept.of {
		kept.close(of)
		of.keep("late", keptResponse{tag: "t"})
	}
	g.Expect(kept.size).To(BeZero())
}

func TestOfAllResponsesThatAreReadTheLargestIsGivenUp(t *testing.T) {
	g := NewWithT(t)
	letGo := make(chan struct{})
	sent := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "small") {
			_, _ = w.Write([]byte("[]"))
			return
		}
		_, _ = w.Write([]byte(`[{"body":"` + strings.Repeat("x", maxResponse*9/10)))
		_ = http.NewResponseController(w).Flush()
		sent <- struct{}{}
		select {
		case <-letGo:
			_, _ = w.Write([]byte(`"}]`))
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	hosts := NewHosts(onLoopback)
	find := func(name string) error {
		host, err := hosts.Open("gitea", Repository{URL: server.URL + "/org/" + name, Token: Token(name)})
		if err != nil {
			return err
		}
		_, err = host.Find(t.Context(), "b")
		return err
	}
	found := make(chan error)
	for i := range 3 {
		go func() { found <- find(fmt.Sprint("large", i)) }()
		<-sent
	}
	g.Expect(<-found).To(MatchError(ContainSubstring("responses of Git hosts exceed the memory limit, and this one is the largest")))
	g.Expect(find("small")).To(Succeed())
	close(letGo)
	g.Expect(<-found).To(Succeed())
	g.Expect(<-found).To(Succeed())
	g.Expect(hosts.reading.size).To(BeZero())
}

func TestPullRequestsOfABranchAreBounded(t *testing.T) {
	// What one that matches is in a list, less its text and number.
	one := map[string]string{
		"azure-devops":     `{"pullRequestId":%d,"description":%q,"sourceRefName":"refs/heads/b"}`,
		"bitbucket-server": `{"id":%d,"description":%q,"fromRef":{"id":"refs/heads/b"}}`,
		"gitea":            `{"number":%d,"body":%q,"head":{"label":"b"},"base":{}}`,
		"github":           `{"number":%d,"body":%q,"head":{"ref":"b"}}`,
		"gitlab":           `{"iid":%d,"description":%q,"source_branch":"b"}`,
	}
	for _, standIn := range standIns {
		for _, c := range []struct {
			name         string
			number, text int
			err          string
		}{
			{"as many as there can be", mostFound, 10, ""},
			{"more than there can be", mostFound + 1, 10, "there are more than 1000 pull requests of branch b"},
			{"more text than there can be", 5, 1 << 20, "the pull requests of branch b have more than 4194304 bytes of text"},
		} {
			t.Run(standIn.hostType+": "+c.name, func(t *testing.T) {
				g := NewWithT(t)
				item := func(i int) string { return fmt.Sprintf(one[standIn.hostType], i, strings.Repeat("x", c.text)) }
				var list []string
				for i := range c.number {
					list = append(list, item(i+1))
				}
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					number := path.Base(r.URL.Path)
					if i, err := strconv.Atoi(number); err == nil {
						_, _ = w.Write([]byte(item(i)))
						return
					}
					page := list
					if from, err := strconv.Atoi(r.URL.Query().Get("$skip")); err == nil {
						page = list[min(from, len(list)):min(from+100, len(list))]
					}
					_, _ = w.Write([]byte(strings.Replace(standIn.empty, "[]", "["+strings.Join(page, ",")+"]", 1)))
				}))
				t.Cleanup(server.Close)
				host, err := NewHosts(onLoopback).Open(standIn.hostType, Repository{URL: server.URL + standIn.path, Token: "t0ken"})
				g.Expect(err).NotTo(HaveOccurred())
				found, err := host.Find(t.Context(), "b")
				if c.err != "" {
					g.Expect(err).To(MatchError(ContainSubstring(c.err)))
					return
				}
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(found).To(HaveLen(c.number))
			})
		}
	}
}
