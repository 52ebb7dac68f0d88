// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testkube"
	"github.com/regcred/regcred/internal/testregistry"
)

func writeTemp(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// newAppRegistry starts a registry that requires authentication for team/app:v1.
func newAppRegistry(t *testing.T) *testregistry.Server {
	t.Helper()
	registry, err := testregistry.New(testregistry.Options{Auth: testregistry.AuthBasic, Users: map[string]string{"ci": canary.PasswordSecret}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { registry.Close() })
	must.Get(registry.Push("team/app", "v1", testregistry.Image{}))(t)
	return registry
}

// TestCAFile checks that a registry whose certificate is from an unknown CA is trusted only with
// --ca-file.
func TestCAFile(t *testing.T) {
	registry := newAppRegistry(t)
	server := httptest.NewUnstartedServer(registry)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // do not log the handshakes that fail because the client does not trust the certificate
	server.StartTLS()
	defer server.Close()
	host := server.Listener.Addr().String()
	cert := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	flags := writeRuntimeConfig(t, "good", host)

	args := append([]string{"pull", "--layout", t.TempDir(), host + "/team/app:v1"}, flags...)
	if code, out, _ := runApp(t, args...); code != exitFailed {
		t.Errorf("without its authority: exit code %d\n%s", code, out)
	}
	code, out, errOut := runApp(t, append(args, "--ca-file", writeTemp(t, "# ours\n"+cert))...)
	if code != exitOK || !strings.Contains(out, "ok      "+host+"/team/app:v1: pulled ") {
		t.Errorf("with it: exit code %d\n%s%s", code, out, errOut)
	}
	for name, tt := range map[string]struct{ file, want string }{
		"empty":     {writeTemp(t, ""), " contains no PEM certificate"},
		"key alone": {writeTemp(t, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), " contains no PEM certificate"},
		"garbage":   {writeTemp(t, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), ": certificate 1: x509: malformed certificate"},
		"directory": {t.TempDir(), "is a directory, not a regular file"},
		"too large": {writeTemp(t, strings.Repeat("#", maxCAFileSize+1)), "larger than 1048576 bytes"},
		"missing":   {"no-such-file", "no such file or directory"},
	} {
		code, out, errOut := runApp(t, append(args, "--ca-file", tt.file)...)
		if code != exitFailed || out != "" || !strings.HasPrefix(errOut, "error: --ca-file: ") || !strings.Contains(errOut, tt.want) {
			t.Errorf("%s: exit code %d\n%s%s", name, code, out, errOut)
		}
	}
	if code, _, errOut := runApp(t, append([]string{"get", "--ca-file", "x", "nginx"}, flags...)...); code != exitUsage || !strings.HasPrefix(errOut, "error: --ca-file requires --pod or --service-account") {
		t.Errorf("get without a pod: exit code %d, %s", code, errOut)
	}
}

// TestCAFileOfCluster checks --ca-file for an API server whose CA is not in the kubeconfig.
func TestCAFileOfCluster(t *testing.T) {
	api := must.Get(testkube.New(testkube.Options{}))(t)
	defer api.Close()
	api.AddServiceAccount(testkube.ServiceAccount{Namespace: "team", Name: "app"})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must.Do(t, api.Kubeconfig(kubeconfig, testkube.Admin))
	data := must.Get(os.ReadFile(kubeconfig))(t)
	text := strings.Replace(string(data), base64.StdEncoding.EncodeToString(api.CA()), base64.StdEncoding.EncodeToString(otherCA(t)), 1)
	must.Do(t, os.WriteFile(kubeconfig, []byte(text), 0o600))
	args := append([]string{"get", "--kubeconfig", kubeconfig, "--service-account", "team/app", "registry.example/app"}, writeRuntimeConfig(t, "good", "registry.example")...)
	if code, _, errOut := runApp(t, args...); code != exitFailed || !strings.Contains(errOut, "certificate signed by unknown authority") {
		t.Errorf("without its authority: exit code %d, %s", code, errOut)
	}
	if code, _, errOut := runApp(t, append(args, "--ca-file", writeTemp(t, string(api.CA())))...); code != exitOK {
		t.Errorf("with it: exit code %d, %s", code, errOut)
	}
}

// otherCA returns an unrelated CA.
func otherCA(t *testing.T) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	cert := must.Get(x509.CreateCertificate(nil, template, template, public, private))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
}

// TestPullTimeout checks that --timeout also limits a pull into an image layout.
func TestPullTimeout(t *testing.T) {
	args := append([]string{"pull", "--layout", t.TempDir(), "--timeout", "1ns", "127.0.0.1:1/app:v1"}, writeRuntimeConfig(t, "good", "elsewhere.example")...)
	code, out, _ := runApp(t, args...)
	if code != exitFailed || !strings.Contains(out, "the pull did not finish within --timeout 1ns: context deadline exceeded\n") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}
