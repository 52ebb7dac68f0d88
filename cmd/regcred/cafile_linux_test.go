// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestCAFileBesideSystem checks that --ca-file does not replace the system's CAs. On Linux,
// SSL_CERT_FILE sets the system's CAs.
func TestCAFileBesideSystem(t *testing.T) {
	registry := newAppRegistry(t)
	server := httptest.NewTLSServer(registry)
	defer server.Close()
	host := server.Listener.Addr().String()
	system := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})

	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true}
	other := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	regcred := must.Get(exec.LookPath("regcred"))(t)
	cmd := exec.Command(regcred, append([]string{"pull", "--layout", t.TempDir(), host + "/team/app:v1", "--ca-file",
		writeTemp(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other})))}, writeRuntimeConfig(t, "good", host)...)...)
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+writeTemp(t, string(system)))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
