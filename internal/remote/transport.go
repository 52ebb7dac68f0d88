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

// Base returns what [NewTransport] wraps, to be changed and given to [Wrap]:
// with short times to connect, the proxy of [Proxy], and without connections
// that outlive a plugin.
func Base() *http.Transport {
	return &http.Transport{
		Proxy:               Proxy,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     10 * time.Second,
		MaxIdleConns:        4,
	}
}

// NewTransport returns a transport for token endpoints. Its connections are
// closed by CloseIdleConnections.
func NewTransport() *Transport { return Wrap(Base()) }

// Transport asks over HTTP/1.1. It trusts the authorities in the system's
// bundle, and all of the system's once one is unknown; it follows no redirect
// to another host; and it can connect [Transport.Ahead]. It is safe for
// concurrent use.
//
// Errors are those of [http.Transport], and [*RedirectError],
// [*AuthorityError] and [*ProxyError].
type Transport struct {
	base  *http.Transport // as it was given: read, never used
	trust authorities
	wide  atomic.Bool // one authority was not among the few

	few, all side

	mu     sync.Mutex
	aheads map[string]*ahead // by host:port
}

// side is a transport with one set of authorities, which package http wants
// to know from the beginning, for what goes through a proxy.
type side struct {
	*http.Transport
	roots func(context.Context) (*x509.CertPool, error)
	once  sync.Once
}

// Wrap returns a transport that connects as base would: by its proxy, dialer,
// times and limits. The RootCAs of base, if it has any, are the only
// authorities. Base is not used, and may not be changed afterwards.
//
// The AWS SDK makes one (BuildableClient.GetTransport), with the authorities
// of AWS_CA_BUNDLE, which [http.Client] can have in this form.
func Wrap(base *http.Transport) *Transport {
	t := &Transport{base: base, aheads: map[string]*ahead{}}
	if base.TLSClientConfig != nil {
		t.trust.own = base.TLSClientConfig.RootCAs
	}
	t.few.roots, t.all.roots = t.trust.few, t.trust.all
	for _, s := range []*side{&t.few, &t.all} {
		s.Transport = base.Clone()
		s.TLSClientConfig = t.tlsConfig()
		// HTTP/1.1 alone: a plugin has nothing to send side by side, and in
		// HTTP/2 a handshake does not end with the connection being usable.
		s.ForceAttemptHTTP2 = false
		s.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
		s.Protocols = new(http.Protocols)
		s.Protocols.SetHTTP1(true)
		s.OnProxyConnectResponse = proxyAnswer
		s.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return t.dialTLS(ctx, s, network, addr)
		}
	}
	return t
}

// Trust adds authorities in PEM to those of the system. It is called before
// the first request, and fails if there are none.
func (t *Transport) Trust(pem []byte) error {
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return errors.New("no certificates in PEM format")
	}
	t.trust.more = bytes.Clone(pem)
	return nil
}

// CloseIdleConnections closes what no request uses, and what was opened ahead.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	for addr, a := range t.aheads {
		a.cancel()
		delete(t.aheads, addr)
	}
	t.mu.Unlock()
	t.few.CloseIdleConnections()
	t.all.CloseIdleConnections()
}

// RoundTrip is that of [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	err := redirected(req)
	if err == nil && req.URL.Scheme == "https" {
		return t.overTLS(req)
	}
	if err != nil {
		closeBody(req)
		return nil, err
	}
	return t.all.RoundTrip(req)
}

// overTLS asks with the few authorities first, and with all of them if the
// server's is not there. Nothing was sent by then.
func (t *Transport) overTLS(req *http.Request) (*http.Response, error) {
	if t.trust.own != nil || t.wide.Load() {
		return t.ask(&t.all, req)
	}
	once, body := hold(req)
	resp, err := t.ask(&t.few, once)
	if !t.widens(req.Context(), err) {
		body.release()
		return resp, err
	}
	return t.ask(&t.all, req)
}

// widens reports whether all authorities may do where the few did not, and
// remembers it: a node that has one of its own mostly meets it everywhere.
func (t *Transport) widens(ctx context.Context, err error) bool {
	if !isUnknown(err) {
		return false
	}
	if pool, err := systemBundle.wait(ctx); pool == nil || err != nil {
		return false // those were all
	}
	t.wide.Store(true)
	return true
}

// ask asks with the authorities of one side.
func (t *Transport) ask(s *side, req *http.Request) (*http.Response, error) {
	if proxy, err := t.proxy(req); proxy != nil && err == nil {
		pool, err := s.roots(req.Context())
		if err != nil {
			closeBody(req)
			return nil, err
		}
		// Only what goes through a proxy makes package http look at them.
		s.once.Do(func() { s.TLSClientConfig.RootCAs = pool })
	}
	resp, err := s.RoundTrip(req)
	if t.trust.own == nil && isUnknown(err) {
		err = &AuthorityError{Store: storeName(runtime.GOOS, os.Getenv), Err: err}
	}
	return resp, err
}

// proxy is that for a request; nil means that there is none.
func (t *Transport) proxy(req *http.Request) (*url.URL, error) {
	if t.base.Proxy == nil {
		return nil, nil
	}
	return t.base.Proxy(req)
}

// dialTLS connects to who is asked directly, or takes what was opened ahead.
func (t *Transport) dialTLS(ctx context.Context, s *side, network, addr string) (net.Conn, error) {
	if conn, err := t.taken(ctx, addr); conn != nil || err != nil {
		return conn, err
	}
	return t.connect(ctx, s, network, addr)
}

// connect dials and shakes hands.
func (t *Transport) connect(ctx context.Context, s *side, network, addr string) (net.Conn, error) {
	if t.trust.own == nil {
		systemBundle.start()
	}
	dial := t.base.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	plain, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	conn, err := t.shake(ctx, s, plain, addr)
	if err != nil {
		plain.Close()
		return nil, err
	}
	return conn, nil
}

func (t *Transport) shake(ctx context.Context, s *side, plain net.Conn, addr string) (net.Conn, error) {
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
		return nil, shakeError(ctx, err)
	}
	return conn, nil
}

// shakeError marks what is wrong with the other side's TLS, which has no type
// of its own, as not worth another attempt.
func shakeError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, network := errors.AsType[net.Error](err) // alerts too
	_, record := errors.AsType[tls.RecordHeaderError](err)
	if network || record || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return permanent{err}
}

// tlsConfig is that of the base, for HTTP/1.1.
func (t *Transport) tlsConfig() *tls.Config {
	if t.base.TLSClientConfig == nil {
		return new(tls.Config)
	}
	cfg := t.base.TLSClientConfig.Clone()
	cfg.NextProtos = nil
	return cfg
}
