// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// recordingProvider is an in-process provider that records its requests. Each call takes a second.
type recordingProvider struct {
	answer func(ctx context.Context, req *plugin.Request) (*plugin.Response, error)

	mu          sync.Mutex
	images      []string
	tokens      []plugin.Secret
	contextErrs []error // the context's error after each run
}

func (s *recordingProvider) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	s.mu.Lock()
	s.images, s.tokens = append(s.images, req.Image), append(s.tokens, req.ServiceAccountToken)
	s.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.contextErrs = append(s.contextErrs, ctx.Err())
	s.mu.Unlock()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return s.answer(ctx, req)
}

func (s *recordingProvider) execs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.images)
}

// newPluginResponder returns a provider function whose response has one credential for each key. The key
// "" means the image's registry.
func newPluginResponder(scope plugin.CacheKeyType, d time.Duration, keys ...string) func(context.Context, *plugin.Request) (*plugin.Response, error) {
	return func(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
		auth := map[string]plugin.AuthConfig{}
		for _, key := range keys {
			if key == "" {
				key, _, _ = strings.Cut(req.Image, "/")
			}
			auth[key] = plugin.AuthConfig{Username: req.Image, Password: plugin.NewSecret(canary.PasswordSecret)}
		}
		return &plugin.Response{CacheKeyType: scope, CacheDuration: &d, Auth: auth}, nil
	}
}

// oneProviderConfig returns a configuration with a provider "p" for all hosts in the example domain.
func oneProviderConfig(attributes *config.TokenAttributes) *config.Config {
	return &config.Config{Providers: []config.Provider{{
		Name: "p", MatchImages: []string{"*.example"}, DefaultCacheDuration: new(time.Hour), APIVersion: plugin.V1, TokenAttributes: attributes,
	}}}
}

func newRecordingKeyring(t *testing.T, s *recordingProvider, attributes *config.TokenAttributes, accounts ServiceAccountClient) *Keyring {
	t.Helper()
	k, err := New(oneProviderConfig(attributes), Options{BinDir: "none", InProcess: map[string]plugin.Provider{"p": s}, ServiceAccounts: accounts})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// lookupAll looks up images concurrently. The first lookup starts slightly earlier, so that it
// starts the exec. Results and errors are in the order of the requests.
func lookupAll(k *Keyring, reqs ...Request) ([]*Result, []error) {
	results, errs := make([]*Result, len(reqs)), make([]error, len(reqs))
	var wg sync.WaitGroup
	for i, req := range reqs {
		wg.Go(func() { results[i], errs[i] = k.Lookup(context.Background(), req) })
		if i == 0 {
			synctest.Wait()
		}
	}
	wg.Wait()
	return results, errs
}

func imageRequests(n int, format string) []Request {
	reqs := make([]Request, n)
	for i := range reqs {
		reqs[i].Image = fmt.Sprintf(format, i)
	}
	return reqs
}

func TestCoalesceOneExecForARegistry(t *testing.T) {
	for _, scope := range []plugin.CacheKeyType{plugin.CacheRegistry, plugin.CacheGlobal} {
		synctest.Test(t, func(t *testing.T) {
			s := &recordingProvider{answer: newPluginResponder(scope, time.Hour, "")}
			k := newRecordingKeyring(t, s, nil, nil)
			defer k.Close()
			begin := time.Now()
			results, errs := lookupAll(k, imageRequests(200, "r.example/team/app-%d")...)
			for i := range results {
				if errs[i] != nil || len(results[i].Credentials) != 1 {
					t.Fatalf("%s: image %d: %v", scope, i, errs[i])
				}
			}
			if s.execs() != 1 || time.Since(begin) != time.Second {
				t.Errorf("%s: %d execs in %v, want 1 in 1s", scope, s.execs(), time.Since(begin))
			}
			if got := results[1].Attempts[0].Cache; got != CacheCoalesced {
				t.Errorf("%s: a waiter's attempt says %q", scope, got)
			}
		})
	}
}

func TestCoalesceTwoRegistriesWhileTheScopeIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &recordingProvider{answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}
		k := newRecordingKeyring(t, s, nil, nil)
		defer k.Close()
		_, errs := lookupAll(k, append(imageRequests(50, "a.example/app-%d"), imageRequests(50, "b.example/app-%d")...)...)
		must.Do(t, errors.Join(errs...))
		if s.execs() != 2 {
			t.Errorf("%d execs, want 2: one for each registry", s.execs())
		}
	})
}

func TestCoalesceLeaderFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &recordingProvider{}
		s.answer = func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
			if strings.HasSuffix(req.Image, "-0") {
				return nil, errors.New("no such repository")
			}
			return newPluginResponder(plugin.CacheRegistry, time.Hour, "")(ctx, req)
		}
		k := newRecordingKeyring(t, s, nil, nil)
		defer k.Close()
		begin := time.Now()
		reqs := append(imageRequests(20, "r.example/app-%d"), Request{Image: "r.example/app-0"})
		_, errs := lookupAll(k, reqs...)
		for i, err := range errs {
			var lookup *LookupError
			if failed := errors.As(err, &lookup); failed != (reqs[i].Image == "r.example/app-0") {
				t.Errorf("%s: error %v", reqs[i].Image, err)
			}
		}
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("took %v, want 2s: the others run side by side, not in a chain", took)
		}
		if s.execs() != 20 {
			t.Errorf("%d execs, want 20: the same image shares its leader's failure", s.execs())
		}
	})
}

func TestCoalesceFailureIsNotAChainThoughTheScopeIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &recordingProvider{}
		s.answer = func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
			if role := req.ServiceAccountAnnotations["example.com/role"]; role == "bob" {
				time.Sleep(time.Second) // until alice's response has set the scope
				return nil, errors.New("no access")
			}
			return newPluginResponder(plugin.CacheRegistry, time.Hour, "")(ctx, req)
		}
		k := newRecordingKeyring(t, s, testTokenAttributes(config.CachePerServiceAccount), &staticAccounts{})
		defer k.Close()
		reqs := []Request{podRequest("r.example/0", "alice", 0)}
		for i := range 5 {
			reqs = append(reqs, podRequest(fmt.Sprintf("r.example/%d", i), "bob", i))
		}
		begin := time.Now()
		lookupAll(k, reqs...)
		if took := time.Since(begin); took != 4*time.Second {
			t.Errorf("took %v, want 4s: two failures in a row of two seconds each", took)
		}
	})
}

func TestCoalesceDoesNotWaitForWhatMustNotBeCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &recordingProvider{answer: newPluginResponder(plugin.CacheRegistry, 0, "")}
		k := newRecordingKeyring(t, s, nil, nil)
		defer k.Close()
		must.Get(k.Lookup(t.Context(), Request{Image: "r.example/first"}))(t)
		begin := time.Now()
		lookupAll(k, imageRequests(5, "r.example/app-%d")...)
		if took := time.Since(begin); took != time.Second {
			t.Errorf("took %v, want 1s: no response of this plugin serves another image", took)
		}
	})
}

func TestCoalesceLeaderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &recordingProvider{answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}
		k := newRecordingKeyring(t, s, nil, nil)
		defer k.Close()
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := k.Lookup(ctx, Request{Image: "r.example/leader"}); !errors.Is(err, context.Canceled) {
				t.Errorf("leader: %v, want context.Canceled", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if res, err := k.Lookup(context.Background(), Request{Image: "r.example/waiter"}); err != nil || len(res.Credentials) != 1 {
				t.Errorf("waiter: %v", err)
			}
		})
		synctest.Wait()
		cancel()
		wg.Wait()
		if s.execs() != 1 || s.contextErrs[0] != nil {
			t.Errorf("execs %d, ended %v: want the leader's exec to continue for the waiter", s.execs(), s.contextErrs)
		}
	})
}

func TestCoalesceLastWaiterLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &recordingProvider{answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}
		k := newRecordingKeyring(t, s, nil, nil)
		defer k.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second/2)
		defer cancel()
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				res, err := k.Lookup(ctx, Request{Image: fmt.Sprintf("r.example/%d", i)})
				if !errors.Is(err, context.DeadlineExceeded) || res.Attempts[0].Stage != plugin.StageTimeout {
					t.Errorf("%v, attempts %v; want a timeout", err, res.Attempts)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if len(s.contextErrs) != 1 || !errors.Is(s.contextErrs[0], context.Canceled) {
			t.Errorf("exec ended with %v, want one that was cancelled", s.contextErrs)
		}
		if _, err := k.Lookup(context.Background(), Request{Image: "r.example/0"}); err != nil {
			t.Errorf("the next lookup: %v", err)
		}
	})
}

func TestCoalesceAnswerDecides(t *testing.T) {
	tests := []struct {
		name         string
		first, later func(context.Context, *plugin.Request) (*plugin.Response, error)
		reqs         []Request
		execs        int
		took         time.Duration
	}{
		{
			name:  "Image although Registry was expected",
			first: newPluginResponder(plugin.CacheRegistry, time.Nanosecond, ""), later: newPluginResponder(plugin.CacheImage, time.Hour, ""),
			reqs: imageRequests(5, "r.example/app-%d"), execs: 5, took: 2 * time.Second,
		},
		{
			name:  "Global although Image was expected",
			first: newPluginResponder(plugin.CacheImage, time.Nanosecond, ""), later: newPluginResponder(plugin.CacheGlobal, time.Hour, "*.example"),
			reqs: imageRequests(5, "r.example/app-%d"), execs: 5, took: time.Second,
		},
		{
			name:  "Registry, but the answer has no key for the waiters",
			first: newPluginResponder(plugin.CacheRegistry, time.Nanosecond, ""), later: func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
				return newPluginResponder(plugin.CacheRegistry, time.Hour, req.Image)(ctx, req)
			},
			reqs: imageRequests(5, "r.example/app-%d"), execs: 5, took: 2 * time.Second,
		},
		{
			name:  "must not be cached",
			first: newPluginResponder(plugin.CacheRegistry, time.Nanosecond, ""), later: newPluginResponder(plugin.CacheRegistry, 0, ""),
			reqs: append(imageRequests(5, "r.example/app-%d"), imageRequests(5, "r.example/app-%d")...), execs: 5, took: 2 * time.Second,
		},
		{
			name:  "must not be cached, negative",
			first: newPluginResponder(plugin.CacheRegistry, time.Nanosecond, ""), later: newPluginResponder(plugin.CacheGlobal, -time.Hour, ""),
			reqs: imageRequests(5, "r.example/app-%d"), execs: 5, took: 2 * time.Second,
		},
		{
			name:  "empty",
			first: newPluginResponder(plugin.CacheRegistry, time.Nanosecond, ""), later: newPluginResponder(plugin.CacheRegistry, time.Hour),
			reqs: imageRequests(5, "r.example/app-%d"), execs: 5, took: 2 * time.Second,
		},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			s := &recordingProvider{answer: tt.first}
			k := newRecordingKeyring(t, s, nil, nil)
			defer k.Close()
			must.Get(k.Lookup(context.Background(), Request{Image: "r.example/teach-the-scope"}))(t)
			time.Sleep(time.Minute)
			s.answer, s.images = tt.later, nil
			begin := time.Now()
			results, errs := lookupAll(k, tt.reqs...)
			if err := errors.Join(errs...); err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			if s.execs() != tt.execs || time.Since(begin) != tt.took {
				t.Errorf("%s: %d execs in %v, want %d in %v", tt.name, s.execs(), time.Since(begin), tt.execs, tt.took)
			}
			for i, res := range results {
				if tt.name != "empty" && (len(res.Credentials) != 1 || !mayUseCredential(res.Credentials[0], res.Attempts[0].CacheKey, tt.reqs[i])) {
					t.Errorf("%s: %s: %d credentials, or another identity's", tt.name, tt.reqs[i].Image, len(res.Credentials))
				}
			}
		})
	}
}

// mayUseCredential reports whether the scope of the response allows that a request gets the credential
// c. The user name of c is the image for which c was issued.
func mayUseCredential(c Credential, scope plugin.CacheKeyType, req Request) bool {
	return c.Username == req.Image || !c.CachedUntil.IsZero() && scope != plugin.CacheImage
}

// staticAccounts is a ServiceAccountClient with the service accounts of namespace
// "ns".
type staticAccounts struct {
	mu     sync.Mutex
	tokens int
	err    error
}

func (a *staticAccounts) GetServiceAccount(_ context.Context, namespace, name string) (*ServiceAccount, error) {
	return &ServiceAccount{Namespace: namespace, Name: name, UID: "uid-" + name, Annotations: map[string]string{"example.com/role": name}}, a.err
}

func (a *staticAccounts) RequestToken(_ context.Context, req TokenRequest) (plugin.Secret, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens++
	return plugin.NewSecret(fmt.Sprintf("%s %s %s %s", canary.TokenSecret, req.ServiceAccount, req.PodUID, req.Audience)), nil
}

func testTokenAttributes(cache config.TokenCacheType) *config.TokenAttributes {
	return &config.TokenAttributes{
		ServiceAccountTokenAudience: "registry", CacheType: cache, RequireServiceAccount: new(true),
		RequiredServiceAccountAnnotationKeys: []string{"example.com/role"},
	}
}

func podRequest(image, account string, pod int) Request {
	return Request{Image: image, Pod: &Pod{Namespace: "ns", Name: fmt.Sprint("pod-", pod), UID: fmt.Sprint("pod-uid-", pod), ServiceAccount: account}}
}

func TestCoalesceServiceAccountsApart(t *testing.T) {
	for _, cache := range []config.TokenCacheType{config.CachePerServiceAccount, config.CachePerToken} {
		synctest.Test(t, func(t *testing.T) {
			s := &recordingProvider{answer: func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
				resp, err := newPluginResponder(plugin.CacheGlobal, time.Hour, "*.example")(ctx, req)
				resp.Auth["*.example"] = plugin.AuthConfig{Username: req.ServiceAccountAnnotations["example.com/role"], Password: plugin.NewSecret(canary.PasswordSecret)}
				return resp, err
			}}
			api := &staticAccounts{}
			k := newRecordingKeyring(t, s, testTokenAttributes(cache), api)
			defer k.Close()
			var reqs []Request
			for i := range 40 {
				reqs = append(reqs, podRequest(fmt.Sprintf("r.example/app-%d", i), []string{"alice", "bob"}[i%2], i/2))
			}
			results, errs := lookupAll(k, reqs...)
			must.Do(t, errors.Join(errs...))
			for i, res := range results {
				want := reqs[i].Pod.ServiceAccount
				if len(res.Credentials) != 1 || res.Credentials[0].Username != want || res.Credentials[0].Origin.ServiceAccount.Name != want {
					t.Errorf("%s: pod of %s got credentials of %+v", cache, want, res.Credentials)
				}
			}
			wantExecs, wantTokens := 2, 2
			if cache == config.CachePerToken {
				wantExecs, wantTokens = 40, 40 // each pod has its own token and identity
			}
			if s.execs() != wantExecs || api.tokens != wantTokens {
				t.Errorf("%s: %d execs, %d tokens; want %d, %d", cache, s.execs(), api.tokens, wantExecs, wantTokens)
			}
		})
	}
}

func TestCoalesceEchoedTokenIsRefusedToWaiters(t *testing.T) {
	echo := func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
		resp, err := newPluginResponder(plugin.CacheRegistry, time.Hour, "")(ctx, req)
		resp.Auth["r.example"] = plugin.AuthConfig{Username: "x", Password: req.ServiceAccountToken}
		return resp, err
	}
	synctest.Test(t, func(t *testing.T) {
		s := &recordingProvider{answer: echo}
		k := newRecordingKeyring(t, s, testTokenAttributes(config.CachePerServiceAccount), &staticAccounts{})
		defer k.Close()
		results, errs := lookupAll(k, podRequest("r.example/a", "alice", 1), podRequest("r.example/b", "alice", 2), podRequest("r.example/a", "alice", 3))
		for i, err := range errs {
			if len(results[i].Credentials) != 0 || results[i].Attempts[0].Stage != StageEchoedToken {
				t.Errorf("request %d: %v; want it refused as an echoed token", i, err)
			}
			canary.AssertAbsent(t, "error", fmt.Sprintf("%v %+v %#v", err, results[i].Attempts, results[i]))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := &recordingProvider{answer: echo}
		k := newRecordingKeyring(t, s, testTokenAttributes(config.CachePerToken), &staticAccounts{})
		defer k.Close()
		if _, err := k.Lookup(context.Background(), podRequest("r.example/a", "alice", 1)); err != nil {
			t.Errorf("cacheType Token: %v; want it allowed", err)
		}
	})
}

func TestServiceAccountCacheBeforeToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &recordingProvider{answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}
		api := &staticAccounts{}
		k := newRecordingKeyring(t, s, testTokenAttributes(config.CachePerServiceAccount), api)
		defer k.Close()
		for pod := range 500 {
			must.Get(k.Lookup(context.Background(), podRequest("r.example/app", "alice", pod)))(t)
		}
		if api.tokens != 1 || s.execs() != 1 {
			t.Errorf("500 pods cost %d tokens and %d execs, want 1 and 1", api.tokens, s.execs())
		}
	})
}

func TestServiceAccountSkips(t *testing.T) {
	s := &recordingProvider{answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}
	attributes := testTokenAttributes(config.CachePerServiceAccount)
	attributes.RequiredServiceAccountAnnotationKeys = []string{"example.com/other"}
	k := newRecordingKeyring(t, s, attributes, &staticAccounts{})
	defer k.Close()
	for want, req := range map[string]Request{
		"the provider requires a service account, but the request has none":          {Image: "r.example/a"},
		`service account ns/alice lacks the required annotation "example.com/other"`: podRequest("r.example/a", "alice", 1),
		`the request lacks the required annotation "example.com/other"`:              {Image: "r.example/a", Token: plugin.NewSecret(canary.TokenSecret)},
	} {
		res, err := k.Lookup(context.Background(), req)
		if err != nil || len(res.Attempts) != 1 || res.Attempts[0].Skipped != want {
			t.Errorf("error %v, attempts %+v; want skipped: %s", err, res.Attempts, want)
		}
	}
	if s.execs() != 0 {
		t.Errorf("%d execs, want none", s.execs())
	}
}

func TestServiceAccountFailures(t *testing.T) {
	s := &recordingProvider{answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}
	for _, tt := range []struct {
		name     string
		accounts ServiceAccountClient
		stage    plugin.Stage
	}{
		{"no access", nil, StageServiceAccount},
		{"not found", &staticAccounts{err: errors.New("not found")}, StageServiceAccount},
		{"huge annotation", hugeAnnotation{}, StageServiceAccount},
		{"no token", noToken{}, StageToken},
	} {
		k := newRecordingKeyring(t, s, testTokenAttributes(config.CachePerServiceAccount), tt.accounts)
		res, err := k.Lookup(context.Background(), podRequest("r.example/a", "alice", 1))
		var lookup *LookupError
		if !errors.As(err, &lookup) || res.Attempts[0].Stage != tt.stage {
			t.Errorf("%s: %v, stage %q; want a LookupError at stage %q", tt.name, err, res.Attempts[0].Stage, tt.stage)
		}
		k.Close()
	}
}

type hugeAnnotation struct{}

func (hugeAnnotation) GetServiceAccount(context.Context, string, string) (*ServiceAccount, error) {
	return &ServiceAccount{Annotations: map[string]string{"example.com/role": strings.Repeat("x", 1<<16)}}, nil
}

func (hugeAnnotation) RequestToken(context.Context, TokenRequest) (plugin.Secret, error) {
	return plugin.NewSecret(canary.TokenSecret), nil
}

type noToken struct{}

func (noToken) GetServiceAccount(context.Context, string, string) (*ServiceAccount, error) {
	return &ServiceAccount{Annotations: map[string]string{"example.com/role": strings.Repeat("x", 1<<15)}}, nil
}

func (noToken) RequestToken(context.Context, TokenRequest) (plugin.Secret, error) {
	return plugin.Secret{}, nil
}

func TestHeldIdentityIsKeyedByToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &recordingProvider{answer: newPluginResponder(plugin.CacheGlobal, time.Hour, "*.example")}
		k := newRecordingKeyring(t, s, testTokenAttributes(config.CachePerServiceAccount), nil)
		defer k.Close()
		ask := func(token plugin.Secret, role string) {
			req := Request{Image: "r.example/a", Token: token, Annotations: map[string]string{"example.com/role": role, "not.selected": role + token.String()}}
			must.Get(k.Lookup(context.Background(), req))(t)
		}
		one, two := tokenWithClaims("1", `{"aud":["registry"]}`), tokenWithClaims("2", `{"aud":["registry"]}`)
		ask(one, "a")
		ask(one, "a")
		ask(two, "a")
		ask(one, "b")
		if s.execs() != 3 {
			t.Errorf("%d execs, want 3", s.execs())
		}
		if want := []plugin.Secret{one, two, one}; !slices.EqualFunc(s.tokens, want, plugin.Secret.Equal) {
			t.Error("other tokens were passed on than were held")
		}
	})
}
