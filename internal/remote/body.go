// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote

import (
	"io"
	"net/http"
	"sync"
)

// held is the body of a request that may be sent again. net/http closes the
// body of a request that it could not send.
type held struct {
	io.ReadCloser
	mu            sync.Mutex
	closed, given bool
}

// hold returns the request with a body that is not closed until it is released.
func hold(req *http.Request) (*http.Request, *held) {
	body := &held{ReadCloser: req.Body}
	if req.Body == nil || req.Body == http.NoBody {
		return req, body
	}
	once := *req
	once.Body = body
	return &once, body
}

// Close closes the body once it is released.
func (h *held) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if !h.given {
		return nil
	}
	return h.ReadCloser.Close()
}

// release allows the body to be closed.
func (h *held) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.given = true
	if h.closed {
		h.ReadCloser.Close()
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}
