// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// scene is a plan with providers in process.
type scene struct {
	plan *Plan
	x    *Exchanger

	mu       sync.Mutex
	calls    map[string]int // by provider
	notified map[Waiter]int
	respond  func(provider string, req *plugin.Request) (*plugin.Response, error)
}

const providerConfig = `
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: shared
  matchImages: ["*.example", "docker.io"]
  defaultCacheDuration: 1h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
- name: token
  matchImages: [a.example]
  defaultCacheDuration: 1h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  tokenAttributes: {serviceAccountTokenAudience: a.example, cacheType: ServiceAccount, requireServiceAccount: true}
`

func newScene(t *testing.T, rules string) *scene {
	t.Helper()
	s := &scene{calls: map[string]int{}, notified: map[Waiter]int{}}
	s.respond = func(provider string, req *plugin.Request) (*plugin.Response, error) {
		return response(plugin.CacheGlobal, time.Hour, canary.PasswordSecret), nil
	}
	file := must.Get(Parse("f.yaml", []byte(header+selected+"serviceAccounts: [app]\nrules: "+rules)))(t)
	s.plan = NewPlan(file, must.Get(config.Parse("c.yaml", []byte(providerConfig)))(t))
	s.x = NewExchanger(s.plan.Config, ExchangerOptions{
		Plugin: func(name string) plugin.Provider {
			return plugin.ProviderFunc(func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
				s.mu.Lock()
				s.calls[name]++
				respond := s.respond
				s.mu.Unlock()
				return respond(name, req)
			})
		},
		ServiceAccounts: func(a Account) regcred.ServiceAccountClient { return accounts{} },
		Notify:          func(w Waiter) { s.mu.Lock(); defer s.mu.Unlock(); s.notified[w]++ },
	})
	t.Cleanup(s.x.Close)
	return s
}

func response(scope plugin.CacheKeyType, d time.Duration, password string) *plugin.Response {
	return &plugin.Response{CacheKeyType: scope, CacheDuration: &d, Auth: map[string]plugin.AuthConfig{
		"*.example": {Username: "u", Password: plugin.NewSecret(password)},
		"docker.io": {Username: "u", Password: plugin.NewSecret(password)},
	}}
}

// accounts knows every service account.
type accounts struct{}

func (accounts) GetServiceAccount(_ context.Context, namespace, name string) (*regcred.ServiceAccount, error) {
	return &regcred.ServiceAccount{Namespace: namespace, Name: name, UID: "1"}, nil
}

func (accounts) RequestToken(context.Context, regcred.TokenRequest) (plugin.Secret, error) {
	return plugin.NewSecret("token"), nil
}

// get calls Get for a namespace's shared Secret and waits for the round.
func (s *scene) get(namespace string) Outcome {
	targets := s.plan.SharedTargets("shared")
	w := Waiter{namespace, "regcred-pull"}
	o := s.x.Get(Account{}, "shared", targets, w)
	if o.Pending {
		synctest.Wait()
		return s.x.Get(Account{}, "shared", targets, w)
	}
	return o
}

func TestOneExchangeServesAllNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "[{registries: [a.example, b.example, docker.io]}]")
		served := 0 // the round may end before the last call
		for i := range 100 {
			if o := s.x.Get(Account{}, "shared", s.plan.SharedTargets("shared"), Waiter{fmt.Sprint(i), "s"}); !o.Pending {
				served++
			}
		}
		synctest.Wait()
		if s.calls["shared"] != 1 || served+len(s.notified) != 100 {
			t.Errorf("%d calls, %d of 100 namespaces served, %d notified", s.calls["shared"], served, len(s.notified))
		}
		for h := range 24 { // a day of one-hour credentials
			for range 60 {
				time.Sleep(time.Minute)
				o := s.get("n")
				for target, c := range o.Credentials {
					if !time.Now().Before(c.Expires) {
						t.Errorf("hour %d: %s expired", h, target)
					}
				}
			}
		}
		if got := s.calls["shared"]; got < 36 || got > 46 { // every 33 to 36 minutes
			t.Errorf("%d calls in a day", got)
		}
		s.x.Close()
	})
}

func TestRegistryScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "[{registries: [a.example, b.example], images: [a.example/x]}]")
		s.respond = func(_ string, req *plugin.Request) (*plugin.Response, error) {
			return response(plugin.CacheRegistry, time.Hour, "of "+req.Registry()), nil
		}
		o := s.get("n")
		if s.calls["shared"] != 2 || len(o.Credentials) != 3 {
			t.Errorf("%d calls, %d credentials", s.calls["shared"], len(o.Credentials))
		}
		s.x.Close()
	})
}

func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "[{registries: [a.example]}]")
		target := Target{Registry: "a.example"}
		first := s.get("n").Credentials[target]
		s.respond = func(string, *plugin.Request) (*plugin.Response, error) { return nil, errors.New("cloud down") }
		time.Sleep(time.Until(first.Refresh))
		start := time.Now()
		for range 24 * 60 * 6 {
			o := s.get("n")
			if c, ok := o.Credentials[target]; !ok || c.Expires != first.Expires || !strings.Contains(fmt.Sprint(o.Errors[target]), "cloud down") {
				t.Fatalf("after %v: %v", time.Since(start), o.Errors)
			}
			time.Sleep(10 * time.Second)
		}
		if got := s.calls["shared"]; got < 280 || got > 400 { // 24 hours with at most 5 minutes of backoff
			t.Errorf("%d calls in 24 hours without the cloud", got)
		}
		s.respond = func(string, *plugin.Request) (*plugin.Response, error) {
			return response(plugin.CacheGlobal, time.Hour, "new"), nil
		}
		time.Sleep(maxBackoff)
		if o := s.get("n"); len(o.Errors) > 0 || o.Credentials[target].auth.Password.Reveal() != "new" {
			t.Errorf("not refreshed when the cloud is back: %v", o.Errors)
		}
		s.x.Close()
	})
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &targetState{}
		err := fmt.Errorf("token: %w", &apierrors.StatusError{ErrStatus: metav1.Status{
			Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Details: &metav1.StatusDetails{RetryAfterSeconds: 600},
		}})
		now := time.Now()
		s.update(callResult{err: err}, now)
		if s.next != now.Add(600*time.Second) {
			t.Errorf("retry after %v", s.next.Sub(now))
		}
	})
}

func TestBadCredentials(t *testing.T) {
	for name, auth := range map[string]plugin.AuthConfig{
		"colon":  {Username: "a:b", Password: plugin.NewSecret(canary.PasswordSecret)},
		"empty":  {},
		"binary": {Username: "u", Password: plugin.NewSecret(canary.PasswordSecret + "\xff")},
		"NUL":    {Username: "u", Password: plugin.NewSecret(canary.PasswordSecret + "\x00")},
		"old":    {Username: "u", Password: plugin.NewSecret(ecrPassword(time.Unix(1, 0)))},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, "[{registries: [a.example]}]")
				s.respond = func(string, *plugin.Request) (*plugin.Response, error) {
					return &plugin.Response{CacheKeyType: plugin.CacheGlobal, Auth: map[string]plugin.AuthConfig{"a.example": auth}}, nil
				}
				o := s.get("n")
				if len(o.Errors) != 1 || len(o.Credentials) != 0 {
					t.Errorf("%v", o)
				}
				canary.AssertAbsent(t, "the errors", fmt.Sprint(o.Errors))
				s.x.Close()
			})
		})
	}
}

func TestAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "[{registries: [a.example]}]")
		var seen []string
		s.respond = func(name string, req *plugin.Request) (*plugin.Response, error) {
			seen = append(seen, name+" "+req.ServiceAccountToken.Reveal())
			return response(plugin.CacheGlobal, time.Hour, "p"), nil
		}
		plan, ok := s.plan.Secret(map[string]string{"regcred.dev/pull-secrets": "enabled"}, "regcred-pull-app")
		if want := []ProviderTargets{{"token", []Target{{Registry: "a.example"}}}}; !ok || cmp.Diff(want, plan.Providers) != "" {
			t.Fatalf("%v %v", plan, ok)
		}
		for _, namespace := range []string{"one", "two", "one"} {
			s.x.Get(Account{namespace, "app"}, "token", plan.Providers[0].Targets, Waiter{namespace, plan.Name})
			synctest.Wait()
		}
		if want := []string{"token token", "token token"}; !slices.Equal(want, seen) {
			t.Errorf("calls %q, want one for each account", seen)
		}
		s.x.Forget(Account{"one", "app"})
		if o := s.x.Get(Account{"one", "app"}, "token", plan.Providers[0].Targets, Waiter{}); !o.Pending {
			t.Error("not forgotten")
		}
		synctest.Wait()
		s.x.Close()
	})
}

func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "[{registries: [a.example]}]")
		s.get("n")
		time.Sleep(time.Minute)
		s.x.Reload(must.Get(config.Parse("c.yaml", []byte(providerConfig)))(t))
		if s.get("n"); s.calls["shared"] != 1 || !s.x.Replaced("shared").IsZero() {
			t.Errorf("%d calls after a reload without changes", s.calls["shared"])
		}
		s.x.Reload(must.Get(config.Parse("c.yaml", []byte(strings.Replace(providerConfig, "  defaultCacheDuration: 1h", "  defaultCacheDuration: 1h\n  args: [x]", 1))))(t))
		if s.get("n"); s.calls["shared"] != 2 || s.x.Replaced("shared") != time.Now() {
			t.Errorf("%d calls after a changed argument", s.calls["shared"])
		}
		s.x.Close()
	})
}

func ecrPassword(expires time.Time) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `{"payload":"x","datakey":"y","version":"2","type":"DATA_KEY","expiration":%d}`, expires.Unix()))
}

func TestCredentialExpiry(t *testing.T) {
	at := time.Unix(1800000000, 0)
	jwt := "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":1800000000}`)) + ".e30"
	for password, want := range map[string]time.Time{
		ecrPassword(at): at, jwt: at, "password": {}, base64.StdEncoding.EncodeToString([]byte(`{"expiration":1800000000}`)): {},
	} {
		if got := credentialExpiry(password); !got.Equal(want) {
			t.Errorf("%s: %v", password, got)
		}
	}
}

func TestRefreshTime(t *testing.T) {
	at := time.Unix(1800000000, 0)
	for _, tt := range []struct {
		life     time.Duration
		spread   float64
		want     time.Duration
		unlisted bool
	}{
		{life: time.Hour, want: 36 * time.Minute}, {life: time.Hour, spread: 1, want: 32*time.Minute + 24*time.Second},
		{life: time.Second, want: minRefresh}, {life: 1000 * time.Hour, want: maxRefresh}, {unlisted: true, want: 6 * time.Minute},
	} {
		expires := at.Add(tt.life)
		if tt.unlisted {
			expires = time.Time{}
		}
		if got := refreshTime(at, expires, tt.spread).Sub(at).Round(time.Second); got != tt.want {
			t.Errorf("life %v: refreshed after %v, want %v", tt.life, got, tt.want)
		}
	}
	for failures := 1; failures < 100; failures++ {
		want := min(time.Second<<min(failures-1, 20), maxBackoff)
		if d := backoffDelay(failures); d > want || d < want*3/4-1 {
			t.Errorf("%d failures: %v", failures, d)
		}
	}
}

func TestPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, "[{registries: [a.example, c.other]}, {namespaces: {matchLabels: {team: b}}, images: [b.example/x]}]")
		labels := map[string]string{"regcred.dev/pull-secrets": "enabled"}
		if got := s.plan.Secrets(map[string]string{"regcred.dev/pull-secrets": "no"}); got != nil {
			t.Errorf("not selected: %v", got)
		}
		all, b := s.plan.Secrets(labels), maps.Clone(labels)
		b["team"] = "b"
		ofB := s.plan.Secrets(b)
		if got := fmt.Sprint(all[0].Providers, ofB[0].Providers, all[1].Providers); got != "[{shared [a.example]}] [{shared [a.example b.example/x]}] [{token [a.example]}]" {
			t.Error(got)
		}
		if all[0].Hash == ofB[0].Hash || all[0].Hash == all[1].Hash {
			t.Error("the hash does not depend on the targets")
		}
		if got := s.plan.Unmatched(); fmt.Sprint(got) != "[c.other]" {
			t.Errorf("unmatched: %v", got)
		}
	})
}
