// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
)

// testCloud is a fake Azure cloud with the real host names, and the settings of a node in it. No
// request reaches the real metadata server.
type testCloud struct {
	t    *testing.T
	az   *testcloud.Azure
	net  *testcloud.FakeNetwork
	opts Options
	arc  arcAgent
	env  map[string]string
	log  *buffer
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newTestCloud(t *testing.T, config string) *testCloud {
	t.Helper()
	az := testcloud.NewAzure()
	t.Cleanup(az.Close)
	net := must.Get(testcloud.NewFakeNetwork())(t)
	t.Cleanup(net.Close)
	az.AddHosts(net)
	net.Handle("imds.test", az)
	net.Handle("127.0.0.1", az)
	w := &testCloud{t: t, az: az, net: net, log: &buffer{}, env: map[string]string{}}
	w.setEnviron(az.Environ())
	w.env["AZURE_POD_IDENTITY_AUTHORITY_HOST"] = "http://imds.test"
	w.opts = Options{
		ConfigFile: w.writeFile("azure.json", config), Getenv: func(name string) string { return w.env[name] },
		Logger:    slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Transport: net.Transport(), Timeout: 10 * time.Second, Backoff: time.Millisecond,
	}
	return w
}

// setEnviron sets environment variables for the provider.
func (w *testCloud) setEnviron(environ []string) {
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		w.env[name] = value
	}
}

func (w *testCloud) writeFile(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), name)
	must.Do(w.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// fileWithMode creates a file with the given mode.
func (w *testCloud) fileWithMode(mode os.FileMode, text string) string {
	w.t.Helper()
	path := w.writeFile("file", text)
	must.Do(w.t, os.Chmod(path, mode))
	return path
}

// findRequest returns the first request whose path ends with path.
func (w *testCloud) findRequest(path string) testcloud.Request {
	w.t.Helper()
	for _, r := range w.az.Requests() {
		if strings.HasSuffix(r.Path, path) {
			return r
		}
	}
	w.t.Fatalf("%s was not called", path)
	return testcloud.Request{}
}

// checkNoTokenRequest checks that no token endpoint was called. The registry's challenge may have
// been requested.
func (w *testCloud) checkNoTokenRequest() {
	w.t.Helper()
	for _, line := range w.az.SortedRequestLines() {
		if line != challengeLine {
			w.t.Errorf("asked %q", line)
		}
	}
}

// newProvider returns a provider for this node. It does not depend on the machine that runs the test.
func (w *testCloud) newProvider() *Provider {
	w.t.Helper()
	p := must.Get(New(w.opts))(w.t)
	p.arc = w.arc
	return p
}

// getCredentials calls the provider once. It checks that logs and errors contain no secret, and
// that no unknown host was called.
func (w *testCloud) getCredentials(req *plugin.Request) (*plugin.Response, error) {
	w.t.Helper()
	resp, err := w.newProvider().GetCredentials(context.Background(), req)
	if err != nil {
		canary.AssertAbsent(w.t, "the error", err.Error())
		if strings.Contains(err.Error(), "\n") {
			w.t.Errorf("the error has more than a line: %q", err)
		}
	}
	canary.AssertAbsent(w.t, "the log", w.log.String())
	if strays := w.net.UnknownHosts(); len(strays) > 0 {
		w.t.Errorf("called other hosts: %q", strays)
	}
	return resp, err
}

func (w *testCloud) checkError(req *plugin.Request, want ...string) {
	w.t.Helper()
	resp, err := w.getCredentials(req)
	if err == nil {
		w.t.Fatalf("no error, but a response with %d keys", len(resp.Auth))
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			w.t.Errorf("got error\n%s\nwant in it\n%s", err, part)
		}
	}
}

// mustGetCredentials calls the provider once and fails the test on an error.
func (w *testCloud) mustGetCredentials(req *plugin.Request) *plugin.Response {
	w.t.Helper()
	return must.Get(w.getCredentials(req))(w.t)
}

// authSummary returns the user name of each key in a response, followed by ":secret" or ":token" if there
// is a password.
func authSummary(resp *plugin.Response) map[string]string {
	got := map[string]string{}
	for key, auth := range resp.Auth {
		got[key] = auth.Username
		if !auth.Password.IsZero() {
			got[key] += ":" + map[bool]string{true: "secret", false: "token"}[auth.Password.Reveal() == canary.PasswordSecret]
		}
	}
	return got
}

func imageRequest(name string) *plugin.Request {
	return &plugin.Request{APIVersion: plugin.V1, Image: name}
}

// podRequest returns a request for a pod that has a service account token and annotations.
func podRequest(name string, annotations map[string]string) *plugin.Request {
	return &plugin.Request{APIVersion: plugin.V1, Image: name, ServiceAccountToken: podToken, ServiceAccountAnnotations: annotations}
}

// podToken is a token of the pod's service account.
var podToken = plugin.NewSecret(testcloud.AzureJWT(map[string]any{"sub": "system:serviceaccount:shop:cart", "jti": canary.TokenSecret}))

func identityAnnotations(clientID, tenant string) map[string]string {
	return map[string]string{clientIDAnnotation: clientID, tenantIDAnnotation: tenant}
}

const (
	managedIdentityConfig  = `{"useManagedIdentityExtension":true,"tenantId":"node-tenant"}`
	servicePrincipalConfig = `{"tenantId":"node-tenant","aadClientId":"node-client","aadClientSecret":"` + canary.PasswordSecret + `"}`
)

const (
	imdsLine      = "GET imds.test/metadata/identity/oauth2/token"
	challengeLine = "GET foo.azurecr.io/v2/"
	exchangeLine  = "POST foo.azurecr.io/oauth2/exchange"
)
