// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/remote"
)

// newTrustingTransport returns a transport that trusts one CA and connects with dial.
func newTrustingTransport(a *testCA, dial func(context.Context, string, string) (net.Conn, error)) *remote.Transport {
	base := remote.NewBaseTransport()
	base.TLSClientConfig = clientConfig(a)
	base.Proxy = nil
	if dial != nil {
		base.DialContext = dial
	}
	return remote.WrapTransport(base)
}

// TestRedirectsEnd verifies that a redirect loop ends after four requests, and that redirects
// to another host are not followed. It tests a Transport, and CheckRedirect with HTTP/2.
func TestRedirectsEnd(t *testing.T) {
	future := time.Now().Add(time.Hour)
	a := newTestCA(t, "A", future, nil)
	other := a.serveTLS(t, future, echoHandler)
	var location string
	var protocol string
	var s *tlsServer
	s = a.serveTLS(t, future, func(w http.ResponseWriter, r *http.Request) {
		protocol = r.Proto
		if s.requests.Load() > 50 {
			return // end the loop if the client does not
		}
		http.Redirect(w, r, location, http.StatusTemporaryRedirect)
	})
	followAll := func(*http.Request, []*http.Request) error { return nil }
	sdk := &http.Transport{TLSClientConfig: clientConfig(a), ForceAttemptHTTP2: true}
	for name, tt := range map[string]struct {
		client          *http.Client
		location, proto string
		requests        int32
		want            string
	}{
		"to itself":     {&http.Client{Transport: remote.WrapTransport(sdk), CheckRedirect: followAll}, s.URL + "/again", "HTTP/1.1", 4, "redirect loop"},
		"elsewhere":     {&http.Client{Transport: remote.WrapTransport(sdk)}, other.URL, "HTTP/1.1", 1, "redirect to another host"},
		"check, itself": {&http.Client{Transport: sdk, CheckRedirect: remote.CheckRedirect}, s.URL + "/again", "HTTP/2.0", 4, "redirect loop"},
		"check, other":  {&http.Client{Transport: sdk, CheckRedirect: remote.CheckRedirect}, other.URL, "HTTP/2.0", 1, "redirect to another host"},
	} {
		t.Run(name, func(t *testing.T) {
			location = tt.location
			s.requests.Store(0)
			_, err := tt.client.Post(s.URL, "text/plain", strings.NewReader(canary.TokenSecret))
			redirect, ok := errors.AsType[*remote.RedirectError](err)
			if !ok || redirect.Status != http.StatusTemporaryRedirect || !strings.Contains(redirect.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
			if got := s.requests.Load(); got != tt.requests || protocol != tt.proto {
				t.Errorf("%d requests over %s, want %d over %s", got, protocol, tt.requests, tt.proto)
			}
			tt.client.CloseIdleConnections()
		})
	}
	if other.conns.Load() != 0 {
		t.Error("a connection to the other host was opened")
	}
}

// slowDialer returns a dial function that simulates a distant server.
func slowDialer(rtt time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !remote.Sleep(ctx, rtt) {
			return nil, context.Cause(ctx)
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &slowConn{Conn: conn, rtt: rtt}, err
	}
}

// slowConn delays the first read after each write.
type slowConn struct {
	net.Conn
	rtt   time.Duration
	wrote atomic.Bool
}

func (c *slowConn) Write(p []byte) (int, error) {
	c.wrote.Store(true)
	return c.Conn.Write(p)
}

func (c *slowConn) Read(p []byte) (int, error) {
	if c.wrote.Swap(false) {
		time.Sleep(c.rtt)
	}
	return c.Conn.Read(p)
}

// TestHandshakeAhead verifies that Preconnect opens one connection and sends no request. The
// next request uses this connection, and waits for its handshake.
func TestHandshakeAhead(t *testing.T) {
	future := time.Now().Add(time.Hour)
	a := newTestCA(t, "A", future, nil)
	s := a.serveTLS(t, future, echoHandler)
	const rtt = 50 * time.Millisecond
	transport := newTrustingTransport(a, slowDialer(rtt))
	defer transport.CloseIdleConnections()
	client := remote.Client{Transport: transport}
	for name, pause := range map[string]time.Duration{"done": 3 * rtt, "under way": rtt / 2} {
		t.Run(name, func(t *testing.T) {
			transport.CloseIdleConnections()
			s.conns.Store(0)
			s.requests.Store(0)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			transport.Preconnect(ctx, s.URL)
			transport.Preconnect(ctx, s.URL+"/other")
			time.Sleep(pause)
			if s.requests.Load() != 0 {
				t.Error("it asks")
			}
			for range 2 {
				must.Get(client.Do(t.Context(), remote.Call{URL: s.URL}))(t)
				cancel() // no effect, because the connection belongs to the request now
			}
			// A second connection would mean that the first request did not wait for
			// Preconnect.
			if conns, requests := s.conns.Load(), s.requests.Load(); conns != 1 || requests != 2 {
				t.Errorf("%d connections, %d requests", conns, requests)
			}
		})
	}
}

// TestUnusedConnectionsAreClosed verifies that unused connections of Preconnect are closed,
// and that its failures are not reported.
func TestUnusedConnectionsAreClosed(t *testing.T) {
	future := time.Now().Add(time.Hour)
	a := newTestCA(t, "A", future, nil)
	s := a.serveTLS(t, future, echoHandler)
	for name, end := range map[string]func(*remote.Transport, context.CancelFunc){
		"closed":  func(transport *remote.Transport, _ context.CancelFunc) { transport.CloseIdleConnections() },
		"context": func(_ *remote.Transport, cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			transport := newTrustingTransport(a, nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			before := s.conns.Load()
			transport.Preconnect(ctx, s.URL)
			for deadline := time.Now().Add(3 * time.Second); s.conns.Load() == before && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
			end(transport, cancel)
			select {
			case <-s.closed:
			case <-time.After(3 * time.Second):
				t.Error("the connection is still open")
			}
			// The next request opens another connection.
			if _, err := (remote.Client{Transport: transport}).Do(t.Context(), remote.Call{URL: s.URL}); err != nil {
				t.Error(err)
			}
			transport.CloseIdleConnections()
			<-s.closed
		})
	}
	t.Run("failure", func(t *testing.T) {
		dials := 0
		transport := newTrustingTransport(a, func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials++; dials == 1 {
				return nil, errors.New("the first fails")
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		})
		transport.Preconnect(t.Context(), s.URL)
		if _, err := (remote.Client{Transport: transport}).Do(t.Context(), remote.Call{URL: s.URL}); err != nil {
			t.Error(err)
		}
		transport.CloseIdleConnections()
	})
	t.Run("nothing to open", func(t *testing.T) {
		base := remote.NewBaseTransport()
		base.DialContext = func(context.Context, string, string) (net.Conn, error) {
			t.Error("it connects")
			return nil, io.EOF
		}
		remote.WrapTransport(base).Preconnect(t.Context(), "http://"+s.Listener.Addr().String())
		remote.WrapTransport(base).Preconnect(t.Context(), "https://")
		remote.WrapTransport(base).Preconnect(t.Context(), "https://%zz")
		base.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse("http://127.0.0.1:9") }
		remote.WrapTransport(base).Preconnect(t.Context(), s.URL)
		time.Sleep(20 * time.Millisecond)
	})
}

// TestOnlyGivenCAs verifies that only the given CAs are trusted.
func TestOnlyGivenCAs(t *testing.T) {
	future := time.Now().Add(time.Hour)
	a, b := newTestCA(t, "A", future, nil), newTestCA(t, "B", future, nil)
	s := a.serveTLS(t, future, echoHandler)
	failed := callError(t, remote.Client{Transport: newTrustingTransport(b, nil)}, t.Context(), remote.Call{Step: "ask", URL: s.URL})
	if _, ok := errors.AsType[x509.UnknownAuthorityError](failed); !ok || failed.Attempts != 1 || strings.Contains(failed.Error(), "store") {
		t.Error(failed)
	}
	if s.conns.Load() != 1 {
		t.Errorf("%d connections", s.conns.Load())
	}
}

// TestTrust verifies that AddCAs rejects a file without certificates.
func TestTrust(t *testing.T) {
	if err := remote.NewTransport().AddCAs([]byte("garbage")); err == nil {
		t.Error("garbage is trusted")
	}
}
