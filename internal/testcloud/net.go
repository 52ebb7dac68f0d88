// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testcloud

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// FakeNetwork is an HTTP and HTTPS proxy on loopback that maps host names to handlers. It sends
// status 502 for other hosts and records them.
type FakeNetwork struct {
	dir           string
	proxy         *http.Server
	tlsServer     *http.Server   // serves the decrypted TLS connections
	directServers []*http.Server // see [FakeNetwork.ServeTLS]
	addr          string
	key           *ecdsa.PrivateKey
	root          *x509.Certificate
	rootPool      *x509.CertPool

	mu           sync.Mutex
	hosts        map[string]http.Handler
	certificates map[string]*tls.Certificate
	unknownHosts []string
}

// NewFakeNetwork starts a network without hosts. The caller must close it.
func NewFakeNetwork() (*FakeNetwork, error) {
	n := &FakeNetwork{hosts: map[string]http.Handler{}, certificates: map[string]*tls.Certificate{}}
	if err := n.createCA(); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		os.RemoveAll(n.dir)
		return nil, err
	}
	n.addr = listener.Addr().String()
	// Errors of clients that disconnect are not logged.
	discard := log.New(io.Discard, "", 0)
	n.tlsServer = &http.Server{Handler: http.HandlerFunc(n.dispatch), ReadHeaderTimeout: 10 * time.Second, ErrorLog: discard}
	n.proxy = &http.Server{Handler: http.HandlerFunc(n.serveProxy), ReadHeaderTimeout: 10 * time.Second, ErrorLog: discard}
	go n.proxy.Serve(listener)
	return n, nil
}

// Handle maps a host to a handler. A host that begins with "*." matches every name
// below it.
func (n *FakeNetwork) Handle(host string, handler http.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[host] = handler
}

// ServeTLS also serves the hosts on a listener, for clients that use no proxy. It supports HTTP/2,
// as real clouds do. Close closes the listener.
func (n *FakeNetwork) ServeTLS(listener net.Listener) {
	server := &http.Server{
		Handler: http.HandlerFunc(n.dispatch), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if n.HandlerFor(hello.ServerName) == nil {
				n.recordUnknownHost(hello.ServerName)
				return nil, errors.New("nobody is called " + hello.ServerName + " here")
			}
			return n.certificateFor(strings.ToLower(hello.ServerName))
		}},
	}
	n.mu.Lock()
	n.directServers = append(n.directServers, server)
	n.mu.Unlock()
	go server.ServeTLS(listener, "", "")
}

// UnknownHosts returns the requested hosts that have no handler.
func (n *FakeNetwork) UnknownHosts() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.unknownHosts)
}

// Environ returns variables that make a Go program use the proxy for all hosts except metadata
// servers and loopback. Go reads the CA from SSL_CERT_FILE only on Linux and the BSDs.
func (n *FakeNetwork) Environ() []string {
	proxy := "http://" + n.addr
	return []string{
		"HTTP_PROXY=" + proxy, "HTTPS_PROXY=" + proxy, "http_proxy=" + proxy, "https_proxy=" + proxy,
		"NO_PROXY=", "no_proxy=",
		"SSL_CERT_FILE=" + n.CAFile(), "SSL_CERT_DIR=" + filepath.Join(n.dir, "none"),
	}
}

// Addr returns the proxy's address.
func (n *FakeNetwork) Addr() string { return n.addr }

// Transport returns a transport that uses the proxy.
func (n *FakeNetwork) Transport() *http.Transport {
	return &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: n.addr}),
		TLSClientConfig: &tls.Config{RootCAs: n.rootPool},
	}
}

// CAFile returns the path of the network's CA certificate in PEM.
func (n *FakeNetwork) CAFile() string { return filepath.Join(n.dir, "ca.pem") }

// CAPool returns a pool with the network's CA.
func (n *FakeNetwork) CAPool() *x509.CertPool { return n.rootPool }

// Close stops the network.
func (n *FakeNetwork) Close() {
	n.proxy.Close()
	n.tlsServer.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, server := range n.directServers {
		server.Close()
	}
	os.RemoveAll(n.dir)
}

func (n *FakeNetwork) serveProxy(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		n.dispatch(w, r)
		return
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil || n.HandlerFor(host) == nil {
		n.rejectUnknownHost(w, r.Host)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
	err = n.tlsServer.Serve(&singleListener{tls.Server(&bufferedConn{conn, buffered.Reader}, &tls.Config{
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return n.certificateFor(strings.ToLower(host))
		},
	})})
	if errors.Is(err, http.ErrServerClosed) {
		conn.Close()
	}
}

func (n *FakeNetwork) dispatch(w http.ResponseWriter, r *http.Request) {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	handler := n.HandlerFor(host)
	if handler == nil {
		n.rejectUnknownHost(w, r.Host)
		return
	}
	handler.ServeHTTP(w, r)
}

// HandlerFor returns the handler of a host, or nil.
func (n *FakeNetwork) HandlerFor(host string) http.Handler {
	n.mu.Lock()
	defer n.mu.Unlock()
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if handler, ok := n.hosts[host]; ok {
		return handler
	}
	for rest := host; ; {
		_, parent, found := strings.Cut(rest, ".")
		if !found {
			return nil
		}
		if handler, ok := n.hosts["*."+parent]; ok {
			return handler
		}
		rest = parent
	}
}

func (n *FakeNetwork) rejectUnknownHost(w http.ResponseWriter, host string) {
	n.recordUnknownHost(host)
	http.Error(w, "nobody is called "+host+" here", http.StatusBadGateway)
}

func (n *FakeNetwork) recordUnknownHost(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unknownHosts = append(n.unknownHosts, host)
}

// createCA creates the CA and writes its certificate to a new directory.
func (n *FakeNetwork) createCA() (err error) {
	if n.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "testcloud"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, n.key.Public(), n.key)
	if err != nil {
		return err
	}
	if n.root, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	n.rootPool = x509.NewCertPool()
	n.rootPool.AddCert(n.root)
	if n.dir, err = os.MkdirTemp("", "testcloud-"); err != nil {
		return err
	}
	return os.WriteFile(n.CAFile(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
}

func (n *FakeNetwork) certificateFor(host string) (*tls.Certificate, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if leaf, ok := n.certificates[host]; ok {
		return leaf, nil
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(n.certificates) + 2)), Subject: pkix.Name{CommonName: "leaf"},
		NotBefore: n.root.NotBefore, NotAfter: n.root.NotAfter,
		DNSNames: []string{strings.TrimSuffix(host, ".")}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, n.root, n.key.Public(), n.key)
	if err != nil {
		return nil, err
	}
	leaf := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: n.key}
	n.certificates[host] = leaf
	return leaf, nil
}

// bufferedConn is a connection whose first bytes were already read into a buffer.
type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// singleListener is a listener that accepts one existing connection.
type singleListener struct{ conn net.Conn }

func (l *singleListener) Accept() (conn net.Conn, err error) {
	if conn, l.conn = l.conn, nil; conn == nil {
		return nil, io.EOF
	}
	return conn, nil
}

func (*singleListener) Close() error   { return nil }
func (*singleListener) Addr() net.Addr { return &net.TCPAddr{} }
