// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
)

// runAsPluginEnv is the environment variable that makes the test binary run as the plugin.
const runAsPluginEnv = "ACR_CREDENTIAL_PROVIDER_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(runAsPluginEnv) != "" {
		main()
	}
	os.Exit(m.Run())
}

// node is a test node with its own cloud services.
type node struct {
	t   *testing.T
	az  *testcloud.Azure
	net *testcloud.FakeNetwork
	cmd plugin.Command
}

// newNode returns a test node. It skips the test on systems where a Go program cannot be made to
// trust the fake network's CA.
func newNode(t *testing.T) *node {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("Go takes the authority from SSL_CERT_FILE on Linux and the BSDs")
	}
	az := testcloud.NewAzure()
	t.Cleanup(az.Close)
	az.Update(func(s *testcloud.AzureState) { s.RefreshToken = password })
	net := must.Get(testcloud.NewFakeNetwork())(t)
	t.Cleanup(net.Close)
	az.AddHosts(net)
	self := must.Get(os.Executable())(t)
	n := &node{t: t, az: az, net: net}
	n.cmd = plugin.Command{
		Path: self, Name: "acr-credential-provider", APIVersion: plugin.V1, Dir: t.TempDir(),
		// GORACE prevents the race detector from sleeping for a second at exit.
		Environ: append(append(az.Environ(), net.Environ()...), runAsPluginEnv+"=1", "GORACE=atexit_sleep_ms=0"),
	}
	return n
}

// password is a registry's token that expires in the year 2286.
const password = "e30.eyJpYXQiOjk5OTk5OTAwMDAsImV4cCI6OTk5OTk5NzIwMH0.open-sesame"

// writeConfig writes a cloud configuration and returns its path.
func (n *node) writeConfig(text string) string {
	n.t.Helper()
	path := filepath.Join(n.t.TempDir(), "azure.json")
	must.Do(n.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// run runs the plugin with req. It uses RunRaw, because Run would remove the request's token from
// standard error.
func (n *node) run(req plugin.Request, args ...string) (*plugin.Exchange, error) {
	n.t.Helper()
	cmd := n.cmd
	cmd.Args = plugin.NewSecrets(args...)
	if req.APIVersion == "" {
		req.APIVersion = plugin.V1
	}
	cmd.APIVersion = req.APIVersion
	stdin := must.Get(plugin.EncodeRequest(&req))(n.t)
	x, err := cmd.RunRaw(n.t.Context(), strings.NewReader(string(stdin)))
	canary.AssertAbsent(n.t, "standard error", x.Stderr)
	if strays := n.net.UnknownHosts(); len(strays) > 0 {
		n.t.Errorf("other hosts were called: %q", strays)
	}
	return x, err
}

const managedIdentityConfig = `{"useManagedIdentityExtension":true,"tenantId":"node-tenant","aadClientSecret":"` + canary.PasswordSecret + `"}`

func podRequest(image string) plugin.Request {
	return plugin.Request{Image: image, ServiceAccountToken: plugin.NewSecret(canary.TokenSecret), ServiceAccountAnnotations: map[string]string{
		"kubernetes.azure.com/acr-client-id": "client-1", "kubernetes.azure.com/acr-tenant-id": "tenant-1",
	}}
}

const wantResponse = `{"kind":"CredentialProviderResponse","apiVersion":"VERSION","cacheKeyType":"Registry","cacheDuration":"1h0m0s","auth":{` +
	`"*.azurecr.*":{"username":"","password":""},"foo.azurecr.io":{"username":"00000000-0000-0000-0000-000000000000","password":"PASSWORD"}}}` + "\n"

// TestAnswers verifies the exact bytes of the response, in each version, for each way
// to call the plugin.
func TestAnswers(t *testing.T) {
	n := newNode(t)
	config := n.writeConfig(managedIdentityConfig)
	for _, args := range [][]string{
		{config}, {config, "--v=4"}, {"-v", "2", config}, {"-v=2", config}, {config, "--registry-mirror=mcr.microsoft.com:boot.azurecr.io"},
		{"-r", "mcr.microsoft.com:boot.azurecr.io", config}, {config, "--logtostderr=true", "--vmodule=a=3", "--log-flush-frequency=5s"},
		{config, "--allow-host=pull.example.com", "--default-tenant-id=t", "--default-client-id=c"},
	} {
		for _, version := range []string{plugin.V1, plugin.V1Beta1, plugin.V1Alpha1} {
			x, err := n.run(plugin.Request{APIVersion: version, Image: "foo.azurecr.io/app"}, args...)
			if err != nil {
				t.Errorf("%q: %v", args, err)
				continue
			}
			want := strings.NewReplacer("VERSION", version, "PASSWORD", password).Replace(wantResponse)
			if diff := cmp.Diff(want, x.Stdout.Reveal()); diff != "" {
				t.Errorf("%q (-want +got)\n%s", args, diff)
			}
		}
	}
}

// TestClientSecret verifies that the client secret of azure.json is returned only if the configuration enables that.
func TestClientSecret(t *testing.T) {
	n := newNode(t)
	config := n.writeConfig(`{"tenantId":"node-tenant","aadClientId":"c","aadClientSecret":"` + canary.PasswordSecret + `"}`)
	for _, static := range []bool{false, true} {
		n.az.Reset()
		args := []string{config}
		if static {
			args = append(args, "--static-client-secret")
		}
		x := must.Get(n.run(plugin.Request{Image: "foo.azurecr.io/app"}, args...))(t)
		if got := strings.Contains(x.Stdout.Reveal(), canary.PasswordSecret); got != static {
			t.Errorf("static %t: the secret is in the response: %t", static, got)
		}
		if asked := len(n.az.SortedRequestLines()) > 0; asked == static {
			t.Errorf("static %t: asked %q", static, n.az.SortedRequestLines())
		}
	}
}

// TestPod verifies that exchanging a service account's token takes three requests,
// whatever azure.json contains.
func TestPod(t *testing.T) {
	n := newNode(t)
	for _, config := range []string{managedIdentityConfig, `{"aadClientId":"c","aadClientSecret":"` + canary.PasswordSecret + `"}`} {
		n.az.Reset()
		x := must.Get(n.run(podRequest("foo.azurecr.io/app"), n.writeConfig(config)))(t)
		if diff := cmp.Diff(strings.NewReplacer("VERSION", plugin.V1, "PASSWORD", password).Replace(wantResponse), x.Stdout.Reveal()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		want := []string{"POST login.microsoftonline.com/tenant-1/oauth2/v2.0/token", "GET foo.azurecr.io/v2/", "POST foo.azurecr.io/oauth2/exchange"}
		if diff := cmp.Diff(want, n.az.SortedRequestLines()); diff != "" {
			t.Errorf("requests (-want +got)\n%s", diff)
		}
	}
}

// TestForeignHosts verifies that the plugin returns an error for a host outside Azure Container
// Registry, or an empty response with --other-hosts=empty.
func TestForeignHosts(t *testing.T) {
	n := newNode(t)
	config := n.writeConfig(managedIdentityConfig)
	for _, image := range []string{"evilazurecr.io/x", "foo.azurecr.io.example/x", "azurecr.io.evil.example/x", "docker.io/azurecr.io/x", "mcr.microsoft.com/x"} {
		x, err := n.run(podRequest(image), config)
		if err == nil || x.ExitCode != 1 || !strings.Contains(x.Stderr, "not part of Azure Container Registry") || !strings.Contains(x.Stderr, "--other-hosts=empty") {
			t.Errorf("%s: exit code %d, standard error %q", image, x.ExitCode, x.Stderr)
		}
		x, err = n.run(podRequest(image), config, "--other-hosts=empty")
		const want = `{"kind":"CredentialProviderResponse","apiVersion":"` + plugin.V1 + `","cacheKeyType":"Registry","cacheDuration":"0s"}` + "\n"
		if diff := cmp.Diff(want, x.Stdout.Reveal()); err != nil || diff != "" {
			t.Errorf("%s: %v, response (-want +got)\n%s", image, err, diff)
		}
	}
	if len(n.az.SortedRequestLines()) > 0 {
		t.Errorf("asked %q", n.az.SortedRequestLines())
	}
}

// TestMirror verifies mirrors in AKS's syntax and in the syntax of the other plugins.
func TestMirror(t *testing.T) {
	n := newNode(t)
	config := n.writeConfig(managedIdentityConfig)
	const want = `{"kind":"CredentialProviderResponse","apiVersion":"` + plugin.V1 + `","cacheKeyType":"Registry","cacheDuration":"1h0m0s","auth":{` +
		`"*.azurecr.*":{"username":"","password":""},"HOST":{"username":"00000000-0000-0000-0000-000000000000","password":"PASSWORD"},` +
		`"boot.azurecr.io":{"username":"00000000-0000-0000-0000-000000000000","password":"PASSWORD"}}}` + "\n"
	for _, args := range [][]string{
		{"--registry-mirror=mcr.microsoft.com:boot.azurecr.io"}, {"-r", "mcr.microsoft.com:boot.azurecr.io"}, {"--mirror=mcr.microsoft.com=boot.azurecr.io"},
		{"--mirror", "docker.io=boot.azurecr.io/hub", "--mirror-origin=none"},
	} {
		host := "mcr.microsoft.com"
		if len(args) == 3 {
			host = "docker.io"
		}
		x, err := n.run(podRequest(host+"/library/x"), append([]string{config}, args...)...)
		if err != nil {
			t.Errorf("%q: %v", args, err)
			continue
		}
		got := map[string]any{}
		wanted := map[string]any{}
		if json.Unmarshal([]byte(x.Stdout.Reveal()), &got) != nil ||
			json.Unmarshal([]byte(strings.NewReplacer("HOST", host, "PASSWORD", password).Replace(want)), &wanted) != nil {
			t.Fatal("no JSON")
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%q (-want +got)\n%s", args, diff)
		}
	}
}

func TestFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		args    []string // CONFIG is replaced by the path of the configuration
		fault   testcloud.Fault
		want    string
		request plugin.Request
	}{
		"no argument":           {nil, testcloud.Fault{}, "expected one argument: the path to the cloud configuration (azure.json)", plugin.Request{}},
		"two arguments":         {[]string{"CONFIG", "get-credentials"}, testcloud.Fault{}, "expected one argument: the path to the cloud configuration (azure.json)", plugin.Request{}},
		"unknown flag":          {[]string{"CONFIG", "--nonsense"}, testcloud.Fault{}, "unknown flag: --nonsense", plugin.Request{}},
		"half a binding":        {[]string{"CONFIG", "--ib-sni-name=ib.example"}, testcloud.Fault{}, "--ib-sni-name needs --ib-apiserver-ip", plugin.Request{}},
		"binding with https":    {[]string{"CONFIG", "--ib-sni-name=https://ib.example", "--ib-apiserver-ip=10.0.0.1"}, testcloud.Fault{}, "must be a host name without a scheme or port", plugin.Request{}},
		"binding's client":      {[]string{"CONFIG", "--ib-default-client-id=c"}, testcloud.Fault{}, "--ib-default-client-id needs --ib-sni-name", plugin.Request{}},
		"allowed host":          {[]string{"CONFIG", "--allow-host=*"}, testcloud.Fault{}, `--allow-host "*": a * in one of the last two labels would send the password to third-party hosts`, plugin.Request{}},
		"a mirror that is none": {[]string{"CONFIG", "--registry-mirror=mcr.microsoft.com:boot.azurecr.io,nothing"}, testcloud.Fault{}, `--registry-mirror "nothing": must be SOURCE:TARGET or SOURCE=TARGET`, plugin.Request{}},
		"a mirror of strangers": {[]string{"CONFIG", "--mirror=docker.io=boot.azurecr.io"}, testcloud.Fault{}, "--mirror-origin=none", plugin.Request{}},
		"a mirror's target":     {[]string{"CONFIG", "--mirror=mcr.microsoft.com=boot.example"}, testcloud.Fault{}, "the target boot.example is not part of Azure Container Registry", plugin.Request{}},
		"no configuration":      {[]string{"/nonexistent"}, testcloud.Fault{}, "credentials for foo.azurecr.io: cloud configuration ", plugin.Request{}},
		"IMDS":                  {[]string{"CONFIG"}, testcloud.Fault{Path: "/metadata", Status: 400, Body: `{"error":"invalid_request","x":"` + canary.TokenSecret + `"}`}, "status 400 Bad Request (invalid_request)", plugin.Request{}},
		"exchange": {[]string{"CONFIG", "--v=4"}, testcloud.Fault{Path: "/oauth2/exchange", Status: 401, Body: canary.TokenSecret},
			"exchange the token: POST https://foo.azurecr.io/oauth2/exchange: status 401", podRequest("foo.azurecr.io/app")},
		"pod": {[]string{"CONFIG"}, testcloud.Fault{}, "the service account does not have the annotation kubernetes.azure.com/acr-client-id",
			plugin.Request{Image: "foo.azurecr.io/app", ServiceAccountToken: plugin.NewSecret(canary.TokenSecret)}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			args := append([]string{}, tt.args...)
			for i := range args {
				args[i] = strings.Replace(args[i], "CONFIG", n.writeConfig(managedIdentityConfig), 1)
			}
			if tt.fault.Status != 0 {
				n.az.Inject(tt.fault)
			}
			if tt.request.Image == "" {
				tt.request.Image = "foo.azurecr.io/app"
			}
			x, err := n.run(tt.request, args...)
			var failed *plugin.ExecError
			if !errors.As(err, &failed) || failed.ExitCode != 1 || !x.Stdout.IsZero() {
				t.Fatalf("exit code %d, %d bytes on standard output", x.ExitCode, len(x.Stdout.Reveal()))
			}
			last := x.Stderr[strings.LastIndexByte(strings.TrimSuffix(x.Stderr, "\n"), '\n')+1:]
			if !strings.HasPrefix(last, "acr-credential-provider: ") || !strings.Contains(last, tt.want) {
				t.Errorf("got  %swant %s", last, tt.want)
			}
		})
	}
}

// TestMetadataBypassesProxies verifies that only requests to the metadata server bypass the proxy.
// The server's address is 0.0.0.0, which reaches this machine and which Go does not exempt from
// proxies.
func TestMetadataBypassesProxies(t *testing.T) {
	n := newNode(t)
	local := strings.Replace(n.az.URL(), "127.0.0.1", "0.0.0.0", 1)
	environ := n.cmd.Environ
	for name, extra := range map[string][]string{
		"virtual machine": {"AZURE_POD_IDENTITY_AUTHORITY_HOST=" + local},
		"App Service":     {"IDENTITY_ENDPOINT=" + local + "/appservice/token", "IDENTITY_HEADER=" + canary.TokenSecret + "-header"},
	} {
		n.cmd.Environ = append(append([]string{}, environ...), extra...)
		if _, err := n.run(plugin.Request{Image: "foo.azurecr.io/app"}, n.writeConfig(managedIdentityConfig)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEmptyEnvironment verifies that the plugin works without environment variables. The request
// needs no network.
func TestEmptyEnvironment(t *testing.T) {
	n := newNode(t)
	n.cmd.Environ = []string{runAsPluginEnv + "=1"}
	if _, err := n.run(plugin.Request{Image: "docker.io/library/x"}, n.writeConfig(managedIdentityConfig), "--other-hosts=empty"); err != nil {
		t.Error(err)
	}
}

// TestIdentityBinding verifies that the token endpoint is called at the API server's
// address, with its own server name and CA, and without the proxy.
func TestIdentityBinding(t *testing.T) {
	n := newNode(t)
	server := httptest.NewTLSServer(n.az)
	defer server.Close()
	ca := n.writeConfig(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	_, err := n.run(podRequest("foo.azurecr.io/app"), n.writeConfig(managedIdentityConfig), "--ib-sni-name=example.com",
		"--ib-apiserver-ip="+server.Listener.Addr().String(), "--ib-ca-file="+ca)
	if err != nil {
		t.Error(err)
	}
	want := []string{"POST example.com/", "GET foo.azurecr.io/v2/", "POST foo.azurecr.io/oauth2/exchange"}
	if diff := cmp.Diff(want, n.az.SortedRequestLines()); diff != "" {
		t.Errorf("requests (-want +got)\n%s", diff)
	}
}

func TestVersionAndHelp(t *testing.T) {
	n := newNode(t)
	for flag, want := range map[string]string{"--version": "acr-credential-provider ", "--help": "--registry-mirror", "-h": "CLOUD-CONFIG"} {
		x, _ := n.run(plugin.Request{Image: "x"}, flag) // the output is not a response, so run returns an error
		if x.ExitCode != 0 || !strings.Contains(x.Stdout.Reveal(), want) || x.Stderr != "" {
			t.Errorf("%s: exit code %d, standard output without %q", flag, x.ExitCode, want)
		}
	}
}
