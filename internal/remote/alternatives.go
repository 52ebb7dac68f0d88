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

// Alternatives returns a round tripper for a server that has several names or
// addresses, each with or without a port: it asks the first to which there is
// a way, whatever host a request names, and that one from then on. A host that
// refuses is the server: the next one is not asked. Requests have no body.
func Alternatives(next http.RoundTripper, hosts ...string) http.RoundTripper {
	return &alternatives{next: next, hosts: hosts}
}

type alternatives struct {
	next  http.RoundTripper
	hosts []string
	found atomic.Int32 // the one that was asked last
}

// RoundTrip is that of [http.RoundTripper]. The error is a [*NoWayError] if
// there is no way to any of the hosts.
func (a *alternatives) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := redirected(req); err != nil {
		return nil, err
	}
	failed := &NoWayError{}
	first := int(a.found.Load())
	for i := range a.hosts {
		at := (first + i) % len(a.hosts)
		to := req.Clone(req.Context())
		to.URL.Host, to.Host, to.Response = a.hosts[at], "", nil
		resp, err := a.next.RoundTrip(to)
		if err == nil {
			resp.Request = req // to which a redirect is relative
		}
		if !isNoWay(req.Context(), err) {
			a.found.Store(int32(at))
			return resp, err
		}
		failed.Hosts, failed.Errs = append(failed.Hosts, a.hosts[at]), append(failed.Errs, err)
	}
	return nil, failed
}

// isNoWay reports whether a host could not be connected to, and does not refuse.
func isNoWay(ctx context.Context, err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial" && ctx.Err() == nil && !errors.Is(err, syscall.ECONNREFUSED)
}

// NoWayError says that none of several hosts could be connected to.
type NoWayError struct {
	Hosts []string
	Errs  []error // of each
}

// Error names each host and why.
func (e *NoWayError) Error() string {
	var texts []string
	for i, host := range e.Hosts {
		texts = append(texts, host+": "+networkCause(e.Errs[i]).Error())
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the errors.
func (e *NoWayError) Unwrap() []error { return e.Errs }
