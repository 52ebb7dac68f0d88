// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
)

// runAsPluginEnv is the environment variable that makes the test binary run as the plugin.
const runAsPluginEnv = "REGCRED_TEST_AS_MAIN=1"

func TestMain(m *testing.M) {
	if os.Getenv("REGCRED_TEST_AS_MAIN") == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

const privateHost = "111122223333.dkr.ecr.eu-west-1.amazonaws.com"

func newCloud(t *testing.T) *testcloud.AWS {
	t.Helper()
	cloud := must.Get(testcloud.NewAWS())(t)
	t.Cleanup(cloud.Close)
	return cloud
}

// pluginCommand returns a command that runs the plugin in a separate process with only environ as its environment.
func pluginCommand(t *testing.T, environ []string, args ...string) plugin.Command {
	t.Helper()
	self := must.Get(os.Executable())(t)
	return plugin.Command{Path: self, Name: "ecr-credential-provider", Args: plugin.NewSecrets(args...), Environ: append(environ, runAsPluginEnv), APIVersion: plugin.V1}
}

func accessKeyEnviron() []string {
	return []string{"AWS_ACCESS_KEY_ID=AKIAENV", "AWS_SECRET_ACCESS_KEY=" + canary.EnvSecret, "AWS_SESSION_TOKEN=" + canary.TokenSecret}
}

// run runs the plugin for image. Standard error must not contain secrets.
func run(t *testing.T, c plugin.Command, image string) (*plugin.Exchange, error) {
	t.Helper()
	x, err := c.Run(t.Context(), &plugin.Request{Image: image})
	canary.AssertAbsent(t, "standard error", x.Stderr)
	if x.StderrSecret || strings.Contains(x.Stderr, "open-sesame") {
		t.Error("a secret is on standard error")
	}
	return x, err
}

func checkPluginResponse(t *testing.T, x *plugin.Exchange, err error, key string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]plugin.AuthConfig{key: {Username: "AWS", Password: plugin.NewSecret("open-sesame")}}
	if !cmp.Equal(x.Response.Auth, want) || x.Response.CacheKeyType != plugin.CacheRegistry {
		t.Error("the response is another one")
	}
}

// TestArguments verifies that the plugin accepts the arguments in existing configurations.
func TestArguments(t *testing.T) {
	cloud := newCloud(t)
	for _, args := range [][]string{
		nil, {"get-credentials"}, {"get-credentials", "--v=0"}, {"--v", "4"}, {"--v=2", "get-credentials", "more"},
		{"--allow-host", "registry.corp.example:5000=eu-west-1"},
	} {
		x, err := run(t, pluginCommand(t, cloud.Environ(), args...), privateHost+"/app")
		checkPluginResponse(t, x, err, privateHost)
		if logs := strings.Contains(strings.Join(args, " "), "--v 4") || strings.Contains(strings.Join(args, " "), "--v=2"); logs != (x.Stderr != "") {
			t.Errorf("%q: got %q on standard error", args, x.Stderr)
		}
	}
	x, err := run(t, pluginCommand(t, cloud.Environ(), "--allow-host", "registry.corp.example:5000=eu-west-1", "--allow-host=b.example=us-east-1"), "registry.corp.example:5000/app")
	checkPluginResponse(t, x, err, "registry.corp.example:5000")
}

func TestVersionAndHelp(t *testing.T) {
	for arg, want := range map[string]string{
		"--version": "ecr-credential-provider ", "-v": "ecr-credential-provider ", "--help": "--allow-host", "-h": "get-credentials",
	} {
		x, _ := pluginCommand(t, nil, arg).RunRaw(t.Context(), strings.NewReader("")) // the output is not a response, so the error is ignored
		if x.ExitCode != 0 || !strings.Contains(x.Stdout.Reveal(), want) || x.Stderr != "" {
			t.Errorf("%s: got exit code %d, %q, %q", arg, x.ExitCode, x.Stdout.Reveal(), x.Stderr)
		}
	}
	for _, args := range [][]string{
		{"--no-such-flag"}, {"--allow-host", "https://a.example"}, {"--role", "111122223333=pull"}, {"--external-id=111122223333=c"},
		{"--session-name=a b"}, {"--mirror=docker.io=" + privateHost}, {"--other-hosts=all"}, {"--mirror-origin=public"},
	} {
		x, err := pluginCommand(t, nil, args...).RunRaw(t.Context(), strings.NewReader(""))
		if err == nil || x.ExitCode != 1 || len(x.Stdout.Reveal()) > 0 || strings.Count(x.Stderr, "\n") != 1 {
			t.Errorf("%q: got exit code %d, %q, %v", args, x.ExitCode, x.Stderr, err)
		}
	}
}

// TestOtherHosts verifies that the error for another host is one line, because a kubelet shows one
// line, and contains the fix. With --other-hosts=empty, the plugin returns an empty response.
func TestOtherHosts(t *testing.T) {
	cloud := newCloud(t)
	environ := append(cloud.Environ(), "AWS_REGION=eu-west-1")
	x, err := run(t, pluginCommand(t, environ), "docker.io/library/nginx")
	want := "ecr-credential-provider: image host \"docker.io\" is not part of Amazon ECR, so it gets no credential; remove it from matchImages, " +
		"add it with --allow-host or --mirror, or set --other-hosts=empty\n"
	if err == nil || x.Stderr != want {
		t.Errorf("got %q, %v, want %q", x.Stderr, err, want)
	}
	x, err = run(t, pluginCommand(t, environ, "--other-hosts=empty"), "docker.io/library/nginx")
	if err != nil || len(x.Response.Auth) > 0 || x.Response.CacheDuration == nil || *x.Response.CacheDuration != 0 || x.Stderr != "" {
		t.Errorf("got %+v, %q, %v", x.Response, x.Stderr, err)
	}
	if got := cloud.RequestLines(); len(got) > 0 {
		t.Errorf("a host was called: %q", got)
	}
	x, err = run(t, pluginCommand(t, environ, "--any-host"), "docker.io/library/nginx")
	checkPluginResponse(t, x, err, "docker.io")
}

// TestFlags verifies the flags that select the endpoint and the account.
func TestFlags(t *testing.T) {
	cloud := newCloud(t)
	x, err := run(t, pluginCommand(t, cloud.Environ(),
		"--mirror=docker.io="+privateHost+"/hub", "--mirror-origin=none",
		"--role=111122223333=arn:aws:iam::111122223333:role/a,arn:aws:iam::111122223333:role/b",
		"--external-id=111122223333=customer-7", "--session-name=pulls"), "docker.io/library/nginx")
	checkPluginResponse(t, x, err, "docker.io")
	var got []string
	for _, r := range cloud.Requests() {
		if form := r.Form(); form.Get("RoleArn") != "" {
			got = append(got, form.Get("Action")+" "+form.Get("RoleArn")+" "+form.Get("ExternalId")+" "+form.Get("RoleSessionName"))
		}
	}
	want := []string{"AssumeRole arn:aws:iam::111122223333:role/a customer-7 pulls", "AssumeRole arn:aws:iam::111122223333:role/b customer-7 pulls"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestRoleVariable verifies that AWS_ECR_ROLE_ARN sets the role of pods without an
// annotation.
func TestRoleVariable(t *testing.T) {
	cloud := newCloud(t)
	c := pluginCommand(t, append(cloud.Environ(), "AWS_ECR_ROLE_ARN=arn:aws:iam::111122223333:role/pull"))
	x, err := c.Run(t.Context(), &plugin.Request{Image: privateHost + "/app", ServiceAccountToken: plugin.NewSecret(canary.TokenSecret)})
	canary.AssertAbsent(t, "standard error", x.Stderr)
	checkPluginResponse(t, x, err, privateHost)
	if got := cloud.Requests()[0].Form().Get("RoleArn"); got != "arn:aws:iam::111122223333:role/pull" {
		t.Errorf("got role %q", got)
	}
}

// TestBrokenRequest verifies the handling of standard input that is not a request.
func TestBrokenRequest(t *testing.T) {
	cloud := newCloud(t)
	for _, stdin := range []string{"", "{", `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v2","image":"a"}`} {
		x, err := pluginCommand(t, cloud.Environ()).RunRaw(t.Context(), strings.NewReader(stdin))
		if err == nil || len(x.Stdout.Reveal()) > 0 || x.ExitCode == 0 {
			t.Errorf("%q: got exit code %d, %v", stdin, x.ExitCode, err)
		}
	}
}

// TestEndpoints verifies which endpoints the plugin calls, through a proxy. The image's host
// determines the endpoint, unless the SDK's environment variables select FIPS or a custom endpoint.
func TestEndpoints(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("the authority of the little internet is taken from SSL_CERT_FILE, which this system does not know")
	}
	cloud := newCloud(t)
	net := must.Get(testcloud.NewFakeNetwork())(t)
	defer net.Close()
	for _, name := range []string{"*.amazonaws.com", "*.amazonaws.com.cn", "*.amazonaws.eu", "*.us-west-2.api.aws", "*.us-east-1.api.aws", "*.api.amazonwebservices.com.cn", "*.c2s.ic.gov"} {
		net.Handle(name, cloud)
	}
	baseEnviron := append(cloud.Environ(), net.Environ()...)
	for _, service := range []string{"", "_ECR", "_ECR_PUBLIC", "_STS"} {
		baseEnviron = append(baseEnviron, "AWS_ENDPOINT_URL"+service+"=")
	}
	for name, tt := range map[string]struct {
		host    string
		environ []string
		want    string
	}{
		"private":               {"111122223333.dkr.ecr.us-west-2.amazonaws.com", nil, "api.ecr.us-west-2.amazonaws.com"},
		"china":                 {"111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn", nil, "api.ecr.cn-north-1.amazonaws.com.cn"},
		"eusc":                  {"111122223333.dkr.ecr.eusc-de-east-1.amazonaws.eu", nil, "api.ecr.eusc-de-east-1.amazonaws.eu"},
		"iso":                   {"111122223333.dkr.ecr.us-iso-east-1.c2s.ic.gov", nil, "api.ecr.us-iso-east-1.c2s.ic.gov"},
		"public":                {"public.ecr.aws", nil, "api.ecr-public.us-east-1.amazonaws.com"},
		"fips of the variable":  {"111122223333.dkr.ecr.us-west-2.amazonaws.com", []string{"AWS_USE_FIPS_ENDPOINT=true"}, "api.ecr-fips.us-west-2.amazonaws.com"},
		"endpoint of one's own": {"111122223333.dkr-ecr-fips.us-west-2.on.aws", []string{"AWS_ENDPOINT_URL_ECR=" + cloud.URL()}, cloud.Addr()},
	} {
		t.Run(name, func(t *testing.T) {
			cloud.Reset()
			environ := append(append(append([]string{}, baseEnviron...), accessKeyEnviron()...), tt.environ...)
			x, err := run(t, pluginCommand(t, environ), tt.host+"/app")
			checkPluginResponse(t, x, err, tt.host)
			if got := cloud.Requests(); len(got) != 1 || strings.TrimSuffix(got[0].Host, ":443") != tt.want {
				t.Errorf("got %q, want %q", cloud.RequestLines(), tt.want)
			}
		})
	}
	t.Run("the role's", func(t *testing.T) {
		cloud.Reset()
		c := pluginCommand(t, append(baseEnviron, "AWS_ECR_ROLE_ARN=arn:aws:iam::111122223333:role/pull"))
		x, err := c.Run(t.Context(), &plugin.Request{Image: "public.ecr.aws/app", ServiceAccountToken: plugin.NewSecret(canary.TokenSecret)})
		canary.AssertAbsent(t, "standard error", x.Stderr)
		checkPluginResponse(t, x, err, "public.ecr.aws")
		want := []string{"POST sts.us-east-1.amazonaws.com/", "POST api.ecr-public.us-east-1.amazonaws.com/"}
		if diff := cmp.Diff(want, cloud.RequestLines()); diff != "" {
			t.Error(diff)
		}
	})
	for name, tt := range map[string]struct {
		host string
		args []string
		want []string
	}{
		"the role's, plain":            {"111122223333.dkr-ecr-fips.us-west-2.on.aws", []string{"--plain-endpoints"}, []string{"POST sts.us-west-2.amazonaws.com/", "POST api.ecr.us-west-2.amazonaws.com/"}},
		"the proxy refuses dual stack": {"111122223333.dkr-ecr-fips.eu-west-9.on.aws", nil, []string{"POST sts-fips.eu-west-9.amazonaws.com/", "POST api.ecr-fips.eu-west-9.amazonaws.com/"}},
	} {
		t.Run(name, func(t *testing.T) {
			cloud.Reset()
			c := pluginCommand(t, append(baseEnviron, "AWS_ECR_ROLE_ARN=arn:aws:iam::111122223333:role/pull"), tt.args...)
			x, err := c.Run(t.Context(), &plugin.Request{Image: tt.host + "/app", ServiceAccountToken: plugin.NewSecret(canary.TokenSecret)})
			canary.AssertAbsent(t, "standard error", x.Stderr)
			checkPluginResponse(t, x, err, tt.host)
			if diff := cmp.Diff(tt.want, cloud.RequestLines()); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("a proxy for everything but metadata", func(t *testing.T) {
		cloud.Reset()
		x, err := run(t, pluginCommand(t, baseEnviron), privateHost+"/app")
		checkPluginResponse(t, x, err, privateHost)
		if got := cloud.RequestLines(); len(got) != 4 || got[3] != "POST api.ecr.eu-west-1.amazonaws.com/" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("an authority of one's own", func(t *testing.T) {
		environ := append(append([]string{}, baseEnviron...), "SSL_CERT_FILE="+net.CAFile()+".none")
		if x, err := run(t, pluginCommand(t, environ), privateHost+"/app"); err == nil || !strings.Contains(x.Stderr, "certificate") {
			t.Errorf("got %q, %v, want a certificate that is not trusted", x.Stderr, err)
		}
		x, err := run(t, pluginCommand(t, append(environ, "AWS_CA_BUNDLE="+net.CAFile())), privateHost+"/app")
		checkPluginResponse(t, x, err, privateHost)
	})
	// This host is the only one that the proxy does not serve.
	if diff := cmp.Diff([]string{"sts-fips.eu-west-9.api.aws:443"}, net.UnknownHosts()); diff != "" {
		t.Error(diff)
	}
}

// TestStopped verifies that a hanging run exits with an error on SIGTERM. [plugin.Command] sends
// SIGTERM if it has a grace period.
func TestStopped(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGTERM")
	}
	cloud := newCloud(t)
	cloud.Inject(testcloud.Fault{Hang: true, Times: -1})
	c := pluginCommand(t, append(cloud.Environ(), accessKeyEnviron()...))
	c.Timeout, c.Grace = 2*time.Second, 20*time.Second
	x, err := run(t, c, privateHost+"/app")
	if err == nil || !strings.Contains(x.Stderr, "canceled") && !strings.Contains(x.Stderr, "terminated") {
		t.Errorf("got %q, %v", x.Stderr, err)
	}
}

// TestConcurrent verifies that each of twenty concurrent runs returns a response.
func TestConcurrent(t *testing.T) {
	cloud := newCloud(t)
	c := pluginCommand(t, cloud.Environ())
	failed := make(chan error)
	for range 20 {
		go func() {
			_, err := c.GetCredentials(t.Context(), &plugin.Request{Image: privateHost + "/app"})
			failed <- err
		}()
	}
	for range 20 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}
