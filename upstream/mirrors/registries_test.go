// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package mirrors

import (
	"bytes"
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
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/regcred/regcred/internal/must"
)

// hostNames lists the host names of the tests. All of them resolve to this machine.
var hostNames = []string{"origin.example", "m1.example", "m2.example", "m3.example", "m4.example", "m5.example", "registry-1.docker.io", "sub.wild.example"}

// tlsPorts and plain are the ports of each host.
var (
	tlsPorts   = []string{"443", "5443"}
	plainPorts = []string{"80", "5000"}
)

// loggedRequest is a recorded request to a host.
type loggedRequest struct {
	url  string // URL of the repository: scheme, host, and the path up to "manifests" or "blobs"
	kind string // "manifests", "blobs" or "ping"
	tag  bool   // whether it requests a manifest by tag
	user string // user name; "" for an anonymous request
}

// registryHosts holds the registries, each with its own images.
type registryHosts struct {
	ca      string // path of the CA file
	storage http.Handler

	mu           sync.Mutex
	log          []loggedRequest
	repositories map[string]bool // URLs of existing repositories
}

// startHosts starts the hosts, which run until the test ends.
func startHosts(t *testing.T) *registryHosts {
	t.Helper()
	cert, authority := newCertificate(t)
	h := &registryHosts{ca: filepath.Join(t.TempDir(), "ca.pem"), repositories: map[string]bool{}}
	h.storage = registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	must.Do(t, os.WriteFile(h.ca, authority, 0o600))
	for _, port := range slices.Concat(tlsPorts, plainPorts) {
		l := must.Get(net.Listen("tcp", ":"+port))(t)
		scheme := "http"
		if slices.Contains(tlsPorts, port) {
			scheme, l = "https", tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}})
		}
		server := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.serveRequest(w, r, scheme) })}
		go server.Serve(l)
		t.Cleanup(func() { server.Close() })
	}
	return h
}

// newCertificate returns a certificate for all names, with its own CA.
func newCertificate(t *testing.T) (cert tls.Certificate, authority []byte) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mirrors"}, NotAfter: time.Now().Add(time.Hour),
		DNSNames: append(slices.Clone(hostNames), "localhost"), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// serveRequest records a request and requires credentials. It serves only the repositories in [hosts.repositories].
func (h *registryHosts) serveRequest(w http.ResponseWriter, r *http.Request, scheme string) {
	base, kind, rest := splitRequestPath(r.URL.Path)
	s := loggedRequest{url: scheme + "://" + r.Host + base, kind: kind}
	s.tag = kind == "manifests" && !strings.HasPrefix(rest, "sha256:")
	s.user, _, _ = r.BasicAuth()
	h.mu.Lock()
	h.log = append(h.log, s)
	has := h.repositories[s.url]
	h.mu.Unlock()
	switch {
	case s.user == "":
		w.Header().Set("WWW-Authenticate", `Basic realm="all"`)
		w.WriteHeader(http.StatusUnauthorized)
	case kind == "ping":
		w.WriteHeader(http.StatusOK)
	case !has:
		w.WriteHeader(http.StatusNotFound)
	default:
		r.URL.Path = "/v2/image/" + kind + "/" + rest
		h.storage.ServeHTTP(w, r)
	}
}

// splitRequestPath splits a request's path after the repository, and returns the kind of the request.
func splitRequestPath(path string) (base, kind, rest string) {
	for _, kind := range []string{"manifests", "blobs"} {
		if base, rest, ok := strings.Cut(path, "/"+kind+"/"); ok {
			return base, kind, rest
		}
	}
	return path, "ping", ""
}

// takeRequests returns the requests since its last call. From now on, only the repositories with
// the URLs in there exist.
func (h *registryHosts) takeRequests(there ...string) []loggedRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	log := h.log
	h.log, h.repositories = nil, map[string]bool{}
	for _, url := range there {
		h.repositories[url] = true
	}
	return log
}

// pushImage uploads an image under a tag and returns its digest. The image shares no content with other
// images.
func (h *registryHosts) pushImage(t *testing.T, tag string) (digest string) {
	t.Helper()
	put := func(method, path, mediaType string, body []byte) http.Header {
		r := httptest.NewRequest(method, path, bytes.NewReader(body))
		r.Header.Set("Content-Type", mediaType)
		w := httptest.NewRecorder()
		h.storage.ServeHTTP(w, r)
		if w.Code/100 != 2 {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		return w.Header()
	}
	config := fmt.Appendf(nil, `{"architecture":"amd64","os":"linux","config":{"Labels":{"tag":%q}},"rootfs":{"type":"layers","diff_ids":[]}}`, tag)
	id := sha256Digest(config)
	put(http.MethodPost, "/v2/image/blobs/uploads/?digest="+id, "application/octet-stream", config)
	manifest := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":%q,"size":%d},"layers":[]}`, id, len(config))
	return put(http.MethodPut, "/v2/image/manifests/"+tag, "application/vnd.oci.image.manifest.v1+json", manifest).Get("Docker-Content-Digest")
}
