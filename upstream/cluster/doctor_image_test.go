// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

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
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/upstream/node"
	"github.com/regcred/regcred/upstream/plugins"
)

// serveExpired starts a registry at 127.0.0.1 with an expired certificate, and returns
// its address and the certificate's file.
func serveExpired(t *testing.T, reg *node.Registry) (addr, file string) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "expired.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-96 * time.Hour), NotAfter: time.Now().Add(-72 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	s := httptest.NewUnstartedServer(reg)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	file = writeFile(t, filepath.Join(t.TempDir(), "ca.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return s.Listener.Addr().String(), file
}

// TestDoctorImage verifies that doctor's report about an image agrees with a pull through the
// kubelet's container runtime.
func TestDoctorImage(t *testing.T) {
	node.SkipUnlessSupported(t)
	net, dir := node.NewFakeNetwork(t), t.TempDir()
	start := func(host string) *node.Registry {
		return node.StartRegistry(t, net, host, testregistry.Options{Auth: testregistry.AuthBearer, Users: map[string]string{"ci": canary.PasswordSecret}})
	}
	good, mirror, origin, expired := start("good.example"), start("cache.example"), start("origin.example"), start("expired.example")
	image := good.PushApp(t, "team/app", "v1")
	fallen := origin.PushApp(t, "team/app", "v1")
	old := expired.PushApp(t, "team/app", "v1")
	addr, ca := serveExpired(t, expired)
	password := writeFile(t, filepath.Join(dir, "password"), canary.PasswordSecret)
	kubelet := node.StartKubelet(t, node.KubeletOptions{
		Runtime: node.StartContainerdWith(t, net, map[string]string{
			"origin.example": "[host.\"https://cache.example\"]\n",
			// Repeat the server in a host table: containerd 1.x ignores a file that only sets
			// server.
			"expired.example": fmt.Sprintf("server = \"https://%s\"\nca = %q\n[host.\"https://%[1]s\"]\nca = %[2]q\n", addr, ca),
		}),
		BinDir: node.BinDir(),
		ProviderConfig: writeProviders(t, filepath.Join(dir, "config.yaml"), "v1", provider{
			name: plugins.Static, version: "v1", images: []string{"good.example", "origin.example", "expired.example"},
			args: []string{"--host", "good.example", "--host", "origin.example", "--host", "expired.example", "--username", "ci", "--password-file", password},
		}),
	})
	says := func(code int, image string, texts ...string) {
		t.Helper()
		c := startKubeletCommand(t, kubelet, "doctor", "--image", image)
		c.checkOutput(t, code, texts...)
		t.Logf("%s", c.stdout.String())
		startKubeletCommand(t, kubelet, "prepull", "--pull-policy", "Always", image).checkOutput(t, code, image)
	}

	says(0, image, "ok      proxy: good.example is reached through the proxy 127.0.0.1:", "(HTTPS_PROXY in the environment of containerd, process ",
		"ok      tls: TLS 1.3, certificate ", "(from SSL_CERT_FILE and SSL_CERT_DIR in the environment of containerd, process ",
		"ok      pull: works from good.example, with provider \""+plugins.Static+"\", user \"ci\"\n")
	says(0, fallen, "ok      mirrors: containerd tries cache.example, then origin.example itself; a host that requires authentication gets the credential",
		"warning manifest: cache.example: ", "HTTP 404", "ok      pull: works from origin.example")
	if len(mirror.ManifestRequests("team/app")) == 0 {
		t.Error("the runtime did not ask the mirror")
	}
	says(1, old, "error   tls: "+addr+": its certificate ", "expired 3 days ago", "error   pull: would fail at "+addr+" (tls)\n")
	says(1, "gone.example/team/app:v1", "error   proxy: the proxy 127.0.0.1:", "refuses to connect to gone.example:443: HTTP 502")

	writeFile(t, password, "wrong")
	says(1, image, "error   registry-token: good.example: provider \""+plugins.Static+"\", user \"ci\": HTTP 401 UNAUTHORIZED", "is wrong, has expired")

	away := writeFile(t, filepath.Join(dir, "away.conf"), `{"apiVersion":"v1","kind":"Config","current-context":"c",
		"contexts":[{"name":"c","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}]}`)
	c := startKubeletCommand(t, kubelet, "doctor", "--image", image, "--pod", "team/app", "--kubeconfig", away)
	c.checkOutput(t, 1, "error   api-server: ", "127.0.0.1:1", "error   credentials: not looked up: ")
	t.Logf("%s", c.stdout.String())
}
