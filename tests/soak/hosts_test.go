//go:build soak && linux

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

package soak

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-toolkit/sluice/tests/githost"
)

// hostility is a hostile behaviour of a Git host.
type hostility struct {
	name string
	// method and path select requests. If both are empty, it applies to all requests.
	method, path string
	fault        githost.Fault
}

const (
	repositoryOwner = "org"
	token           = "ghp_the-token-of-the-soak"

	infoRefs, uploadPack, createPull = `/info/refs\?`, `/git-upload-pack$`, `/pulls$`
)

// hostilities returns all hostile behaviours. For other requests, the host behaves like GitHub.
func hostilities() []hostility {
	return []hostility{
		{name: "trickling", fault: trickle},
		{name: "silent", fault: silence},
		{name: "endless-header", fault: endlessHeader},
		{name: "endless-pages", method: http.MethodGet, path: "/api/v3/", fault: endlessPages},
		{name: "endless-refs", path: infoRefs, fault: endlessRefs},
		{name: "redirecting", fault: redirect},
		{name: "failing", fault: githost.InternalServerError()},
		{name: "limiting", path: "/api/v3/", fault: githost.SecondaryRateLimit(5 * time.Second)},
		{name: "garbled", path: uploadPack, fault: packOf(noise(1 << 20))},
		{name: "typeless", path: uploadPack, fault: packOf(packHeader(1), []byte{0x05}, noise(64))},
		{name: "huge-object", path: uploadPack, fault: packOf(packHeader(1), objectHeader(3, 1<<40), noise(64))},
		{name: "huge-answer", fault: hugeAnswer},
		{name: "forgetful", method: http.MethodPost, path: createPull, fault: githost.CutAfter()},
		{name: restless},
		{name: bulky},
	}
}

// start starts a host with this behaviour.
func (h hostility) start() (*githost.Server, error) {
	host, err := githost.New()
	if err != nil {
		return nil, err
	}
	host.AddToken(githost.Token{Value: token, Login: "sluice-bot"})
	if h.fault != nil {
		host.FailNext(h.method, h.path, githost.Always, h.fault)
	}
	return host, nil
}

// These hosts have hostile repositories. On the restless host, the files change with each read of the branches. On the
// bulky host, the marked files are as expensive to parse as files can be.
const restless, bulky = "restless", "bulky"

// bulk is the beginning of the marked files on the bulky host.
var bulk = "bulk:\n" + strings.Repeat("- a\n", 250_000)

// neverRest changes all files before each read of the branches.
func neverRest(host *githost.Server, repository string, files map[string]string) {
	change := func(w http.ResponseWriter, r *http.Request, carryOut http.Handler) {
		changed := map[string]string{}
		for path, content := range files {
			changed[path] = fmt.Sprintf("%s# %d\n", content, time.Now().UnixNano())
		}
		// If it fails, the branch stays as it is this time.
		_, _ = host.CommitFiles(repositoryOwner, repository, "main", changed, "Change")
		carryOut.ServeHTTP(w, r)
	}
	host.FailNext(http.MethodGet, "/"+repository+".git"+infoRefs+"service=git-upload-pack", githost.Always, change)
}

// silence accepts the request and sends no response.
func silence(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// trickle sends one byte a second, forever.
func trickle(w http.ResponseWriter, r *http.Request, _ http.Handler) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		_, err := w.Write([]byte(" "))
		if err != nil || http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-second.C:
		case <-r.Context().Done():
			return
		}
	}
}

// endlessHeader sends header lines until the client stops reading.
func endlessHeader(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer connection.Close()
	_, err = fmt.Fprint(connection, "HTTP/1.1 200 OK\r\n")
	for i := 0; err == nil; i++ {
		_ = connection.SetWriteDeadline(time.Now().Add(time.Minute))
		_, err = fmt.Fprintf(connection, "X-Line-%d: %s\r\n", i, strings.Repeat("a", 1<<10))
	}
}

// endlessPages answers each list request with an empty page, a large header and a link to the next page.
func endlessPages(w http.ResponseWriter, r *http.Request, carryOut http.Handler) {
	if !strings.Contains(r.URL.Path, "/pulls") {
		carryOut.ServeHTTP(w, r)
		return
	}
	next := *r.URL
	query := next.Query()
	query.Set("page", fmt.Sprint(time.Now().UnixNano()))
	next.RawQuery = query.Encode()
	w.Header().Set("Link", fmt.Sprintf("<https://%s%s>; rel=\"next\"", r.Host, next.RequestURI()))
	w.Header().Set("ETag", fmt.Sprintf("%q", query.Get("page")))
	w.Header().Set("X-Ballast", strings.Repeat("a", 900<<10))
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write([]byte("[]"))
}

// endlessRefs advertises branches until the client stops reading.
func endlessRefs(w http.ResponseWriter, r *http.Request, _ http.Handler) {
	w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
	_, err := fmt.Fprint(w, "001e# service=git-upload-pack\n0000")
	for i := 0; err == nil && r.Context().Err() == nil; i++ {
		line := fmt.Sprintf("%040x refs/heads/branch-%d\n", i+1, i)
		_, err = fmt.Fprintf(w, "%04x%s", len(line)+4, line)
	}
}

// redirect redirects in an endless loop.
func redirect(w http.ResponseWriter, r *http.Request, _ http.Handler) {
	next := *r.URL
	query := next.Query()
	query.Set("again", fmt.Sprint(time.Now().UnixNano()))
	next.RawQuery = query.Encode()
	http.Redirect(w, r, next.RequestURI(), http.StatusTemporaryRedirect)
}

// hugeAnswer declares a response of one tebibyte and sends data until the client stops reading.
func hugeAnswer(w http.ResponseWriter, r *http.Request, _ http.Handler) {
	w.Header().Set("Content-Length", fmt.Sprint(1<<40))
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	block := bytes.Repeat([]byte(" "), 64<<10)
	for r.Context().Err() == nil {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

// packOf responds to a fetch with a pack of the given content.
func packOf(parts ...[]byte) githost.Fault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		_, _ = w.Write([]byte("0008NAK\n"))
		for _, part := range parts {
			_, _ = w.Write(part)
		}
	}
}

func packHeader(objects uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), objects)
}

// objectHeader returns the header of an object with this type and size.
func objectHeader(kind byte, size uint64) []byte {
	header := []byte{kind<<4 | byte(size&0x0f)}
	for size >>= 4; size > 0; size >>= 7 {
		header[len(header)-1] |= 0x80
		header = append(header, byte(size&0x7f))
	}
	return header
}

func noise(length int) []byte {
	content := make([]byte, length)
	_, _ = rand.Read(content)
	return content
}
