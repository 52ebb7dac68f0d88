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

// aheadLife is for how long a connection that was opened ahead is kept. One
// that the server has given up meanwhile would cost a request.
const aheadLife = 5 * time.Second

// ahead is a connection that nobody has asked for yet.
type ahead struct {
	conns  chan net.Conn // of one, to whom asks for it; closed when there is none
	cancel context.CancelFunc
}

// Ahead begins to connect to the host of a URL, and to shake hands, while
// something else is asked. The first request to that host takes the
// connection, and waits for it if need be. It is closed if there is no such
// request before ctx or five seconds end, or CloseIdleConnections is called. A
// failure is silent: the request connects anew, with an error of its own.
//
// Nothing is asked of the host, but it learns that somebody connects. So it is
// one that will be asked in any case. Where a proxy would be asked for it, or
// the scheme is not https, nothing is opened.
func (t *Transport) Ahead(ctx context.Context, address string) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return
	}
	if t.trust.own == nil {
		systemBundle.start() // of use with a proxy too
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

// open connects, and holds the connection until somebody takes it.
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

// taken returns the connection that was opened ahead, which it waits for; nil
// if there is none.
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
	case conn := <-a.conns: // nil if it is closed
		return conn, nil
	case <-ctx.Done():
		a.cancel()
		return nil, context.Cause(ctx)
	}
}
