// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// errSchemeMismatch is returned if the registry responded with the other URL scheme.
var errSchemeMismatch = errors.New("an earlier request showed that the registry uses the other URL scheme (http or https)")

// pingCache stores the response to the first request for /v2/ for later logins. The
// response contains the authentication that the registry requires.
type pingCache struct {
	mu     sync.Mutex
	scheme string
	status int
	header http.Header
}

func (p *pingCache) store(req *http.Request, resp *http.Response) {
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusUnauthorized {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scheme, p.status, p.header = req.URL.Scheme, resp.StatusCode, resp.Header.Clone()
}

// wantsToken reports whether go-containerregistry will request a token. It reads one
// challenge from each line, and uses the first that it supports.
func wantsToken(h http.Header) bool {
	for _, challenge := range h.Values("WWW-Authenticate") {
		switch scheme, _, _ := strings.Cut(challenge, " "); strings.ToLower(scheme) {
		case "bearer":
			return true
		case "basic":
			return false
		}
	}
	return false
}

// learnAnonymous stores resp instead of the response to a ping, if that required no
// token. Some registries do not protect /v2/, and some may have been unavailable during
// the ping.
func (p *pingCache) learnAnonymous(resp *http.Response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.scheme != "" && !wantsToken(p.header) {
		p.status, p.header = http.StatusUnauthorized, resp.Header.Clone()
	}
}

// StorePing uses resp, a 200 or 401 response to a request without credentials, as the
// response to a ping. It returns the required authentication. [Registry.Login] then
// sends no request for /v2/, like container runtimes that request the image
// immediately. Call StorePing before Login.
func (r *Registry) StorePing(ctx context.Context, resp *http.Response) (*transport.Challenge, error) {
	r.pings.store(resp.Request, resp)
	return transport.Ping(ctx, r.Target.Registry, &pinger{inner: r.baseTransport(), pings: &r.pings})
}

// cachedResponse returns the stored response, or nil without one.
func (p *pingCache) cachedResponse(req *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.scheme {
	case "":
		return nil, nil
	case req.URL.Scheme:
		return &http.Response{
			Status: http.StatusText(p.status), StatusCode: p.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: p.header.Clone(), Body: http.NoBody, Request: req,
		}, nil
	}
	return nil, errSchemeMismatch
}

// pinger responds to later pings with the first response.
type pinger struct {
	inner  http.RoundTripper
	pings  *pingCache
	tokens atomic.Bool // the response requires tokens
}

func (p *pinger) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, content := req.Header[contentHeader]; content || req.URL.Path != "/v2/" || req.Response != nil {
		return p.inner.RoundTrip(req)
	}
	resp, err := p.pings.cachedResponse(req)
	if resp == nil && err == nil {
		if resp, err = p.inner.RoundTrip(req); err == nil {
			p.pings.store(req, resp)
		}
	}
	if err == nil {
		p.tokens.Store(wantsToken(resp.Header))
	}
	return resp, err
}
