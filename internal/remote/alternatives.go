// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
)

// NewFailover returns a round tripper for a server with several names or addresses, with or
// without a port. It replaces each request's host with the first host that it can connect to,
// and keeps using that host. If a host refuses the connection, it does not try the next host.
// Requests must not have a body.
func NewFailover(next http.RoundTripper, hosts ...string) http.RoundTripper {
	return &failover{next: next, hosts: hosts}
}

type failover struct {
	next    http.RoundTripper
	hosts   []string
	current atomic.Int32 // index of the host in use
}

// RoundTrip implements [http.RoundTripper]. It returns a [*UnreachableError] if no host can
// be reached.
func (a *failover) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := CheckRedirect(req, nil); err != nil {
		return nil, err
	}
	failed := &UnreachableError{}
	first := int(a.current.Load())
	for i := range a.hosts {
		at := (first + i) % len(a.hosts)
		to := req.Clone(req.Context())
		to.URL.Host, to.Host, to.Response = a.hosts[at], "", nil
		resp, err := a.next.RoundTrip(to)
		if err == nil {
			resp.Request = req // redirects are resolved relative to the original request
		}
		if !isUnreachable(req.Context(), err) {
			a.current.Store(int32(at))
			return resp, err
		}
		failed.Hosts, failed.Errs = append(failed.Hosts, a.hosts[at]), append(failed.Errs, err)
	}
	return nil, failed
}

// isUnreachable reports whether err means that the host is unreachable rather than that it
// refused the connection.
func isUnreachable(ctx context.Context, err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial" && ctx.Err() == nil && !errors.Is(err, syscall.ECONNREFUSED)
}

// UnreachableError is returned if none of several hosts can be reached.
type UnreachableError struct {
	Hosts []string
	Errs  []error // one per host
}

// Error lists the hosts with their errors.
func (e *UnreachableError) Error() string {
	var texts []string
	for i, host := range e.Hosts {
		texts = append(texts, host+": "+describeNetworkError(e.Errs[i]).Error())
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the errors.
func (e *UnreachableError) Unwrap() []error { return e.Errs }
