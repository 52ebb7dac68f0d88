// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr_test

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

// shortTimeouts are options for tests in which endpoints fail.
func shortTimeouts() ecr.Options {
	return ecr.Options{Timeout: 5 * time.Second, MaxPause: time.Millisecond}
}

// TestHostNotServed verifies that a host outside ECR leads to a one-line error with a fix, or to an
// empty response if OtherHosts is "empty". No request is sent.
func TestHostNotServed(t *testing.T) {
	cloud := newCloud(t, append(staticKeysEnv(), "AWS_REGION=eu-west-1", "AWS_PROFILE=missing")...)
	for _, image := range []string{
		"nginx", "library/nginx", "docker.io/library/nginx", "registry.k8s.io/pause", "localhost:5000/app", "[::1]:5000/app",
		privateHost + ".evil.com/app", "evil.com/" + privateHost + "/app", "evil" + publicHost + "/app", publicHost + ".evil.com/app",
		"registry.corp.example:5000/app",
	} {
		req := &plugin.Request{Image: image}
		_, err := getCredentials(t, ecr.Options{AllowHosts: []string{"registry.corp.example"}}, req)
		want := `image host "` + req.Registry() + `" is not part of Amazon ECR, so it gets no credential; remove it from matchImages, ` +
			"add it with --allow-host or --mirror, or set --other-hosts=empty"
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		resp := mustGetCredentials(t, ecr.Options{AllowHosts: []string{"registry.corp.example"}, OtherHosts: "empty"}, req)
		empty := &plugin.Response{CacheKeyType: plugin.CacheRegistry, CacheDuration: new(time.Duration(0))}
		if diff := cmp.Diff(empty, resp); diff != "" {
			t.Errorf("%s: %s", image, diff)
		}
	}
	for _, image := range []string{privateHost + " /app", "https:///app", "host:port/app", "user@" + privateHost + "/app"} {
		for _, opts := range []ecr.Options{{}, {AnyHost: true}, {OtherHosts: "empty"}} {
			if _, err := getCredentials(t, opts, &plugin.Request{Image: image}); err == nil || !strings.Contains(err.Error(), "does not begin with a registry host") {
				t.Errorf("%q: got %v", image, err)
			}
		}
	}
	if got := cloud.RequestLines(); len(got) > 0 {
		t.Errorf("a host was called: %q", got)
	}
}

// TestAnyHost verifies that AnyHost serves every host, as the upstream plugin does. The key
// includes the port. The region is found as for allowed hosts.
func TestAnyHost(t *testing.T) {
	token := []string{"PUT /latest/api/token", "GET /latest/meta-data/placement/region"}
	for name, tt := range map[string]struct {
		environ, region string
		requests        []string
	}{
		"of the variable": {"AWS_REGION=eu-west-3", "eu-west-3", []string{"POST /"}},
		"of the instance": {"A=B", "eu-west-1", append(token, "POST /")},
	} {
		t.Run(name, func(t *testing.T) {
			for _, host := range []string{"registry.k8s.io", "nginx", "localhost:5000", privateHost + ".evil.com", "docker.io"} {
				cloud := newCloud(t, append(staticKeysEnv(), tt.environ)...)
				checkCredential(t, mustGetCredentials(t, ecr.Options{AnyHost: true}, imageRequest(host)), host)
				if diff := cmp.Diff(tt.requests, requestLines(cloud)); diff != "" {
					t.Error(diff)
				}
				want := []testcloud.AWSSignature{{KeyID: "AKIAENV", Region: tt.region, Service: "ecr"}}
				if diff := cmp.Diff(want, requestSignatures(cloud)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
	cloud := newCloud(t, append(staticKeysEnv(), "AWS_REGION=eu-west-3")...)
	checkCredential(t, mustGetCredentials(t, ecr.Options{AnyHost: true}, imageRequest("111122223333.dkr.ecr.us-west-2.amazonaws.com")), "111122223333.dkr.ecr.us-west-2.amazonaws.com")
	if got := requestSignatures(cloud); len(got) != 1 || got[0].Region != "us-west-2" {
		t.Errorf("got %v: the name of a registry decides about its region", got)
	}
}

// TestOneSessionWithMetadata verifies that one metadata session token is used for the
// region and for the keys.
func TestOneSessionWithMetadata(t *testing.T) {
	cloud := newCloud(t)
	checkCredential(t, mustGetCredentials(t, ecr.Options{AllowHosts: []string{"registry.example"}}, imageRequest("registry.example")), "registry.example")
	want := []string{
		"PUT /latest/api/token", "GET /latest/meta-data/placement/region",
		"GET /latest/meta-data/iam/security-credentials/", "GET /latest/meta-data/iam/security-credentials/" + testcloud.AWSRole, "POST /",
	}
	if diff := cmp.Diff(want, requestLines(cloud)); diff != "" {
		t.Error(diff)
	}
}

// TestImageForms verifies that different spellings of an image lead to the same registry.
func TestImageForms(t *testing.T) {
	newCloud(t, staticKeysEnv()...)
	for image, key := range map[string]string{
		privateHost + "/app":                                   privateHost,
		privateHost + "/team/app:v1":                           privateHost,
		privateHost + "/app@sha256:" + strings.Repeat("0", 64): privateHost,
		"https://" + privateHost + "/app":                      privateHost,
		privateHost + ":443/app":                               privateHost + ":443",
		privateHost + "/" + publicHost + "/app":                privateHost,
		privateHost:                                            privateHost,
		strings.ToUpper(privateHost) + "/app":                  strings.ToUpper(privateHost),
	} {
		checkCredential(t, mustGetCredentials(t, ecr.Options{}, &plugin.Request{Image: image}), key)
	}
}

// TestAllowedHost verifies that hosts in --allow-host are accepted, and where their region comes from.
func TestAllowedHost(t *testing.T) {
	const host = "registry.corp.example:5000"
	config := filepath.Join(t.TempDir(), "config")
	must.Do(t, os.WriteFile(config, []byte("[default]\nregion = ap-south-1\n"), 0o600))
	token := []string{"PUT /latest/api/token", "GET /latest/meta-data/placement/region"}
	for name, tt := range map[string]struct {
		allow    string
		environ  string
		region   string
		requests []string
	}{
		"of the flag":     {host + "=us-west-2", "AWS_REGION=eu-west-3", "us-west-2", []string{"POST /"}},
		"of the variable": {host, "AWS_REGION=eu-west-3", "eu-west-3", []string{"POST /"}},
		"of the profile":  {"*.corp.example:5000", "AWS_CONFIG_FILE=" + config, "ap-south-1", []string{"POST /"}},
		"of the instance": {host, "A=B", "eu-west-1", append(token, "POST /")},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t, append(staticKeysEnv(), tt.environ)...)
			checkCredential(t, mustGetCredentials(t, ecr.Options{AllowHosts: []string{tt.allow}}, imageRequest(host)), host)
			if diff := cmp.Diff(tt.requests, requestLines(cloud)); diff != "" {
				t.Error(diff)
			}
			want := []testcloud.AWSSignature{{KeyID: "AKIAENV", Region: tt.region, Service: "ecr"}}
			if diff := cmp.Diff(want, requestSignatures(cloud)); diff != "" {
				t.Error(diff)
			}
		})
	}
	for name, prepare := range map[string]func(*testcloud.AWS){
		"unknown":  func(a *testcloud.AWS) { a.Update(func(s *testcloud.AWSState) { s.Region = "" }) },
		"garbage":  func(a *testcloud.AWS) { a.Update(func(s *testcloud.AWSState) { s.Region = "<html>" }) },
		"disabled": func(*testcloud.AWS) { t.Setenv("AWS_EC2_METADATA_DISABLED", "true") },
	} {
		cloud := newCloud(t, staticKeysEnv()...)
		prepare(cloud)
		_, err := getCredentials(t, ecr.Options{AllowHosts: []string{host}}, imageRequest(host))
		if err == nil || !strings.Contains(err.Error(), "determine the region (the host name does not contain it)") || !strings.Contains(err.Error(), "AWS_REGION") {
			t.Errorf("%s: got %v", name, err)
		}
		if got := requestSignatures(cloud); len(got) > 0 {
			t.Errorf("%s: ECR was called", name)
		}
	}
}

// TestECRFails verifies the number of attempts and the error for each failure of the API.
func TestECRFails(t *testing.T) {
	refusal := func(status int, code, message string) testcloud.Fault {
		return testcloud.Fault{Status: status, Times: -1, Body: testcloud.AWSErrorJSON(code, message),
			Header: http.Header{"X-Amzn-Requestid": {testcloud.AWSRequestID}}}
	}
	long := strings.Repeat("long ", 1000)
	elsewhere := "https://evil.example/"
	for name, tt := range map[string]struct {
		fault    testcloud.Fault
		want     string
		attempts int
	}{
		"denied": {refusal(400, "AccessDeniedException", "User: arn:aws:sts::111122223333:assumed-role/node is not authorized"),
			"AccessDeniedException: User: arn:aws:sts::111122223333:assumed-role/node is not authorized [request id " +
				testcloud.AWSRequestID + "]; allow ecr:GetAuthorizationToken for this identity", 1},
		"expired":             {refusal(400, "ExpiredTokenException", "expired"), "the identity's credentials have expired", 1},
		"unknown keys":        {refusal(400, "UnrecognizedClientException", "invalid"), "the identity belongs to another AWS partition, or its keys are no longer valid", 1},
		"secret in a message": {refusal(400, "AccessDeniedException", "key "+canary.EnvSecret+" and "+canary.TokenSecret), "key [redacted] and [redacted]", 1},
		"long message":        {refusal(400, "AccessDeniedException", long), "AccessDeniedException: " + long[:599] + " [", 1},
		"strange code":        {refusal(400, "Evil "+canary.PasswordSecret, "m"), "status 400 Bad Request", 1},
		"401":                 {testcloud.Fault{Status: 401, Times: -1}, "status 401 Unauthorized", 1},
		"403":                 {testcloud.Fault{Status: 403, Times: -1, Body: "{}"}, "status 403 Forbidden", 1},
		"404":                 {testcloud.Fault{Status: 404, Times: -1, Body: "<html>" + canary.PasswordSecret}, "status 404 Not Found", 1},
		"429":                 {testcloud.Fault{Status: 429, Times: -1}, "status 429 Too Many Requests, 3 times", 3},
		"throttled":           {refusal(400, "ThrottlingException", "Rate exceeded"), "ThrottlingException: Rate exceeded, 3 times", 3},
		"502 with HTML":       {testcloud.Fault{Status: 502, Times: -1, Body: "<html>" + canary.PasswordSecret}, "status 502 Bad Gateway, 3 times", 3},
		"dropped":             {testcloud.Fault{Drop: true, Times: -1}, "the connection was closed before the response was complete, 3 times", 3},
		"truncated":           {testcloud.Fault{Status: 200, Truncate: true, Times: -1, Body: "{"}, "the connection was closed before the response was complete, 3 times", 3},
		"huge":                {testcloud.Fault{Status: 200, Times: -1, Body: strings.Repeat(" ", 1<<20) + "{}"}, "longer than 1048576 bytes", 1},
		"huge error":          {testcloud.Fault{Status: 400, Times: -1, Body: strings.Repeat(" ", 1<<20) + "{}"}, "longer than 1048576 bytes", 1},
		"empty":               {testcloud.Fault{Status: 200, Times: -1}, "invalid response", 1},
		"null":                {testcloud.Fault{Status: 200, Times: -1, Body: " null\n"}, "invalid response", 1},
		"garbage":             {testcloud.Fault{Status: 200, Times: -1, Body: canary.PasswordSecret}, "invalid response: cannot parse it", 1},
		"redirect elsewhere":  {testcloud.Fault{Status: 307, Times: -1, Header: http.Header{"Location": {elsewhere}}}, "status 307 Temporary Redirect", 1},
		"redirect, 308":       {testcloud.Fault{Status: 308, Times: -1, Header: http.Header{"Location": {elsewhere}}}, "status 308 Permanent Redirect", 1},
		"redirect, 302":       {testcloud.Fault{Status: 302, Times: -1, Header: http.Header{"Location": {elsewhere}}}, "status 302 Found", 1},
		"hangs":               {testcloud.Fault{Hang: true, Times: -1}, "no response in time, 3 times", 3},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t, staticKeysEnv()...)
			cloud.Inject(tt.fault)
			opts := shortTimeouts()
			if tt.fault.Hang {
				opts.Timeout = 200 * time.Millisecond
			}
			_, err := getCredentials(t, opts, imageRequest(privateHost))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			prefix := `image host "` + privateHost + `": get an authorization token from ECR in eu-west-1: POST ` + cloud.URL() + ": "
			if !strings.HasPrefix(err.Error(), prefix) {
				t.Errorf("got %v, want it to begin with %q", err, prefix)
			}
			// The SDK closes the body of a request when it receives the response's header. If
			// net/http is still sending that body, it closes the connection. This truncates a long
			// response and leads to another attempt.
			isLong := strings.HasPrefix(name, "huge")
			if got := len(cloud.Requests()); got != tt.attempts && !(isLong && got <= 3) {
				t.Errorf("got %d requests, want %d", got, tt.attempts)
			}
		})
	}
}

// TestECRRecovers verifies that a temporary failure is retried.
func TestECRRecovers(t *testing.T) {
	cloud := newCloud(t, staticKeysEnv()...)
	for _, fault := range []testcloud.Fault{
		{Status: 500}, {Status: 503, Times: 2}, {Status: 429}, {Drop: true}, {Status: 200, Truncate: true, Body: "{"},
		{Status: 400, Body: testcloud.AWSErrorJSON("ThrottlingException", "")},
	} {
		cloud.Reset()
		cloud.Inject(fault)
		checkCredential(t, mustGetCredentials(t, shortTimeouts(), imageRequest(privateHost)), privateHost)
	}
}

// TestClockSkew verifies that a wrong clock of the node is corrected with the API's time.
func TestClockSkew(t *testing.T) {
	cloud := newCloud(t, staticKeysEnv()...)
	cloud.Inject(testcloud.Fault{Status: 400, Body: testcloud.AWSErrorJSON("InvalidSignatureException", "Signature expired"),
		Header: http.Header{"Date": {time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}}})
	checkCredential(t, mustGetCredentials(t, shortTimeouts(), imageRequest(privateHost)), privateHost)
}

// TestIdentityFails verifies that the error names the source of the node's credentials.
func TestIdentityFails(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	container := func(a *testcloud.AWS) []string {
		return []string{"AWS_CONTAINER_CREDENTIALS_FULL_URI=" + a.ContainerURL(), "AWS_CONTAINER_AUTHORIZATION_TOKEN=" + canary.TokenSecret}
	}
	noIMDSv1 := func(*testcloud.AWS) []string { return []string{"AWS_EC2_METADATA_V1_DISABLED=true"} }
	const step = "find the node's AWS credentials"
	for name, tt := range map[string]struct {
		environ func(*testcloud.AWS) []string
		config  string
		fault   testcloud.Fault
		want    []string
	}{
		"no role on the instance": {nil, "", testcloud.Fault{Path: "/iam/", Status: 404, Times: -1},
			[]string{step, "GET http://127.0.0.1:", "/latest/meta-data/iam/security-credentials/: status 404 Not Found", "assign a role to the instance, or configure another AWS SDK credential source"}},
		"nothing at all": {func(*testcloud.AWS) []string { return []string{"AWS_EC2_METADATA_DISABLED=true"} }, "", testcloud.Fault{},
			[]string{step + ": none found in the environment, profiles or endpoints, and AWS_EC2_METADATA_DISABLED disables the instance metadata service", "assign a role to the instance, or configure another AWS SDK credential source"}},
		"no token file": {func(*testcloud.AWS) []string {
			return []string{"AWS_WEB_IDENTITY_TOKEN_FILE=/nonexistent/token", "AWS_ROLE_ARN=" + pullRole}
		}, "", testcloud.Fault{}, []string{step + ": none found; AWS_", `; AWS_WEB_IDENTITY_TOKEN_FILE points to "/nonexistent/token", which cannot be found; assign`}},
		"instance without keys": {nil, "", testcloud.Fault{Path: "/iam/security-credentials/" + testcloud.AWSRole, Status: 200, Times: -1, Body: `{"Code":"Success"}`},
			[]string{step, "no keys"}},
		"instance refuses": {nil, "", testcloud.Fault{Path: "/iam/security-credentials/" + testcloud.AWSRole, Status: 200, Times: -1, Body: `{"Code":"AssumeRoleUnauthorizedAccess","Message":"` + canary.PasswordSecret + `"}`},
			[]string{step, "AssumeRoleUnauthorizedAccess"}},
		"instance says garbage": {nil, "", testcloud.Fault{Path: "/iam/security-credentials/" + testcloud.AWSRole, Status: 200, Times: -1, Body: canary.PasswordSecret},
			[]string{step}},
		"instance hangs": {nil, "", testcloud.Fault{Path: "/latest/", Hang: true, Times: -1}, []string{step, "/latest/", "no response in time"}},
		"metadata gives no session token": {noIMDSv1, "", testcloud.Fault{Path: "/api/token", Status: 403, Times: -1, Body: canary.PasswordSecret},
			[]string{step, "PUT http://127.0.0.1:", "/latest/api/token: status 403 Forbidden; assign"}},
		"metadata redirects elsewhere": {noIMDSv1, "", testcloud.Fault{Path: "/api/token", Status: 307, Times: -1, Header: http.Header{"Location": {"http://evil.example/" + canary.ArgSecret}}},
			[]string{step, "PUT http://127.0.0.1:", `/latest/api/token: did not follow a redirect to another host, "evil.example"; assign`}},
		"metadata names a strange role": {nil, "", testcloud.Fault{Path: "/security-credentials/", Status: 200, Body: canary.PasswordSecret},
			[]string{step, "GET http://127.0.0.1:", "/latest/meta-data/iam/security-credentials/: status 404 Not Found; assign"}},
		"container says null": {container, "", testcloud.Fault{Path: "/v2/", Status: 200, Times: -1, Body: "null"},
			[]string{step, "GET http://127.0.0.1:", "invalid response: empty"}},
		"container refuses with null": {container, "", testcloud.Fault{Path: "/v2/", Status: 400, Times: -1, Body: "null", Header: http.Header{"Content-Type": {"application/json"}}},
			[]string{step, "invalid response: cannot parse it"}},
		"container refuses with text": {container, "", testcloud.Fault{Path: "/v2/", Status: 400, Times: -1, Body: canary.PasswordSecret},
			[]string{step, "status 400 Bad Request"}},
		"container elsewhere": {func(*testcloud.AWS) []string {
			return []string{"AWS_CONTAINER_CREDENTIALS_FULL_URI=http://192.0.2.1/"}
		}, "", testcloud.Fault{}, []string{"read the AWS configuration", "192.0.2.1"}},
		"SSO without credentials": {ssoSession(t), "[default]\nsso_account_id = 111122223333\nsso_region = eu-west-1\nsso_role_name = r\nsso_start_url = https://start.example\n",
			testcloud.Fault{Path: "/federation/credentials", Status: 200, Times: -1, Body: `{"roleCredentials":null}`},
			[]string{step, "invalid response: no credentials"}},
		"no such profile": {func(*testcloud.AWS) []string { return []string{"AWS_PROFILE=missing"} }, "", testcloud.Fault{},
			[]string{"read the AWS configuration", "missing", "AWS_CONFIG_FILE"}},
		"credential_process prints garbage": {nil, "[default]\ncredential_process = echo " + canary.PasswordSecret + "\n", testcloud.Fault{},
			[]string{step, "the profile's credential_process did not print credentials"}},
		"credential_process fails": {nil, "[default]\ncredential_process = sh -c 'exit 3' " + canary.ArgSecret + "\n", testcloud.Fault{},
			[]string{step, "the profile's credential_process failed with exit status 3"}},
		"container redirects elsewhere": {container, "", testcloud.Fault{Path: "/v2/", Status: 307, Times: -1, Header: http.Header{"Location": {"http://evil.example/"}}},
			[]string{step, `did not follow a redirect to another host, "evil.example"; assign`}},
		"container redirects in a circle": {container, "", testcloud.Fault{Path: "/v2/", Status: 307, Times: -1, Header: http.Header{"Location": {"/v2/credentials"}}},
			[]string{step, "redirect loop; assign"}},
		"container at no URL": {func(*testcloud.AWS) []string {
			return []string{"AWS_CONTAINER_CREDENTIALS_FULL_URI=http://[::1/v2/credentials"}
		}, "", testcloud.Fault{}, []string{"read the AWS configuration: invalid address: missing ']' in host; check"}},
		"half of a key": {nil, "[default]\naws_secret_access_key = " + canary.PasswordSecret + "\n", testcloud.Fault{},
			[]string{"read the AWS configuration", "partial credentials found for profile default"}},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t, "AWS_CONFIG_FILE="+config)
			must.Do(t, os.WriteFile(config, []byte(tt.config), 0o600))
			if tt.environ != nil {
				setEnviron(t, tt.environ(cloud)...)
			}
			cloud.Inject(tt.fault)
			opts := shortTimeouts()
			if tt.fault.Hang {
				opts.Timeout = 200 * time.Millisecond
			}
			_, err := getCredentials(t, opts, imageRequest(privateHost))
			if err == nil {
				t.Fatal("there are credentials")
			}
			if strings.Contains(err.Error(), "/v2/") {
				t.Error("the error holds the path of the container's credentials")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
			if got := requestSignatures(cloud); len(got) > 0 {
				t.Error("ECR was called")
			}
		})
	}
}

// TestProcessEnds verifies that the profile's credential_process is killed when the budget is used
// up. Otherwise it would keep the plugin's standard error open, and the kubelet would wait for it.
func TestProcessEnds(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the profile's command is one of a Unix shell")
	}
	dir := t.TempDir()
	config, pipe := filepath.Join(dir, "config"), filepath.Join(dir, "pipe")
	process := "[default]\ncredential_process = exec sleep 60 > " + pipe + "\n"
	must.Do(t, os.WriteFile(config, []byte(process), 0o600))
	if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v\n%s", err, out)
	}
	newCloud(t, "AWS_CONFIG_FILE="+config, "PATH="+os.Getenv("PATH"))
	ended := make(chan error, 1)
	go func() {
		_, err := os.ReadFile(pipe) // blocks until the process has exited
		ended <- err
	}()
	if _, err := getCredentials(t, ecr.Options{Budget: 900 * time.Millisecond}, imageRequest(privateHost)); err == nil {
		t.Error("there are credentials")
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the process is still there")
	}
}

// TestConfigOnPipe verifies that a configuration file that blocks reading, such as a pipe without a
// writer, leads to an early error about the SDK's configuration files.
func TestConfigOnPipe(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no named pipes among its files")
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v\n%s", err, out)
	}
	t.Cleanup(func() { os.WriteFile(pipe, nil, 0o600) }) // unblocks the remaining readers
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_CA_BUNDLE"} {
		newCloud(t, append(staticKeysEnv(), name+"="+pipe)...)
		_, err := getCredentials(t, ecr.Options{Budget: 900 * time.Millisecond}, imageRequest(privateHost))
		want := "read the AWS configuration: timed out after 200ms; one of the files might be a named pipe or on an unresponsive mount"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
		setEnviron(t, name+"=")
	}
}

// TestNoURL verifies that an address without a scheme is reported at once.
func TestNoURL(t *testing.T) {
	newCloud(t, append(staticKeysEnv(), "AWS_ENDPOINT_URL_ECR=proxy.example")...)
	_, err := getCredentials(t, ecr.Options{}, imageRequest(privateHost))
	if err == nil || !strings.HasSuffix(err.Error(), "(not a URL): the address is not an http or https URL; check AWS_ENDPOINT_URL… and endpoint_url") {
		t.Error(err)
	}
}

// ssoSession returns the environment of a user with an SSO session.
func ssoSession(t *testing.T) func(*testcloud.AWS) []string {
	home := t.TempDir()
	dir := filepath.Join(home, ".aws", "sso", "cache")
	must.Do(t, os.MkdirAll(dir, 0o700))
	name := fmt.Sprintf("%x.json", sha1.Sum([]byte("https://start.example")))
	session := `{"accessToken":"` + canary.TokenSecret + `","expiresAt":"2999-01-01T00:00:00Z"}`
	must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(session), 0o600))
	return func(*testcloud.AWS) []string { return []string{"HOME=" + home, "USERPROFILE=" + home} }
}

// TestMetadataRefused verifies that a missing metadata service is reported after a few attempts instead of minutes.
func TestMetadataRefused(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	listener.Close()
	newCloud(t, "AWS_EC2_METADATA_SERVICE_ENDPOINT=http://"+addr)
	begun := time.Now()
	_, err = getCredentials(t, ecr.Options{}, imageRequest(privateHost))
	if want := "http://" + addr + "/latest/meta-data/iam/security-credentials/: connection refused"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	t.Logf("refused after %v", time.Since(begun).Round(time.Millisecond))
}

// TestTotalTimeout verifies that the total time is limited, and that the error still names the endpoint.
func TestTotalTimeout(t *testing.T) {
	cloud := newCloud(t, staticKeysEnv()...)
	cloud.Inject(testcloud.Fault{Hang: true, Times: -1})
	_, err := getCredentials(t, ecr.Options{Budget: 300 * time.Millisecond}, imageRequest(privateHost))
	if want := "POST " + cloud.URL() + ": no response within 300ms"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	p := newProvider(t, ecr.Options{})
	if _, err := p.GetCredentials(ctx, imageRequest(privateHost)); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got %v, want it to be interrupted", err)
	}
}

// TestEndpointOfOnesOwn verifies that the SDK rejects FIPS with a custom endpoint.
func TestEndpointOfOnesOwn(t *testing.T) {
	cloud := newCloud(t, append(staticKeysEnv(), "AWS_USE_FIPS_ENDPOINT=true")...)
	_, err := getCredentials(t, ecr.Options{}, imageRequest(privateHost))
	if err == nil || !strings.Contains(err.Error(), "FIPS and custom endpoint are not supported") {
		t.Errorf("got %v", err)
	}
	if got := cloud.RequestLines(); len(got) > 0 {
		t.Errorf("a host was called: %q", got)
	}
}

// TestMaxAttemptsOfNode verifies that AWS_MAX_ATTEMPTS also limits the requests to STS and to the
// container credentials endpoint for the node's identity.
func TestMaxAttemptsOfNode(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	must.Do(t, os.WriteFile(token, []byte(canary.TokenSecret), 0o600))
	for name, environ := range map[string]func(*testcloud.AWS) []string{
		"STS": func(*testcloud.AWS) []string {
			return []string{"AWS_ROLE_ARN=" + pullRole, "AWS_WEB_IDENTITY_TOKEN_FILE=" + token}
		},
		"container": func(a *testcloud.AWS) []string {
			return []string{"AWS_CONTAINER_CREDENTIALS_FULL_URI=" + a.ContainerURL()}
		},
	} {
		cloud := newCloud(t, "AWS_MAX_ATTEMPTS=2")
		setEnviron(t, environ(cloud)...)
		cloud.Inject(testcloud.Fault{Status: 500, Times: -1})
		_, err := getCredentials(t, shortTimeouts(), imageRequest(privateHost))
		if got := len(cloud.Requests()); got != 2 || err == nil || !strings.Contains(err.Error(), "status 500 Internal Server Error") {
			t.Errorf("%s: got %d requests, %v", name, got, err)
		}
	}
}

func TestMaxAttempts(t *testing.T) {
	cloud := newCloud(t, append(staticKeysEnv(), "AWS_MAX_ATTEMPTS=2")...)
	cloud.Inject(testcloud.Fault{Status: 500, Times: -1})
	_, err := getCredentials(t, shortTimeouts(), imageRequest(privateHost))
	if got := len(cloud.Requests()); got != 2 || err == nil || !strings.Contains(err.Error(), "status 500 Internal Server Error, 2 times") {
		t.Errorf("got %d requests, %v", got, err)
	}
}
