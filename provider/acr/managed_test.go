// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
)

func TestAppService(t *testing.T) {
	for id, parameter := range map[string]string{"": "", "id-1": "client_id", "/subscriptions/1/id": "mi_res_id"} {
		w := newTestCloud(t, `{"useManagedIdentityExtension":true,"userAssignedIdentityID":"`+id+`"}`)
		w.setEnviron(w.az.AppServiceEnviron())
		w.env["IDENTITY_ENDPOINT"] = "http://127.0.0.1/appservice/token?key=value"
		w.mustGetCredentials(imageRequest("foo.azurecr.io/app"))
		query := w.findRequest("/appservice/token").Query
		if query.Get("key") != "value" || query.Get("resource") != tokenAudience || parameter != "" && query.Get(parameter) != id {
			t.Errorf("%q: asked with %v", id, query)
		}
		if want := map[bool]int{true: 3, false: 4}[id == ""]; len(query) != want {
			t.Errorf("%q: asked with %v, want %d fields", id, query, want)
		}
	}
}

// TestNonNodeIdentities verifies that variables of platforms without a kubelet lead to an error,
// and that no other identity is used.
func TestNonNodeIdentities(t *testing.T) {
	for name, env := range map[string][]string{
		"IDENTITY_SERVER_THUMBPRINT is set, but Service Fabric": {"IDENTITY_ENDPOINT=https://fabric.test/token", "IDENTITY_HEADER=x", "IDENTITY_SERVER_THUMBPRINT=00"},
		"MSI_ENDPOINT is set, but Cloud Shell":                  {"MSI_ENDPOINT=http://127.0.0.1/shell"},
		"and Machine Learning are not supported":                {"MSI_ENDPOINT=http://127.0.0.1/ml", "MSI_SECRET=x"},
	} {
		w := newTestCloud(t, managedIdentityConfig)
		w.setEnviron(env)
		w.checkError(imageRequest("foo.azurecr.io/app"), "get a token for the node's managed identity: ", name, "remove the variable from the kubelet's environment")
		w.checkNoTokenRequest()
	}
}

// newArcCloud returns a cloud with an Azure Arc agent. The agent's key is in a file with the given
// name.
func newArcCloud(t *testing.T, config, name, key string) *testCloud {
	t.Helper()
	w := newTestCloud(t, config)
	w.arc = arcAgent{keyDir: t.TempDir()}
	path := filepath.Join(w.arc.keyDir, name)
	must.Do(t, os.WriteFile(path, []byte(key), 0o640))
	w.az.Update(func(s *testcloud.AzureState) { s.ArcKeyFile, s.ArcKey = path, canary.TokenSecret })
	w.setEnviron(w.az.ArcEnviron())
	w.env["IDENTITY_ENDPOINT"] = "http://127.0.0.1/arc/token"
	return w
}

func TestArcManagedIdentity(t *testing.T) {
	const line = "GET 127.0.0.1/arc/token"
	for id, parameter := range map[string]string{"": "", "id-1": "client_id", "/subscriptions/1/id": "msi_res_id"} {
		w := newArcCloud(t, `{"useManagedIdentityExtension":true,"userAssignedIdentityID":"`+id+`"}`, "a.key", canary.TokenSecret+"\n")
		w.mustGetCredentials(imageRequest("foo.azurecr.io/app"))
		if diff := cmp.Diff([]string{line, line, challengeLine, exchangeLine}, w.az.SortedRequestLines()); diff != "" {
			t.Errorf("%q: requests (-want +got)\n%s", id, diff)
		}
		if got := w.findRequest("/arc/token").Query.Get(parameter); got != id {
			t.Errorf("%q: asked for %q", id, got)
		}
	}
	// Without IDENTITY_ENDPOINT, the agent is found by its program and called at its default
	// address.
	w := newArcCloud(t, managedIdentityConfig, "a.key", canary.TokenSecret)
	w.setEnviron(w.az.Environ())
	w.arc.programPath = w.writeFile("himds", "")
	w.net.Handle("127.0.0.1", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Host != "127.0.0.1:40342" || r.URL.Path != imdsPath {
			t.Errorf("asked %s%s", r.Host, r.URL.Path)
		}
		r.URL.Path = "/arc/token"
		w.az.ServeHTTP(rw, r)
	}))
	w.mustGetCredentials(imageRequest("foo.azurecr.io/app"))
}

// TestArcOldAgent verifies that a response is rejected if an old agent ignores the requested
// identity.
func TestArcOldAgent(t *testing.T) {
	for _, id := range []string{"id-1", "/subscriptions/1/id"} {
		w := newArcCloud(t, `{"useManagedIdentityExtension":true,"userAssignedIdentityID":"`+id+`"}`, "a.key", canary.TokenSecret)
		w.az.Update(func(s *testcloud.AzureState) { s.ArcSingleIdentity = true })
		w.checkError(imageRequest("foo.azurecr.io/app"), "the response does not confirm the requested identity; an agent that supports only one identity ignores the identity in the request", `check that identity "`+id+`"`)
	}
}

// TestArcKey verifies that the provider sends only the agent's own keys to the agent's port.
func TestArcKey(t *testing.T) {
	// place creates a file and returns its path.
	type place = func(t *testing.T, keys string) string
	write := func(name, text string) place {
		return func(t *testing.T, keys string) string {
			path := filepath.Join(keys, name)
			must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
			must.Do(t, os.WriteFile(path, []byte(text), 0o600))
			return path
		}
	}
	as := func(name string) place { return func(*testing.T, string) string { return name } }
	const outside = "refusing to read the file named in the challenge, because it is not a .key file in"
	for name, tt := range map[string]struct {
		file place
		want string
	}{
		"another directory":      {as("/nonexistent/" + canary.TokenSecret + "/arc.key"), outside},
		"below":                  {write("below/arc.key", canary.TokenSecret), outside},
		"above":                  {write("../arc.key", canary.TokenSecret), outside},
		"above, by its dots":     {func(_ *testing.T, keys string) string { return keys + "/../" + filepath.Base(keys) + "/../arc.key" }, outside},
		"another kind":           {write("arc.pem", canary.TokenSecret), outside},
		"no kind":                {write("key", canary.TokenSecret), outside},
		"relative":               {as("arc.key"), outside},
		"no file":                {as(""), "the realm in the Basic challenge is not a file path, so the challenge is not from Azure Arc"},
		"not there":              {func(_ *testing.T, keys string) string { return filepath.Join(keys, "none.key") }, "no such file"},
		"empty":                  {write("arc.key", " \n"), "is not a single line of text"},
		"two lines":              {write("arc.key", canary.TokenSecret+"\r\nHost: evil.example"), "is not a single line of text"},
		"too large":              {write("arc.key", strings.Repeat("x", 4097)), "larger than 4096 bytes"},
		"a link out of there":    {createSymlink("/etc/hostname"), "path escapes from parent"},
		"a link to another link": {createSymlink("../../../../../../../../../../dev/zero"), "path escapes from parent"},
		"a directory":            {func(t *testing.T, keys string) string { return filepath.Dir(write("arc.key/x", "")(t, keys)) }, "is a directory"},
		"a named pipe":           {makeNamedPipe, "is a named pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newArcCloud(t, managedIdentityConfig, "good.key", canary.TokenSecret)
			path := tt.file(t, w.arc.keyDir)
			w.az.Update(func(s *testcloud.AzureState) { s.ArcKeyFile = path })
			w.checkError(imageRequest("foo.azurecr.io/app"), "get a token for the node's managed identity: GET http://127.0.0.1/arc/token: status 401: ", tt.want)
			for _, r := range w.az.Requests() {
				if r.Header.Get("Authorization") != "" {
					t.Error("the agent got a request")
				}
			}
		})
	}
	t.Run("as large as may be", func(t *testing.T) {
		key := strings.Repeat("x", 4096)
		w := newArcCloud(t, managedIdentityConfig, "a.key", key)
		w.az.Update(func(s *testcloud.AzureState) { s.ArcKey = key })
		w.mustGetCredentials(imageRequest("foo.azurecr.io/app"))
	})
	t.Run("no challenge", func(t *testing.T) {
		w := newArcCloud(t, managedIdentityConfig, "a.key", canary.TokenSecret)
		w.az.Inject(testcloud.Fault{Path: "/arc/token", Status: 200, Body: `{"access_token":"` + canary.TokenSecret + `"}`, Times: -1})
		w.checkError(imageRequest("foo.azurecr.io/app"), "/arc/token: status 200 OK")
	})
	t.Run("no agent", func(t *testing.T) {
		w := newArcCloud(t, managedIdentityConfig, "a.key", canary.TokenSecret)
		w.arc = arcAgent{}
		w.checkError(imageRequest("foo.azurecr.io/app"), "this operating system does not support the Azure Arc agent")
	})
}

func createSymlink(target string) func(*testing.T, string) string {
	return func(t *testing.T, keys string) string {
		path := filepath.Join(keys, "arc.key")
		if err := os.Symlink(target, path); err != nil {
			t.Skip("this user may not make symbolic links, as on Windows: ", err)
		}
		return path
	}
}

// TestArcAgentPath verifies the paths of the agent on each operating system, as Microsoft's
// installer sets them.
func TestArcAgentPath(t *testing.T) {
	if got := newArcAgent("linux", nil); got.programPath != "/opt/azcmagent/bin/himds" || got.keyDir != "/var/opt/azcmagent/tokens" {
		t.Errorf("linux: %+v", got)
	}
	if got := newArcAgent("darwin", nil); got != (arcAgent{}) || got.isInstalled() {
		t.Errorf("darwin: %+v", got)
	}
	folder := func(name string) string { return map[string]string{"ProgramFiles": "P", "ProgramData": "D"}[name] }
	got := newArcAgent("windows", folder)
	if got.programPath != filepath.Join("P", "AzureConnectedMachineAgent", "himds.exe") || got.keyDir != filepath.Join("D", "AzureConnectedMachineAgent", "Tokens") {
		t.Errorf("windows: %+v", got)
	}
	p, err := New(Options{ConfigFile: "x"})
	if err != nil || p.arc != newArcAgent(runtime.GOOS, os.Getenv) {
		t.Errorf("this system: %+v, %v", p.arc, err)
	}
}

// TestEndpointsThatAreNoURL verifies that an error about an invalid endpoint does not quote its
// environment variable.
func TestEndpointsThatAreNoURL(t *testing.T) {
	for name, value := range map[string]string{"IDENTITY_ENDPOINT": "http://\x00" + canary.TokenSecret, "AZURE_POD_IDENTITY_AUTHORITY_HOST": "imds.test/" + canary.TokenSecret} {
		w := newTestCloud(t, managedIdentityConfig)
		w.env["IDENTITY_HEADER"] = "x"
		w.env[name] = value
		w.checkError(imageRequest("foo.azurecr.io/app"), "get a token for the node's managed identity: ", "not a URL")
	}
}

// TestManagedIdentityCannotRedirect verifies that a redirect to another host is not followed.
func TestManagedIdentityCannotRedirect(t *testing.T) {
	w := newTestCloud(t, managedIdentityConfig)
	reached := false
	w.net.Handle("evil.example", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		reached = true
		io.WriteString(rw, `{"access_token":"x"}`)
	}))
	w.az.Inject(testcloud.Fault{Path: imdsPath, Status: 307, Header: http.Header{"Location": {"http://evil.example/"}}, Times: -1})
	if _, err := w.getCredentials(imageRequest("foo.azurecr.io/app")); err == nil || reached {
		t.Errorf("error %v; another host was called: %t", err, reached)
	}
}
