// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cmd_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/internal/testregistry"
)

// password is the registries' password, which the plugins must return.
const password = "open-sesame"

// testEnv is a private registry under its public name, and the cloud that its plugin calls.
type testEnv struct {
	dir  string
	net  *testcloud.FakeNetwork
	host string // host name of the registry
	user string

	args, env []string // arguments and environment of the plugin
	entry     string   // additional fields of the provider in the configuration
	token     string   // service account token; "" = none
}

// pullCases lists the plugins, each with its registry, its user name, and a function that prepares its
// cloud and flags.
var pullCases = []struct {
	plugin, host, user string
	prepare            func(*testing.T, *testEnv)
}{
	{"ecr-credential-provider", "111122223333.dkr.ecr.us-west-2.amazonaws.com", "AWS", prepareAWS},
	{"auth-provider-gcp", "europe-docker.pkg.dev", "_token", prepareGoogle},
	{"acr-credential-provider", "team.azurecr.io", testcloud.ACRUser, prepareAzure},
	{"dockerconfig-credential-provider", "registry.example", "ci", prepareDockerConfig},
	{"static-credential-provider", "registry.example", "ci", prepareStatic},
	{"token-credential-provider", "registry.example", "jwt", prepareToken},
}

// TestPull pulls a private image with regcred through each plugin. All programs are
// built as in a release; everything else is on loopback.
func TestPull(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux does a Go program take its authorities from SSL_CERT_FILE")
	}
	dir := buildProgramsDir(t)
	for _, p := range pullCases {
		t.Run(p.plugin, func(t *testing.T) {
			net := must.Get(testcloud.NewFakeNetwork())(t)
			defer net.Close()
			w := &testEnv{dir: t.TempDir(), net: net, host: p.host, user: p.user}
			secret := password
			if p.plugin == "token-credential-provider" {
				w.token = testcloud.AzureJWT(map[string]any{
					"sub": "system:serviceaccount:team:app", "aud": []string{"registry.example"}, "exp": time.Now().Add(time.Hour).Unix(),
				})
				secret = w.token
			}
			registry, err := testregistry.New(testregistry.Options{
				Auth: testregistry.AuthBearer, Users: map[string]string{p.user: secret}, TokenServerURL: "https://" + p.host,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer registry.Close()
			digest := must.Get(registry.Push("team/app", "v1", testregistry.Image{}))(t)
			net.Handle(p.host, registry)
			p.prepare(t, w)
			w.checkPull(t, dir, p.plugin, digest, registry)
			if strays := net.UnknownHosts(); len(strays) > 0 {
				t.Errorf("another host was called: %q", strays)
			}
		})
	}
}

// checkPull runs regcred and checks the result.
func (w *testEnv) checkPull(t *testing.T, bin, plugin, digest string, registry *testregistry.Server) {
	t.Helper()
	out := filepath.Join(w.dir, "layout")
	args := []string{
		"--config", w.writeConfig(t, plugin), "--bin-dir", bin,
		"pull", "--no-node-config", "--layout", out, w.host + "/team/app:v1",
	}
	if w.token != "" {
		args = append(args, "--service-account-token-file", w.writeFile(t, "token", w.token))
	}
	cmd := exec.Command(programPath(bin, "regcred"), args...)
	cmd.Env = append(w.net.Environ(), "HOME="+w.dir)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	canary.AssertAbsent(t, "standard output", stdout.String())
	canary.AssertAbsent(t, "standard error", stderr.String())
	if err != nil {
		t.Fatalf("%v\n%s%s", err, &stdout, &stderr)
	}
	if !strings.Contains(stdout.String(), digest) {
		t.Errorf("standard output has no %s:\n%s", digest, &stdout)
	}
	if _, err := os.Stat(filepath.Join(out, "blobs", "sha256", strings.TrimPrefix(digest, "sha256:"))); err != nil {
		t.Error(err)
	}
	if users := responseUsers(registry); !slices.Contains(users, w.user) {
		t.Errorf("the registry was called by %q, not by %q", users, w.user)
	}
}

// responseUsers returns the users that requested manifests from a registry.
func responseUsers(registry *testregistry.Server) (users []string) {
	for _, r := range registry.Requests() {
		if strings.Contains(r.Path, "/manifests/") {
			users = append(users, r.User)
		}
	}
	return users
}

// writeConfig writes the configuration for one provider.
func (w *testEnv) writeConfig(t *testing.T, plugin string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
  - name: %s
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    matchImages: [%q]
    defaultCacheDuration: 1m
%s`, plugin, w.host, w.entry)
	writeList(&b, "args", w.args, func(arg string) string { return fmt.Sprintf("%q", arg) })
	writeList(&b, "env", w.env, func(entry string) string {
		name, value, _ := strings.Cut(entry, "=")
		return fmt.Sprintf("{name: %q, value: %q}", name, value)
	})
	return w.writeFile(t, "config.yaml", b.String())
}

func writeList(b *strings.Builder, field string, values []string, write func(string) string) {
	if len(values) == 0 {
		return
	}
	fmt.Fprintf(b, "    %s:\n", field)
	for _, v := range values {
		fmt.Fprintf(b, "      - %s\n", write(v))
	}
}

// writeFile writes a file and returns its path.
func (w *testEnv) writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(w.dir, name)
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func prepareAWS(t *testing.T, w *testEnv) {
	cloud := must.Get(testcloud.NewAWS())(t)
	t.Cleanup(cloud.Close)
	cloud.Update(func(s *testcloud.AWSState) { s.Password = password })
	w.env = cloud.Environ()
}

func prepareGoogle(t *testing.T, w *testEnv) {
	cloud := must.Get(testcloud.NewGoogle(w.net))(t)
	t.Cleanup(cloud.Close)
	cloud.Update(func(s *testcloud.GoogleState) { s.Token = password })
	w.args, w.env = []string{"get-credentials", "--v=3"}, cloud.Environ()
}

func prepareAzure(t *testing.T, w *testEnv) {
	cloud := testcloud.NewAzure()
	t.Cleanup(cloud.Close)
	registry := w.net.HandlerFor(w.host)
	cloud.Update(func(s *testcloud.AzureState) { s.Registry, s.RefreshToken = registry, password })
	cloud.AddHosts(w.net)
	w.net.Handle(w.host, cloud)
	w.env = cloud.Environ()
	w.args = []string{w.writeFile(t, "azure.json", `{"cloud": "AzurePublicCloud", "tenantId": "t", "useManagedIdentityExtension": true}`)}
}

func prepareDockerConfig(t *testing.T, w *testEnv) {
	content := fmt.Sprintf(`{"auths": {%q: {"username": %q, "password": %q}}}`, w.host, w.user, password)
	w.args = []string{"--config", w.writeFile(t, "config.json", content)}
}

func prepareStatic(t *testing.T, w *testEnv) {
	w.args = []string{"--host", w.host, "--username", w.user, "--password-file", w.writeFile(t, "password", password+"\n")}
}

func prepareToken(_ *testing.T, w *testEnv) {
	w.args = []string{"--registry", w.host, "--username", w.user, "--audience", "registry.example"}
	w.entry = `    tokenAttributes:
      serviceAccountTokenAudience: registry.example
      requireServiceAccount: true
      cacheType: Token
`
}
