// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/gcr"
)

// runAsPluginEnv is the environment variable that makes the test binary run as the plugin.
const runAsPluginEnv = "AUTH_PROVIDER_GCP_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(runAsPluginEnv) != "" {
		main()
	}
	os.Exit(m.Run())
}

// newTestCloud starts a fake Google cloud and its fake network.
func newTestCloud(t *testing.T) (*testcloud.Google, *testcloud.FakeNetwork) {
	t.Helper()
	net := must.Get(testcloud.NewFakeNetwork())(t)
	t.Cleanup(net.Close)
	google := must.Get(testcloud.NewGoogle(net))(t)
	t.Cleanup(google.Close)
	return google, net
}

// pluginCommand returns a command that runs the plugin in the test cloud with an otherwise empty environment.
func pluginCommand(t *testing.T, google *testcloud.Google, args ...string) plugin.Command {
	t.Helper()
	self := must.Get(os.Executable())(t)
	return plugin.Command{
		Path: self, Name: "auth-provider-gcp", Args: plugin.NewSecrets(args...), APIVersion: plugin.V1, Dir: t.TempDir(),
		// GORACE prevents the race detector from sleeping for a second at exit.
		Environ: append(google.Environ(), runAsPluginEnv+"=1", "GORACE=atexit_sleep_ms=0", "SystemRoot="+os.Getenv("SystemRoot")),
	}
}

func podRequest(image string) *plugin.Request {
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://issuer.example","sub":"system:serviceaccount:team:app","aud":"pool"}`))
	return &plugin.Request{
		Image: image, ServiceAccountToken: plugin.NewSecret("e30." + claims + "." + canary.TokenSecret),
		ServiceAccountAnnotations: map[string]string{gcr.AnnotationEnable: "true", gcr.AnnotationAccount: "a@p.iam.gserviceaccount.com"},
	}
}

const (
	goodResponse = `{"kind":"CredentialProviderResponse","apiVersion":"VERSION","cacheKeyType":"Registry","cacheDuration":"30m0s","auth":{` +
		`"*.gcr.io":{"username":"_token","password":"PASSWORD"},"*.pkg.dev":{"username":"_token","password":"PASSWORD"},` +
		`"container.cloud.google.com":{"username":"_token","password":"PASSWORD"},"gcr.io":{"username":"_token","password":"PASSWORD"}}}` + "\n"
	emptyResponse = `{"kind":"CredentialProviderResponse","apiVersion":"` + plugin.V1 + `","cacheKeyType":"Registry","cacheDuration":"0s"}` + "\n"
)

// TestAnswers verifies the exact bytes of the response, in each version, for each way
// to call the plugin.
func TestAnswers(t *testing.T) {
	google, net := newTestCloud(t)
	for _, args := range [][]string{
		{"get-credentials", "--v=3"}, {"get-credentials"}, {}, {"--v=3", "get-credentials"}, {"get-credentials", "-v", "4", "anything"},
		{"-a", "gcr", "get-credentials"}, {"--authFlow=gcr"}, {"get-credentials", "--logtostderr=true", "--stderrthreshold=INFO", "--one_output"},
		{"--alsologtostderr", "--log_dir=/x", "get-credentials", "--vmodule=a=3", "--legacy_stderr_threshold_behavior=false"},
	} {
		for _, version := range []string{plugin.V1, plugin.V1Beta1, plugin.V1Alpha1} {
			cmd := pluginCommand(t, google, args...)
			cmd.APIVersion = version
			x, err := cmd.Run(t.Context(), &plugin.Request{Image: "gcr.io/project/app"})
			if err != nil {
				t.Errorf("%q: %v", args, err)
				continue
			}
			if diff := cmp.Diff(strings.NewReplacer("VERSION", version, "PASSWORD", "open-sesame").Replace(goodResponse), x.Stdout.Reveal()); diff != "" {
				t.Errorf("%q: %s", args, diff)
			}
		}
	}
	if strays := net.UnknownHosts(); len(strays) > 0 {
		t.Errorf("other hosts were called: %q", strays)
	}
}

// TestPod verifies the complete exchange of a service account's token over TLS.
func TestPod(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("Go takes the authority from SSL_CERT_FILE on Linux and the BSDs")
	}
	google, net := newTestCloud(t)
	const audience = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/a/providers/b"
	for name, tt := range map[string]struct {
		args     []string
		password string
		asked    int
	}{
		"cluster":       {[]string{"get-credentials", "--identity-provider=https://c.example", "--project-id=p"}, "open-sesame-federated", 1},
		"audience":      {[]string{"--sts-audience", audience}, "open-sesame-federated", 1},
		"impersonation": {[]string{"--sts-audience", audience, "--impersonate"}, "open-sesame-account", 2},
		"node":          {[]string{"get-credentials"}, "open-sesame", 1},
	} {
		t.Run(name, func(t *testing.T) {
			google.Reset()
			x := must.Get(pluginCommand(t, google, tt.args...).Run(t.Context(), podRequest("gcr.io/p/app")))(t)
			if got := x.Response.Auth["gcr.io"]; got.Username != "_token" || got.Password.Reveal() != tt.password {
				t.Errorf("got another credential, of user %q", got.Username)
			}
			if got := google.RequestLines(); len(got) != tt.asked {
				t.Errorf("asked %q", got)
			}
			if strays := net.UnknownHosts(); len(strays) > 0 {
				t.Errorf("other hosts were called: %q", strays)
			}
		})
	}
}

// TestFails verifies that a failing plugin exits with status 1, prints one line without secrets on
// standard error, and prints nothing on standard output.
func TestFails(t *testing.T) {
	for name, tt := range map[string]struct {
		args  []string
		env   []string
		plain bool // the service account has no annotations
		fault testcloud.Fault
		state func(*testcloud.GoogleState)
		want  string
		asked int
	}{
		"metadata forbids": {fault: testcloud.Fault{Status: 403, Body: canary.TokenSecret}, asked: 1,
			want: `registry "gcr.io": get the node's access token: GET http://METADATA/computeMetadata/v1/instance/service-accounts/default/token: status 403 Forbidden; ` +
				"the metadata server rejected the request; check for a proxy or agent in front of it"},
		"not a token": {fault: testcloud.Fault{Status: 200, Body: "<html>" + canary.TokenSecret}, asked: 1,
			want: `registry "gcr.io": get the node's access token: GET http://METADATA/computeMetadata/v1/instance/service-accounts/default/token: the token response is not valid JSON`},
		"docker config": {args: []string{"-adockercfg"}, state: func(s *testcloud.GoogleState) { s.Dockercfg = canary.PasswordSecret }, asked: 1,
			want: `registry "gcr.io": read the instance attribute google-dockercfg: GET http://METADATA/computeMetadata/v1/instance/attributes/google-dockercfg: line 1, column 1: not JSON from here on`},
		"strict": {args: []string{"--identity-provider=x", "--project-id=p", "--require-workload-identity"}, plain: true,
			want: `registry "gcr.io": workload identity is required, but the pod's service account has no annotation iam.gke.io/enable-wi-image-pull: "true"; ` +
				"add it, and list the key in tokenAttributes in the kubelet's configuration"},
		"flow":               {args: []string{"--authFlow=GCR"}, want: `the flow "GCR" must be gcr, dockercfg or dockercfg-url`},
		"empty flow":         {args: []string{"get-credentials", "--authFlow="}, want: "--authFlow must not be empty"},
		"no project":         {args: []string{"--identity-provider=x"}, want: "an identity provider requires a project; set --project-id"},
		"no project, config": {args: []string{"--identity-provider=x", "--authFlow=dockercfg"}, want: "an identity provider requires a project; set --project-id"},
		"command":            {args: []string{"list"}, want: `unknown command "list"; the only command is get-credentials`},
		"flag":               {args: []string{"get-credentials", "--nonsense"}, want: "unknown flag: --nonsense; --help lists the flags"},
		"cache type":         {env: []string{"KUBE_SIDECAR_CACHE_TYPE=Global"}, want: `KUBE_SIDECAR_CACHE_TYPE="Global" must be image, registry or global, in lowercase`},
		"cache duration":     {env: []string{"KUBE_SIDECAR_CACHE_DURATION=1"}, want: `KUBE_SIDECAR_CACHE_DURATION="1" must be a duration such as 10m or 0s`},
		"metadata host":      {env: []string{"GCE_METADATA_HOST=http://x"}, want: `GCE_METADATA_HOST or GCE_METADATA_IP="http://x" must be host[:port]`},
		"allowed host":       {args: []string{"--allow-host=a.example,*"}, want: `--allow-host "*": a * in one of the last two labels would send the password to third-party hosts; spell out the domain`},
	} {
		t.Run(name, func(t *testing.T) {
			google, net := newTestCloud(t)
			if tt.fault.Status != 0 {
				google.Inject(tt.fault)
			}
			if tt.state != nil {
				google.Update(tt.state)
			}
			cmd := pluginCommand(t, google, tt.args...)
			cmd.Environ = append(cmd.Environ, tt.env...)
			req := podRequest("gcr.io/p/app")
			req.APIVersion = plugin.V1
			if tt.plain {
				req.ServiceAccountAnnotations = nil
			}
			// Use RunRaw: Run would remove the request's token from Stderr.
			stdin := must.Get(plugin.EncodeRequest(req))(t)
			x, err := cmd.RunRaw(t.Context(), strings.NewReader(string(stdin)))
			var failed *plugin.ExecError
			if !errors.As(err, &failed) || failed.ExitCode != 1 || !x.Stdout.IsZero() {
				t.Fatalf("exit code %d, %d bytes on standard output", x.ExitCode, len(x.Stdout.Reveal()))
			}
			canary.AssertAbsent(t, "standard error", x.Stderr)
			if got, want := x.Stderr, "auth-provider-gcp: "+strings.ReplaceAll(tt.want, "//METADATA/", "//"+google.Addr()+"/")+"\n"; got != want {
				t.Errorf("got  %swant %s", got, want)
			}
			if got := google.RequestLines(); len(got) != tt.asked || len(net.UnknownHosts()) > 0 {
				t.Errorf("asked %q and %q", got, net.UnknownHosts())
			}
		})
	}
}

// TestOtherHosts verifies that the plugin returns an error or, if configured, an empty response for
// an image on another host. It must not send any request.
func TestOtherHosts(t *testing.T) {
	google, net := newTestCloud(t)
	for _, image := range []string{"docker.io/library/nginx", "gcr.io.example/p/app", "evilgcr.io/p/app", "localhost:5000/x", "registry.k8s.io/pause"} {
		host, _, _ := strings.Cut(image, "/")
		x, err := pluginCommand(t, google, "get-credentials").Run(t.Context(), &plugin.Request{Image: image})
		want := "auth-provider-gcp: image host \"" + host + "\" is not a Google registry, so it gets no credential; " +
			"remove it from matchImages, add it with --allow-host or --mirror, or set --other-hosts=empty\n"
		if err == nil || x.Stderr != want || x.Stdout.Reveal() != "" {
			t.Errorf("got  %swant %s", x.Stderr, want)
		}
		cmd := pluginCommand(t, google, "get-credentials", "--other-hosts=empty")
		cmd.Environ = append(cmd.Environ, "KUBE_SIDECAR_CACHE_TYPE=global", "KUBE_SIDECAR_CACHE_DURATION=1h")
		x, err = cmd.Run(t.Context(), &plugin.Request{Image: image})
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(emptyResponse, x.Stdout.Reveal()); diff != "" {
			t.Errorf("%s: %s", image, diff)
		}
		if x.Stderr != "" {
			t.Errorf("got %s", x.Stderr)
		}
	}
	if len(google.Requests())+len(net.UnknownHosts()) > 0 {
		t.Errorf("asked %q and %q", google.RequestLines(), net.UnknownHosts())
	}
	x, err := pluginCommand(t, google, "--allow-host=*.mirror.example").Run(t.Context(), &plugin.Request{Image: "a.mirror.example/app"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"*.gcr.io", "*.pkg.dev", "a.mirror.example", "container.cloud.google.com", "gcr.io"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(x.Response.Auth))); diff != "" {
		t.Error(diff)
	}
}

// TestSettings verifies that environment variables override the cache type and duration of the
// response.
func TestSettings(t *testing.T) {
	google, _ := newTestCloud(t)
	cmd := pluginCommand(t, google)
	cmd.Environ = append(cmd.Environ, "KUBE_SIDECAR_CACHE_TYPE=global", "KUBE_SIDECAR_CACHE_DURATION=1m")
	resp := must.Get(cmd.GetCredentials(t.Context(), &plugin.Request{Image: "gcr.io/p/app"}))(t)
	if resp.CacheKeyType != plugin.CacheGlobal || resp.CacheDuration.String() != "1m0s" {
		t.Errorf("%s for %v", resp.CacheKeyType, resp.CacheDuration)
	}
}

// TestMetadataBypassesProxies verifies that requests to the metadata server bypass the proxy. The
// server's address is 0.0.0.0, which reaches this machine and which Go does not exempt from
// proxies.
func TestMetadataBypassesProxies(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("0.0.0.0 leads nowhere")
	}
	google, _ := newTestCloud(t)
	proxy := testcloud.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, canary.TokenSecret) }))
	defer proxy.Close()
	run := func(args ...string) (*plugin.Response, error) {
		cmd := pluginCommand(t, google, args...)
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"} {
			cmd.Environ = append(cmd.Environ, name+"="+proxy.URL())
		}
		cmd.Environ = append(cmd.Environ, "GCE_METADATA_HOST="+strings.Replace(google.Addr(), "127.0.0.1", "0.0.0.0", 1))
		return cmd.GetCredentials(t.Context(), podRequest("gcr.io/p/app"))
	}
	for _, flow := range []string{"gcr", "dockercfg"} {
		google.Update(func(s *testcloud.GoogleState) { s.Dockercfg = `{"gcr.io":{"username":"u","password":"open-sesame"}}` })
		resp, err := run("--authFlow=" + flow)
		if err != nil || resp.Auth["gcr.io"].Password.Reveal() != "open-sesame" {
			t.Errorf("%s: %v", flow, err)
		}
	}
	if got := proxy.RequestLines(); len(got) > 0 {
		t.Errorf("the proxy was called: %q", got)
	}
	// Verify that the proxy works: a request to STS uses it.
	if _, err := run("--sts-audience=pool"); err == nil || len(proxy.Requests()) == 0 {
		t.Errorf("the proxy got no request to STS: %v", err)
	}
}

// TestBadRequests verifies that an invalid request exits with status 2 before any request is sent.
func TestBadRequests(t *testing.T) {
	google, net := newTestCloud(t)
	for name, stdin := range map[string]string{
		"garbage":    canary.TokenSecret,
		"wrong kind": `{"kind":"Pod","apiVersion":"` + plugin.V1 + `","image":"gcr.io/p/app"}`,
		"no version": `{"kind":"CredentialProviderRequest","image":"gcr.io/p/app"}`,
		"no image":   `{"kind":"CredentialProviderRequest","apiVersion":"` + plugin.V1 + `","image":""}`,
		"wrong case": `{"Kind":"CredentialProviderRequest","apiVersion":"` + plugin.V1 + `","Image":"gcr.io/p/app"}`,
	} {
		x, err := pluginCommand(t, google).RunRaw(t.Context(), strings.NewReader(stdin))
		if err == nil || x.ExitCode != 2 || !x.Stdout.IsZero() || strings.Count(x.Stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q", name, x.ExitCode, x.Stderr)
		}
		canary.AssertAbsent(t, "standard error", x.Stderr)
	}
	if len(google.Requests())+len(net.UnknownHosts()) > 0 {
		t.Errorf("asked %q and %q", google.RequestLines(), net.UnknownHosts())
	}
}

func TestHelpAndVersion(t *testing.T) {
	google, _ := newTestCloud(t)
	for flag, want := range map[string]string{"--help": "--allow-host", "-h": "get-credentials", "--version": "auth-provider-gcp "} {
		x, _ := pluginCommand(t, google, flag).RunRaw(t.Context(), strings.NewReader(""))
		if x.ExitCode != 0 || !strings.Contains(x.Stdout.Reveal(), want) || x.Stderr != "" {
			t.Errorf("%s: exit code %d, %q", flag, x.ExitCode, x.Stderr)
		}
	}
}
