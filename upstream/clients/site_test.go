// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package clients

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

const helperName = "docker-credential-regcred"

// private and the following constants name the registries. The private registry listens on two
// ports. Another registry has the names of Docker Hub.
const (
	privateHost = "registry.example"
	publicHost  = "public.example:5000"

	hostsFile = `127.0.0.1 localhost
127.0.0.2 registry.example
127.0.0.3 public.example
127.0.0.4 docker.io index.docker.io registry-1.docker.io auth.docker.io
`
)

// testUser may pull from the private registries, with [canary.PasswordSecret].
const testUser = "ci"

// testSite holds all registries. They share one storage.
type testSite struct {
	dir       string
	caFile    string
	transport *http.Transport // trusts the registries' certificate
}

// startSite starts the registries and waits until they respond.
func startSite(t *testing.T) *testSite {
	t.Helper()
	s := &testSite{dir: t.TempDir()}
	s.caFile = filepath.Join(s.dir, "cert.pem")
	s.createCertificates(t)
	htpasswd := fmt.Sprintf("auth: {htpasswd: {realm: test, path: %s}}", s.writeFile(t, "htpasswd", hashPassword(t)))
	s.startRegistry(t, "127.0.0.2:443", htpasswd)
	s.startRegistry(t, "127.0.0.2:5000", htpasswd)
	s.startRegistry(t, "127.0.0.3:5000", "")
	s.startRegistry(t, "127.0.0.4:443", htpasswd)
	s.pushImages(t, publicHost)
	return s
}

// startRegistry starts Debian's docker-registry at an address.
func (s *testSite) startRegistry(t *testing.T, address, auth string) {
	t.Helper()
	config := s.writeFile(t, address+".yml", fmt.Sprintf(`version: 0.1
log: {level: info}
storage: {filesystem: {rootdirectory: %s}}
http: {addr: %q, tls: {certificate: %s, key: %s}}
%s
`, filepath.Join(s.dir, "storage"), address, s.caFile, filepath.Join(s.dir, "key.pem"), auth))
	startServer(t, exec.Command("docker-registry", "serve", config), "tcp", address)
}

// startServer starts a server that runs until the test ends, and waits until it listens. log returns the
// server's output so far.
func startServer(t *testing.T, cmd *exec.Cmd, network, address string) (log func() string) {
	t.Helper()
	file := must.Get(os.Create(filepath.Join(t.TempDir(), "log")))(t)
	defer file.Close()
	log = func() string {
		said, err := os.ReadFile(file.Name())
		if err != nil {
			t.Error(err)
		}
		return string(said)
	}
	cmd.Stdout, cmd.Stderr = file, file
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM) // its child processes end with it
		insist := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
		defer insist.Stop()
		cmd.Wait()
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial(network, address)
		if err == nil {
			conn.Close()
			return log
		}
		if time.Now().After(end) {
			t.Fatalf("nobody listens at %s: %v\n%s", address, err, log())
		}
	}
}

func hashPassword(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("htpasswd", "-niB", "-C", "4", testUser)
	cmd.Stdin = strings.NewReader(canary.PasswordSecret)
	line, err := cmd.Output()
	if err != nil {
		t.Fatalf("htpasswd: %v", err)
	}
	return string(line)
}

// createCertificates writes the key of the registries and their self-signed certificate.
func (s *testSite) createCertificates(t *testing.T) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "clients"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"registry.example", "public.example", "docker.io", "*.docker.io"},
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	keyDER := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.writeFile(t, "cert.pem", string(cert))
	s.writeFile(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	s.transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
}

func (s *testSite) writeFile(t *testing.T, name, content string) (path string) {
	t.Helper()
	return writeFile(t, filepath.Join(s.dir, name), content)
}

func writeFile(t *testing.T, path, content string) string {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}
