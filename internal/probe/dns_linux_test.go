// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/probe"
	"github.com/regcred/regcred/internal/testregistry"
)

// inNetworkNamespace reports whether this process has its own network and mount namespaces. If not,
// it runs the test in a new process that has them.
func inNetworkNamespace(t *testing.T) bool {
	t.Helper()
	const inside = "REGCRED_TEST_OWN_NETWORK"
	if os.Getenv(inside) != "" {
		// The new network has only lo, which is down.
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			t.Fatalf("ip: %v: %s", err, out)
		}
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may have a network of its own")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("no ip (Debian's iproute2), to set up a network")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v in a network of its own:\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
	return false
}

// replaceFile replaces a file with a bind mount, so that it contains text until the test
// ends.
func replaceFile(t *testing.T, at, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, []byte(text), 0o644))
	must.Do(t, syscall.Mount(file, at, "", syscall.MS_BIND, ""))
	t.Cleanup(func() { syscall.Unmount(at, syscall.MNT_DETACH) })
}

// startNameserver starts a DNS server at 127.0.0.53.
func startNameserver(t *testing.T) {
	t.Helper()
	conn := must.Get(net.ListenPacket("udp", "127.0.0.53:53"))(t)
	t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 || strings.HasPrefix(m.Questions[0].Name.String(), "silent.") {
				continue
			}
			respondWithName(&m)
			if out, err := m.Pack(); err == nil {
				conn.WriteTo(out, from)
			}
		}
	}()
}

func respondWithName(m *dnsmessage.Message) {
	q := m.Questions[0]
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	addr, ok := map[string][4]byte{
		"registry.example.": {127, 0, 0, 1}, "short.corp.example.": {127, 0, 0, 1},
		"meta.example.": {169, 254, 169, 254}, "blocked.example.": {0, 0, 0, 0},
	}[q.Name.String()]
	switch name := q.Name.String(); {
	case strings.HasPrefix(name, "fail."):
		m.RCode = dnsmessage.RCodeServerFailure
	case strings.HasPrefix(name, "refused."):
		m.RCode = dnsmessage.RCodeRefused
	case !ok:
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: addr}}}
	}
}

// TestNoNameserver verifies the error if no nameserver is listening. Each test case needs its
// own process, because Go reads resolv.conf only every five seconds.
func TestNoNameserver(t *testing.T) {
	if inNetworkNamespace(t) {
		replaceFile(t, "/etc/resolv.conf", "nameserver 127.0.0.54\n")
		checkStep(t, newProber("").Query(t.Context(), newHop("https", "registry.example"), nil), probe.StepDNS,
			"nothing is listening at the nameserver 127.0.0.54 of /etc/resolv.conf")
	}
}

func TestNoRouteToNameserver(t *testing.T) {
	if inNetworkNamespace(t) {
		replaceFile(t, "/etc/resolv.conf", "nameserver 10.255.255.1\n")
		checkStep(t, newProber("").Query(t.Context(), newHop("https", "registry.example"), nil), probe.StepDNS,
			"there is no route to the nameserver 10.255.255.1", "ip route")
	}
}

// TestDNS verifies the results of name resolution.
func TestDNS(t *testing.T) {
	if !inNetworkNamespace(t) {
		return
	}
	reg := newRegistry(t, testregistry.AuthNone)
	_, port, _ := net.SplitHostPort(reg.Addr())
	send := func(host string) *probe.Result {
		p := newProber("")
		p.StepTimeout = 500 * time.Millisecond
		return p.Query(t.Context(), newHop("http", net.JoinHostPort(host, port)), nil)
	}
	replaceFile(t, "/etc/hosts", "127.0.0.1 localhost\n# a comment\n127.0.0.1\tpinned.example # and another\n")
	startNameserver(t)
	replaceFile(t, "/etc/resolv.conf", "search corp.example\nnameserver 127.0.0.53\noptions ndots:5\n")

	// Plain HTTP is only used for loopback names, so the query fails after the connection.
	// This test checks only the earlier steps.
	r := send("registry.example")
	if got := formatSteps(r); !strings.Contains(got, "ok dns: registry.example is 127.0.0.1 (nameserver 127.0.0.53 of /etc/resolv.conf)") || !strings.Contains(got, "ok tcp") {
		t.Errorf("got:\n%s", got)
	}
	if got := formatSteps(send("pinned.example")); !strings.Contains(got, "ok dns: pinned.example is 127.0.0.1 (/etc/hosts:3)") {
		t.Errorf("got:\n%s", got)
	}
	if got := formatSteps(send("short")); !strings.Contains(got, "warning dns: short was found in a search domain (corp.example); with ndots:5, search domains are tried before the name itself") {
		t.Errorf("got:\n%s", got)
	}
	// Go's resolver queries no nameserver for these names.
	checkStep(t, send("127.1"), probe.StepDNS, "127.1 is neither an IP address nor a DNS name, so no nameserver was queried", "write the address with four numbers")
	checkStep(t, send("2130706433"), probe.StepDNS, "2130706433 is neither an IP address nor a DNS name, so no nameserver was queried", "")
	checkStep(t, send("a-.example"), probe.StepDNS, "a-.example is not in /etc/hosts, and no nameserver was queried", "check the spelling")
	checkStep(t, send("gone.example"), probe.StepDNS, "gone.example does not exist or has no address, according to nameserver 127.0.0.53", "search domains: corp.example, ndots:5", "check the spelling")
	checkStep(t, send("registry.team.svc.cluster.local"), probe.StepDNS, "nodes do not use cluster DNS")
	checkStep(t, send("fail.example"), probe.StepDNS, "returns an error (SERVFAIL or REFUSED)")
	checkStep(t, send("refused.example"), probe.StepDNS, "returns an error (SERVFAIL or REFUSED)")
	checkStep(t, send("silent.example"), probe.StepDNS, "silent.example: no response within 500ms from nameserver 127.0.0.53", "UDP and TCP port 53")
	checkStep(t, send("meta.example"), probe.StepDNS, "meta.example is 169.254.169.254", "never contacts")
	checkStep(t, send("blocked.example"), probe.StepDNS, "blocked.example is 0.0.0.0", "never contacts")

	// This address has no route.
	checkStep(t, send("10.255.255.1"), probe.StepTCP, "10.255.255.1 cannot be reached: there is no route")

	// The proxy is set in this process, but not for the runtime.
	p := newProber("")
	p.Runtime.CallerEnviron = []string{"HTTP_PROXY=http://127.0.0.1:1"}
	checkStep(t, p.Query(t.Context(), newHop("http", "10.255.255.1"), nil), probe.StepTCP, "HTTP_PROXY is set in this shell but not for containerd")
}
