// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/secretfile"
)

func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"empty": "\n", "two": canary.EnvSecret + "\n" + canary.EnvSecret + "\n", "binary": canary.EnvSecret + "\xff", "open": canary.EnvSecret, "long": canary.EnvSecret + strings.Repeat("x", secretfile.MaxSize),
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	must.Do(t, os.Chmod(filepath.Join(dir, "open"), 0o666))
	for name, want := range map[string]string{
		"open": "other users can read or change it; run chmod 600", "missing": "no such file or directory", ".": "is a directory, not a regular file", "empty": "file is empty", "two": "not a single line of text", "binary": "not a single line of text", "long": "larger than 1048576 bytes",
	} {
		p := newExchangeProvider(t, newConstantServer(t, ""), func(o *Options) {
			o.Exchange.Form = map[string]string{"client_secret": "{file:" + filepath.Join(dir, name) + "}"}
		})
		_, err := getOutcome(t, p, newRequest(serviceAccountToken(nil), nil))
		checkError(t, err, "form.client_secret: ")
		checkError(t, err, want)
	}
}

func TestCAFile(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"access_token":"`+canary.PasswordSecret+`"}`)
	}))
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // one TLS handshake fails
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		t.Helper()
		name = filepath.Join(dir, name)
		must.Do(t, os.WriteFile(name, content, 0o600))
		return name
	}
	good := write("good.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	bad, open := write("bad.pem", []byte("no certificate")), write("open.pem", nil)
	must.Do(t, os.Chmod(open, 0o646))
	for file, want := range map[string]string{
		good: "", "": "certificate signed by unknown authority", bad: `exchange.caFile: read "` + bad + `": no certificates in PEM format`,
		open:                          `exchange.caFile: read "` + open + `": other users can change it; run chmod o-w ` + open + ``,
		filepath.Join(dir, "missing"): "caFile: read ",
	} {
		p := newProvider(t, exchangeOptions(&Exchange{URL: server.URL, TokenExchange: &TokenExchange{}, CAFile: file}))
		_, err := getOutcome(t, p, newRequest(serviceAccountToken(nil), nil))
		if want != "" {
			checkError(t, err, want)
		} else if err != nil {
			t.Error(err)
		}
	}
}
