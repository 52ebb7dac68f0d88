// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/regcred/regcred/internal/must"
)

// TestUploadProgress verifies which waiting times before the response count as lack of progress.
func TestUploadProgress(t *testing.T) {
	const limit = time.Minute
	const long, tooLong = limit - time.Second, limit + time.Second
	created := &http.Response{StatusCode: 201, Body: http.NoBody}
	// upload reads size bytes of the request body and waits after each KiB.
	upload := func(req *http.Request, size int, wait time.Duration) {
		for ; size > 0; size -= 1024 {
			if n, err := io.ReadFull(req.Body, make([]byte, 1024)); n < 1024 || err != nil {
				return
			}
			select {
			case <-time.After(wait):
			case <-req.Context().Done():
			}
		}
	}
	// stall waits, unless the request is canceled.
	stall := func(req *http.Request, d time.Duration) (*http.Response, error) {
		select {
		case <-time.After(d):
			return created, nil
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	for _, tt := range []struct {
		name    string
		produce time.Duration // the caller needs this long for each KiB
		send    func(req *http.Request, trace *httptrace.ClientTrace) (*http.Response, error)
		ok      bool
		sent    int // KiB
	}{
		{"slow line", 0, func(req *http.Request, _ *httptrace.ClientTrace) (*http.Response, error) {
			upload(req, 45<<10, long)
			return created, nil
		}, true, 45},
		{"slow caller", tooLong, func(req *http.Request, _ *httptrace.ClientTrace) (*http.Response, error) {
			upload(req, 45<<10, 0)
			return created, nil
		}, true, 45},
		{"server stops in the upload", 0, func(req *http.Request, _ *httptrace.ClientTrace) (*http.Response, error) {
			upload(req, 7<<10, 0)
			return stall(req, tooLong)
		}, false, 7},
		{"server verifies the upload", 0, func(req *http.Request, trace *httptrace.ClientTrace) (*http.Response, error) {
			upload(req, 45<<10, 0)
			time.Sleep(long)
			trace.WroteRequest(httptrace.WroteRequestInfo{})
			return stall(req, long)
		}, true, 45},
		{"no response after the upload", 0, func(req *http.Request, trace *httptrace.ClientTrace) (*http.Response, error) {
			upload(req, 45<<10, time.Second)
			trace.WroteRequest(httptrace.WroteRequestInfo{})
			return stall(req, tooLong)
		}, false, 45},
		{"waits for a connection and a stream", 0, func(req *http.Request, trace *httptrace.ClientTrace) (*http.Response, error) {
			trace.GetConn("registry.example:443")
			time.Sleep(tooLong)
			trace.GotConn(httptrace.GotConnInfo{})
			time.Sleep(tooLong)
			trace.WroteHeaders()
			return stall(req, long)
		}, true, 0},
		{"connects too slowly", 0, func(req *http.Request, trace *httptrace.ClientTrace) (*http.Response, error) {
			trace.GetConn("registry.example:443")
			trace.ConnectStart("tcp", "192.0.2.1:443")
			return stall(req, tooLong)
		}, false, 0},
		{"continues late", 0, func(req *http.Request, trace *httptrace.ClientTrace) (*http.Response, error) {
			trace.WroteHeaders()
			time.Sleep(long)
			trace.Got100Continue()
			time.Sleep(long)
			upload(req, 2<<10, long)
			return created, nil
		}, true, 2},
		{"says 100 again and again", 0, func(req *http.Request, trace *httptrace.ClientTrace) (*http.Response, error) {
			trace.WroteHeaders()
			for range 3 {
				time.Sleep(limit / 2)
				trace.Got100Continue()
			}
			return stall(req, long)
		}, false, 0},
		{"connects again and again", 0, func(req *http.Request, trace *httptrace.ClientTrace) (*http.Response, error) {
			for range maxAttempts + 2 {
				trace.GetConn("registry.example:443")
				trace.ConnectStart("tcp", "192.0.2.1:443")
				if resp, err := stall(req, limit*2/3); err != nil {
					return resp, err
				}
			}
			return created, nil
		}, false, 0},
		{"connects some times", 0, func(req *http.Request, trace *httptrace.ClientTrace) (*http.Response, error) {
			for range maxAttempts {
				trace.GetConn("registry.example:443")
				trace.ConnectStart("tcp", "192.0.2.1:443")
				if resp, err := stall(req, limit*2/3); err != nil {
					return resp, err
				}
			}
			return created, nil
		}, true, 0},
		{"body is sent again", 0, func(req *http.Request, _ *httptrace.ClientTrace) (*http.Response, error) {
			upload(req, 3<<10, long)
			req.Body.Close()
			req.Body = must.Get(req.GetBody())(t)
			upload(req, 45<<10, long)
			return created, nil
		}, true, 48},
		{"connection not reported", 0, func(req *http.Request, _ *httptrace.ClientTrace) (*http.Response, error) {
			return stall(req, tooLong)
		}, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				w := &limitedTransport{idle: time.Second, response: limit, secrets: &Secrets{}, inner: roundTripper(func(req *http.Request) (*http.Response, error) {
					return tt.send(req, httptrace.ContextClientTrace(req.Context()))
				})}
				body := func() io.ReadCloser {
					return &countedBody{slowBody{45 << 10, 1 << 10, tt.produce}, &sent}
				}
				req := must.Get(http.NewRequestWithContext(t.Context(), "PATCH", "https://example.com", body()))(t)
				req.GetBody = func() (io.ReadCloser, error) { return body(), nil }
				resp, err := w.RoundTrip(req)
				if err == nil {
					resp.Body.Close()
				}
				if tt.ok && err != nil || !tt.ok && !errors.Is(err, errIdleTimeout) || sent != tt.sent<<10 {
					t.Errorf("got %v after %d bytes, want success %t after %d", err, sent, tt.ok, tt.sent<<10)
				}
			})
		})
	}
}

type countedBody struct {
	slowBody
	sent *int
}

func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.slowBody.Read(p)
	*c.sent += n
	return n, err
}

// TestEarlyResponse verifies that an upload that continues after the response counts as progress of the response, and
// that late events of a connection do not cancel a response that nobody reads yet.
func TestEarlyResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var trace *httptrace.ClientTrace
		response, upload := io.Pipe()
		w := &limitedTransport{idle: time.Minute, response: time.Second, secrets: &Secrets{}, inner: roundTripper(func(req *http.Request) (*http.Response, error) {
			trace = httptrace.ContextClientTrace(req.Context())
			go func() {
				io.Copy(io.Discard, req.Body)
				upload.Write([]byte("created"))
				upload.Close()
			}()
			return &http.Response{StatusCode: 201, Body: response}, nil
		})}
		req := must.Get(http.NewRequestWithContext(t.Context(), "PATCH", "https://example.com", &slowBody{45 << 10, 1 << 10, 59 * time.Second}))(t)
		resp := must.Get(w.RoundTrip(req))(t)
		defer resp.Body.Close()
		trace.ConnectStart("tcp", "192.0.2.1:443")
		time.Sleep(time.Hour)
		if text, err := io.ReadAll(resp.Body); string(text) != "created" {
			t.Errorf("got %q, %v", text, err)
		}
	})
}

// TestUploadOverNetwork verifies uploads through net/http, over HTTP/1.1 and HTTP/2, that take longer than the timeout,
// and a request that waits for a connection longer than that.
func TestUploadOverNetwork(t *testing.T) {
	const limit = 500 * time.Millisecond
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP/%d", version), func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n, _ := io.Copy(io.Discard, r.Body)
				w.WriteHeader(201)
				fmt.Fprintf(w, "%d bytes over HTTP/%d", n, r.ProtoMajor)
			}))
			srv.EnableHTTP2 = version == 2
			srv.StartTLS()
			t.Cleanup(srv.Close)
			inner := &http.Transport{
				DialContext: (&net.Dialer{}).DialContext, TLSClientConfig: &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs},
				ForceAttemptHTTP2: version == 2, MaxConnsPerHost: 1, ExpectContinueTimeout: 10 * time.Second,
			}
			t.Cleanup(inner.CloseIdleConnections)
			w := &limitedTransport{target: loopbackTarget(t, srv), idle: limit, response: limit, secrets: &Secrets{}, inner: inner}
			var wg sync.WaitGroup
			for range 2 { // over HTTP/1.1, the second one waits for the first one's connection
				wg.Go(func() {
					req, _ := http.NewRequestWithContext(t.Context(), "PATCH", srv.URL, &slowBody{10 << 10, 1 << 10, limit / 5})
					req.Header.Set("Expect", "100-continue")
					resp, err := w.RoundTrip(req)
					if err != nil {
						t.Error(err)
						return
					}
					defer resp.Body.Close()
					if text, err := io.ReadAll(resp.Body); string(text) != fmt.Sprintf("10240 bytes over HTTP/%d", version) {
						t.Errorf("got %q, %v", text, err)
					}
				})
			}
			wg.Wait()
		})
	}
}

// TestStalledUploadOverNetwork verifies that an upload ends if the server stops reading, and what the error says.
func TestStalledUploadOverNetwork(t *testing.T) {
	done := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(done) })
	w := &limitedTransport{target: loopbackTarget(t, srv), idle: time.Minute, response: 100 * time.Millisecond, secrets: &Secrets{}, inner: &http.Transport{}}
	req := must.Get(http.NewRequestWithContext(t.Context(), "PATCH", srv.URL, bytes.NewReader(make([]byte, 64<<20))))(t)
	_, err := w.RoundTrip(req)
	if !errors.Is(err, errIdleTimeout) || !strings.Contains(err.Error(), "for 100ms") {
		t.Errorf("got %v", err)
	}
}

func loopbackTarget(t *testing.T, srv *httptest.Server) Target {
	host := must.Get(name.NewRegistry(srv.Listener.Addr().String()))(t)
	return must.Get(NewTarget(host, "", false))(t)
}
