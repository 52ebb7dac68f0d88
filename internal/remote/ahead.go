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

// preconnectLifetime limits how long an unused connection is kept. If the server closed it in
// the meantime, a request would fail.
const preconnectLifetime = 5 * time.Second

// preconnection is a connection that was opened in advance and is not used yet.
type preconnection struct {
	conns  chan net.Conn // unbuffered; closed without a value if there is no connection
	cancel context.CancelFunc
}

// Preconnect starts connecting to a URL's host, including the TLS handshake, while other
// requests run. The first request to that host takes the connection, and waits for it
// if necessary. The connection is closed if no request takes it within five seconds or
// before ctx is done, or when CloseIdleConnections is called. Failures are not
// reported: the request connects again and returns its own error.
//
// Use Preconnect only for a host that will certainly be called. It does nothing if the
// scheme is not https or a proxy would be used.
func (t *Transport) Preconnect(ctx context.Context, address string) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return
	}
	if t.trust.customPool == nil {
		systemBundle.startReading() // requests through a proxy need the CAs too
	}
	if proxy, err := t.proxyURL(&http.Request{Method: http.MethodGet, URL: u, Host: u.Host}); proxy != nil || err != nil {
		return
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	addr := strings.ToLower(net.JoinHostPort(u.Hostname(), port))
	ctx, cancel := context.WithTimeout(ctx, preconnectLifetime)
	a := &preconnection{conns: make(chan net.Conn), cancel: cancel}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.preconnections[addr] != nil {
		cancel()
		return
	}
	t.preconnections[addr] = a
	go t.openPreconnection(ctx, a, addr)
}

// openPreconnection opens the connection and holds it until a request takes it.
func (t *Transport) openPreconnection(ctx context.Context, a *preconnection, addr string) {
	defer a.cancel()
	defer close(a.conns)
	s := &t.bundleTransport
	if t.trust.customPool != nil || t.useAllCAs.Load() {
		s = &t.fullTransport
	}
	conn, err := t.dialAndHandshake(ctx, s, "tcp", addr)
	if s == &t.bundleTransport && t.shouldTryAllCAs(ctx, err) {
		conn, err = t.dialAndHandshake(ctx, &t.fullTransport, "tcp", addr)
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

// takePreconnection waits for the connection that [Transport.Preconnect] opens, and returns
// it. It returns nil if there is none.
func (t *Transport) takePreconnection(ctx context.Context, addr string) (net.Conn, error) {
	addr = strings.ToLower(addr)
	t.mu.Lock()
	a := t.preconnections[addr]
	delete(t.preconnections, addr)
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
