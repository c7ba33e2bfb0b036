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

package inside

import (
	"io"
	"net"
	"testing"

	. "github.com/onsi/gomega"
)

func TestRelay(t *testing.T) {
	g := NewWithT(t)
	outer := Address{"unix", t.TempDir() + "/relay.sock"}
	server, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = server.Close() })
	listener, err := outer.Listen()
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = listener.Close() })
	go Relay(listener, Address{"tcp", server.Addr().String()})

	caller, err := outer.Dial()
	g.Expect(err).NotTo(HaveOccurred())
	_, err = caller.Write([]byte("question"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(caller.(*net.UnixConn).CloseWrite()).To(Succeed())
	callee, err := server.Accept()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(readAll(callee)).To(Equal("question"), "the end of what the caller says is passed on")

	_, err = callee.Write([]byte("answer"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(callee.Close()).To(Succeed())
	g.Expect(readAll(caller)).To(Equal("answer"))
}

func readAll(conn net.Conn) (string, error) {
	content, err := io.ReadAll(conn)
	return string(content), err
}
