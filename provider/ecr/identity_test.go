// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/ecr"
)

// serviceAccountToken returns an unsigned service account token.
func serviceAccountToken(t testing.TB, subject string) plugin.Secret {
	t.Helper()
	claims := must.Get(json.Marshal(map[string]any{"iss": "https://issuer.example", "sub": subject, "aud": "sts.amazonaws.com"}))(t)
	return plugin.NewSecret("e30." + base64.RawURLEncoding.EncodeToString(claims) + "." + canary.TokenSecret)
}

// withServiceAccountToken adds a service account token to a request.
func withServiceAccountToken(t testing.TB, req *plugin.Request, annotations map[string]string) *plugin.Request {
	req.ServiceAccountToken = serviceAccountToken(t, "system:serviceaccount:team-a:builder")
	req.ServiceAccountAnnotations = annotations
	return req
}

func roleAnnotation(role string) map[string]string {
	return map[string]string{ecr.RoleAnnotation: role}
}

// TestRole verifies which identity is used and which requests are sent.
func TestRole(t *testing.T) {
	const other = "arn:aws:iam::111122223333:role/other"
	for name, tt := range map[string]struct {
		defaultRole string
		req         *plugin.Request
		role        string // "" means the node
	}{
		"annotation":                      {"", withServiceAccountToken(t, imageRequest(privateHost), roleAnnotation(pullRole)), pullRole},
		"annotation before the default":   {other, withServiceAccountToken(t, imageRequest(privateHost), roleAnnotation(pullRole)), pullRole},
		"default":                         {pullRole, withServiceAccountToken(t, imageRequest(privateHost), nil), pullRole},
		"default beside other annotation": {pullRole, withServiceAccountToken(t, imageRequest(privateHost), map[string]string{"a": "b"}), pullRole},
		"empty annotation opts out":       {other, withServiceAccountToken(t, imageRequest(privateHost), roleAnnotation("")), ""},
		"no role":                         {"", withServiceAccountToken(t, imageRequest(privateHost), nil), ""},
		"annotation without token": {"", &plugin.Request{
			Image: privateHost + "/app", ServiceAccountAnnotations: roleAnnotation(pullRole)}, ""},
		"default without token": {pullRole, imageRequest(privateHost), ""},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t)
			cloud.Update(func(s *testcloud.AWSState) {
				s.WebIdentityToken, s.RoleARN = tt.req.ServiceAccountToken.Reveal(), tt.role
			})
			checkCredential(t, mustGetCredentials(t, ecr.Options{DefaultRoleARN: tt.defaultRole}, tt.req), privateHost)
			key := testcloud.AWSKeyInstance
			if tt.role != "" {
				key = testcloud.AWSKeyRole
				if diff := cmp.Diff([]string{"POST /", "POST /"}, requestLines(cloud)); diff != "" {
					t.Errorf("the node's own credentials are not to be looked for: %s", diff)
				}
			}
			want := []testcloud.AWSSignature{{KeyID: key, Region: "eu-west-1", Service: "ecr"}}
			if diff := cmp.Diff(want, requestSignatures(cloud)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAssumeRequest(t *testing.T) {
	cloud := newCloud(t)
	req := withServiceAccountToken(t, imageRequest(privateHost), roleAnnotation(pullRole))
	mustGetCredentials(t, ecr.Options{}, req)
	got := cloud.Requests()[0]
	want := url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {pullRole},
		"RoleSessionName": {"team-a_builder"}, "WebIdentityToken": {req.ServiceAccountToken.Reveal()},
	}
	if !cmp.Equal(want, got.Form()) {
		t.Error("the form is another one")
	}
	if got.Header.Get("Authorization") != "" {
		t.Error("the request is signed")
	}
}

// TestAssumeWithBrokenNode verifies that a pod with a role does not depend on the node's credentials.
func TestAssumeWithBrokenNode(t *testing.T) {
	newCloud(t, "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://192.0.2.1/", "AWS_WEB_IDENTITY_TOKEN_FILE=/nonexistent")
	checkCredential(t, mustGetCredentials(t, ecr.Options{}, withServiceAccountToken(t, imageRequest(privateHost), roleAnnotation(pullRole))), privateHost)
}

// TestAssumeForPublic verifies that ECR Public works without a configured region.
func TestAssumeForPublic(t *testing.T) {
	cloud := newCloud(t)
	checkCredential(t, mustGetCredentials(t, ecr.Options{}, withServiceAccountToken(t, imageRequest(publicHost), roleAnnotation(pullRole))), publicHost)
	if diff := cmp.Diff([]string{"POST /", "POST /"}, requestLines(cloud)); diff != "" {
		t.Error(diff)
	}
	// The region of STS is visible only in the error.
	cloud.Inject(testcloud.Fault{Status: 403, Times: -1})
	_, err := getCredentials(t, ecr.Options{}, withServiceAccountToken(t, imageRequest(publicHost), roleAnnotation(pullRole)))
	if err == nil || !strings.Contains(err.Error(), "at STS in us-east-1: ") {
		t.Errorf("got %v, want STS in us-east-1", err)
	}
}

func TestSessionName(t *testing.T) {
	cloud := newCloud(t)
	legal := regexp.MustCompile(`^[\w+=,.@-]{2,64}$`)
	name := func(t *testing.T, opts ecr.Options, token plugin.Secret) string {
		cloud.Reset()
		req := withServiceAccountToken(t, imageRequest(privateHost), roleAnnotation(pullRole))
		req.ServiceAccountToken = token
		mustGetCredentials(t, opts, req)
		got := cloud.Requests()[0].Form().Get("RoleSessionName")
		if !legal.MatchString(got) {
			t.Errorf("got %q, which STS refuses", got)
		}
		return got
	}
	n63, hash := strings.Repeat("n", 63), "=xxxxxxxxxxxxxxxxxxxxxxxx"
	for subject, want := range map[string]string{
		"system:serviceaccount:team-a:builder":                            "team-a_builder",
		"system:serviceaccount:team-a:build.er":                           "team-a_build.er",
		"system:serviceaccount:a:b":                                       "a_b",
		"system:serviceaccount:" + n63[:31] + ":" + n63[:32]:              n63[:31] + "_" + n63[:32],
		"system:serviceaccount:team a:b/\u00e9":                           "team-a_b--" + hash,
		"system:serviceaccount:a:b_c":                                     "a_b_c" + hash,
		"system:serviceaccount:a:b=c":                                     "a_b=c" + hash,
		"system:serviceaccount:A:b":                                       "A_b" + hash,
		"system:serviceaccount:" + n63 + ":builder":                       n63[:39] + hash,
		"system:serviceaccount:team-a:" + strings.Repeat("long.name-", 9): "team-a_" + strings.Repeat("long.name-", 4)[:32] + hash,
		"system:serviceaccount:team-a":                                    "ecr-credential-provider",
		"somebody":                                                        "ecr-credential-provider",
		"":                                                                "ecr-credential-provider",
	} {
		got := name(t, ecr.Options{}, serviceAccountToken(t, subject))
		if i := strings.LastIndex(got, "="); strings.HasSuffix(want, hash) && i >= 0 {
			got = got[:i+1] + strings.Map(func(r rune) rune {
				if strings.ContainsRune("0123456789abcdef", r) {
					return 'x'
				}
				return r
			}, got[i+1:])
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", subject, got, want)
		}
		if got := name(t, ecr.Options{SessionName: "ecr-credential-provider"}, serviceAccountToken(t, subject)); got != "ecr-credential-provider" {
			t.Errorf("--session-name: got %q", got)
		}
	}
	if got := name(t, ecr.Options{}, plugin.NewSecret(canary.TokenSecret)); got != "ecr-credential-provider" {
		t.Errorf("a token that is no JWT: got %q", got)
	}

	// Two service accounts never share a session name, and a service account cannot be named so
	// that it gets another one's session name.
	seen := map[string]string{}
	for _, subject := range []string{
		n63 + ":" + "a", n63 + ":" + "b", n63[:62] + "m:a", n63[:20] + ":" + n63 + "a", n63[:20] + ":" + n63 + "b",
		"a:b c", "a:b/c", "a:b-c", "a b:c", "a-b:c", "a_b:c", "a:b_c", "a:b:c",
	} {
		got := name(t, ecr.Options{}, serviceAccountToken(t, "system:serviceaccount:"+subject))
		if other, ok := seen[got]; ok {
			t.Errorf("%q and %q are both %q", subject, other, got)
		}
		seen[got] = subject
		if _, account, cut := strings.Cut(got, "_"); cut && strings.Contains(got, "=") {
			namespace := got[:strings.Index(got, "_")]
			if imitated := name(t, ecr.Options{}, serviceAccountToken(t, "system:serviceaccount:"+namespace+":"+account)); imitated == got {
				t.Errorf("an account that is called %q has the session of %q", account, subject)
			}
		}
	}
}

// TestAssumeFails verifies that a failure to assume the role is an error, and that the node's identity is not used
// instead.
func TestAssumeFails(t *testing.T) {
	answer := func(credentials string) testcloud.Fault {
		return testcloud.Fault{Status: 200, Times: -1, Header: map[string][]string{"Content-Type": {"text/xml"}}, Body: `<AssumeRoleWithWebIdentityResponse ` +
			`xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>` + credentials +
			`</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`}
	}
	refusal := func(status int, code, message string) testcloud.Fault {
		return testcloud.Fault{Status: status, Times: -1, Body: testcloud.AWSErrorXML(code, message)}
	}
	token := serviceAccountToken(t, "system:serviceaccount:team-a:builder").Reveal()
	for name, tt := range map[string]struct {
		fault    testcloud.Fault
		want     string
		attempts int
	}{
		"denied": {refusal(403, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity"),
			"AccessDenied: Not authorized to perform sts:AssumeRoleWithWebIdentity [request id " + testcloud.AWSRequestID + "]; allow sts:AssumeRoleWithWebIdentity for the service account in the role's trust policy", 1},
		"expired":              {refusal(400, "ExpiredTokenException", "Token expired"), "the service account token has expired", 1},
		"not a token of ours":  {refusal(400, "InvalidIdentityToken", "No OpenIDConnect provider found"), "in the role's account, add the cluster's issuer as an OIDC provider with the audience", 1},
		"token in the message": {refusal(400, "InvalidIdentityToken", "bad token "+token), "bad token [redacted]", 1},
		"half of the token":    {refusal(400, "InvalidIdentityToken", strings.Repeat("long ", 115)+token), strings.Repeat("long ", 115) + "[redacted] [request id", 1},
		"issuer not reached":   {refusal(400, "IDPCommunicationError", "try again"), "IDPCommunicationError: try again, 3 times", 3},
		"throttled":            {refusal(400, "Throttling", "Rate exceeded"), "Throttling: Rate exceeded, 3 times", 3},
		"no credentials":       {answer(""), "invalid response: no credentials", 1},
		"no secret key":        {answer("<Credentials><AccessKeyId>A</AccessKeyId></Credentials>"), "invalid response: no credentials", 1},
		"no key":               {answer("<Credentials><SecretAccessKey>A</SecretAccessKey><SessionToken>B</SessionToken></Credentials>"), "invalid response: no credentials", 1},
		"empty credentials":    {answer("<Credentials/>"), "invalid response: no credentials", 1},
		"not XML":              {testcloud.Fault{Status: 200, Times: -1, Body: "nothing"}, "invalid response", 1},
		"empty":                {testcloud.Fault{Status: 200, Times: -1}, "invalid response", 1},
		"HTML":                 {testcloud.Fault{Status: 200, Times: -1, Body: "<html><body>" + canary.PasswordSecret + "</body></html>"}, "invalid response", 1},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t)
			cloud.Inject(tt.fault)
			_, err := getCredentials(t, shortTimeouts(), withServiceAccountToken(t, imageRequest(privateHost), roleAnnotation(pullRole)))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			prefix := `image host "` + privateHost + `": assume the role "` + pullRole + `" at STS in eu-west-1: POST ` + cloud.URL() + ": "
			if !strings.HasPrefix(err.Error(), prefix) {
				t.Errorf("got %v, want it to begin with %q", err, prefix)
			}
			if got := len(cloud.Requests()); got != tt.attempts {
				t.Errorf("got %d requests, want %d", got, tt.attempts)
			}
		})
	}
}

// TestLogged verifies that the log contains the steps without secrets.
func TestLogged(t *testing.T) {
	newCloud(t)
	var logged bytes.Buffer
	opts := ecr.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))}
	mustGetCredentials(t, opts, withServiceAccountToken(t, imageRequest(privateHost), roleAnnotation(pullRole)))
	mustGetCredentials(t, opts, withServiceAccountToken(t, imageRequest(privateHost), nil))
	for _, want := range []string{
		`msg="assuming the role of the service account"`, `msg="the service account has no IAM role; using the node's identity`, `msg="requesting an authorization token"`,
	} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("%q is not in the log", want)
		}
	}
	canary.AssertAbsent(t, "the log", logged.String())
	if strings.Contains(logged.String(), "open-sesame") {
		t.Error("the password is in the log")
	}
}
