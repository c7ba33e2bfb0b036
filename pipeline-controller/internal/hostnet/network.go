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

// Package hostnet connects to Git hosts. Authors of Pipelines, and hosts that redirect, choose the address, so some
// addresses are rejected. Hosts decide how fast they respond, so connections to slow ones are closed.
package hostnet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/net/proxy"
)

const connectTimeout = 15 * time.Second

// metadata contains the addresses, other than link-local ones, at which clouds provide a machine's credentials: those
// of Amazon EC2, Google Cloud, Alibaba Cloud and Azure.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd20:ce::254"),
	netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"),
}

// Network connects to Git hosts. The zero value rejects loopback addresses.
type Network struct {
	// AllowLoopback allows Git hosts at loopback addresses. Link-local addresses are never allowed.
	AllowLoopback bool
}

// Dial connects to a Git host. Addresses are checked after the name was resolved, so they cannot change after the
// check.
func (n Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := newDialer()
	dialer.Control = func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return n.Check(to.Addr())
	}
	return connect(ctx, dialer, network, address)
}

// DialProxy connects to a proxy at any address: the controller's operator has chosen it.
func DialProxy(ctx context.Context, network, address string) (net.Conn, error) {
	return connect(ctx, newDialer(), network, address)
}

// DialByProxy connects to a Git host through the proxy in ALL_PROXY, if it is set and NO_PROXY does not exclude the
// address.
func (n Network) DialByProxy(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := proxy.FromEnvironmentUsing(dialFunc(func(ctx context.Context, network, to string) (net.Conn, error) {
		if to != address {
			return DialProxy(ctx, network, to)
		}
		return n.Dial(ctx, network, to)
	}))
	if withContext, ok := dialer.(proxy.ContextDialer); ok {
		return withContext.DialContext(ctx, network, address)
	}
	return dialer.Dial(network, address)
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func (d dialFunc) Dial(network, address string) (net.Conn, error) {
	return d(context.Background(), network, address)
}

func (d dialFunc) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d(ctx, network, address)
}

func connect(ctx context.Context, dialer *net.Dialer, network, address string) (net.Conn, error) {
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return takingConn{conn}, nil
}

func newDialer() *net.Dialer {
	return &net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}
}

// Check returns an error if Git hosts are not allowed at the address.
func (n Network) Check(address netip.Addr) error {
	address = address.Unmap().WithZone("")
	switch {
	case address.IsLoopback() && !n.AllowLoopback:
		return fmt.Errorf("%s is a loopback address: Git hosts may use one only with --allow-loopback-git-hosts", address)
	case address.IsUnspecified(), address.IsLinkLocalUnicast(), slices.Contains(metadata, address):
		return fmt.Errorf("%s is not allowed as the address of a Git host", address)
	}
	return nil
}
