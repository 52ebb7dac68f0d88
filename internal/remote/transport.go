// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// NewBaseTransport returns the transport that [NewTransport] wraps. Callers may modify it and pass
// it to [WrapTransport]. It has short connect timeouts, uses [Proxy], and keeps no connections
// that outlive a plugin.
func NewBaseTransport() *http.Transport {
	return &http.Transport{
		Proxy:               Proxy,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     10 * time.Second,
		MaxIdleConns:        4,
	}
}

// NewTransport returns a transport for token endpoints. CloseIdleConnections
// closes its connections.
func NewTransport() *Transport { return WrapTransport(NewBaseTransport()) }

// Transport sends requests over HTTP/1.1. At first, it trusts only the CAs in the system's
// bundle. It switches to all of the system's CAs when a server's CA is not in the bundle. It
// does not follow redirects to other hosts. [Transport.Preconnect] connects to a host in
// advance. A Transport is safe for concurrent use.
//
// In addition to the errors of [http.Transport], it returns [*RedirectError],
// [*UnknownCAError] and [*ProxyError].
type Transport struct {
	base      *http.Transport // source of the settings; sends no requests
	trust     trustedCAs
	useAllCAs atomic.Bool // set once a CA was not in the bundle

	bundleTransport, fullTransport caTransport

	mu             sync.Mutex
	preconnections map[string]*preconnection // by host:port
}

// caTransport is a transport with one set of CAs. Each set needs its own transport, because
// net/http takes the CAs for connections through a proxy from the transport.
type caTransport struct {
	*http.Transport
	roots func(context.Context) (*x509.CertPool, error)
	once  sync.Once
}

// WrapTransport returns a transport with the proxy, dialer, timeouts and limits of base. If
// base has RootCAs, only these CAs are trusted. base itself is not used to send requests and
// must not be changed afterwards.
//
// In the AWS SDK, BuildableClient.GetTransport returns a transport with the CAs from
// AWS_CA_BUNDLE, which can be used as base.
func WrapTransport(base *http.Transport) *Transport {
	t := &Transport{base: base, preconnections: map[string]*preconnection{}}
	if base.TLSClientConfig != nil {
		t.trust.customPool = base.TLSClientConfig.RootCAs
	}
	t.bundleTransport.roots, t.fullTransport.roots = t.trust.bundlePool, t.trust.fullPool
	for _, s := range []*caTransport{&t.bundleTransport, &t.fullTransport} {
		s.Transport = base.Clone()
		s.TLSClientConfig = t.tlsConfig()
		// Use only HTTP/1.1, because a plugin sends no parallel requests, and because an
		// HTTP/2 connection is not usable immediately after the handshake.
		s.ForceAttemptHTTP2 = false
		s.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
		s.Protocols = new(http.Protocols)
		s.Protocols.SetHTTP1(true)
		s.OnProxyConnectResponse = OnProxyConnectResponse
		s.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return t.dialTLS(ctx, s, network, addr)
		}
	}
	return t
}

// AddCAs adds CAs in PEM to the system's CAs. Call it before the first request. It
// returns an error if pem contains no CAs.
func (t *Transport) AddCAs(pem []byte) error {
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return errors.New("no certificates in PEM format")
	}
	t.trust.extraPEM = bytes.Clone(pem)
	return nil
}

// CloseIdleConnections closes unused connections, including those opened in advance.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	for addr, a := range t.preconnections {
		a.cancel()
		delete(t.preconnections, addr)
	}
	t.mu.Unlock()
	t.bundleTransport.CloseIdleConnections()
	t.fullTransport.CloseIdleConnections()
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	err := CheckRedirect(req, nil)
	if err == nil && req.URL.Scheme == "https" {
		return t.roundTripTLS(req)
	}
	if err != nil {
		closeBody(req)
		return nil, err
	}
	return t.fullTransport.RoundTrip(req)
}

// roundTripTLS sends a request over TLS. If the bundle does not contain the server's CA, it
// connects again and trusts all CAs. The first connection fails before the request is sent.
func (t *Transport) roundTripTLS(req *http.Request) (*http.Response, error) {
	if t.trust.customPool != nil || t.useAllCAs.Load() {
		return t.sendWith(&t.fullTransport, req)
	}
	once, body := holdBody(req)
	resp, err := t.sendWith(&t.bundleTransport, once)
	if !t.shouldTryAllCAs(req.Context(), err) {
		body.allowClose()
		return resp, err
	}
	return t.sendWith(&t.fullTransport, req)
}

// shouldTryAllCAs reports whether trusting all CAs may help after the bundle's CAs did not.
// If so, later requests also trust all CAs, because a node with a private CA uses that CA for
// most servers.
func (t *Transport) shouldTryAllCAs(ctx context.Context, err error) bool {
	if !isUnknownCA(err) {
		return false
	}
	if pool, err := systemBundle.waitForCAs(ctx); pool == nil || err != nil {
		return false // all CAs were already tried
	}
	t.useAllCAs.Store(true)
	return true
}

// sendWith sends a request with the CAs of s.
func (t *Transport) sendWith(s *caTransport, req *http.Request) (*http.Response, error) {
	if proxy, err := t.proxyURL(req); proxy != nil && err == nil {
		pool, err := s.roots(req.Context())
		if err != nil {
			closeBody(req)
			return nil, err
		}
		// net/http uses these CAs only for connections through a proxy.
		s.once.Do(func() { s.TLSClientConfig.RootCAs = pool })
	}
	resp, err := s.RoundTrip(req)
	if t.trust.customPool == nil && isUnknownCA(err) {
		err = &UnknownCAError{Store: storeName(runtime.GOOS, os.Getenv), Err: err}
	}
	return resp, err
}

// proxyURL returns the proxy URL for a request, or nil.
func (t *Transport) proxyURL(req *http.Request) (*url.URL, error) {
	if t.base.Proxy == nil {
		return nil, nil
	}
	return t.base.Proxy(req)
}

// dialTLS takes a connection that was opened in advance, or connects directly.
func (t *Transport) dialTLS(ctx context.Context, s *caTransport, network, addr string) (net.Conn, error) {
	if conn, err := t.takePreconnection(ctx, addr); conn != nil || err != nil {
		return conn, err
	}
	return t.dialAndHandshake(ctx, s, network, addr)
}

// dialAndHandshake dials and performs the TLS handshake.
func (t *Transport) dialAndHandshake(ctx context.Context, s *caTransport, network, addr string) (net.Conn, error) {
	if t.trust.customPool == nil {
		systemBundle.startReading()
	}
	dial := t.base.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	plain, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	conn, err := t.tlsHandshake(ctx, s, plain, addr)
	if err != nil {
		plain.Close()
		return nil, err
	}
	return conn, nil
}

func (t *Transport) tlsHandshake(ctx context.Context, s *caTransport, plain net.Conn, addr string) (net.Conn, error) {
	if limit := t.base.TLSHandshakeTimeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, handshakeTimeout(limit))
		defer cancel()
	}
	pool, err := s.roots(ctx)
	if err != nil {
		return nil, err
	}
	cfg := t.tlsConfig()
	cfg.RootCAs = pool
	if cfg.ServerName == "" {
		if cfg.ServerName, _, err = net.SplitHostPort(addr); err != nil {
			return nil, err
		}
	}
	conn := tls.Client(plain, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, handshakeError(ctx, err)
	}
	return conn, nil
}

// handshakeError marks TLS errors as permanent, except network errors, alerts from the
// server, and responses that are not TLS.
func handshakeError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, network := errors.AsType[net.Error](err) // including alerts from the server
	_, record := errors.AsType[tls.RecordHeaderError](err)
	if network || record || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return permanentError{err}
}

// tlsConfig returns the base's TLS configuration, restricted to HTTP/1.1.
func (t *Transport) tlsConfig() *tls.Config {
	if t.base.TLSClientConfig == nil {
		return new(tls.Config)
	}
	cfg := t.base.TLSClientConfig.Clone()
	cfg.NextProtos = nil
	return cfg
}

// heldBody is the body of a request that may be retried. net/http closes the body of a
// request that it could not send.
type heldBody struct {
	io.ReadCloser
	mu               sync.Mutex
	closed, released bool
}

// holdBody returns the request with a body that stays open until it is released.
func holdBody(req *http.Request) (*http.Request, *heldBody) {
	body := &heldBody{ReadCloser: req.Body}
	if req.Body == nil || req.Body == http.NoBody {
		return req, body
	}
	once := *req
	once.Body = body
	return &once, body
}

// Close closes the body once it is released.
func (h *heldBody) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if !h.released {
		return nil
	}
	return h.ReadCloser.Close()
}

// allowClose allows the body to be closed.
func (h *heldBody) allowClose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = true
	if h.closed {
		h.ReadCloser.Close()
	}
}
