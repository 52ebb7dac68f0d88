// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

func TestAttemptIdentity(t *testing.T) {
	const audience, role = "registry.example", "example.com/role"
	account := ObjectRef{Namespace: "ns", Name: "alice", UID: "uid-alice"}
	pod := podRequest("r.example/a", "alice", 1)
	held := Request{Image: "r.example/a", Token: tokenWithClaims("", `{"aud":["`+audience+`"]}`), Annotations: map[string]string{role: "x"}}
	tests := []struct {
		name     string
		requests []Request // looked up in order; want is the identity of the last one
		cache    config.TokenCacheType
		required []string
		api      ServiceAccountClient
		want     *Identity
	}{
		{"token requested", []Request{pod}, config.CachePerServiceAccount, nil, &staticAccounts{},
			&Identity{account, audience, []string{role}, []string{"example.com/absent"}, "", TokenRequested}},
		{"answer from the cache", []Request{pod, podRequest("r.example/b", "alice", 2)}, config.CachePerServiceAccount, nil, &staticAccounts{},
			&Identity{account, audience, []string{role}, []string{"example.com/absent"}, "", TokenNone}},
		{"a token for every pod", []Request{pod, pod}, config.CachePerToken, nil, &staticAccounts{},
			&Identity{account, audience, []string{role}, []string{"example.com/absent"}, "", TokenRequested}},
		{"token given", []Request{held}, config.CachePerServiceAccount, nil, nil,
			&Identity{ObjectRef{}, audience, []string{role}, []string{"example.com/absent"}, "", TokenGiven}},
		{"required annotation missing", []Request{pod}, config.CachePerServiceAccount, []string{"example.com/needed"}, &staticAccounts{},
			&Identity{account, audience, nil, nil, "example.com/needed", TokenNone}},
		{"required annotation missing, token given", []Request{held}, config.CachePerServiceAccount, []string{"example.com/needed"}, nil,
			&Identity{ObjectRef{}, audience, nil, nil, "example.com/needed", TokenGiven}},
		{"account not found", []Request{pod}, config.CachePerServiceAccount, nil, &staticAccounts{err: errors.New("not found")},
			&Identity{ObjectRef{Namespace: "ns", Name: "alice"}, audience, nil, nil, "", TokenNone}},
		{"nobody", []Request{{Image: "r.example/a"}}, config.CachePerServiceAccount, nil, &staticAccounts{}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			attributes := testTokenAttributes(tt.cache)
			attributes.ServiceAccountTokenAudience = audience
			attributes.RequiredServiceAccountAnnotationKeys = tt.required
			attributes.OptionalServiceAccountAnnotationKeys = []string{role, "example.com/absent"}
			s := &recordingProvider{answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}
			k := newRecordingKeyring(t, s, attributes, tt.api)
			defer k.Close()
			var res *Result
			for _, req := range tt.requests {
				res, _ = k.Lookup(context.Background(), req)
			}
			if diff := cmp.Diff(tt.want, res.Attempts[0].Identity); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if tt.required != nil && (s.execs() != 0 || !strings.Contains(res.Attempts[0].Skipped, `"example.com/needed"`)) {
				t.Errorf("%d execs, skipped: %q", s.execs(), res.Attempts[0].Skipped)
			}
		})
	}
}

// hangingClient is a ServiceAccountClient with one method that hangs.
type hangingClient struct {
	staticAccounts
	stage       plugin.Stage
	lastRequest TokenRequest // the last request for a token
}

func (h *hangingClient) GetServiceAccount(ctx context.Context, namespace, name string) (*ServiceAccount, error) {
	if h.stage == StageServiceAccount {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.staticAccounts.GetServiceAccount(ctx, namespace, name)
}

func (h *hangingClient) RequestToken(ctx context.Context, req TokenRequest) (plugin.Secret, error) {
	h.lastRequest = req
	if h.stage == StageToken {
		<-ctx.Done()
		return plugin.Secret{}, ctx.Err()
	}
	return h.staticAccounts.RequestToken(ctx, req)
}

// TestServiceAccountsHang verifies that a lookup without a deadline ends even if the API server does not respond.
func TestServiceAccountsHang(t *testing.T) {
	for _, cache := range []config.TokenCacheType{config.CachePerServiceAccount, config.CachePerToken} {
		for _, stage := range []plugin.Stage{StageServiceAccount, StageToken} {
			t.Run(string(cache)+" "+string(stage), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					k := newRecordingKeyring(t, &recordingProvider{}, testTokenAttributes(cache), &hangingClient{stage: stage})
					defer k.Close()
					ended := make(chan *Result, 1)
					go func() {
						res, _ := k.Lookup(context.Background(), podRequest("r.example/a", "alice", 1))
						ended <- res
					}()
					select {
					case res := <-ended:
						if at := res.Attempts[0]; at.Stage != stage || !errors.Is(at.Err, context.DeadlineExceeded) {
							t.Errorf("got stage %q and error %v", at.Stage, at.Err)
						}
					case <-time.After(time.Hour):
						t.Error("it goes on")
					}
				})
			})
		}
	}
}

// TestTokenRequestInFull verifies that a token request contains UIDs, which distinguish objects
// that were deleted and created again.
func TestTokenRequestInFull(t *testing.T) {
	api := &hangingClient{}
	k := newRecordingKeyring(t, &recordingProvider{answer: newPluginResponder(plugin.CacheImage, 0, "")}, testTokenAttributes(config.CachePerToken), api)
	defer k.Close()
	must.Get(k.Lookup(t.Context(), podRequest("r.example/a", "alice", 1)))(t)
	want := TokenRequest{
		Namespace: "ns", ServiceAccount: "alice", ServiceAccountUID: "uid-alice",
		PodName: "pod-1", PodUID: "pod-uid-1", Audience: "registry",
	}
	if diff := cmp.Diff(want, api.lastRequest); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// tokenWithClaims returns a token for Request.Token with the given claims. Different values of the
// parameter of make different tokens.
func tokenWithClaims(of string, claims string) plugin.Secret {
	return plugin.NewSecret("e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + "." + canary.TokenSecret + of)
}

// TestHeldTokenForAnotherAudience verifies that a provider does not get a token that was issued
// for another audience.
func TestHeldTokenForAnotherAudience(t *testing.T) {
	const refused = `provider "p": the request's token %s; the provider's serviceAccountTokenAudience is "registry": use a token for that audience`
	for name, tt := range map[string]struct {
		token plugin.Secret
		is    string // the expected error text; "" if the provider gets the token
	}{
		"its own":           {tokenWithClaims("", `{"aud":["registry"]}`), ""},
		"one of several":    {tokenWithClaims("", `{"aud":["vault","registry"]}`), ""},
		"no list":           {tokenWithClaims("", `{"aud":"registry"}`), ""},
		"another":           {tokenWithClaims("", `{"aud":["vault"]}`), `has the audiences ["vault"]`},
		"others":            {tokenWithClaims("", `{"aud":["vault","registry.example"]}`), `has the audiences ["vault" "registry.example"]`},
		"a part of it":      {tokenWithClaims("", `{"aud":["regis","registry2","REGISTRY"]}`), `has the audiences ["regis" "registry2" "REGISTRY"]`},
		"many":              {tokenWithClaims("", `{"aud":["`+strings.Repeat("x", 200)+`","2","3","4","5","6"]}`), `has the audiences ["` + strings.Repeat("x", 100) + `" "2" "3" "4" "5"]`},
		"none":              {tokenWithClaims("", `{"sub":"x"}`), "has no audience"},
		"not a token":       {plugin.NewSecret(canary.TokenSecret), "is not a JSON Web Token, so its audience is unknown"},
		"claims of no kind": {tokenWithClaims("", `["registry"]`), "is not a JSON Web Token, so its audience is unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &recordingProvider{answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}
				k := newRecordingKeyring(t, s, testTokenAttributes(config.CachePerServiceAccount), nil)
				defer k.Close()
				res, err := k.Lookup(t.Context(), Request{Image: "r.example/a", Token: tt.token, Annotations: map[string]string{"example.com/role": "x"}})
				at, want := res.Attempts[0], ""
				wantStage, wantExecs := plugin.Stage(""), 1
				if tt.is != "" {
					want, wantStage, wantExecs = "no credentials for r.example/a: "+fmt.Sprintf(refused, tt.is), StageToken, 0
				}
				if got := fmt.Sprint(err); got != want && (err != nil || want != "") {
					t.Errorf("error %s\nwant  %s", got, want)
				}
				if at.Identity.Audience != "registry" || at.Identity.Token != TokenGiven || at.Stage != wantStage || s.execs() != wantExecs {
					t.Errorf("%d execs, identity %+v, stage %q", s.execs(), at.Identity, at.Stage)
				}
				canary.AssertAbsent(t, "error", fmt.Sprintf("%v %+v", err, res))
			})
		})
	}
}
