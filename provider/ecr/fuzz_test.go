// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/ecr"
)

// The SDK parses the responses of remote endpoints, partly in its own goroutines. Any response must
// lead to a credential or an error, never to a panic.

func checkOutcome(t *testing.T, resp *plugin.Response, err error) {
	t.Helper()
	if (resp == nil) == (err == nil) {
		t.Errorf("got a response %v, and error %v", resp != nil, err)
	}
	if err == nil && (resp.CacheDuration == nil || *resp.CacheDuration < 0) {
		t.Error("the response's duration is negative or missing")
	}
}

// FuzzAuthorization tests arbitrary responses of ECR and ECR Public.
func FuzzAuthorization(f *testing.F) {
	cloud := newCloud(f, staticKeysEnv()...)
	p := newProvider(f, shortTimeouts())
	for _, seed := range []string{
		`{"authorizationData":[{"authorizationToken":"QVdTOmE=","expiresAt":1.7e9}]}`, `{"authorizationData":{"authorizationToken":"QVdTOmE=","expiresAt":1e300}}`,
		`{"authorizationData":[null]}`, `{"authorizationData":null}`, `{}`, `null`, ``, `[]`, `{"authorizationData":[{"expiresAt":"x"}]}`,
		`{"__type":"com.amazonaws#AccessDeniedException","Message":1}`,
	} {
		f.Add(200, seed)
		f.Add(400, seed)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		cloud.Reset()
		cloud.Inject(testcloud.Fault{Status: validStatus(status), Times: -1, Body: body})
		for _, host := range []string{privateHost, publicHost} {
			resp, err := p.GetCredentials(t.Context(), imageRequest(host))
			checkOutcome(t, resp, err)
		}
	})
}

// FuzzSTS tests arbitrary responses of STS, for a pod and for a node.
func FuzzSTS(f *testing.F) {
	token := filepath.Join(f.TempDir(), "token")
	must.Do(f, os.WriteFile(token, []byte("a.b.c"), 0o600))
	cloud := newCloud(f, "AWS_ROLE_ARN="+pullRole, "AWS_WEB_IDENTITY_TOKEN_FILE="+token)
	p := newProvider(f, shortTimeouts())
	const head, tail = `<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult>`, `</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`
	for _, seed := range []string{
		head + tail, head + `<Credentials/>` + tail, head + `<Credentials><AccessKeyId>a</AccessKeyId><Expiration>x</Expiration></Credentials>` + tail,
		head + `<AssumedRoleUser><Arn>a:b</Arn></AssumedRoleUser>` + tail, testcloud.AWSErrorXML("AccessDenied", "no"), `<a>`, ``, `null`, `{}`,
	} {
		f.Add(200, seed)
		f.Add(400, seed)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		cloud.Reset()
		cloud.Inject(testcloud.Fault{Status: validStatus(status), Times: -1, Body: body, Match: func(r testcloud.Request) bool {
			return r.Header.Get("X-Amz-Target") == ""
		}})
		resp, err := p.GetCredentials(t.Context(), withServiceAccountToken(t, imageRequest(privateHost), roleAnnotation(pullRole)))
		checkOutcome(t, resp, err)
		resp, err = p.GetCredentials(t.Context(), imageRequest(privateHost))
		checkOutcome(t, resp, err)
	})
}

// FuzzNode tests arbitrary responses of the container endpoint and of the instance's
// metadata service.
func FuzzNode(f *testing.F) {
	cloud := newCloud(f)
	p := newProvider(f, ecr.Options{Timeout: shortTimeouts().Timeout, MaxPause: shortTimeouts().MaxPause, AllowHosts: []string{"a.example"}})
	for _, seed := range []string{
		`{"AccessKeyId":"a","SecretAccessKey":"b","Token":"c","Expiration":"2000-01-01T00:00:00Z","Code":"Success"}`, `{"Expiration":null}`, `null`, `[]`, ``,
		`{"code":1}`, `eu-west-1`, "a\n../b", "\x00",
	} {
		f.Add(200, seed)
		f.Add(400, seed)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		cloud.Reset()
		cloud.Inject(testcloud.Fault{
			Status: validStatus(status), Times: -1, Body: body, Header: http.Header{"Content-Type": {"application/json"}},
			Match: func(r testcloud.Request) bool { return r.Header.Get("X-Amz-Target") == "" },
		})
		for _, uri := range []string{"", cloud.ContainerURL()} {
			os.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri) // restored by newCloud
			for _, host := range []string{privateHost, "a.example"} {
				resp, err := p.GetCredentials(t.Context(), imageRequest(host))
				checkOutcome(t, resp, err)
			}
		}
	})
}

func validStatus(n int) int { return 200 + int(uint(n)%400) }
