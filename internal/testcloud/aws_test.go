// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testcloud_test

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
)

// TestAWSRefuses verifies that invalid requests are rejected. The tests of provider/ecr verify that
// an SDK's requests succeed.
func TestAWSRefuses(t *testing.T) {
	cloud := must.Get(testcloud.NewAWS())(t)
	defer cloud.Close()
	cloud.Update(func(s *testcloud.AWSState) {
		s.ContainerToken, s.SigningRegion, s.SessionToken = "open-sesame", "eu-west-1", "open-session"
		s.RoleARN, s.WebIdentityToken = "r", "t"
	})
	const form, amz = "application/x-www-form-urlencoded", "application/x-amz-json-1.1"
	const private = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"
	const public = "SpencerFrontendService.GetAuthorizationToken"
	signedBy := func(key, scope string) string {
		return "AWS4-HMAC-SHA256 Credential=" + key + "/20260101/" + scope + "/aws4_request, SignedHeaders=host, Signature=00"
	}
	signed := func(scope string) string { return signedBy("AKIA", scope) }
	ecr := func(target string, header ...string) []string {
		return append([]string{"X-Amz-Target", target, "Content-Type", amz}, header...)
	}
	good := "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=r&RoleSessionName=ab&WebIdentityToken=t"
	for name, tt := range map[string]struct {
		method, path, body string
		header             []string // alternating names and values
		status             int
		want               string
	}{
		"metadata without token":   {"GET", "/latest/meta-data/placement/region", "", nil, 401, ""},
		"metadata, wrong token":    {"GET", "/latest/meta-data/placement/region", "", []string{"X-Aws-Ec2-Metadata-Token", "x"}, 401, ""},
		"token without life":       {"PUT", "/latest/api/token", "", nil, 400, ""},
		"token by GET":             {"GET", "/latest/api/token", "", nil, 405, ""},
		"metadata by POST":         {"POST", "/latest/meta-data/placement/region", "", []string{"X-Aws-Ec2-Metadata-Token", "metadata-session"}, 401, ""},
		"metadata of nothing":      {"GET", "/latest/meta-data/x", "", []string{"X-Aws-Ec2-Metadata-Token", "metadata-session"}, 404, ""},
		"container without token":  {"GET", "/v2/credentials", "", nil, 401, "AccessDenied"},
		"container by POST":        {"POST", "/v2/credentials", "", []string{"Authorization", "open-sesame"}, 401, "AccessDenied"},
		"STS as JSON":              {"POST", "/", good, []string{"Content-Type", amz}, 400, "ValidationError"},
		"STS, no token":            {"POST", "/", strings.TrimSuffix(good, "t"), []string{"Content-Type", form}, 400, "InvalidIdentityToken"},
		"STS, another token":       {"POST", "/", good + "u", []string{"Content-Type", form}, 400, "InvalidIdentityToken"},
		"STS, another role":        {"POST", "/", strings.Replace(good, "RoleArn=r", "RoleArn=s", 1), []string{"Content-Type", form}, 400, "AccessDenied"},
		"STS, no session":          {"POST", "/", strings.Replace(good, "RoleSessionName=ab", "", 1), []string{"Content-Type", form}, 400, "ValidationError"},
		"STS, another version":     {"POST", "/", strings.Replace(good, "2011", "2010", 1), []string{"Content-Type", form}, 400, "ValidationError"},
		"STS by GET":               {"GET", "/?" + good, "", nil, 404, ""},
		"STS, no role":             {"POST", "/", strings.Replace(good, "RoleArn=r", "", 1), []string{"Content-Type", form}, 400, "ValidationError"},
		"STS, signed":              {"POST", "/", good, []string{"Content-Type", form, "Authorization", "x"}, 400, "ValidationError"},
		"STS, other action":        {"POST", "/", strings.Replace(good, "Web", "Wob", 1), []string{"Content-Type", form}, 400, "InvalidAction"},
		"STS, role, not signed":    {"POST", "/", strings.Replace(good, "WithWebIdentity", "", 1), []string{"Content-Type", form}, 400, "SignatureDoesNotMatch"},
		"STS":                      {"POST", "/", good, []string{"Content-Type", form}, 200, "AccessKeyId"},
		"ECR, other operation":     {"POST", "/", "{}", []string{"X-Amz-Target", "AmazonEC2ContainerRegistry_V20150921.X", "Content-Type", amz}, 400, "UnknownOperation"},
		"ECR, other content":       {"POST", "/", "{}", []string{"X-Amz-Target", private, "Content-Type", form}, 400, "Serialization"},
		"ECR, not signed":          {"POST", "/", "{}", []string{"X-Amz-Target", private, "Content-Type", amz}, 403, "there is no signature"},
		"ECR, for another service": {"POST", "/", "{}", []string{"X-Amz-Target", private, "Content-Type", amz, "X-Amz-Date", "d", "Authorization", signed("eu-west-1/sts")}, 403, "is for sts"},
		"ECR, for another region":  {"POST", "/", "{}", []string{"X-Amz-Target", private, "Content-Type", amz, "X-Amz-Date", "d", "Authorization", signed("eu-west-2/ecr")}, 403, "is for eu-west-2"},
		"ECR, no date":             {"POST", "/", "{}", ecr(private, "Authorization", signed("eu-west-1/ecr")), 403, "there is no signature"},
		"ECR, half a signature":    {"POST", "/", "{}", ecr(private, "X-Amz-Date", "d", "Authorization", strings.TrimSuffix(signed("eu-west-1/ecr"), ", Signature=00")), 403, "there is no signature"},
		"ECR, no session":          {"POST", "/", "{}", ecr(private, "X-Amz-Date", "d", "Authorization", signedBy(testcloud.AWSKeyRole, "eu-west-1/ecr")), 403, "the session token is another one"},
		"ECR, session":             {"POST", "/", "{}", ecr(private, "X-Amz-Date", "d", "Authorization", signedBy(testcloud.AWSKeyRole, "eu-west-1/ecr"), "X-Amz-Security-Token", "open-session"), 200, "authorizationToken"},
		"ECR by PUT":               {"PUT", "/", "{}", ecr(private, "X-Amz-Date", "d", "Authorization", signed("eu-west-1/ecr")), 404, ""},
		"ECR with a path":          {"POST", "/x", "{}", ecr(private, "X-Amz-Date", "d", "Authorization", signed("eu-west-1/ecr")), 404, ""},
		"ECR, body is no object":   {"POST", "/", "", ecr(private, "X-Amz-Date", "d", "Authorization", signed("eu-west-1/ecr")), 400, "Serialization"},
		"ECR Public elsewhere":     {"POST", "/", "{}", ecr(public, "X-Amz-Date", "d", "Authorization", signed("eu-west-1/ecr-public")), 403, "is for eu-west-1"},
		"ECR Public as ECR":        {"POST", "/", "{}", ecr(public, "X-Amz-Date", "d", "Authorization", signed("us-east-1/ecr")), 403, "is for ecr"},
		"ECR Public":               {"POST", "/", "{}", ecr(public, "X-Amz-Date", "d", "Authorization", signed("us-east-1/ecr-public")), 200, "authorizationToken"},
		"ECR":                      {"POST", "/", "{}", []string{"X-Amz-Target", private, "Content-Type", amz, "X-Amz-Date", "d", "Authorization", signed("eu-west-1/ecr")}, 200, "authorizationToken"},
		"elsewhere":                {"GET", "/x", "", nil, 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			req := must.Get(http.NewRequest(tt.method, cloud.URL()+tt.path, strings.NewReader(tt.body)))(t)
			for i := 0; i < len(tt.header); i += 2 {
				req.Header.Set(tt.header[i], tt.header[i+1])
			}
			resp := must.Get(http.DefaultClient.Do(req))(t)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != tt.status || !strings.Contains(string(body), tt.want) {
				t.Errorf("got status %d, %v, want %d and %q", resp.StatusCode, err, tt.status, tt.want)
			}
		})
	}
}

// TestAWSEnviron verifies that the endpoint variables select this server, and that the
// configuration files do not exist.
func TestAWSEnviron(t *testing.T) {
	cloud := must.Get(testcloud.NewAWS())(t)
	defer cloud.Close()
	seen := map[string]string{}
	for _, entry := range cloud.Environ() {
		key, value, ok := strings.Cut(entry, "=")
		if _, twice := seen[key]; !ok || twice {
			t.Errorf("%s: malformed, or there twice", key)
		}
		seen[key] = value
	}
	for _, service := range []string{"", "_ECR", "_ECR_PUBLIC", "_STS", "_SSO", "_SSO_OIDC", "_SIGNIN"} {
		if got := seen["AWS_ENDPOINT_URL"+service]; got != cloud.URL() {
			t.Errorf("AWS_ENDPOINT_URL%s: got %q", service, got)
		}
	}
	if got := seen["AWS_EC2_METADATA_SERVICE_ENDPOINT"]; got != cloud.URL() {
		t.Errorf("the metadata endpoint: got %q", got)
	}
	for _, file := range []string{seen["AWS_CONFIG_FILE"], seen["AWS_SHARED_CREDENTIALS_FILE"]} {
		if _, err := os.Stat(file); err == nil || file == "" {
			t.Errorf("%q exists, or is none", file)
		}
	}
}
