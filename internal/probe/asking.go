// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/login"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/route"
	"github.com/regcred/regcred/internal/shown"
)

// asking is a host that is being asked.
type asking struct {
	*Prober
	hop    route.Hop
	base   url.URL // of hop, with the scheme that works
	result *Result

	proxy string // what to do about the proxy while that is connected to; "" otherwise

	as string // "token server auth.example: " while the realm is asked

	pool   *x509.CertPool    // the authorities that count; nil: the system verifies
	places []string          // where they are from
	certs  []tls.Certificate // that the runtime shows

	registry *login.Registry
	tokens   *tokenWatch
	session  *login.Session            // with the credential whose turn it is; nil: without a login
	first    answer                    // to the request without a login
	dialed   map[string]netip.AddrPort // host:port that was reached, at which address
}

// add records a step.
func (a *asking) add(step string, severity finding.Severity, fix, format string, args ...any) {
	a.result.Steps = append(a.result.Steps, finding.Finding{Rule: step, Severity: severity, Message: a.as + line(fmt.Sprintf(format, args...)), Fix: fix})
}

// fail records the step at which it ends; it is false.
func (a *asking) fail(step, fix, format string, args ...any) bool {
	switch {
	case a.proxy != "":
		fix = a.proxy
	case a.as != "": // whose address nobody but the registry gives
		fix = strings.TrimPrefix(fix+"; ", "; ") + "the address comes from the registry (the realm in its challenge); if it is wrong, correct the registry's settings"
	}
	a.add(step, finding.SeverityError, fix, format, args...)
	return false
}

// maxMessage bounds what is said of one step, in bytes: most of it may be a server's.
const maxMessage = 2000

func line(s string) string { return shown.Line(login.Bound(s, maxMessage)) }

func (a *asking) close() {
	if a.tokens != nil {
		a.tokens.inner.CloseIdleConnections()
	}
}

// whose names whose environment counts.
func (a *asking) whose() string { return cmp.Or(a.Runtime.Where, "this process") }

// runtimeName is how the runtime is called in a sentence.
func (a *asking) runtimeName() string {
	if a.Runtime.Name == "" {
		return "the runtime"
	}
	return a.Runtime.Name
}

func (a *asking) stepTimeout() time.Duration { return cmp.Or(a.StepTimeout, 5*time.Second) }

// inTime bounds a step.
func (a *asking) inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := a.stepTimeout()
	return context.WithTimeoutCause(ctx, limit, tooLong(limit))
}

// tooLong says that a step took longer than it may.
type tooLong time.Duration

func (t tooLong) Error() string { return fmt.Sprintf("no response within %s", time.Duration(t)) }

func (t tooLong) Timeout() bool   { return true }
func (t tooLong) Temporary() bool { return true }

// late is the cause of ctx's end in place of an error that is its consequence. A
// deadline of the network may be noticed a moment before that of the context.
func (a *asking) late(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return Ended(ctx)
	case isTimeout(err):
		return tooLong(a.stepTimeout())
	}
	return err
}

// errInterrupted says that nobody waits any more.
var errInterrupted = errors.New("interrupted")

// Ended is why a context has ended, for people.
func Ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return errInterrupted
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// errForbidden says that an address is a metadata server's, or names nothing.
var errForbidden = errors.New("only a metadata server can have this address, so regcred never contacts it")

// forbidden reports whether nobody is asked at an address.
func forbidden(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return remote.IsMetadata(addr.String()) || addr.IsUnspecified() || addr.IsMulticast() || addr.IsLinkLocalUnicast()
}

// portOf is the port of a URL.
func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}

func address(u *url.URL) string { return net.JoinHostPort(u.Hostname(), portOf(u)) }

// isLoopback reports whether a host is this machine by its name alone.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") || err == nil && addr.Unmap().IsLoopback()
}

// isIP reports whether a host is an address, and none that stands for a metadata server.
func isIP(host string) bool {
	_, err := netip.ParseAddr(strings.TrimSuffix(host, "."))
	return err == nil
}
