// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// serveWith accepts connections and passes them to handle after the request.
func serveWith(t *testing.T, handle func(net.Conn)) *Service {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l := must.Get(net.Listen("unix", socket))(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = c.Read(make([]byte, 1<<16))
				handle(c)
			}()
		}
	}()
	return &Service{socket}
}

// TestTimeouts verifies how long the client waits for a service that is silent from the start, or after
// an interim response, and that interim responses extend the time.
func TestTimeouts(t *testing.T) {
	const interim = "HTTP/1.1 102 Processing\r\n\r\n"
	for _, tt := range []struct {
		name        string
		handle      func(net.Conn)
		works       bool
		least, most time.Duration
	}{
		{"silent", func(net.Conn) { time.Sleep(10 * time.Second) }, false, FirstByteTimeout, maxFirstByteTimeout + time.Second},
		{"silent after an interim response", func(c net.Conn) { _, _ = io.WriteString(c, interim); time.Sleep(10 * time.Second) }, false, silenceTimeout, silenceTimeout + 2*time.Second},
		{"interim responses", func(c net.Conn) {
			for range 6 {
				_, _ = io.WriteString(c, interim)
				time.Sleep(silenceTimeout / 5)
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n{\"credentials\":[]}")
		}, true, silenceTimeout, silenceTimeout + 4*time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			_, err := serveWith(t, tt.handle).Lookup(t.Context(), Selector{}, LookupRequest{Image: "r.example/x"})
			took := time.Since(start)
			if (err == nil) != tt.works || !tt.works && !errors.Is(err, ErrUnavailable) || took < tt.least || took > tt.most {
				t.Errorf("%v after %v, want %v to %v", err, took, tt.least, tt.most)
			}
		})
	}
}

// TestNoService verifies the errors without a service, and that a canceled context ends the request.
func TestNoService(t *testing.T) {
	for name, s := range map[string]*Service{
		"disabled": New(func(string) string { return SocketNone }),
		"missing":  New(func(string) string { return filepath.Join(t.TempDir(), "s") }),
		"zero":     {},
	} {
		if _, err := s.Lookup(t.Context(), Selector{}, LookupRequest{Image: "r.example/x"}); !errors.Is(err, ErrUnavailable) || s.Exists() {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := s.Credentials(t.Context(), Selector{}, &plugin.Request{Image: "r.example/x"}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := New(func(string) string { return "" }); s.Socket != DefaultSocket {
		t.Errorf("the default is %s", s.Socket)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := serveWith(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 102 Processing\r\n\r\n")
		cancel()
		time.Sleep(10 * time.Second)
	})
	start := time.Now()
	if _, err := s.Lookup(ctx, Selector{}, LookupRequest{Image: "r.example/x"}); err == nil || time.Since(start) > 3*time.Second {
		t.Errorf("canceled: %v after %v", err, time.Since(start))
	}
	if _, err := s.Lookup(t.Context(), Selector{Config: "/a\r\nX: y"}, LookupRequest{Image: "r.example/x"}); err == nil || !strings.Contains(err.Error(), "header "+HeaderConfig+": invalid value") {
		t.Errorf("a header with a line break: %v", err)
	}
}

// TestErrorsHaveNoSecrets verifies that an error does not quote a response.
func TestErrorsHaveNoSecrets(t *testing.T) {
	for _, response := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n\"" + canary.PasswordSecret + "\"",
		"HTTP/1.1 500 x\r\nContent-Length: 21\r\n\r\n\"" + canary.PasswordSecret + "\"",
		canary.PasswordSecret + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\n" + canary.PasswordSecret + "\r\n\r\n",
	} {
		s := serveWith(t, func(c net.Conn) { _, _ = io.WriteString(c, response) })
		_, err := s.Lookup(t.Context(), Selector{}, LookupRequest{Image: "r.example/x"})
		if err == nil {
			t.Fatalf("%q: no error", response)
		}
		canary.AssertAbsent(t, response[:8], err.Error())
		_, err = s.Credentials(t.Context(), Selector{}, &plugin.Request{Image: "r.example/x"})
		if err == nil {
			t.Fatalf("%q: no error", response)
		}
		canary.AssertAbsent(t, response[:8], err.Error())
	}
}

// TestProvider verifies that the plugin is run again for an image that was requested before.
func TestProvider(t *testing.T) {
	var mu sync.Mutex
	var noCache []bool
	s := &Service{filepath.Join(t.TempDir(), "s")}
	l := must.Get(net.Listen("unix", s.Socket))(t)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 1<<16)
			n, _ := c.Read(buf)
			mu.Lock()
			noCache = append(noCache, strings.Contains(string(buf[:n]), "Cache-Control: no-cache\r\n"))
			mu.Unlock()
			const body = `{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image"}`
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			c.Close()
		}
	}()
	fallbacks := 0
	p := &Provider{Service: s, Timeout: time.Minute, Fallback: plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) {
		fallbacks++
		return &plugin.Response{CacheKeyType: plugin.CacheImage}, nil
	})}
	for _, image := range []string{"r.example/a", "r.example/b", "r.example/a"} {
		must.Get(p.GetCredentials(t.Context(), &plugin.Request{APIVersion: plugin.V1, Image: image}))(t)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(noCache) != 3 || noCache[0] || noCache[1] || !noCache[2] || fallbacks != 0 {
		t.Errorf("without the cache: %v, %d fallbacks", noCache, fallbacks)
	}
	l.Close()
	must.Get(p.GetCredentials(t.Context(), &plugin.Request{APIVersion: plugin.V1, Image: "r.example/a"}))(t)
	if fallbacks != 1 {
		t.Errorf("%d fallbacks after the service ended, want 1", fallbacks)
	}
}

// TestCallWithFallback verifies when the plugin is run, and whose result is used.
func TestCallWithFallback(t *testing.T) {
	const limit = time.Minute // so that the plugin is run after 15 seconds
	type call struct {
		takes time.Duration
		fails bool
	}
	for _, tt := range []struct {
		name           string
		service, local call
		want           string
		runs           bool
		after          time.Duration
	}{
		{"the service responds", call{takes: time.Second}, call{}, "service", false, time.Second},
		{"the service fails", call{takes: time.Second, fails: true}, call{takes: 2 * time.Second}, "local", true, 3 * time.Second},
		{"both fail", call{fails: true}, call{takes: time.Second, fails: true}, "local failed", true, time.Second},
		{"the plugin hangs in the service", call{takes: time.Hour}, call{takes: time.Second}, "local", true, 16 * time.Second},
		{"the plugin is slow everywhere", call{takes: 40 * time.Second}, call{takes: 40 * time.Second}, "service", true, 40 * time.Second},
		{"slow, then the service fails", call{takes: 40 * time.Second, fails: true}, call{takes: 30 * time.Second}, "local", true, 45 * time.Second},
		{"the local plugin fails first", call{takes: 40 * time.Second}, call{takes: time.Second, fails: true}, "service", true, 40 * time.Second},
		{"slow, both fail", call{takes: 40 * time.Second, fails: true}, call{takes: time.Second, fails: true}, "local failed", true, 40 * time.Second},
		{"slow, both fail, the service first", call{takes: 20 * time.Second, fails: true}, call{takes: 10 * time.Second, fails: true}, "local failed", true, 25 * time.Second},
		{"both hang", call{takes: time.Hour}, call{takes: time.Hour}, "context deadline exceeded", true, limit},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ran atomic.Bool
				run := func(name string, c call) func(context.Context) (string, error) {
					return func(ctx context.Context) (string, error) {
						if name == "local" {
							ran.Store(true)
						}
						select {
						case <-time.After(c.takes):
						case <-ctx.Done():
							return "", ctx.Err()
						}
						if c.fails {
							return "", errors.New(name + " failed")
						}
						return name, nil
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				start := time.Now()
				got, byService, err := CallWithFallback(ctx, limit, run("service", tt.service), run("local", tt.local))
				if err != nil {
					got = err.Error()
				}
				if took := time.Since(start); got != tt.want || byService != (tt.want == "service") || ran.Load() != tt.runs || took != tt.after {
					t.Errorf("%q by service %t after %v, plugin ran: %t; want %q after %v", got, byService, took, ran.Load(), tt.want, tt.after)
				}
			})
		})
	}
}

// TestProviderHash verifies that each setting that affects a run changes the hash.
func TestProviderHash(t *testing.T) {
	base := func() *config.Provider {
		return &config.Provider{Name: "p", APIVersion: plugin.V1, Args: plugin.NewSecrets("a"), Env: []config.EnvVar{{Name: "A", Value: plugin.NewSecret("b")}}, DefaultCacheDuration: new(time.Minute)}
	}
	want := ProviderHash(base(), "/bin")
	if ProviderHash(base(), "/bin") != want {
		t.Error("the hash differs between calls")
	}
	for name, change := range map[string]func(*config.Provider){
		"args":     func(p *config.Provider) { p.Args = plugin.NewSecrets("a", "b") },
		"env":      func(p *config.Provider) { p.Env[0].Value = plugin.NewSecret("c") },
		"version":  func(p *config.Provider) { p.APIVersion = plugin.V1Beta1 },
		"duration": func(p *config.Provider) { p.DefaultCacheDuration = new(time.Hour) },
		"tokens": func(p *config.Provider) {
			p.TokenAttributes = &config.TokenAttributes{ServiceAccountTokenAudience: "a"}
		},
		"executable": func(p *config.Provider) { p.Name = "q" },
	} {
		p := base()
		if change(p); ProviderHash(p, "/bin") == want {
			t.Errorf("%s does not change the hash", name)
		}
	}
}

func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 502 x\r\nRegcred-Failed: 1\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\nContent-Length: -1\n\n", "HTTP/1.1\r\n", "\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 4194305\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		server, conn := net.Pipe()
		defer conn.Close()
		go func() {
			_, _ = server.Write(data)
			server.Close()
		}()
		resp, err := readResponse(conn)
		if err == nil && (resp.status < 200 || len(resp.body) > maxBodyBytes || len(resp.body) > len(data)) {
			t.Errorf("%q: %+v", data, resp)
		}
	})
}
