// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// errOtherScheme is what a registry has answered otherwise.
var errOtherScheme = errors.New("it was asked before, and answered over the other scheme")

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
	return slices.ContainsFunc(p.header.Values("WWW-Authenticate"), func(challenge string) bool {
		scheme, _, _ := strings.Cut(challenge, " ")
		return strings.EqualFold(scheme, "Bearer")
	})
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
	inner http.RoundTripper
	pings *pings
}

func (p *pinger) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, content := req.Header[contentHeader]; content || req.URL.Path != "/v2/" || req.Response != nil {
		return p.inner.RoundTrip(req)
	}
	if resp, err := p.pings.again(req); resp != nil || err != nil {
		return resp, err
	}
	resp, err := p.inner.RoundTrip(req)
	if err == nil {
		p.pings.keep(req, resp)
	}
	return resp, err
}
