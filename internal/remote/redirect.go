// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote

import (
	"fmt"
	"net/http"
	"strings"
)

// maxRedirects bounds consecutive redirects.
const maxRedirects = 3

// RedirectError reports a redirect that is not followed, because it leads to
// another host, which would get the request's secrets, or in a loop.
type RedirectError struct {
	Status int    // of the redirect
	Host   string // the target; "" for a loop
}

// Error returns the target.
func (e *RedirectError) Error() string {
	if e.Host == "" {
		return "redirect loop"
	}
	return fmt.Sprintf("did not follow a redirect to another host, %.100q", e.Host)
}

// redirected rejects redirects to another scheme or host, and more than
// [maxRedirects]. [http.Client] and the AWS SDK set Response to the redirect
// that a request follows.
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

// Guard returns a round tripper that follows redirects as [Transport] does,
// whatever the client would follow.
func Guard(next http.RoundTripper) http.RoundTripper { return guard{next} }

type guard struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := redirected(req); err != nil {
		closeBody(req)
		return nil, err
	}
	return g.RoundTripper.RoundTrip(req)
}

// CloseIdleConnections implements [http.Client.CloseIdleConnections].
func (g guard) CloseIdleConnections() {
	if c, ok := g.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
