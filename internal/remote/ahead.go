// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// aheadLife bounds how long an unused connection is kept. A connection that the
// server has closed meanwhile would cost a request.
const aheadLife = 5 * time.Second

// ahead is a connection that no request uses yet.
type ahead struct {
	conns  chan net.Conn // capacity 1; closed without a connection
	cancel context.CancelFunc
}

// Ahead starts connecting to the host of a URL, including the TLS handshake,
// while other requests run. The first request to that host takes the
// connection, and waits for it if necessary. The connection is closed if no
// request takes it before ctx is done or five seconds have passed, or when
// CloseIdleConnections is called. A failure is not reported: the request
// connects again and returns its own error.
//
// Use it only for a host that will be called in any case. It does nothing if
// the scheme is not https or a proxy would be used.
func (t *Transport) Ahead(ctx context.Context, address string) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return
	}
	if t.trust.own == nil {
		systemBundle.start() // also needed with a proxy
	}
	if proxy, err := t.proxy(&http.Request{Method: http.MethodGet, URL: u, Host: u.Host}); proxy != nil || err != nil {
		return
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	addr := strings.ToLower(net.JoinHostPort(u.Hostname(), port))
	ctx, cancel := context.WithTimeout(ctx, aheadLife)
	a := &ahead{conns: make(chan net.Conn), cancel: cancel}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.aheads[addr] != nil {
		cancel()
		return
	}
	t.aheads[addr] = a
	go t.open(ctx, a, addr)
}

// open connects, and holds the connection until a request takes it.
func (t *Transport) open(ctx context.Context, a *ahead, addr string) {
	defer a.cancel()
	defer close(a.conns)
	s := &t.few
	if t.trust.own != nil || t.wide.Load() {
		s = &t.all
	}
	conn, err := t.connect(ctx, s, "tcp", addr)
	if s == &t.few && t.widens(ctx, err) {
		conn, err = t.connect(ctx, &t.all, "tcp", addr)
	}
	if err != nil {
		return
	}
	select {
	case a.conns <- conn:
	case <-ctx.Done():
		conn.Close()
	}
}

// taken waits for the connection that was opened ahead and returns it, or nil.
func (t *Transport) taken(ctx context.Context, addr string) (net.Conn, error) {
	addr = strings.ToLower(addr)
	t.mu.Lock()
	a := t.aheads[addr]
	delete(t.aheads, addr)
	t.mu.Unlock()
	if a == nil {
		return nil, nil
	}
	select {
	case conn := <-a.conns: // nil if closed
		return conn, nil
	case <-ctx.Done():
		a.cancel()
		return nil, context.Cause(ctx)
	}
}
