// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"io"
	"net/http"
	"sync/atomic"
)

// contentHeader distinguishes a request for content, between [Session] and the
// wire, from those of go-containerregistry's login. It contains the request's
// User-Agent, and is never sent.
const contentHeader = "Regcred-Content"

func mark(req *http.Request) *http.Request {
	req = req.Clone(req.Context()) // round trippers may change only a copy
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set(contentHeader, req.UserAgent())
	if req.Body != nil && req.Body != http.NoBody {
		req.Body = &upload{ReadCloser: req.Body}
	}
	return req
}

// unmark returns a request without the mark. It keeps the mark on req, which
// may be sent again.
func unmark(req *http.Request) (unmarked *http.Request, content bool) {
	signed, content := req.Header[contentHeader]
	if !content {
		return req, false
	}
	unmarked = new(http.Request)
	*unmarked = *req
	unmarked.Header = req.Header.Clone()
	delete(unmarked.Header, contentHeader)
	if signed[0] != "" {
		unmarked.Header.Set("User-Agent", signed[0])
	}
	return unmarked, true
}

// upload is the body of a request that go-containerregistry may send again with
// a new token, after the body was read.
type upload struct {
	io.ReadCloser
	begun atomic.Bool
}

// repeated returns a copy of a request to send again, or nil if its body cannot
// be read again.
func repeated(req *http.Request) *http.Request {
	if req.Body == nil || req.Body == http.NoBody {
		return req
	}
	if req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil
	}
	req = req.Clone(req.Context())
	req.Body = body
	return req
}
