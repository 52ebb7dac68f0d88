// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
)

// testCloud is a fake AWS cloud with TLS. Connections to any host name reach it, unless fails
// returns something else.
type testCloud struct {
	cloud        *testcloud.AWS
	tls          *httptest.Server
	dialOverride func(ctx context.Context, name string) (net.Conn, error) // "nil, nil" connects to the cloud

	mu     sync.Mutex
	dialed []string // each name, once per connection
}

func newTestCloud(t *testing.T, environ ...string) *testCloud {
	t.Helper()
	cloud := must.Get(testcloud.NewAWS())(t)
	t.Cleanup(cloud.Close)
	for _, entry := range append(cloud.Environ(), environ...) {
		key, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(key, "AWS_ENDPOINT_URL") || strings.HasSuffix(strings.ToUpper(key), "_PROXY") {
			value = ""
		}
		t.Setenv(key, value)
	}
	w := &testCloud{cloud: cloud, tls: httptest.NewTLSServer(cloud), dialOverride: func(context.Context, string) (net.Conn, error) { return nil, nil }}
	t.Cleanup(w.tls.Close)
	return w
}

// baseTransport returns a transport that connects to the cloud. The cloud's certificate is for example.com.
func (w *testCloud) baseTransport() *http.Transport {
	base := remote.NewBaseTransport()
	base.Proxy = nil
	pool := x509.NewCertPool()
	pool.AddCert(w.tls.Certificate())
	base.TLSClientConfig = &tls.Config{RootCAs: pool, ServerName: "example.com"}
	base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		name, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		var dialer net.Dialer
		if port != "443" {
			return dialer.DialContext(ctx, network, addr) // the metadata service
		}
		w.mu.Lock()
		w.dialed = append(w.dialed, name)
		w.mu.Unlock()
		if conn, err := w.dialOverride(ctx, name); conn != nil || err != nil {
			return conn, err
		}
		return dialer.DialContext(ctx, network, w.tls.Listener.Addr().String())
	}
	return base
}

// calledHosts returns the hosts of all requests except those to the metadata service.
func (w *testCloud) calledHosts() (hosts []string) {
	for _, r := range w.cloud.Requests() {
		if !strings.HasPrefix(r.Path, "/latest/") {
			hosts = append(hosts, r.Host)
		}
	}
	return hosts
}

// dialedNames returns the host names of all connection attempts.
func (w *testCloud) dialedNames() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dialed)
}

// dialUnresolvable and the following functions simulate failing connections.
func dialUnresolvable(_ context.Context, name string) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}}
}

func dialUnreachable(context.Context, string) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ENETUNREACH}
}

func dialTimeout(ctx context.Context, _ string) (net.Conn, error) { // the dialer's timeout is shorter than an attempt's
	select {
	case <-ctx.Done():
	case <-time.After(300 * time.Millisecond):
	}
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("i/o timeout")}
}

func dialReset(context.Context, string) (net.Conn, error) { // like a firewall that filters by TLS server name
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		defer listener.Close()
		if conn, err := listener.Accept(); err == nil {
			conn.Read(make([]byte, 64)) // unread data makes Close send a reset
			conn.Close()
		}
	}()
	return net.Dial("tcp", listener.Addr().String())
}

// TestFallback verifies that the IPv4 endpoint is used if the dual-stack endpoint cannot be reached, and that a FIPS
// endpoint stays FIPS.
func TestFallback(t *testing.T) {
	const dual, dualFIPS = "111122223333.dkr-ecr.us-west-2.on.aws", "111122223333.dkr-ecr-fips.us-west-2.on.aws"
	isDual := func(name string) bool { return strings.HasSuffix(name, ".api.aws") }
	for failure, fail := range map[string]func(context.Context, string) (net.Conn, error){
		"unresolved": dialUnresolvable, "unreachable": dialUnreachable, "black hole": dialTimeout, "hung up": dialReset,
	} {
		for name, tt := range map[string]struct {
			host string
			pod  bool
			want []string
		}{
			"node":             {dual, false, []string{"api.ecr.us-west-2.amazonaws.com"}},
			"node, FIPS":       {dualFIPS, false, []string{"api.ecr-fips.us-west-2.amazonaws.com"}},
			"node, public":     {"ecr-public.aws.com", false, []string{"api.ecr-public.us-east-1.amazonaws.com"}},
			"pod":              {dual, true, []string{"sts.us-west-2.amazonaws.com", "api.ecr.us-west-2.amazonaws.com"}},
			"pod, FIPS":        {dualFIPS, true, []string{"sts-fips.us-west-2.amazonaws.com", "api.ecr-fips.us-west-2.amazonaws.com"}},
			"not another FIPS": {"111122223333.dkr.ecr-fips.us-west-2.amazonaws.com", true, []string{"sts-fips.us-west-2.amazonaws.com", "api.ecr-fips.us-west-2.amazonaws.com"}},
		} {
			t.Run(failure+", "+name, func(t *testing.T) {
				w := newTestCloud(t)
				w.dialOverride = func(ctx context.Context, name string) (net.Conn, error) {
					if isDual(name) {
						return fail(ctx, name)
					}
					return nil, nil
				}
				begun := time.Now()
				resp, err := w.getCredentials(t, Options{}, tt.host, tt.pod)
				if err != nil || len(resp.Auth) != 1 {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, w.calledHosts()); diff != "" {
					t.Error(diff)
				}
				dials := map[string]int{}
				for _, name := range w.dialedNames() {
					if dials[name]++; isDual(name) && dials[name] > 2 { // one by preconnect, and one by the request
						t.Errorf("%d attempts at %s, and there is another", dials[name], name)
					}
				}
				if took := time.Since(begun); took > 3*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		}
	}
}

// getCredentials requests credentials for host. Every pod has the same role.
func (w *testCloud) getCredentials(t *testing.T, opts Options, host string, pod bool) (*plugin.Response, error) {
	t.Helper()
	opts.DefaultRoleARN, opts.newTransport, opts.MaxPause = "arn:aws:iam::111122223333:role/pull", w.baseTransport, time.Millisecond
	p := must.Get(New(opts))(t)
	req := &plugin.Request{Image: host + "/app"}
	if pod {
		req.ServiceAccountToken = plugin.NewSecret(canary.TokenSecret)
	}
	return p.GetCredentials(t.Context(), req)
}

// TestEndpointsOfForms verifies which endpoints are called for each form of host name, in order.
func TestEndpointsOfForms(t *testing.T) {
	const fips, dual = "AWS_USE_FIPS_ENDPOINT=", "AWS_USE_DUALSTACK_ENDPOINT="
	for name, tt := range map[string]struct {
		host    string
		opts    Options
		environ string
		sts     string
		ecr     string
	}{
		"plain":               {"111122223333.dkr.ecr.us-west-2.amazonaws.com", Options{}, "A=", "sts.us-west-2.amazonaws.com", "api.ecr.us-west-2.amazonaws.com"},
		"dual stack":          {"111122223333.dkr-ecr.us-west-2.on.aws", Options{}, "A=", "sts.us-west-2.api.aws", "ecr.us-west-2.api.aws"},
		"FIPS":                {"111122223333.dkr.ecr-fips.us-west-2.amazonaws.com", Options{}, "A=", "sts-fips.us-west-2.amazonaws.com", "api.ecr-fips.us-west-2.amazonaws.com"},
		"both":                {"111122223333.dkr-ecr-fips.us-west-2.on.aws", Options{}, "A=", "sts-fips.us-west-2.api.aws", "ecr-fips.us-west-2.api.aws"},
		"gov":                 {"111122223333.dkr.ecr-fips.us-gov-west-1.amazonaws.com", Options{}, "A=", "sts.us-gov-west-1.amazonaws.com", "api.ecr-fips.us-gov-west-1.amazonaws.com"},
		"china":               {"111122223333.dkr-ecr.cn-north-1.on.amazonwebservices.com.cn", Options{}, "A=", "sts.cn-north-1.api.amazonwebservices.com.cn", "ecr.cn-north-1.api.amazonwebservices.com.cn"},
		"public":              {"ecr-public.aws.com", Options{}, "A=", "sts.us-east-1.api.aws", "ecr-public.us-east-1.api.aws"},
		"both, plain asked":   {"111122223333.dkr-ecr-fips.us-west-2.on.aws", Options{PlainEndpoints: true}, "A=", "sts.us-west-2.amazonaws.com", "api.ecr.us-west-2.amazonaws.com"},
		"plain and a FIPS":    {"111122223333.dkr-ecr.us-west-2.on.aws", Options{PlainEndpoints: true}, fips + "true", "sts-fips.us-west-2.amazonaws.com", "api.ecr-fips.us-west-2.amazonaws.com"},
		"FIPS, switched off":  {"111122223333.dkr.ecr-fips.us-west-2.amazonaws.com", Options{}, fips + "false", "sts.us-west-2.amazonaws.com", "api.ecr.us-west-2.amazonaws.com"},
		"dual, switched off":  {"111122223333.dkr-ecr.us-west-2.on.aws", Options{}, dual + "false", "sts.us-west-2.amazonaws.com", "api.ecr.us-west-2.amazonaws.com"},
		"plain, switched on":  {"111122223333.dkr.ecr.us-west-2.amazonaws.com", Options{}, dual + "true", "sts.us-west-2.api.aws", "ecr.us-west-2.api.aws"},
		"public, plain asked": {"ecr-public.aws.com", Options{PlainEndpoints: true}, "A=", "sts.us-east-1.amazonaws.com", "api.ecr-public.us-east-1.amazonaws.com"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCloud(t, tt.environ)
			must.Get(w.getCredentials(t, tt.opts, tt.host, true))(t)
			if diff := cmp.Diff([]string{tt.sts, tt.ecr}, w.calledHosts()); diff != "" {
				t.Error(diff)
			}
			for _, name := range w.dialedNames() {
				if name != tt.sts && name != tt.ecr {
					t.Errorf("there was a connection to %s", name)
				}
			}
		})
	}
}

// TestNoFallback verifies that there is no fallback for a configured endpoint, or after a response.
// It also verifies that an error names all endpoints that were tried.
func TestNoFallback(t *testing.T) {
	const dual = "111122223333.dkr-ecr.us-west-2.on.aws"
	t.Run("configured", func(t *testing.T) {
		w := newTestCloud(t, "AWS_USE_DUALSTACK_ENDPOINT=true")
		w.dialOverride = dialUnresolvable
		_, err := w.getCredentials(t, Options{}, dual, true)
		if want := "POST https://sts.us-west-2.api.aws: cannot resolve the host name"; err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "before that") {
			t.Errorf("got %v, want %q", err, want)
		}
		for _, name := range w.dialedNames() {
			if !strings.HasSuffix(name, ".us-west-2.api.aws") {
				t.Errorf("there was a connection to %s", name)
			}
		}
	})
	t.Run("it answers", func(t *testing.T) {
		w := newTestCloud(t)
		w.cloud.Inject(testcloud.Fault{Path: "sts.", Status: 500, Times: -1})
		_, err := w.getCredentials(t, Options{}, dual, true)
		if want := "POST https://sts.us-west-2.api.aws: status 500 Internal Server Error, 3 times"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	})
	for name, tt := range map[string]struct{ first, want string }{
		"a certificate of somebody else": {"", "tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		"no TLS":                         {"220 mail.example ESMTP\r\n", "tls: first record does not look like a TLS handshake"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCloud(t)
			w.dialOverride = func(_ context.Context, name string) (net.Conn, error) {
				if strings.HasSuffix(name, ".api.aws") {
					return foreignServer(t, tt.first), nil
				}
				return nil, nil
			}
			_, err := w.getCredentials(t, Options{}, dual, true)
			if err == nil || !strings.Contains(err.Error(), "POST https://sts.us-west-2.api.aws: "+tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if asked := w.calledHosts(); len(asked) != 0 {
				t.Errorf("asked: %v", asked)
			}
		})
	}
	t.Run("both fail", func(t *testing.T) {
		w := newTestCloud(t)
		w.dialOverride = func(ctx context.Context, name string) (net.Conn, error) {
			if strings.HasSuffix(name, ".api.aws") {
				return dialUnresolvable(ctx, name)
			}
			return dialUnreachable(ctx, name)
		}
		_, err := w.getCredentials(t, Options{}, dual, false)
		want := "get an authorization token from ECR in us-west-2: POST https://api.ecr.us-west-2.amazonaws.com: no route to host, 3 times, " +
			"and before that POST https://ecr.us-west-2.api.aws: cannot resolve the host name"
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	})
}

// foreignServer returns a connection to a server that sends a text or has an untrusted
// certificate.
func foreignServer(t *testing.T, says string) net.Conn {
	here, there := net.Pipe()
	t.Cleanup(func() { there.Close() })
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"example.com"}, NotAfter: time.Now().Add(time.Hour)}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	go func() {
		if says != "" {
			go io.Copy(io.Discard, there)
			io.WriteString(there, says)
			return
		}
		tls.Server(there, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}).Handshake()
	}()
	return here
}
