// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

const pluginName = "token-credential-provider"

// TestMain makes the test binary run as the plugin under the plugin's name.
func TestMain(m *testing.M) {
	if strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") == pluginName {
		main()
	}
	os.Exit(m.Run())
}

// binDir returns a directory with the plugin in it.
func binDir(t *testing.T) string {
	t.Helper()
	self := must.Get(os.Executable())(t)
	name := pluginName
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	return dir
}

// tokenFor returns a service account token for an audience. The token is valid for an hour, and its
// first part contains canary.TokenSecret.
func tokenFor(audience string) string {
	return newUnsignedJWT(canary.TokenSecret, map[string]any{
		"iss": "https://cluster.example", "sub": "system:serviceaccount:team:puller",
		"aud": []string{audience}, "exp": time.Now().Add(time.Hour).Unix(),
	})
}

func newUnsignedJWT(first string, claims map[string]any) string {
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	return first + "." + base64.RawURLEncoding.EncodeToString(payload) + ".c2ln"
}

// TestProcess verifies the plugin's output. The values of arguments are masked because [plugin.Command] treats them as
// secrets.
func TestProcess(t *testing.T) {
	dir := binDir(t)
	token := tokenFor("registry.example")
	tokenFile := filepath.Join(t.TempDir(), "token")
	must.Do(t, os.WriteFile(tokenFile, []byte(token), 0o600))
	for title, tt := range map[string]struct {
		apiVersion string
		args       []string
		image      string
		token      string
		username   string // "" if there is no credential
		stderr     string
		code       int
	}{
		"v1":                {apiVersion: plugin.V1, args: []string{"--registry=registry.example", "--audience=registry.example", "--username={namespace}"}, token: token, username: "team"},
		"get-credentials":   {apiVersion: plugin.V1, args: []string{"get-credentials", "--registry", "registry.example", "--audience", "registry.example"}, token: token, username: "serviceaccount"},
		"two registries":    {apiVersion: plugin.V1, args: []string{"--registry=a.example", "--registry=*.reg.example", "--audience=registry.example"}, image: "b.reg.example/app", token: token, username: "serviceaccount"},
		"another registry":  {apiVersion: plugin.V1, args: []string{"--registry=registry.example", "--audience=registry.example"}, image: "evil.example/app", token: token, code: 1, stderr: `image host "evil.example" is not a configured registry`},
		"others are empty":  {apiVersion: plugin.V1, args: []string{"--registry=registry.example", "--audience=registry.example", "--other-hosts=empty"}, image: "evil.example/app", token: token},
		"others of a file":  {apiVersion: plugin.V1, args: []string{"--config=../../docs/plugins/token/quay.yaml", "--other-hosts=empty"}, image: "evil.example/app", token: token},
		"strangers":         {apiVersion: plugin.V1, args: []string{"--registry=*.com", "--audience=registry.example"}, image: "attacker.com/x", token: token, code: 1, stderr: "would send the password to third-party hosts"},
		"no audience":       {apiVersion: plugin.V1, args: []string{"--registry=registry.example"}, token: token, code: 1, stderr: "no audience: if the token is the password, set --audience to the value of serviceAccountTokenAudience"},
		"API server":        {apiVersion: plugin.V1, args: []string{"--registry=registry.example", "--audience=https://cluster.example"}, token: tokenFor("https://cluster.example"), code: 1, stderr: `has the API server's audience, "`},
		"token file":        {apiVersion: plugin.V1Beta1, args: []string{"--registry=registry.example", "--audience=registry.example", "--token-file=" + tokenFile}, token: token, username: "serviceaccount"},
		"no token file":     {apiVersion: plugin.V1Beta1, args: []string{"--registry=registry.example", "--audience=registry.example", "--token-file=/nonexistent/t"}, token: token, code: 1, stderr: `registry.example: read "/nonexistent/t": no such file or directory`},
		"v1, no token":      {apiVersion: plugin.V1, args: []string{"--registry=registry.example", "--audience=registry.example"}, code: 1, stderr: "no service-account token in the request; set tokenAttributes in the provider's configuration, and use kubelet 1.34 or newer"},
		"v1beta1":           {apiVersion: plugin.V1Beta1, args: []string{"--registry=registry.example", "--audience=registry.example"}, token: token, code: 1, stderr: "credentialprovider.kubelet.k8s.io/v1beta1 does not support it"},
		"v1alpha1":          {apiVersion: plugin.V1Alpha1, args: []string{"--registry=registry.example", "--audience=registry.example", "--optional"}, token: token},
		"audience":          {apiVersion: plugin.V1, args: []string{"--registry=registry.example", "--audience=other"}, token: token, code: 1, stderr: `has the audience ["registry.example"], not "other"; check serviceAccountTokenAudience`},
		"no flags":          {apiVersion: plugin.V1, args: []string{"--audience=a"}, token: token, code: 1, stderr: "no registries: list the registries to provide credentials for, such as registry.example.com, with --registry or under registries"},
		"unknown flag":      {apiVersion: plugin.V1, args: []string{"--registries=a"}, token: token, code: 1, stderr: "--help lists the flags"},
		"no file":           {apiVersion: plugin.V1, args: []string{"--config=/nonexistent/a.yaml"}, token: token, code: 1, stderr: `read "[redacted: args[0]]": no such file or directory`},
		"file and flag":     {apiVersion: plugin.V1, args: []string{"--config=/nonexistent/a.yaml", "--registry=a"}, token: token, code: 1, stderr: "--config and --registry are mutually exclusive"},
		"no exchange":       {apiVersion: plugin.V1, args: []string{"--registry=a", "--exchange-scope=b"}, token: token, code: 1, stderr: "--exchange-url is missing"},
		"half a client":     {apiVersion: plugin.V1, args: []string{"--registry=a", "--username=b", "--exchange-url=https://sts.example", "--exchange-client-id=b"}, token: token, code: 1, stderr: "--exchange-client-id and --exchange-client-secret-file must be set together"},
		"plain http":        {apiVersion: plugin.V1, args: []string{"--registry=a", "--username=b", "--exchange-url=http://sts.example"}, token: token, code: 1, stderr: "must use https, because http exposes the token (--exchange-insecure-http allows http)"},
		"wrong URL":         {apiVersion: plugin.V1, args: []string{"--registry=a", "--username=b", "--exchange-url=sts.example"}, token: token, code: 1, stderr: "--exchange-url \"[redacted: args[2]]\": must be an https URL"},
		"password in a URL": {apiVersion: plugin.V1, args: []string{"--registry=a", "--username=b", "--exchange-url=https://u:" + canary.PasswordSecret + "@sts.example"}, token: token, code: 1, stderr: "--exchange-url: must not contain a user name; use --exchange-client-id"},
		"no user name":      {apiVersion: plugin.V1, args: []string{"--registry=a", "--exchange-url=https://sts.example"}, token: token, code: 1, stderr: "no user name: set --username\n"},
		"bad user name":     {apiVersion: plugin.V1, args: []string{"--registry=a", "--username={x}", "--exchange-url=https://sts.example"}, token: token, code: 1, stderr: "unknown placeholder {x}"},
		"bad scope":         {apiVersion: plugin.V1, args: []string{"--registry=a", "--username=b", "--exchange-scope={x}", "--exchange-url=https://sts.example"}, token: token, code: 1, stderr: "--exchange-scope: unknown placeholder {x}"},
		"token file twice":  {apiVersion: plugin.V1, args: []string{"--registry=a", "--audience=b", "--token-file=/t", "--optional"}, token: token, code: 1, stderr: "--token-file and --optional are mutually exclusive"},
		"relative file":     {apiVersion: plugin.V1, args: []string{"--registry=a", "--audience=b", "--token-file=t"}, token: token, code: 1, stderr: "--token-file \""},
		"no client secret":  {apiVersion: plugin.V1, args: []string{"--registry=registry.example", "--username=b", "--exchange-url=https://127.0.0.1:1", "--exchange-client-id=b", "--exchange-client-secret-file=/nonexistent/s"}, token: token, code: 1, stderr: `exchange the service-account token: --exchange-client-secret-file: read "/nonexistent/s": no such file or directory`},
		"nobody listens":    {apiVersion: plugin.V1, args: []string{"--registry=registry.example", "--username=b", "--exchange-insecure-http", "--exchange-url=http://127.0.0.1:1/t"}, token: token, code: 1, stderr: "exchange the service-account token: POST [redacted: args[3]]: connection refused, 3 times"},
		"empty environment": {apiVersion: plugin.V1, args: []string{"--registry=registry.example", "--audience=registry.example", "--v=4"}, token: token, username: "serviceaccount"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			cmd := plugin.Command{Path: filepath.Join(dir, pluginName), Args: plugin.NewSecrets(tt.args...), Environ: []string{}, APIVersion: tt.apiVersion}
			req := &plugin.Request{Image: "registry.example/team/app"}
			if tt.image != "" {
				req.Image = tt.image
			}
			if tt.apiVersion == plugin.V1 {
				req.ServiceAccountToken = plugin.NewSecret(tt.token)
			}
			x, err := cmd.Run(t.Context(), req)
			canary.AssertAbsent(t, "standard error", x.Stderr)
			if x.StderrSecret {
				t.Error("standard error held a secret")
			}
			if x.ExitCode != tt.code || !strings.Contains(x.Stderr, tt.stderr) || strings.Count(x.Stderr, "\n") > 1 {
				t.Fatalf("got exit code %d and %q, want %d and %q on one line", x.ExitCode, x.Stderr, tt.code, tt.stderr)
			}
			if tt.code != 0 {
				if !x.Stdout.IsZero() {
					t.Error("something is on standard output")
				}
				return
			}
			if err != nil {
				canary.AssertAbsent(t, "the error", err.Error())
				t.Fatal("the response was refused")
			}
			registry := req.Registry()
			if got := x.Response.Auth[registry]; got.Username != tt.username || tt.username != "" && got.Password.Reveal() != tt.token {
				t.Errorf("got user name %q, or another password than the token", got.Username)
			}
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	for flag, want := range map[string]string{
		"--help":    "--config=/etc/token-credential-provider/quay.yaml",
		"--version": pluginName + " ",
	} {
		var stdout, stderr bytes.Buffer
		code := newProgram().Run(context.Background(), []string{flag}, strings.NewReader(""), &stdout, &stderr, os.Getenv)
		if code != 0 || !strings.Contains(stdout.String(), want) || stderr.Len() > 0 {
			t.Errorf("%s: exit code %d, %q, %q", flag, code, stdout.String(), stderr.String())
		}
	}
}

// TestFlagsAreDocumented verifies that docs/plugins/token.md has a row for each flag.
func TestFlagsAreDocumented(t *testing.T) {
	doc := must.Get(os.ReadFile(filepath.FromSlash("../../docs/plugins/token.md")))(t)
	usage := newProgram().Flags.FlagUsages()
	for _, line := range strings.Split(strings.TrimSpace(usage), "\n") {
		name := strings.Fields(line)[0]
		if !strings.Contains(string(doc), "| `"+name+"`") {
			t.Errorf("docs/plugins/token.md has no row for %s", name)
		}
	}
}

func TestTerminates(t *testing.T) {
	dir := binDir(t)
	cmd := plugin.Command{
		Path: filepath.Join(dir, pluginName), Environ: []string{}, APIVersion: plugin.V1, Timeout: 300 * time.Millisecond, Grace: 10 * time.Second,
		Args: plugin.NewSecrets("--registry=registry.example", "--username=b", "--exchange-url="+newSilentServer(t)),
	}
	x, err := cmd.Run(t.Context(), &plugin.Request{Image: "registry.example/app", ServiceAccountToken: plugin.NewSecret(tokenFor("registry.example"))})
	var failed *plugin.ExecError
	if !errors.As(err, &failed) || failed.Stage != plugin.StageTimeout {
		t.Fatal("it was not ended at the deadline")
	}
	canary.AssertAbsent(t, "standard error", x.Stderr)
	if x.ExitCode != 1 || !strings.Contains(x.Stderr, pluginName+": ") {
		t.Errorf("got exit code %d and %q, want 1 and a line on standard error", x.ExitCode, x.Stderr)
	}
}
