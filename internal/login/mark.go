// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"io"
	"net/http"
	"sync/atomic"
)

// contentHeader tells a request for content, on its way from [Session] to the
// wire, from those that go-containerregistry makes to log in. It has the value
// that its maker signed it with, and is never sent.
const contentHeader = "Regcred-Content"

func mark(req *http.Request) *http.Request {
	req = req.Clone(req.Context()) // what a round tripper may change
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set(contentHeader, req.UserAgent())
	if req.Body != nil && req.Body != http.NoBody {
		req.Body = &upload{ReadCloser: req.Body}
	}
	return req
}

// unmark leaves the mark on req, which is sent again where that is worth it.
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

// upload is the body of a request that go-containerregistry may send again
// once it has a new token, though the body is gone.
type upload struct {
	io.ReadCloser
	begun atomic.Bool
}

// repeated is a request that was sent, to be sent again; nil if its body is gone.
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
