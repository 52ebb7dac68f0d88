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
	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/route"
	"github.com/regcred/regcred/internal/shown"
)

// session queries one host.
type session struct {
	*Prober
	hop    route.Hop
	base   url.URL // of hop, with the scheme that works
	result *Result

	proxy string // what to do about the proxy while that is connected to; "" otherwise

	as string // "token server auth.example: " while the realm is queried

	pool   *x509.CertPool    // the authorities that count; nil: the system verifies
	places []string          // where they are from
	certs  []tls.Certificate // that the runtime shows

	registry *login.Registry
	tokens   *tokenWatch
	session  *login.Session            // with the credential whose turn it is; nil: without a login
	first    response                  // to the request without a login
	dialed   map[string]netip.AddrPort // host:port that was reached, at which address
}

// add adds a step.
func (a *session) add(step string, severity finding.Severity, fix, format string, args ...any) {
	a.result.Steps = append(a.result.Steps, finding.Finding{Rule: step, Severity: severity, Message: a.as + line(fmt.Sprintf(format, args...)), Fix: fix})
}

// fail adds the step that failed, and returns false.
func (a *session) fail(step, fix, format string, args ...any) bool {
	switch {
	case a.proxy != "":
		fix = a.proxy
	case a.as != "": // its address comes from the registry
		fix = strings.TrimPrefix(fix+"; ", "; ") + "the address comes from the registry (the realm in its challenge); if it is wrong, correct the registry's settings"
	}
	a.add(step, finding.SeverityError, fix, format, args...)
	return false
}

// maxMessage bounds the message of a step in bytes, because most of it may be from a
// server.
const maxMessage = 2000

func line(s string) string { return shown.Line(login.Bound(s, maxMessage)) }

func (a *session) close() {
	if a.tokens != nil {
		a.tokens.inner.CloseIdleConnections()
	}
}

// whose names the process whose environment is used.
func (a *session) whose() string { return cmp.Or(a.Runtime.Where, "this process") }

// runtimeName names the runtime in a sentence.
func (a *session) runtimeName() string {
	if a.Runtime.Name == "" {
		return "the runtime"
	}
	return a.Runtime.Name
}

func (a *session) stepTimeout() time.Duration { return cmp.Or(a.StepTimeout, 5*time.Second) }

// inTime bounds a step.
func (a *session) inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := a.stepTimeout()
	return context.WithTimeoutCause(ctx, limit, tooLong(limit))
}

// tooLong is the cause of a context that ended after the timeout of a step.
type tooLong time.Duration

func (t tooLong) Error() string { return fmt.Sprintf("no response within %s", time.Duration(t)) }

func (t tooLong) Timeout() bool   { return true }
func (t tooLong) Temporary() bool { return true }

// late returns the cause of ctx's end, if err is its consequence. A network deadline
// may expire just before the context.
func (a *session) late(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return Ended(ctx)
	case isTimeout(err):
		return tooLong(a.stepTimeout())
	}
	return err
}

var errInterrupted = errors.New("interrupted")

// Ended returns a readable cause of a context's end.
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

// errForbidden is the error for addresses of metadata servers and unspecified
// addresses.
var errForbidden = errors.New("only a metadata server can have this address, so regcred never contacts it")

// forbidden reports whether an address must not be contacted.
func forbidden(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return remote.IsMetadata(addr.String()) || addr.IsUnspecified() || addr.IsMulticast() || addr.IsLinkLocalUnicast()
}

// portOf returns the port of a URL.
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

// isLoopback reports whether a host is a loopback address or localhost, in any case and
// with or without a final dot.
func isLoopback(host string) bool {
	return strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") || registry.IsLoopback(host)
}

// isIP reports whether a host is an IP address that may be contacted.
func isIP(host string) bool {
	_, err := netip.ParseAddr(strings.TrimSuffix(host, "."))
	return err == nil
}
