// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/login"
	"github.com/regcred/regcred/internal/testcri"
)

// TestRuntimeClassifies verifies how errors of containerd 1.6, 1.7 and 2 and of CRI-O are
// classified.
func TestRuntimeClassifies(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		code       codes.Code
		status     int
		kind       string
		refused    bool
	}{
		{"containerd 1.6, Basic", `failed to resolve reference "registry.example/a:v1": pulling from host registry.example failed with status code [manifests v1]: 401 Unauthorized`, codes.Unknown, 401, "", true},
		{"containerd 1.6, Bearer", `failed to authorize: failed to fetch oauth token: unexpected status: 401 Unauthorized`, codes.Unknown, 401, "", true},
		{"containerd 1.7", `failed to authorize: failed to fetch oauth token: unexpected status from GET request to https://auth.example/token?scope=x: 401 Unauthorized`, codes.Unknown, 401, "", true},
		{"containerd 2", `unexpected status from HEAD request to https://registry.example/v2/team/app/manifests/v1: 401 Unauthorized`, codes.Unknown, 401, "", true},
		{"containerd, scope", `pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`, codes.Unknown, 401, "", true},
		{"containerd, a mirror refuses", `unexpected status from HEAD request to https://mirror.example/v2/team/app/manifests/v1: 401 Unauthorized`, codes.Unknown, 0, "", false},
		{"containerd 1.6, a mirror refuses", `pulling from host mirror.example:5000 failed with status code [manifests v1]: 401 Unauthorized`, codes.Unknown, 0, "", false},
		{"containerd, not sent", `pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials`, codes.Unknown, 0, "", false},
		{"not sent, in other words", `failed to resolve: no basic auth credentials`, codes.Unknown, 0, "", false},
		{"limited, in words", `reading manifest: toomanyrequests: You have reached your pull rate limit`, codes.Unknown, 429, "", false},
		{"unknown name", `reading manifest: name unknown: repository name not known to registry`, codes.Unknown, 404, "", false},
		{"containerd, forbidden", `pulling from host registry.example failed with status code [manifests v1]: 403 Forbidden`, codes.Unknown, 403, "", false},
		{"containerd, not found", `failed to resolve reference "registry.example/a:v1": registry.example/a:v1: not found`, codes.NotFound, 404, "", false},
		{"containerd, limited", `unexpected status code http://registry.example/v2/x: 429 Too Many Requests - Server message: toomanyrequests: x`, codes.Unknown, 429, "", false},
		{"containerd, broken", `failed with status code [manifests v1]: 500 Internal Server Error`, codes.Unknown, 500, "", false},
		{"CRI-O", `initializing source docker://registry.example/a:v1: reading manifest v1 in registry.example/a: unauthorized: authentication required`, codes.Unknown, 401, "", true},
		{"CRI-O, password", `unable to retrieve auth token: invalid username/password: unauthorized: incorrect username or password`, codes.Unknown, 401, "", true},
		{"CRI-O, denied", `requested access to the resource is denied: denied: no`, codes.Unknown, 403, "", false},
		{"CRI-O, unknown", `reading manifest v1 in registry.example/a: manifest unknown`, codes.Unknown, 404, "", false},
		{"CRI-O, status", `fetching target platform image: invalid status code from registry 404 (Not Found)`, codes.Unknown, 404, "", false},
		{"unavailable", `RegistryUnavailable: pinging container registry registry.example: dial tcp: connection refused`, codes.Unavailable, 0, "RegistryUnavailable", false},
		{"signature", `SignatureValidationFailed: Source image rejected`, codes.Unknown, 0, "SignatureValidationFailed", false},
		{"a name like a status", `failed to pull "registry.example/401/unauthorized:denied": dial tcp: connection refused`, codes.Unknown, 0, "", false},
		{"a number like a status", `read 401 bytes, want 512 (Range)`, codes.Unknown, 0, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &testcri.Server{OnPullImage: func(context.Context, *runtimeapi.PullImageRequest) (string, error) {
				return "", status.Error(tt.code, tt.text)
			}}
			refused := false
			r := dialServer(t, s, RuntimeOptions{OnRejected: func(regcred.Credential) { refused = true }})
			_, err := r.Pull(t.Context(), anImage, PullAlways, fixedLookup(goodCredential))
			var failed *Error
			if !errors.As(err, &failed) || len(s.PullRequests()) != 1 {
				t.Fatalf("got %v after %d pulls, want an *Error after one", err, len(s.PullRequests()))
			}
			got := failed.Tries[0]
			if got.Status != tt.status || got.Code != tt.kind || refused != tt.refused {
				t.Errorf("status %d, code %q, refused %t; want %d, %q, %t", got.Status, got.Code, refused, tt.status, tt.kind, tt.refused)
			}
			if strings.Contains(err.Error(), "rpc error") || strings.Contains(err.Error(), "scope=x") {
				t.Errorf("error %q", err)
			}
		})
	}
}

func TestRuntimeErrorHoldsNoSecret(t *testing.T) {
	long := strings.Repeat("x", 1985)
	s := &testcri.Server{OnPullImage: func(_ context.Context, req *runtimeapi.PullImageRequest) (string, error) {
		// Redaction must come before truncation, or half of the password would remain.
		return "", status.Error(codes.Unknown, "login\nas "+req.Auth.Password+" at https://blobs.example/x?sig="+canary.TokenSecret+" \x1b[2J"+long+req.Auth.Password)
	}}
	r := dialServer(t, s, RuntimeOptions{})
	for i, n := range []int{1900, 1905, 1910, 1985} {
		long = strings.Repeat("x", n)
		_, err := r.Pull(t.Context(), anImage, PullAlways, fixedLookup(goodCredential))
		canary.AssertAbsent(t, "error", err.Error())
		if i == 0 && (!strings.Contains(err.Error(), "login as [redacted] at https://blobs.example/x?[redacted]") || strings.ContainsAny(err.Error(), "\n\x1b")) {
			t.Errorf("error %q", err)
		}
	}
}

// TestRuntimeEchoes verifies that secrets are redacted in the runtime's errors, which may
// quote the registry's response or the runtime's own request.
func TestRuntimeEchoes(t *testing.T) {
	const message = "failed to fetch: 403 Forbidden: Server message: denied: "
	for _, secret := range []string{
		canary.PasswordSecret,
		basicAuth(&goodCredential),
		"Bearer " + canary.TokenSecret + "0123456789",
		`Get "https://cdn.example/x?X-Amz-Signature=` + canary.TokenSecret + `"`,
		"https://user:" + canary.TokenSecret + "@cdn.example/",
		"eyJ" + canary.TokenSecret + "." + canary.TokenSecret + "." + canary.TokenSecret,
	} {
		x := &login.Secrets{}
		x.AddCredential(&goodCredential)
		err := newRuntimeError(t.Context(), status.Error(codes.Unknown, message+secret+strings.Repeat(" x", 4000)+secret))
		try := login.NewFailedAttempt(&goodCredential, err, x)
		canary.AssertAbsent(t, "a try", fmt.Sprintf("%+v", try))
		if try.Status != 403 || len(try.Err.Error()) > 2*2000 {
			t.Errorf("status %d, %d bytes", try.Status, len(try.Err.Error()))
		}
		if strings.HasPrefix(secret, canary.PasswordSecret) || secret == basicAuth(&goodCredential) {
			continue // before a pull, the runtime does not have these secrets
		}
		text := fmt.Errorf("asking: %w", login.SafeError(err)).Error()
		canary.AssertAbsent(t, "an answer", text)
		if len(text) > 2*2000 {
			t.Errorf("%d bytes", len(text))
		}
	}
}
