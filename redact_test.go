// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// TestResultJSON verifies that the JSON contains everything except passwords.
func TestResultJSON(t *testing.T) {
	failing := plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) { return nil, errors.New("boom") })
	k := newProvidersKeyring(t, Options{}, staticProvider{CacheKeyType: plugin.CacheRegistry, Auth: authForUsers("r.io", "u")}, failing)
	res := must.Get(k.Lookup(t.Context(), Request{Image: "r.io/x"}))(t)
	for i := range res.Attempts {
		res.Attempts[i].Duration, res.Attempts[i].CachedUntil = 1500*time.Millisecond, time.Time{}
	}
	res.Credentials[0].CachedUntil = time.Unix(0, 0).UTC()
	got := must.Get(json.MarshalIndent(res, "", " "))(t)
	canary.AssertAbsent(t, "JSON", string(got))
	want := `{
 "credentials": [
  {
   "match": "r.io",
   "username": "u",
   "provider": "p0",
   "origin": {
    "kind": "provider"
   },
   "cachedUntil": "1970-01-01T00:00:00Z"
  }
 ],
 "attempts": [
  {
   "kind": "provider",
   "provider": "p0",
   "index": 0,
   "pattern": "*.*",
   "cache": "miss",
   "cacheKey": "Registry",
   "keys": [
    "r.io"
   ],
   "matched": 1,
   "durationSeconds": 1.5
  },
  {
   "kind": "provider",
   "provider": "p1",
   "index": 1,
   "pattern": "*.*",
   "matched": 0,
   "stage": "exec",
   "durationSeconds": 1.5,
   "error": "plugin \"p1\": exec: boom"
  }
 ]
}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestNoVerbPrintsASecret prints a value of every exported type that contains a secret. It also
// prints pointers to such values, because package fmt does not call methods on the values
// behind them.
func TestNoVerbPrintsASecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: p
  matchImages: ["*.example"]
  defaultCacheDuration: 1h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: ["--token=`+canary.ArgSecret+`"]
  env: [{name: A, value: `+canary.EnvSecret+`}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := must.Get(config.Load(file))(t)
	opts := Options{BinDir: "none", Environ: []string{"X=" + canary.EnvSecret}, InProcess: map[string]plugin.Provider{
		"p": staticProvider{CacheKeyType: plugin.CacheRegistry, Auth: authForUsers("r.example", "u")},
	}}
	k := must.Get(New(c, opts))(t)
	defer k.Close()
	req := Request{Image: "r.example/x", Token: plugin.NewSecret(canary.TokenSecret), PullSecrets: []PullSecret{
		newPullSecret("kubernetes.io/dockercfg", ".dockercfg", `{"r.example":{"username":"a","password":"`+canary.PasswordSecret+`"}}`),
	}}
	res := must.Get(k.Lookup(t.Context(), req))(t)
	provider, set := &c.Providers[0], AuthSet{Auths: authForUsers("r.example", "u")}
	values := map[string]any{
		"Config": c, "File": c.Files()[0], "pointers to File": []*config.File{c.Files()[0]}, "Files": c.Files(), "Provider": *provider, "EnvVar": provider.Env[0], "pointers to EnvVar": []*config.EnvVar{&provider.Env[0]},
		"pointers to Provider": []*config.Provider{provider}, "no env": []*config.Provider{{Args: provider.Args}}, "Keyring": k, "Options": opts, "pointers to Options": []*Options{&opts},
		"Request": req, "pointers to Request": []*Request{&req}, "Result": res, "pointers to Result": []*Result{res},
		"Credential": res.Credentials[0], "pointers to Credential": []*Credential{&res.Credentials[0]},
		"AuthSet": set, "pointers to AuthSet": []*AuthSet{&set}, "PullSecret": req.PullSecrets[0], "pointers to PullSecret": []*PullSecret{&req.PullSecrets[0]},
	}
	decimal := strings.Trim(fmt.Sprint([]byte(canary.Marker)), "[]")
	for name, v := range values {
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "v", v)
		out := log.String()
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q"} {
			out += fmt.Sprintf(verb, v) + fmt.Sprintf(verb, struct{ V any }{v})
		}
		canary.AssertAbsent(t, name, out)
		if strings.Contains(out, decimal) {
			t.Errorf("%s holds a planted secret in decimal", name)
		}
	}
}
