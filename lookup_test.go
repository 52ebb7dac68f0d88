// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

func TestAnswerForARegistryIsNotForItsImages(t *testing.T) {
	k := newProvidersKeyring(t, Options{}, plugin.ProviderFunc(func(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
		resp := &plugin.Response{CacheKeyType: plugin.CacheImage}
		if strings.Contains(req.Image, "/") {
			resp.Auth = authForUsers(req.Image, "u")
		}
		return resp, nil
	}))
	must.Get(k.Lookup(t.Context(), Request{Registry: "r.io"}))(t)
	res, err := k.Lookup(t.Context(), Request{Image: "r.io/team/app"})
	if err != nil || len(res.Credentials) != 1 || res.Attempts[0].Cache != CacheMiss {
		t.Errorf("%v, attempts %+v; want the plugin to be called", err, res.Attempts)
	}
}

func TestRefreshAheadOfShortAnswers(t *testing.T) {
	for name, s := range map[string]*recordingProvider{
		"five minutes":             {answer: newPluginResponder(plugin.CacheRegistry, 5*time.Minute, "")},
		"empty, kept for a minute": {answer: newPluginResponder(plugin.CacheRegistry, time.Hour)},
	} {
		synctest.Test(t, func(t *testing.T) {
			k, err := New(oneProviderConfig(nil), Options{BinDir: "none", InProcess: map[string]plugin.Provider{"p": s}, RefreshAhead: 10 * time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			for range 60 {
				must.Get(k.Lookup(t.Context(), Request{Image: "r.example/a"}))(t)
				time.Sleep(2 * time.Second)
			}
			if s.execs() > 3 {
				t.Errorf("%s: %d execs in two minutes, want at most 3", name, s.execs())
			}
		})
	}
}

func TestErrorOfAProviderOfThisProcessIsScrubbed(t *testing.T) {
	for name, p := range map[string]plugin.ProviderFunc{
		"error": func(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
			return nil, fmt.Errorf("POST /sts?token=%s: 403", req.ServiceAccountToken.Reveal())
		},
		"panic": func(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
			panic(req.ServiceAccountToken.Reveal())
		},
		"nothing": func(context.Context, *plugin.Request) (*plugin.Response, error) { return nil, nil },
	} {
		k, err := New(oneProviderConfig(testTokenAttributes(config.CachePerServiceAccount)), Options{
			BinDir: "none", ServiceAccounts: &staticAccounts{}, InProcess: map[string]plugin.Provider{"p": p},
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = k.Lookup(t.Context(), podRequest("r.example/a", "alice", 1))
		var exec *plugin.ExecError
		if !errors.As(err, &exec) || exec.Stage != plugin.StageExec {
			t.Errorf("%s: no ExecError at stage exec", name)
		}
		canary.AssertAbsent(t, name, fmt.Sprintf("%v %+v %#v", err, err, err))
		k.Close()
	}
}

type nilAccounts struct{ ServiceAccountClient }

func (nilAccounts) GetServiceAccount(context.Context, string, string) (*ServiceAccount, error) {
	return nil, nil
}

func TestServiceAccountThatIsNil(t *testing.T) {
	k := newRecordingKeyring(t, &recordingProvider{}, testTokenAttributes(config.CachePerServiceAccount), nilAccounts{})
	defer k.Close()
	res, err := k.Lookup(t.Context(), podRequest("r.example/a", "alice", 1))
	if err == nil || res.Attempts[0].Stage != StageServiceAccount {
		t.Errorf("got %v, want a failure at stage %s", err, StageServiceAccount)
	}
}

func TestNoExecForALookupThatIsOver(t *testing.T) {
	s := &recordingProvider{answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		k := newRecordingKeyring(t, s, nil, nil)
		if _, err := k.Lookup(ctx, Request{Image: "r.example/a"}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		k.Close()
	}
	if s.execs() != 0 {
		t.Errorf("%d execs, want none", s.execs())
	}
}

// deletedPods is a ServiceAccountClient that returns an error for the first n pods, as if they had
// been deleted.
type deletedPods struct {
	staticAccounts
	n int
}

func (p *deletedPods) RequestToken(ctx context.Context, req TokenRequest) (plugin.Secret, error) {
	time.Sleep(time.Second)
	for i := range p.n {
		if req.PodName == fmt.Sprint("pod-", i) {
			return plugin.Secret{}, fmt.Errorf("pods %q not found", req.PodName)
		}
	}
	return p.staticAccounts.RequestToken(ctx, req)
}

func TestATokenThatAnotherPodCouldNotGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newRecordingKeyring(t, &recordingProvider{answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}, testTokenAttributes(config.CachePerServiceAccount), &deletedPods{n: 5})
		defer k.Close()
		begin := time.Now()
		var reqs []Request
		for pod := range 10 {
			reqs = append(reqs, podRequest("r.example/a", "alice", pod))
		}
		_, errs := lookupAll(k, reqs...)
		for pod, err := range errs {
			if gone := pod < 5; (err != nil) != gone {
				t.Errorf("pod %d: %v", pod, err)
			}
		}
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("took %v, want 3s: side by side, not in a chain", took)
		}
	})
}

type testSource struct {
	name string
	auth func(context.Context) ([]AuthSet, error)
}

func (s testSource) Name() string { return s.name }

func (s testSource) Auths(ctx context.Context, _ string) ([]AuthSet, error) { return s.auth(ctx) }

func TestASourceThatHangsLeavesTimeForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, err := New(&config.Config{}, Options{BinDir: "none", Sources: []Source{
			testSource{"hangs", func(ctx context.Context) ([]AuthSet, error) { <-ctx.Done(); return nil, ctx.Err() }},
			testSource{"answers", func(ctx context.Context) ([]AuthSet, error) {
				return []AuthSet{{Origin{Kind: FromNode}, authForUsers("r.example", "u")}}, ctx.Err()
			}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		var wg sync.WaitGroup
		wg.Go(func() {
			res, err := k.Lookup(context.Background(), Request{Image: "r.example/a"})
			if err != nil || formatCredentials(res) != "r.example=u" || res.Attempts[0].Stage != StageSource {
				t.Errorf("%v: want the credential of the second source, and the failure of the first", err)
			}
		})
		wg.Wait()
	})
}

// TestAttemptKeys verifies that an attempt lists all auth keys of the response in lookup order,
// including keys that do not match.
func TestAttemptKeys(t *testing.T) {
	answer := staticProvider{CacheKeyType: plugin.CacheRegistry, Auth: authForUsers("r.example", "u", "*.example", "v", "other.example/x", "w")}
	k := newProvidersKeyring(t, Options{}, answer)
	res := must.Get(k.Lookup(t.Context(), Request{Image: "r.example/a"}))(t)
	if diff := cmp.Diff([]string{"r.example", "other.example/x", "*.example"}, res.Attempts[0].Keys); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
