// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/ecr"
)

// errorEndpoint is an endpoint that returns an identity or the node's region, with the settings that make the
// provider call it.
type errorEndpoint struct {
	name    string
	environ func(*testcloud.AWS) []string
	opts    ecr.Options
	req     *plugin.Request
	matches func(testcloud.Request) bool
}

func errorEndpoints(t *testing.T) []errorEndpoint {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	must.Do(t, os.WriteFile(token, []byte(canary.TokenSecret), 0o600))
	path := func(suffix string) func(testcloud.Request) bool {
		return func(r testcloud.Request) bool { return strings.HasSuffix(r.Path, suffix) }
	}
	isSTS := func(r testcloud.Request) bool { return r.Form().Get("WebIdentityToken") != "" }
	allowed := shortTimeouts()
	allowed.AllowHosts = []string{"registry.example"}
	return []errorEndpoint{
		{"metadata, token", nil, shortTimeouts(), imageRequest(privateHost), path("/api/token")},
		{"metadata, role", nil, shortTimeouts(), imageRequest(privateHost), path("/security-credentials/")},
		{"metadata, keys", nil, shortTimeouts(), imageRequest(privateHost), path(testcloud.AWSRole)},
		{"metadata, region", nil, allowed, imageRequest("registry.example"), path("/placement/region")},
		{"container", func(a *testcloud.AWS) []string {
			return []string{"AWS_CONTAINER_CREDENTIALS_FULL_URI=" + a.ContainerURL(), "AWS_CONTAINER_AUTHORIZATION_TOKEN=" + canary.TokenSecret}
		}, shortTimeouts(), imageRequest(privateHost), path("/credentials")},
		{"STS for the node", func(*testcloud.AWS) []string {
			return []string{"AWS_ROLE_ARN=" + pullRole, "AWS_WEB_IDENTITY_TOKEN_FILE=" + token}
		}, shortTimeouts(), imageRequest(privateHost), isSTS},
		{"STS for a pod", nil, shortTimeouts(), withServiceAccountToken(t, imageRequest(privateHost), roleAnnotation(pullRole)), isSTS},
	}
}

// requestError requests credentials while the endpoint sends the response in fault, and returns the error.
func (e errorEndpoint) requestError(t *testing.T, fault testcloud.Fault) error {
	t.Helper()
	environ := []string{"AWS_EC2_METADATA_V1_DISABLED=true"}
	cloud := newCloud(t, environ...)
	if e.environ != nil {
		setEnviron(t, e.environ(cloud)...)
	}
	fault.Match, fault.Times = e.matches, -1
	cloud.Inject(fault)
	_, err := getCredentials(t, e.opts, e.req)
	if err == nil {
		t.Fatal("there are credentials")
	}
	if got := requestSignatures(cloud); len(got) > 0 {
		t.Error("ECR was called")
	}
	asked := 0
	for _, r := range cloud.Requests() {
		if e.matches(r) {
			asked++
		}
	}
	if asked == 0 || asked > 6 {
		t.Errorf("the endpoint was called %d times", asked)
	}
	return err
}

// TestRedirectsOfIdentities verifies that no request follows a redirect to another host, and that no other host's
// response is accepted.
func TestRedirectsOfIdentities(t *testing.T) {
	for _, e := range errorEndpoints(t) {
		for _, status := range []int{301, 302, 303, 307, 308} {
			t.Run(e.name+" "+http.StatusText(status), func(t *testing.T) {
				other := must.Get(testcloud.NewAWS())(t)
				defer other.Close()
				other.Update(func(s *testcloud.AWSState) { s.AllowIMDSv1 = true })
				location := other.URL() + "/latest/meta-data/iam/security-credentials/" + testcloud.AWSRole + "?t=" + canary.ArgSecret
				e.requestError(t, testcloud.Fault{Status: status, Header: http.Header{"Location": {location}}})
				if got := other.RequestLines(); len(got) > 0 {
					t.Errorf("another host was called: %q", got)
				}
			})
		}
	}
}

// TestBodiesOfIdentities verifies that any response body, of any length, leads to an error that does not quote it.
func TestBodiesOfIdentities(t *testing.T) {
	long := strings.Repeat(canary.PasswordSecret+" ", 2<<20/len(canary.PasswordSecret))
	for name, fault := range map[string]testcloud.Fault{
		"huge":            {Status: 200, Body: `{"Code":"Success","AccessKeyId":"a","SecretAccessKey":"b","Token":"` + long},
		"huge in an XML":  {Status: 200, Body: "<a>" + long},
		"huge, unpacked":  {Status: 200, Header: http.Header{"Content-Encoding": {"gzip"}}, Body: gzipBomb(t, `{"Code":"`+long)},
		"huge refusal":    {Status: 400, Body: long},
		"cut off":         {Status: 200, Truncate: true, Body: `{"Code":"Success","AccessKeyId":"` + canary.PasswordSecret},
		"half":            {Status: 200, Body: `{"Code":"Success","AccessKeyId":"` + canary.PasswordSecret},
		"garbage":         {Status: 200, Body: "\x00\xff{<" + canary.PasswordSecret},
		"HTML":            {Status: 200, Body: "<html><body>" + canary.PasswordSecret + "</body></html>"},
		"wrong types":     {Status: 200, Body: `{"Code":1,"AccessKeyId":["` + canary.PasswordSecret + `"]}`},
		"without keys":    {Status: 200, Body: `{"Code":"Success","Expiration":"2999-01-01T00:00:00Z"}`},
		"garbage refusal": {Status: 403, Body: `{"Code":["` + canary.PasswordSecret + `"]}`},
	} {
		for _, e := range errorEndpoints(t) {
			if e.name == "metadata, token" && fault.Status == 200 && !fault.Truncate && !strings.HasPrefix(name, "huge") {
				continue // a session token may be any text
			}
			t.Run(e.name+" "+name, func(t *testing.T) {
				err := e.requestError(t, fault)
				if want := "longer than 1048576 bytes"; strings.HasPrefix(name, "huge") && !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			})
		}
	}
}

// gzipBomb returns a gzip stream that expands to a much longer text.
func gzipBomb(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	must.Get(io.WriteString(w, text))(t)
	must.Do(t, w.Close())
	return b.String()
}
