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

package hostnet

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

func TestAddressesThatGitHostsMayNotHave(t *testing.T) {
	for _, test := range []struct {
		address string
		// says is the message without the flag, and withFlag that with the flag. Both are empty for allowed addresses.
		says, withFlag string
	}{
		{address: "192.0.2.1"},
		{address: "10.0.0.1"},
		{address: "2001:db8::1"},
		{address: "fd00::1"},
		{address: "127.0.0.1", says: "127.0.0.1 is a loopback address"},
		{address: "127.8.9.1", says: "loopback"},
		{address: "::1", says: "loopback"},
		{address: "::ffff:127.0.0.1", says: "loopback"},
		{address: "0.0.0.0", says: "is not allowed", withFlag: "is not allowed"},
		{address: "::", says: "is not allowed", withFlag: "is not allowed"},
		{address: "::ffff:0.0.0.0", says: "is not allowed", withFlag: "is not allowed"},
		{address: "169.254.169.254", says: "169.254.169.254 is not allowed as the address of a Git host", withFlag: "is not allowed"},
		{address: "169.254.0.1", says: "is not allowed", withFlag: "is not allowed"},
		{address: "::ffff:169.254.169.254", says: "is not allowed", withFlag: "is not allowed"},
		{address: "fe80::1%eth0", says: "is not allowed", withFlag: "is not allowed"},
		{address: "febf::1", says: "is not allowed", withFlag: "is not allowed"},
		{address: "fd00:ec2::254", says: "is not allowed", withFlag: "is not allowed"},
		{address: "fd20:ce::254", says: "is not allowed", withFlag: "is not allowed"},
		{address: "100.100.100.200", says: "is not allowed", withFlag: "is not allowed"},
		{address: "168.63.129.16", says: "is not allowed", withFlag: "is not allowed"},
	} {
		t.Run(test.address, func(t *testing.T) {
			g := NewWithT(t)
			for allow, says := range map[bool]string{false: test.says, true: test.withFlag} {
				err := Network{AllowLoopback: allow}.Check(netip.MustParseAddr(test.address))
				if says == "" {
					g.Expect(err).NotTo(HaveOccurred())
				} else {
					g.Expect(err).To(MatchError(ContainSubstring(says)))
				}
			}
		})
	}
}

// listen accepts connections on a loopback address, and reports each.
func listen(t *testing.T) (address string, accepted <-chan net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	connections := make(chan net.Conn)
	go func() {
		defer close(connections)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections <- conn
		}
	}()
	return listener.Addr().String(), connections
}

func TestWhatANameResolvesToIsChecked(t *testing.T) {
	g := NewWithT(t)
	address, accepted := listen(t)
	_, port, err := net.SplitHostPort(address)
	g.Expect(err).NotTo(HaveOccurred())
	for _, host := range []string{"localhost", "127.0.0.1", "::ffff:127.0.0.1", "0.0.0.0"} {
		_, err := Network{}.Dial(t.Context(), "tcp", net.JoinHostPort(host, port))
		g.Expect(err).To(MatchError(Or(ContainSubstring("loopback address"), ContainSubstring("is not allowed"))), host)
	}
	for _, host := range []string{"169.254.169.254", "fe80::1", "fd00:ec2::254"} {
		_, err := Network{AllowLoopback: true}.Dial(t.Context(), "tcp", net.JoinHostPort(host, "80"))
		g.Expect(err).To(MatchError(ContainSubstring("is not allowed")), host)
	}
	conn, err := Network{AllowLoopback: true}.Dial(t.Context(), "tcp", net.JoinHostPort("localhost", port))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(conn.Close()).To(Succeed())
	g.Expect((<-accepted).Close()).To(Succeed(), "this is the only connection that was made")
}

// TestTheEnvironmentsProxyMayBeAnywhere is the only test that reads the environment, which is read once.
func TestTheEnvironmentsProxyMayBeAnywhere(t *testing.T) {
	g := NewWithT(t)
	address, accepted := listen(t)
	t.Setenv("ALL_PROXY", "socks5://"+address)
	t.Setenv("NO_PROXY", "direct.example.com,127.0.0.1,169.254.169.254")
	asked := make(chan string, 1)
	go func() {
		conn := <-accepted
		defer conn.Close()
		// The client offers the method without authentication. The proxy agrees, and receives the address.
		_, _ = io.ReadFull(conn, make([]byte, 3))
		_, _ = conn.Write([]byte{5, 0})
		head := make([]byte, 5)
		_, _ = io.ReadFull(conn, head)
		name := make([]byte, head[4])
		_, _ = io.ReadFull(conn, name)
		asked <- string(name)
	}()
	_, err := Network{}.DialByProxy(t.Context(), "tcp", "git.example.com:22")
	g.Expect(err).To(HaveOccurred(), "the proxy has gone away")
	g.Expect(<-asked).To(Equal("git.example.com"))

	_, err = Network{}.DialByProxy(t.Context(), "tcp", "127.0.0.1:22")
	g.Expect(err).To(MatchError(ContainSubstring("loopback address")))
	_, err = Network{AllowLoopback: true}.DialByProxy(t.Context(), "tcp", "169.254.169.254:22")
	g.Expect(err).To(MatchError(ContainSubstring("is not allowed")))
}

// sends writes a piece to a connection again and again, with a pause before each.
func sends(conn net.Conn, pieces, size int, pause time.Duration) {
	for range pieces {
		time.Sleep(pause)
		if _, err := conn.Write(make([]byte, size)); err != nil {
			return
		}
	}
	_ = conn.Close()
}

func TestAHostThatSendsTooSlowlyIsCutOff(t *testing.T) {
	for _, test := range []struct {
		name         string
		pieces, size int
		pause        time.Duration
		is           error
		// after is how long that takes.
		after time.Duration
	}{
		{name: "a byte a second", pieces: 1000, size: 1, pause: time.Second, is: ErrTooSlow, after: Window},
		{name: "nothing at all", pieces: 1, size: 1, pause: time.Hour, is: ErrTooSlow, after: Window},
		{name: "as much as is needed", pieces: 100, size: LeastRate, pause: time.Second, after: 100 * time.Second},
		{name: "a little less than is needed", pieces: 100, size: LeastRate - 1, pause: time.Second, is: ErrTooSlow, after: Window},
		{name: "all of it, but late", pieces: 1, size: LeastRate * 60, pause: 59 * time.Second, after: 59 * time.Second},
		{name: "little, but in less than a window", pieces: 1, size: 1, pause: 59 * time.Second, after: 59 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				host, conn := net.Pipe()
				go sends(host, test.pieces, test.size, test.pause)
				began := time.Now()
				_, err := io.Copy(io.Discard, Paced(conn))
				if test.is == nil {
					g.Expect(err).NotTo(HaveOccurred())
				} else {
					g.Expect(err).To(MatchError(test.is))
				}
				g.Expect(time.Since(began)).To(Equal(test.after))
				g.Expect(conn.Close()).To(Succeed())
				g.Expect(host.Close()).To(Succeed())
				time.Sleep(time.Hour) // until all that was begun has ended
			})
		})
	}
}

func TestTimeInWhichAHostIsNotWaitedForDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var pace Pace
		for range 10 {
			n, err := pace.Read(func() (int, error) { time.Sleep(Window / 20); return 1, nil }, func() { t.Error("it is interrupted") })
			g.Expect(n, err).To(Equal(1))
			time.Sleep(time.Hour)
		}
	})
}

func TestAHostThatTakesNothingIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		host, conn := net.Pipe()
		began := time.Now()
		_, err := takingConn{conn}.Write([]byte("hello"))
		g.Expect(err).To(MatchError(ContainSubstring("timeout")))
		g.Expect(time.Since(began)).To(Equal(Window))
		go func() { _, _ = io.Copy(io.Discard, host) }()
		_, err = takingConn{conn}.Write([]byte(strings.Repeat("hello", 1000)))
		g.Expect(err).NotTo(HaveOccurred(), "it takes something again")
		g.Expect(conn.Close()).To(Succeed())
	})
}
