// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr_test

import (
	"bytes"
	"encoding/base64"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/ecr"
)

const (
	privateHost = "111122223333.dkr.ecr.eu-west-1.amazonaws.com"
	publicHost  = "public.ecr.aws"
	pullRole    = "arn:aws:iam::111122223333:role/pull"
)

// newCloud starts a fake AWS cloud and configures the AWS SDK of this process to use only this
// cloud. The variables in environ override the defaults.
func newCloud(t testing.TB, environ ...string) *testcloud.AWS {
	t.Helper()
	cloud := must.Get(testcloud.NewAWS())(t)
	t.Cleanup(cloud.Close)
	setEnviron(t, append(cloud.Environ(), environ...)...)
	return cloud
}

func setEnviron(t testing.TB, environ ...string) {
	for _, entry := range environ {
		key, value, _ := strings.Cut(entry, "=")
		t.Setenv(key, value)
	}
}

// staticKeysEnv returns environment variables with static credentials.
func staticKeysEnv() []string {
	return []string{"AWS_ACCESS_KEY_ID=AKIAENV", "AWS_SECRET_ACCESS_KEY=" + canary.EnvSecret, "AWS_SESSION_TOKEN=" + canary.TokenSecret}
}

// newProvider returns a provider and fails the test on an error.
func newProvider(t testing.TB, opts ecr.Options) *ecr.Provider {
	t.Helper()
	return must.Get(ecr.New(opts))(t)
}

// getCredentials requests credentials from a new provider, and checks that logs and errors contain no secret.
func getCredentials(t testing.TB, opts ecr.Options, req *plugin.Request) (*plugin.Response, error) {
	t.Helper()
	var logged bytes.Buffer
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	resp, err := newProvider(t, opts).GetCredentials(t.Context(), req)
	canary.AssertAbsent(t, "the log", logged.String())
	if err != nil {
		canary.AssertAbsent(t, "the error", err.Error())
		if resp != nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("got a response with an error, or an error of several lines: %v", err)
		}
	}
	return resp, err
}

func imageRequest(host string) *plugin.Request {
	return &plugin.Request{APIVersion: plugin.V1, Image: host + "/team/app"}
}

// mustGetCredentials calls get and fails the test on an error.
func mustGetCredentials(t testing.TB, opts ecr.Options, req *plugin.Request) *plugin.Response {
	t.Helper()
	return must.Get(getCredentials(t, opts, req))(t)
}

// checkCredential checks that the response contains only the expected credential, under key.
func checkCredential(t testing.TB, resp *plugin.Response, key string) {
	t.Helper()
	if resp.CacheKeyType != plugin.CacheRegistry {
		t.Errorf("got cacheKeyType %q", resp.CacheKeyType)
	}
	want := map[string]plugin.AuthConfig{key: {Username: "AWS", Password: plugin.NewSecret("open-sesame")}}
	if !cmp.Equal(resp.Auth, want) {
		t.Errorf("got other credentials, or under another key than %q", key)
	}
}

// checkSigner checks that the last request, which gets the password, is signed with the access key
// ID key.
func checkSigner(t *testing.T, cloud *testcloud.AWS, key string) {
	t.Helper()
	all := requestSignatures(cloud)
	want := testcloud.AWSSignature{KeyID: key, Region: "eu-west-1", Service: "ecr"}
	if len(all) == 0 || all[len(all)-1] != want {
		t.Errorf("got signatures %v, want the last one to be %v", all, want)
	}
}

// requestSignatures returns the signatures of all signed requests.
func requestSignatures(cloud *testcloud.AWS) []testcloud.AWSSignature {
	var list []testcloud.AWSSignature
	for _, r := range cloud.Requests() {
		if sig, ok := testcloud.ParseAWSSignature(r.Header); ok {
			list = append(list, sig)
		}
	}
	return list
}

// requestLines returns the method and path of all requests.
func requestLines(cloud *testcloud.AWS) []string {
	var list []string
	for _, r := range cloud.Requests() {
		list = append(list, r.Method+" "+r.Path)
	}
	return list
}

func TestPrivate(t *testing.T) {
	cloud := newCloud(t, staticKeysEnv()...)
	resp := mustGetCredentials(t, ecr.Options{}, imageRequest(privateHost))
	checkCredential(t, resp, privateHost)
	if got := *resp.CacheDuration; got > 6*time.Hour || got < 6*time.Hour-10*time.Second {
		t.Errorf("got cacheDuration %v, want about 6h", got)
	}
	requests := cloud.Requests()
	if len(requests) != 1 {
		t.Fatalf("got %q, want one request", cloud.RequestLines())
	}
	got := map[string]any{
		"target": requests[0].Header.Get("X-Amz-Target"), "type": requests[0].Header.Get("Content-Type"),
		"body": string(requests[0].Body), "request": requests[0].Method + " " + requests[0].Path,
	}
	want := map[string]any{
		"target": "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken", "type": "application/x-amz-json-1.1",
		"body": "{}", "request": "POST /",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	wantSignature := []testcloud.AWSSignature{{KeyID: "AKIAENV", Region: "eu-west-1", Service: "ecr"}}
	if diff := cmp.Diff(wantSignature, requestSignatures(cloud)); diff != "" {
		t.Error(diff)
	}
}

func TestPublic(t *testing.T) {
	for _, host := range []string{publicHost, "ecr-public.aws.com"} {
		cloud := newCloud(t, append(staticKeysEnv(), "AWS_REGION=eu-west-1")...)
		checkCredential(t, mustGetCredentials(t, ecr.Options{}, imageRequest(host)), host)
		want := []testcloud.AWSSignature{{KeyID: "AKIAENV", Region: "us-east-1", Service: "ecr-public"}}
		if diff := cmp.Diff(want, requestSignatures(cloud)); diff != "" {
			t.Errorf("%s: %s", host, diff)
		}
		if got := cloud.Requests()[0].Header.Get("X-Amz-Target"); got != "SpencerFrontendService.GetAuthorizationToken" {
			t.Errorf("%s: got target %q", host, got)
		}
	}
}

// TestVersions verifies that the response has the request's version.
func TestVersions(t *testing.T) {
	newCloud(t, staticKeysEnv()...)
	for _, version := range []string{plugin.V1, plugin.V1Beta1, plugin.V1Alpha1} {
		stdin := must.Get(plugin.EncodeRequest(&plugin.Request{APIVersion: version, Image: privateHost + "/app"}))(t)
		var stdout, stderr bytes.Buffer
		code := plugin.Serve(t.Context(), newProvider(t, ecr.Options{}), plugin.ServeOptions{
			Stdin: bytes.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Args: []string{},
		})
		resp, err := plugin.DecodeResponse(stdout.Bytes(), version)
		if code != 0 || err != nil {
			t.Fatalf("%s: exit code %d, %v", version, code, err)
		}
		checkCredential(t, resp, privateHost)
	}
}

// TestSources verifies the sources of the node's credentials, in the SDK's order.
func TestSources(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	config := filepath.Join(t.TempDir(), "config")
	write := func(t *testing.T, path, text string) {
		t.Helper()
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(t, token, canary.TokenSecret)
	profile := "AWS_CONFIG_FILE=" + config
	instance := []string{"PUT /latest/api/token", "GET /latest/meta-data/iam/security-credentials/",
		"GET /latest/meta-data/iam/security-credentials/" + testcloud.AWSRole, "POST /"}
	for name, tt := range map[string]struct {
		environ  func(*testcloud.AWS) []string
		config   string
		state    func(*testcloud.AWSState)
		key      string
		requests []string
	}{
		"environment": {
			environ: func(*testcloud.AWS) []string { return staticKeysEnv() },
			key:     "AKIAENV", requests: []string{"POST /"},
		},
		"web identity": {
			environ: func(*testcloud.AWS) []string {
				return []string{"AWS_ROLE_ARN=" + pullRole, "AWS_WEB_IDENTITY_TOKEN_FILE=" + token}
			},
			state: func(s *testcloud.AWSState) { s.WebIdentityToken, s.RoleARN = canary.TokenSecret, pullRole },
			key:   testcloud.AWSKeyRole, requests: []string{"POST /", "POST /"},
		},
		"profile": {
			config: "[default]\naws_access_key_id = AKIAPROFILE\naws_secret_access_key = " + canary.PasswordSecret + "\n",
			key:    "AKIAPROFILE", requests: []string{"POST /"},
		},
		"profile with a role": {
			config: "[default]\nrole_arn = " + pullRole + "\nsource_profile = base\n" +
				"[profile base]\naws_access_key_id = AKIABASE\naws_secret_access_key = " + canary.PasswordSecret + "\n",
			state: func(s *testcloud.AWSState) { s.RoleARN = pullRole },
			key:   testcloud.AWSKeyRole, requests: []string{"POST /", "POST /"},
		},
		"credential_process": {
			config: "[default]\ncredential_process = cat " + config + ".json\n",
			key:    "AKIAPROCESS", requests: []string{"POST /"},
		},
		"container": {
			environ: func(a *testcloud.AWS) []string {
				return []string{"AWS_CONTAINER_CREDENTIALS_FULL_URI=" + a.ContainerURL(), "AWS_CONTAINER_AUTHORIZATION_TOKEN=" + canary.TokenSecret}
			},
			state: func(s *testcloud.AWSState) { s.ContainerToken = canary.TokenSecret },
			key:   testcloud.AWSKeyContainer, requests: []string{"GET /v2/credentials", "POST /"},
		},
		"container with a token in a file": {
			environ: func(a *testcloud.AWS) []string {
				return []string{"AWS_CONTAINER_CREDENTIALS_FULL_URI=" + a.ContainerURL(), "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=" + token}
			},
			state: func(s *testcloud.AWSState) { s.ContainerToken = canary.TokenSecret },
			key:   testcloud.AWSKeyContainer, requests: []string{"GET /v2/credentials", "POST /"},
		},
		"instance": {key: testcloud.AWSKeyInstance, requests: instance},
		"profile that names the instance": {
			config: "[default]\nrole_arn = " + pullRole + "\ncredential_source = Ec2InstanceMetadata\n",
			key:    testcloud.AWSKeyRole, requests: append(slices.Clone(instance), "POST /"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t, profile)
			write(t, config, tt.config)
			write(t, config+".json", `{"Version":1,"AccessKeyId":"AKIAPROCESS","SecretAccessKey":"`+canary.PasswordSecret+`"}`)
			if tt.environ != nil {
				setEnviron(t, tt.environ(cloud)...)
			}
			if name == "credential_process" {
				setEnviron(t, "PATH="+os.Getenv("PATH"))
			}
			if tt.state != nil {
				cloud.Update(tt.state)
			}
			checkCredential(t, mustGetCredentials(t, ecr.Options{}, imageRequest(privateHost)), privateHost)
			if diff := cmp.Diff(tt.requests, requestLines(cloud)); diff != "" {
				t.Error(diff)
			}
			checkSigner(t, cloud, tt.key)
		})
	}
}

// TestIMDSv1 verifies that an instance metadata service without session tokens is
// called without a token, unless that is disabled.
func TestIMDSv1(t *testing.T) {
	for _, status := range []int{403, 404, 405} {
		cloud := newCloud(t)
		cloud.Update(func(s *testcloud.AWSState) { s.AllowIMDSv1 = true })
		cloud.Inject(testcloud.Fault{Path: "/latest/api/token", Status: status, Times: -1})
		checkCredential(t, mustGetCredentials(t, ecr.Options{}, imageRequest(privateHost)), privateHost)

		t.Setenv("AWS_EC2_METADATA_V1_DISABLED", "true")
		if _, err := getCredentials(t, ecr.Options{}, imageRequest(privateHost)); err == nil {
			t.Errorf("status %d: IMDSv1 was used though it is disabled", status)
		}
	}
}

// TestCacheDuration verifies that a response is cached for half of the
// credentials' remaining lifetime.
func TestCacheDuration(t *testing.T) {
	cloud := newCloud(t, staticKeysEnv()...)
	for name, tt := range map[string]struct {
		expires  time.Duration
		min, max time.Duration
	}{
		"twelve hours":        {12 * time.Hour, 6*time.Hour - 10*time.Second, 6 * time.Hour},
		"one hour":            {time.Hour, 30*time.Minute - 10*time.Second, 30 * time.Minute},
		"a second":            {time.Second, 0, 0},
		"over":                {-time.Minute, 0, 0},
		"long over":           {-300 * 24 * time.Hour, 0, 0},
		"the clock is behind": {20 * time.Hour, 6 * time.Hour, 6 * time.Hour},
		"a century":           {100 * 365 * 24 * time.Hour, 6 * time.Hour, 6 * time.Hour},
	} {
		for _, host := range []string{privateHost, publicHost} {
			cloud.Update(func(s *testcloud.AWSState) { s.Lifetime = tt.expires })
			resp := mustGetCredentials(t, ecr.Options{}, imageRequest(host))
			checkCredential(t, resp, host)
			if resp.CacheDuration == nil || *resp.CacheDuration < tt.min || *resp.CacheDuration > tt.max {
				t.Errorf("%s, %s: got %v, want %v to %v", name, host, resp.CacheDuration, tt.min, tt.max)
			} else if *resp.CacheDuration != resp.CacheDuration.Truncate(time.Second) {
				t.Errorf("%s, %s: got %v, want whole seconds", name, host, resp.CacheDuration)
			}
		}
	}
	cloud.Update(func(s *testcloud.AWSState) { s.Expires = new(time.Time) })
	if resp := mustGetCredentials(t, ecr.Options{}, imageRequest(privateHost)); resp.CacheDuration == nil || *resp.CacheDuration != 0 {
		t.Errorf("no expiry: got %v, want 0s", resp.CacheDuration)
	}
}

// TestPassword verifies which authorization tokens are accepted.
func TestPassword(t *testing.T) {
	cloud := newCloud(t, staticKeysEnv()...)
	token := base64.StdEncoding.EncodeToString([]byte("AWS:open:sesame"))
	for name, tt := range map[string]struct {
		private, public, want string
	}{
		"the user name contains a colon, which HTTP Basic authentication does not allow": {`[{"authorizationToken":"` + token + `"}]`, `{"authorizationToken":"` + token + `"}`, ""},
		"no list":       {`[]`, `null`, "no authorization data"},
		"no token":      {`[{}]`, `{}`, "no authorization token"},
		"null token":    {`[{"authorizationToken":null}]`, `{"authorizationToken":null}`, "no authorization token"},
		"not base64":    {`[{"authorizationToken":"%%"}]`, `{"authorizationToken":"%%"}`, "the authorization token is not base64"},
		"no colon":      {`[{"authorizationToken":"QVdT"}]`, `{"authorizationToken":"QVdT"}`, "the authorization token has no password"},
		"no password":   {`[{"authorizationToken":"QVdTOg=="}]`, `{"authorizationToken":"QVdTOg=="}`, "the authorization token has no password"},
		"another shape": {`{"a":1}`, `[1]`, "cannot parse it"},
	} {
		for host, data := range map[string]string{privateHost: tt.private, publicHost: tt.public} {
			cloud.Update(func(s *testcloud.AWSState) { s.AuthorizationData = data })
			resp, err := getCredentials(t, ecr.Options{}, imageRequest(host))
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("%s, %s: %v", name, host, err)
			case tt.want == "":
				if got := resp.Auth[host].Password.Reveal(); got != "open:sesame" {
					t.Errorf("%s, %s: got another password", name, host)
				}
			case err == nil || !strings.Contains(err.Error(), "invalid response: "+tt.want):
				t.Errorf("%s, %s: got %v, want %q", name, host, err, tt.want)
			}
		}
	}
}
