// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/testcloud"
)

// testCA is a CA for certificates of servers on loopback.
type testCA struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  string
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	return must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

// newTestCA creates a CA whose certificate expires at end. If same is given, the new CA
// has the same key.
func newTestCA(t testing.TB, name string, end time.Time, same *testCA) *testCA {
	t.Helper()
	a := &testCA{}
	if same != nil {
		a.key = same.key
	} else {
		a.key = newKey(t)
	}
	a.cert, a.pem = signCertificate(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: end,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, a.key)
	return a
}

// signCertificate signs a certificate with the CA by, or with key if by is nil.
func signCertificate(t testing.TB, template *x509.Certificate, by *testCA, key *ecdsa.PrivateKey) (*x509.Certificate, string) {
	t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer))(t)
	cert := must.Get(x509.ParseCertificate(der))(t)
	return cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// tlsServer is a server that counts connections and requests.
type tlsServer struct {
	*httptest.Server
	conns, requests atomic.Int32
	closed          chan struct{} // receives a value when a connection is closed
}

// serveTLS starts a server whose certificate is signed by the CA and expires at end.
func (a *testCA) serveTLS(t testing.TB, end time.Time, handler http.HandlerFunc) *tlsServer {
	t.Helper()
	key := newKey(t)
	leaf, _ := signCertificate(t, &x509.Certificate{
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"*.example"},
	}, a, key)
	s := &tlsServer{closed: make(chan struct{}, 10)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		handler(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.conns.Add(1)
		case http.StateClosed:
			select {
			case s.closed <- struct{}{}:
			default:
			}
		}
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}}}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func echoHandler(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "well, %s", body)
}

// runRequests sends requests to the addresses in a separate process, and returns a line for each.
func runRequests(t testing.TB, environ []string, addresses ...string) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HTTP_PROXY=", "HTTPS_PROXY=", "REMOTE_TEST_ASK="+strings.Join(addresses, " "))
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0") // without it, each exit takes a second, and one test measures time
	cmd.Env = append(cmd.Env, environ...)
	out := must.Get(cmd.Output())(t)
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func writeFile(t testing.TB, path, text string) string {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// writeOrPipe writes text to path, or creates a named pipe without a writer if the text is PIPE.
func writeOrPipe(t testing.TB, path, text string) {
	t.Helper()
	if text != "PIPE" {
		writeFile(t, path, text)
		return
	}
	if out, err := exec.Command("mkfifo", path).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v: %s", err, out)
	}
}

// TestCABundleAndDirectory verifies which CAs are trusted, depending on the bundle file and
// the directory. It also verifies how many connections are needed.
func TestCABundleAndDirectory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems verify by themselves")
	}
	future := time.Now().Add(24 * time.Hour)
	a, b := newTestCA(t, "A", future, nil), newTestCA(t, "B", future, nil)
	expired := newTestCA(t, "A", time.Now().Add(-time.Hour), a)
	good := a.serveTLS(t, future, echoHandler)
	old := a.serveTLS(t, time.Now().Add(-time.Hour), echoHandler)
	const well = "well, a=b"
	for name, tt := range map[string]struct {
		bundle string            // "": the file does not exist
		dir    map[string]string // nil: the directory does not exist
		pem    string
		server *tlsServer
		want   string // BUNDLE and DIR stand for the paths
		conns  int32
	}{
		"in the bundle":            {bundle: b.pem + a.pem, server: good, want: well, conns: 1},
		"in both":                  {bundle: a.pem, dir: map[string]string{"a.pem": a.pem}, server: good, want: well, conns: 1},
		"in the directory":         {bundle: b.pem, dir: map[string]string{"b.pem": b.pem, "a.pem": a.pem}, server: good, want: well, conns: 2},
		"directory only":           {dir: map[string]string{"a.pem": a.pem}, server: good, want: well, conns: 1},
		"garbage in the bundle":    {bundle: "garbage", dir: map[string]string{"a.pem": a.pem}, server: good, want: well, conns: 1},
		"expired in the bundle":    {bundle: expired.pem, dir: map[string]string{"a.pem": a.pem}, server: good, want: well, conns: 2},
		"beside the bundle":        {bundle: b.pem, pem: a.pem, server: good, want: well, conns: 1},
		"beside a directory":       {dir: map[string]string{"b.pem": b.pem}, pem: a.pem, server: good, want: well, conns: 1},
		"beside, in the directory": {bundle: b.pem, dir: map[string]string{"a.pem": a.pem}, pem: b.pem, server: good, want: well, conns: 2},
		"in neither":               {bundle: b.pem, dir: map[string]string{"b.pem": b.pem}, server: good, want: `the server's certificate was issued by an untrusted CA, "CN=A"; to trust this CA, add it to the node's trust store (BUNDLE and DIR)`, conns: 2},
		"no store":                 {server: good, want: `the server's certificate was issued by an untrusted CA, "CN=A"; to trust this CA, add it to the node's trust store (none found)`, conns: 1},
		"an empty store":           {bundle: " ", dir: map[string]string{}, server: good, want: "add it to the node's trust store (BUNDLE and DIR)", conns: 1},
		"the server's has expired": {bundle: a.pem, dir: map[string]string{"a.pem": a.pem}, server: old, want: "certificate has expired", conns: 1},
		"a pipe for a bundle":      {bundle: "PIPE", server: good, want: "add it to the node's trust store (BUNDLE)", conns: 1},
		"a pipe, and a directory":  {bundle: "PIPE", dir: map[string]string{"a.pem": a.pem}, server: good, want: well, conns: 1},
		"a pipe in the directory":  {bundle: b.pem, dir: map[string]string{"a.pem": "PIPE", "b.pem": a.pem}, server: good, want: well, conns: 2},
		"a directory for a bundle": {bundle: "DIR", dir: map[string]string{"a.pem": a.pem}, server: good, want: well, conns: 1},
	} {
		for _, ahead := range []string{"", "1"} {
			t.Run(name+ahead, func(t *testing.T) {
				dir := t.TempDir()
				bundle, certs := filepath.Join(dir, "bundle.pem"), filepath.Join(dir, "certs")
				if tt.bundle == "DIR" {
					bundle = dir
				} else if tt.bundle != "" {
					writeOrPipe(t, bundle, tt.bundle)
				}
				if tt.dir != nil {
					writeFile(t, filepath.Join(certs, "README"), "no certificate")
				}
				for name, text := range tt.dir {
					writeOrPipe(t, filepath.Join(certs, name), text)
				}
				tt.server.conns.Store(0)
				tt.server.requests.Store(0)
				got := runRequests(t, []string{
					"SSL_CERT_FILE=" + bundle, "SSL_CERT_DIR=" + certs, "REMOTE_TEST_ASK_PEM=" + tt.pem, "REMOTE_TEST_ASK_AHEAD=" + ahead,
				}, tt.server.URL)[0]
				want := strings.NewReplacer("BUNDLE", bundle, "DIR", certs).Replace(tt.want)
				if tt.want == well && got != well || !strings.Contains(got, want) || strings.Contains(got, "times") {
					t.Errorf("got  %s\nwant %s", got, want)
				}
				if requests := tt.server.requests.Load(); (requests == 1) != (tt.want == well) {
					t.Errorf("%d requests", requests)
				}
				conns := tt.server.conns.Load()
				if tt.want != well && ahead != "" {
					conns = min(conns, tt.conns) // a failed Preconnect is silent, and the request connects again
				}
				if conns != tt.conns {
					t.Errorf("%d connections, want %d", conns, tt.conns)
				}
			})
		}
	}
}

// TestTenThousandFiles verifies that a large store is read only if necessary.
func TestTenThousandFiles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems verify by themselves")
	}
	future := time.Now().Add(24 * time.Hour)
	a, b := newTestCA(t, "A", future, nil), newTestCA(t, "B", future, nil)
	inBundle, inDir := a.serveTLS(t, future, echoHandler), b.serveTLS(t, future, echoHandler)
	dir := t.TempDir()
	for i := range 10000 {
		text := "no certificate"
		if i == 9999 {
			text = b.pem
		}
		writeFile(t, filepath.Join(dir, "certs", fmt.Sprintf("%05d.pem", i)), text)
	}
	environ := []string{"SSL_CERT_FILE=" + writeFile(t, filepath.Join(dir, "bundle.pem"), a.pem), "SSL_CERT_DIR=" + filepath.Join(dir, "certs")}
	// Reading this pipe would block forever, so the directory must not be read.
	pipe := filepath.Join(dir, "certs", "pipe.pem")
	if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	first := runRequests(t, environ, inBundle.URL)
	must.Do(t, os.Remove(pipe))
	both := runRequests(t, environ, inBundle.URL, inDir.URL, inDir.URL)
	if got := strings.Join(append(first, both...), ";"); got != strings.Repeat("well, a=b;", 3)+"well, a=b" {
		t.Error(got)
	}
}

// TestStoreBehindProxy verifies that the same CAs are trusted for connections through a
// proxy.
func TestStoreBehindProxy(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems verify by themselves")
	}
	n := must.Get(testcloud.NewFakeNetwork())(t)
	defer n.Close()
	n.Handle("sts.example", http.HandlerFunc(echoHandler))
	ca := must.Get(os.ReadFile(n.CAFile()))(t)
	dir := t.TempDir()
	other := writeFile(t, filepath.Join(dir, "bundle.pem"), newTestCA(t, "B", time.Now().Add(time.Hour), nil).pem)
	writeFile(t, filepath.Join(dir, "certs", "ca.pem"), string(ca))
	for name, tt := range map[string]struct {
		environ []string
		want    string
	}{
		"bundle":    {nil, "well, a=b"},
		"directory": {[]string{"SSL_CERT_FILE=" + other, "SSL_CERT_DIR=" + filepath.Join(dir, "certs")}, "well, a=b"},
		"beside":    {[]string{"SSL_CERT_FILE=" + other, "REMOTE_TEST_ASK_PEM=" + string(ca)}, "well, a=b"},
		"neither":   {[]string{"SSL_CERT_FILE=" + other}, `the server's certificate was issued by an untrusted CA, "CN=testcloud"; to trust this CA, add it to the node's trust store (` + other + `)`},
	} {
		t.Run(name, func(t *testing.T) {
			environ := append(n.Environ(), "REMOTE_TEST_ASK_AHEAD=1")
			for _, got := range runRequests(t, append(environ, tt.environ...), "https://sts.example/token", "https://sts.example/again") {
				if !strings.Contains(got, tt.want) {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
			}
		})
	}
}

// clientConfig returns a TLS configuration that trusts only one CA.
func clientConfig(a *testCA) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{RootCAs: roots}
}

// BenchmarkProcess measures a process that sends one request to a TLS server. There are 144
// CAs, as on Debian, each in the bundle and in the directory. "all" uses a plain
// http.Transport.
func BenchmarkProcess(b *testing.B) {
	future := time.Now().Add(24 * time.Hour)
	dir := b.TempDir()
	var bundle strings.Builder
	var a *testCA
	for i := range 144 {
		a = newTestCA(b, fmt.Sprint("Root ", i), future, nil)
		bundle.WriteString(a.pem)
		writeFile(b, filepath.Join(dir, "certs", fmt.Sprint(i, ".pem")), a.pem)
	}
	s := a.serveTLS(b, future, echoHandler)
	file := writeFile(b, filepath.Join(dir, "bundle.pem"), bundle.String())
	for name, environ := range map[string][]string{
		"bundle first": {"SSL_CERT_FILE=" + file, "SSL_CERT_DIR=" + filepath.Join(dir, "certs")},
		"all":          {"SSL_CERT_FILE=" + filepath.Join(dir, "none"), "SSL_CERT_DIR=" + filepath.Join(dir, "certs") + ":" + dir},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if got := runRequests(b, environ, s.URL)[0]; got != "well, a=b" {
					b.Fatal(got)
				}
			}
		})
	}
}

// TestSystemCAs verifies which files and CAs SystemRoots returns.
func TestSystemCAs(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems verify by themselves")
	}
	future := time.Now().Add(time.Hour)
	dir := t.TempDir()
	inFile, inDir, nowhere := newTestCA(t, "file", future, nil), newTestCA(t, "dir", future, nil), newTestCA(t, "nowhere", future, nil)
	file := writeFile(t, filepath.Join(dir, "bundle.pem"), inFile.pem)
	certs, gone := filepath.Join(dir, "certs"), filepath.Join(dir, "gone")
	writeFile(t, filepath.Join(certs, "a.pem"), inDir.pem)
	writeOrPipe(t, filepath.Join(certs, "pipe.pem"), "PIPE")
	for name, tt := range map[string]struct {
		file, dirs string
		from       []string
		trusted    []*testCA
	}{
		"both":      {file, certs + ":" + gone, []string{file, certs}, []*testCA{inFile, inDir}},
		"file":      {file, gone, []string{file}, []*testCA{inFile}},
		"directory": {gone, certs, []string{certs}, []*testCA{inDir}},
		"neither":   {gone, gone, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			environ := map[string]string{"SSL_CERT_FILE": tt.file, "SSL_CERT_DIR": tt.dirs}
			pool, from := remote.SystemRoots(func(name string) string { return environ[name] })
			if !slices.Equal(from, tt.from) {
				t.Errorf("from %q, want %q", from, tt.from)
			}
			for _, a := range []*testCA{inFile, inDir, nowhere} {
				_, err := a.cert.Verify(x509.VerifyOptions{Roots: pool})
				if want := slices.Contains(tt.trusted, a); want != (err == nil) {
					t.Errorf("%s is trusted: %v, want %v", a.cert.Subject, err == nil, want)
				}
			}
		})
	}
}
