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

// errOtherScheme is what a registry has answered otherwise.
var errOtherScheme = errors.New("an earlier request showed that the registry uses the other URL scheme (http or https)")

// pings keeps what a registry said when it was first asked for /v2/: how it
// wants to be asked. The next login need not ask again.
type pings struct {
	mu     sync.Mutex
	scheme string
	status int
	header http.Header
}

func (p *pings) keep(req *http.Request, resp *http.Response) {
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusUnauthorized {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scheme, p.status, p.header = req.URL.Scheme, resp.StatusCode, resp.Header.Clone()
}

// tokens reports whether a login is by token.
func (p *pings) tokens() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return wantsToken(p.header)
}

// wantsToken reports whether go-containerregistry gets a token: it takes the first
// challenge that it understands, of which there is one in a line.
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

// learn takes the answer to a request for that to a ping that said nothing of
// tokens: some registries have /v2/ open, and some were out of order when asked.
func (p *pings) learn(resp *http.Response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.scheme != "" && !wantsToken(p.header) {
		p.status, p.header = http.StatusUnauthorized, resp.Header.Clone()
	}
}

// Learn takes resp, a 200 or 401 to a request that was made without a login, for
// the answer to a ping, and returns how the registry wants a login: the registry
// is not asked for /v2/ then, as container runtimes do not ask for it that go for
// the image at once. It is called before [Registry.Login].
func (r *Registry) Learn(ctx context.Context, resp *http.Response) (*transport.Challenge, error) {
	r.pings.keep(resp.Request, resp)
	return transport.Ping(ctx, r.Target.Registry, &pinger{inner: r.line(), pings: &r.pings})
}

// again returns nil for a registry that was not asked yet.
func (p *pings) again(req *http.Request) (*http.Response, error) {
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
	return nil, errOtherScheme
}

// pinger answers the second ping with what was said to the first.
type pinger struct {
	inner  http.RoundTripper
	pings  *pings
	tokens atomic.Bool // the answer wants them
}

func (p *pinger) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, content := req.Header[contentHeader]; content || req.URL.Path != "/v2/" || req.Response != nil {
		return p.inner.RoundTrip(req)
	}
	resp, err := p.pings.again(req)
	if resp == nil && err == nil {
		if resp, err = p.inner.RoundTrip(req); err == nil {
			p.pings.keep(req, resp)
		}
	}
	if err == nil {
		p.tokens.Store(wantsToken(resp.Header))
	}
	return resp, err
}
