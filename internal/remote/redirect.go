// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote

import (
	"fmt"
	"net/http"
	"strings"
)

// maxRedirects is how many redirects are followed one after the other.
const maxRedirects = 3

// RedirectError says why a redirect is not followed: it leads elsewhere, and
// would take along what was meant for the first host, or in a circle.
type RedirectError struct {
	Status int    // of the answer that redirects
	Host   string // where it leads; "" if in a circle
}

// Error says where it leads.
func (e *RedirectError) Error() string {
	if e.Host == "" {
		return "redirect loop"
	}
	return fmt.Sprintf("did not follow a redirect to another host, %.100q", e.Host)
}

// redirected refuses a request that follows a redirect to another scheme or
// host, or more than [maxRedirects] of them. [http.Client] and the AWS SDK's
// say in Response which redirect a request follows.
func redirected(req *http.Request) error {
	redirects := 0
	for to := req; to.Response != nil && to.Response.Request != nil; to = to.Response.Request {
		from := to.Response.Request.URL
		if to.URL.Scheme != from.Scheme || !strings.EqualFold(to.URL.Host, from.Host) {
			return &RedirectError{req.Response.StatusCode, to.URL.Host}
		}
		if redirects++; redirects > maxRedirects {
			return &RedirectError{Status: req.Response.StatusCode}
		}
	}
	return nil
}

// Guard returns a round tripper that follows redirects as [Transport] does, by
// itself, whichever client asks and whatever it would follow.
func Guard(next http.RoundTripper) http.RoundTripper { return guard{next} }

type guard struct{ http.RoundTripper }

// RoundTrip is that of [http.RoundTripper].
func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := redirected(req); err != nil {
		closeBody(req)
		return nil, err
	}
	return g.RoundTripper.RoundTrip(req)
}

// CloseIdleConnections is for [http.Client.CloseIdleConnections].
func (g guard) CloseIdleConnections() {
	if c, ok := g.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
