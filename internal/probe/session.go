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
	"github.com/regcred/regcred/internal/textfmt"
)

// session queries one host.
type session struct {
	*Prober
	hop    route.Hop
	base   url.URL // URL of hop, with the scheme that works
	result *Result

	proxyErrorFix string // fix for proxy errors while connecting to a proxy; "" otherwise

	messagePrefix string // prefix such as "token server auth.example: " while the realm is queried

	pool    *x509.CertPool    // trusted CAs; nil means the system's CAs
	caFiles []string          // where the trusted CAs were read from
	certs   []tls.Certificate // client certificates that the runtime presents

	registry          *login.Registry
	tokens            *tokenRecorder
	loginSession      *login.Session            // session with the current credential; nil without a credential
	anonymousResponse serverResponse            // response to the request without a credential
	dialed            map[string]netip.AddrPort // from host:port to the address that was reached
}

// addStep adds a finding about a step.
func (a *session) addStep(step string, severity finding.Severity, fix, format string, args ...any) {
	a.result.Steps = append(a.result.Steps, finding.Finding{Rule: step, Severity: severity, Message: a.messagePrefix + singleLine(fmt.Sprintf(format, args...)), Fix: fix})
}

// addFailedStep adds a failed step and returns false.
func (a *session) addFailedStep(step, fix, format string, args ...any) bool {
	switch {
	case a.proxyErrorFix != "":
		fix = a.proxyErrorFix
	case a.messagePrefix != "": // the token server's address comes from the registry
		fix = strings.TrimPrefix(fix+"; ", "; ") + "the address comes from the registry (the realm in its challenge); if it is wrong, correct the registry's settings"
	}
	a.addStep(step, finding.SeverityError, fix, format, args...)
	return false
}

// maxMessageSize limits a step's message in bytes, because most of it may come from a
// server.
const maxMessageSize = 2000

func singleLine(s string) string { return textfmt.EscapeLine(login.Truncate(s, maxMessageSize)) }

// environmentOwner returns the name of the process whose environment is used.
func (a *session) environmentOwner() string { return cmp.Or(a.Runtime.Source, "this process") }

// runtimeName returns the runtime's name for use in a sentence.
func (a *session) runtimeName() string { return cmp.Or(a.Runtime.Name, "the runtime") }

func (a *session) stepTimeout() time.Duration { return cmp.Or(a.StepTimeout, 5*time.Second) }

// withStepTimeout adds the step timeout to ctx.
func (a *session) withStepTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := a.stepTimeout()
	return context.WithTimeoutCause(ctx, limit, stepTimeoutError(limit))
}

// stepTimeoutError is the cause of a context that was canceled by a step's timeout.
type stepTimeoutError time.Duration

func (t stepTimeoutError) Error() string {
	return fmt.Sprintf("no response within %s", time.Duration(t))
}

func (t stepTimeoutError) Timeout() bool   { return true }
func (t stepTimeoutError) Temporary() bool { return true }

// timeoutCause returns the cause of ctx's cancellation if err results from it. A
// network deadline may expire just before the context does.
func (a *session) timeoutCause(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ContextCause(ctx)
	case isTimeout(err):
		return stepTimeoutError(a.stepTimeout())
	}
	return err
}

var errInterrupted = errors.New("interrupted")

// ContextCause returns a readable cause for a canceled context.
func ContextCause(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return errInterrupted
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// errForbiddenAddr is returned for addresses that must not be contacted, such as the
// addresses of metadata servers.
var errForbiddenAddr = errors.New("only a metadata server can have this address, so regcred never contacts it")

// isForbiddenAddr reports whether an address must not be contacted.
func isForbiddenAddr(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return remote.IsMetadataHost(addr.String()) || addr.IsUnspecified() || addr.IsMulticast() || addr.IsLinkLocalUnicast()
}

func portOrDefault(u *url.URL) string {
	return cmp.Or(u.Port(), map[string]string{"http": "80"}[u.Scheme], "443")
}

func hostPort(u *url.URL) string { return net.JoinHostPort(u.Hostname(), portOrDefault(u)) }

// isLoopback reports whether a host is a loopback address or localhost, in any letter
// case, with or without a trailing dot.
func isLoopback(host string) bool {
	return strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") || registry.IsLoopback(host)
}
