// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/regcred/regcred/finding"
)

// remainingDialTimeout limits how long the remaining connections may take after the
// first one is open.
const remainingDialTimeout = 300 * time.Millisecond

// dialResult is the result of a connection attempt to one address.
type dialResult struct {
	i    int // index of the address
	conn net.Conn
	err  error
}

// connectTo resolves the host of a URL, connects to all of its addresses, and returns the
// first connection. It closes the others.
func (a *session) connectTo(ctx context.Context, u *url.URL) (net.Conn, bool) {
	addrs, ok := a.resolveHost(ctx, u.Hostname())
	if !ok {
		return nil, false
	}
	port, err := strconv.ParseUint(portOrDefault(u), 10, 16)
	if err != nil || port == 0 {
		return nil, a.addFailedStep(StepTCP, "", "%q is not a port", u.Port())
	}
	conn, said, slow := a.dialAll(ctx, addrs, uint16(port))
	text := strings.Join(said, "; ")
	switch {
	case conn == nil:
		return nil, a.addFailedStep(StepTCP, a.unreachableFix(u, text), "%s: %s", hostPort(u), text)
	case slow:
		a.addStep(StepTCP, finding.SeverityWarning, "remove the unresponsive address from DNS, or allow the node to reach it; otherwise, each pull might wait for this address to respond", "%s: %s", hostPort(u), text)
	default:
		a.addStep(StepTCP, finding.SeverityOK, "", "%s: %s", hostPort(u), text)
	}
	a.dialed[hostPort(u)] = netip.MustParseAddrPort(conn.RemoteAddr().String())
	return conn, true
}

// dialAll connects to the addresses in parallel and describes each result.
func (a *session) dialAll(ctx context.Context, addrs []netip.Addr, port uint16) (first net.Conn, said []string, slow bool) {
	ctx, cancel := a.withStepTimeout(ctx)
	defer cancel()
	done := make(chan dialResult, len(addrs))
	for i, addr := range addrs {
		go func() {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", netip.AddrPortFrom(addr, port).String())
			done <- dialResult{i, conn, err}
		}()
	}
	said = make([]string, len(addrs))
	for range addrs {
		d := <-done
		text := "connected"
		switch {
		case d.err != nil:
			text = a.connectErrorText(ctx, d.err)
			slow = slow || ctx.Err() != nil || isTimeout(d.err)
		case first == nil:
			first = d.conn
			timer := time.AfterFunc(remainingDialTimeout, cancel)
			defer timer.Stop()
		default:
			d.conn.Close()
		}
		said[d.i] = addrs[d.i].String() + " " + text
	}
	return first, said, slow
}

// connectErrorText explains why a connection failed.
func (a *session) connectErrorText(ctx context.Context, err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused the connection"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "cannot be reached: there is no route"
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return "is blocked by this machine's firewall"
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled):
		return "has not responded yet"
	case ctx.Err() != nil, isTimeout(err):
		return fmt.Sprintf("does not respond (%s)", a.stepTimeout())
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err.Error()
	}
	return err.Error()
}

// unreachableFix returns the fix for a host that does not respond.
func (a *session) unreachableFix(u *url.URL, said string) string {
	if proxy, variable := proxyForURL(a.Runtime.CallerEnviron, u); proxy != nil {
		if theirs, _ := proxyForURL(a.Runtime.Environ, u); theirs == nil {
			return fmt.Sprintf("%s is set in this shell but not for %s, which connects directly; set it in the unit's environment and restart the unit", variable, a.runtimeName())
		}
	}
	if strings.Contains(said, "refused") {
		return fmt.Sprintf("check that the registry is running and listening on port %s; to use another port, specify HOST:PORT", portOrDefault(u))
	}
	return "allow this node to reach it (routes, firewalls, security groups), or set a proxy in the environment of " + a.runtimeName()
}
