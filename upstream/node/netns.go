// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// The network of a cluster, with documentation addresses (RFC 5737). The run's namespace is the
// router. Each node has its own namespace, which a veth pair connects to the router.
const (
	routerAddressCIDR = "198.51.100.1"
	nodeAddress       = "198.51.100.%d"   // nodes are numbered from 11
	podNetwork        = "203.0.113.%d/26" // CIDR of a node's pods
)

// machineNetwork is a machine's network namespace and its connection to the router.
type machineNetwork struct {
	name    string // name of the namespace and of the router's interface
	address string // the machine's IP address
	pods    string // CIDR of its pods
}

// newMachineNetwork creates the network namespace of the node with the given number, counted from
// 0. The namespace persists across the machine's reboots.
func newMachineNetwork(t testing.TB, number int) *machineNetwork {
	t.Helper()
	l := &machineNetwork{
		name: fmt.Sprintf("node%d", number), address: fmt.Sprintf(nodeAddress, 11+number), pods: fmt.Sprintf(podNetwork, 64*number),
	}
	for _, line := range []string{
		"ip netns add " + l.name,
		"ip link add " + l.name + " type veth peer name eth0 netns " + l.name,
		"ip address add " + routerAddressCIDR + " peer " + l.address + " dev " + l.name,
		"ip link set " + l.name + " up",
		"ip route add " + l.pods + " via " + l.address,
		"ip -n " + l.name + " link set lo up",
		"ip -n " + l.name + " address add " + l.address + " peer " + routerAddressCIDR + " dev eth0",
		"ip -n " + l.name + " link set eth0 up",
		"ip -n " + l.name + " route add default via " + routerAddressCIDR,
	} {
		if said, err := exec.Command(strings.Fields(line)[0], strings.Fields(line)[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, said)
		}
	}
	// Forward the pods' packets. The machine cannot set this, because /proc/sys is read-only there.
	forward := func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644) }
	if err := errors.Join(forward(), l.runInNamespace(forward)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if said, err := exec.Command("ip", "netns", "delete", l.name).CombinedOutput(); err != nil {
			t.Errorf("network namespace %s: %v: %s", l.name, err, said)
		}
	})
	return l
}

func (l *machineNetwork) namespacePath() string { return filepath.Join("/run/netns", l.name) }

// runInNamespace calls f on a thread inside the namespace, so that f listens and dials there. The
// thread is not reused.
func (l *machineNetwork) runInNamespace(f func() error) error {
	file, err := os.Open(l.namespacePath())
	if err != nil {
		return err
	}
	defer file.Close()
	done := make(chan error)
	go func() { done <- errors.Join(enterNetwork(file), f()) }()
	return <-done
}

// dial connects to an address from inside the namespace.
func (l *machineNetwork) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = l.runInNamespace(func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// httpClient returns an HTTP client that connects from inside the namespace.
func (l *machineNetwork) httpClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: l.dial, DisableKeepAlives: true}}
}

// forwardAddress forwards an address in the namespace to the same address on the run's loopback
// interface, until the test ends.
func (l *machineNetwork) forwardAddress(t testing.TB, address string) {
	t.Helper()
	var listener net.Listener
	if err := l.runInNamespace(func() (err error) { listener, err = net.Listen("tcp", address); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go proxyConnection(conn, address)
		}
	}()
}

// proxyConnection proxies conn to address.
func proxyConnection(conn net.Conn, address string) {
	defer conn.Close()
	other, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer other.Close()
	var wg sync.WaitGroup
	copyTo := func(to, from net.Conn) {
		io.Copy(to, from)
		to.(*net.TCPConn).CloseWrite()
	}
	wg.Go(func() { copyTo(other, conn) })
	wg.Go(func() { copyTo(conn, other) })
	wg.Wait()
}
