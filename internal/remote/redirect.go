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

// RedirectError is returned for a redirect that is not followed, either because it
// leads to another host, which would receive the request's secrets, or because it
// loops.
type RedirectError struct {
	Status int    // of the redirect
	Host   string // the target host; "" for a loop
}

// Error includes the target of the redirect.
func (e *RedirectError) Error() string {
	if e.Host == "" {
		return "redirect loop"
	}
	return fmt.Sprintf("did not follow a redirect to another host, %.100q", e.Host)
}

// CheckRedirect is an [http.Client.CheckRedirect] that rejects redirects to another scheme or
// host, and more than [maxRedirects] redirects. [http.Client] and the AWS SDK set Response to
// the redirect response that led to the request.
func CheckRedirect(req *http.Request, _ []*http.Request) error {
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

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}
