// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

const (
	testHeader      = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n"
	outOfTreeHeader = "kind: RegistryCredentialConfig\napiVersion: v1alpha1\n"
)

// newOutOfTreeKeyring returns a keyring for a configuration of the out-of-tree proposal. Its plugins are
// the test binary. It also returns a list to which the image of each exec is added.
func newOutOfTreeKeyring(t *testing.T, content string) (*Keyring, *[]string) {
	t.Helper()
	c, err := config.Parse("f", []byte(content))
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range c.Providers {
		names = append(names, p.Name)
	}
	var execs []string
	k, err := New(c, Options{BinDir: testBinDir(t, names...), Environ: testEnviron(), Observer: func(e Event) {
		if e.Kind == EventExec {
			execs = append(execs, e.Image)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return k, &execs
}

// TestPredecessorBesideToday verifies that a plugin of the out-of-tree proposal and a plugin of
// the kubelet's protocol can serve the same lookup, each with its own protocol.
func TestPredecessorBesideToday(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"10-old.yaml": outOfTreeHeader + "providers: [{name: ecr-creds, imageMatchers: [a.example], extraArgs: {region: us-west-2}}, {name: second, imageMatchers: [b.example]}]\n",
		"20-new.yaml": testHeader + "providers: [{name: ecr, matchImages: [c.example], defaultCacheDuration: 12h, apiVersion: " + plugin.V1 + "}]\n",
		"30-old.json": `{"kind":"credentialprovider","apiVersion":"v1alpha1","providers":[{"name":"third","imageMatchers":["d.example"]}]}`,
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	c := must.Get(config.Load(dir))(t)
	for i := range c.Providers {
		p := &c.Providers[i]
		p.MatchImages = []string{"registry.example"}
		mode := config.EnvVar{Name: testPlugin, Value: plugin.NewSecret("old")}
		if p.APIVersion == plugin.V1 {
			p.Args, mode.Value = []plugin.Secret{plugin.NewSecret("get-credentials"), plugin.NewSecret("--new")}, plugin.NewSecret("new")
		}
		p.Env = append(p.Env, mode)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(dir, err)
	}
	k, err := New(c, Options{BinDir: testBinDir(t, "ecr-creds", "second", "ecr", "third"), Environ: append(testEnviron(), "REGION=of-the-host")})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for _, cache := range []CacheResult{CacheMiss, CacheHit} {
		res := must.Get(k.Lookup(t.Context(), Request{Image: "registry.example/team/app:v1"}))(t)
		want := "registry.example/team/app=get-credentials us-west-2 registry.example/team/app=get-credentials of-the-host registry.example/team/app=get-credentials of-the-host " +
			"registry.example=get-credentials --new of-the-host"
		if got := formatCredentials(res); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		var got []string
		for _, a := range res.Attempts {
			got = append(got, fmt.Sprint(a.Provider, " ", a.Cache))
		}
		wanted := []string{"ecr-creds miss", "second miss", fmt.Sprint("ecr ", cache), "third miss"}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("attempts (-want +got)\n%s", diff)
		}
		for _, c := range res.Credentials {
			if c.Password.Reveal() != canary.PasswordSecret {
				t.Errorf("%s: another password than the plugin's", c.Provider)
			}
			if c.Provider != "ecr" && !c.CachedUntil.IsZero() {
				t.Errorf("%s: cached until %v, and has no expirationTimestamp", c.Provider, c.CachedUntil)
			}
		}
	}
}

// TestPredecessorWithPluginMain verifies that a plugin with plugin.Main supports the protocol
// of the out-of-tree proposal. Its response for a registry is used only for the requested
// image.
func TestPredecessorWithPluginMain(t *testing.T) {
	k, execs := newOutOfTreeKeyring(t, outOfTreeHeader+"providers:\n- name: a\n  imageMatchers: [registry.example]\n  extraArgs: {regcred_test_plugin: new, region: here}\n")
	defer k.Close()
	for _, image := range []string{"registry.example/a", "registry.example/a", "registry.example/b"} {
		res := must.Get(k.Lookup(t.Context(), Request{Image: image}))(t)
		if got, want := formatCredentials(res), image+"=get-credentials here"; got != want {
			t.Errorf("%s: got %q, want %q", image, got, want)
		}
	}
	if diff := cmp.Diff([]string{"registry.example/a", "registry.example/b"}, *execs); diff != "" {
		t.Errorf("execs (-want +got)\n%s", diff)
	}
}

// TestPredecessorCache verifies that a response of the out-of-tree proposal is cached only for
// its image and until its expirationTimestamp.
func TestPredecessorCache(t *testing.T) {
	const one, other = "registry.example/a", "registry.example/b"
	type step struct {
		wait  time.Duration
		image string
		execs int // expected number of execs so far
	}
	for name, tt := range map[string]struct {
		expires time.Duration // expiry, relative to the start of the test; 0 means no timestamp
		steps   []step
	}{
		"until the timestamp": {10 * time.Minute, []step{
			{0, one, 1}, {0, one + ":tag", 1}, {9 * time.Minute, one, 1}, {59 * time.Second, one, 1}, {2 * time.Second, one, 2}}},
		"for that image alone": {time.Hour, []step{
			{0, one, 1}, {0, other, 2}, {0, one, 2}, {0, other, 2}, {0, "registry.example/a/b", 3}, {0, "registry.example:5000/a", 4}, {time.Minute, one, 4}}},
		"not without a timestamp":  {0, []step{{0, one, 1}, {0, one, 2}, {0, other, 3}}},
		"not with a past one":      {-time.Hour, []step{{0, one, 1}, {0, one, 2}}},
		"not with the present one": {time.Nanosecond, []step{{0, one, 1}, {0, one, 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				args := "{regcred_test_plugin: old, any: \"1\"}"
				if tt.expires != 0 {
					args = fmt.Sprintf("{regcred_test_plugin: old, any: \"1\", expires: %q}", time.Now().Add(tt.expires).Format(time.RFC3339))
				}
				k, execs := newOutOfTreeKeyring(t, outOfTreeHeader+"providers:\n- name: a\n  imageMatchers: [registry.example, \"registry.example:5000\"]\n  extraArgs: "+args+"\n")
				defer k.Close()
				for i, s := range tt.steps {
					time.Sleep(s.wait)
					res := must.Get(k.Lookup(t.Context(), Request{Image: s.image}))(t)
					if len(res.Credentials) != 1 || len(*execs) != s.execs {
						t.Errorf("step %d: %d credentials after %d execs, want 1 after %d", i, len(res.Credentials), len(*execs), s.execs)
					}
				}
			})
		})
	}
}

// TestPredecessorWrongProtocol verifies that an Attempt reports that a plugin uses the other
// protocol.
func TestPredecessorWrongProtocol(t *testing.T) {
	old := func(env string) string {
		return outOfTreeHeader + "providers:\n- name: p\n  imageMatchers: [registry.example]\n  extraArgs: {" + env + "}\n"
	}
	today := testHeader + "providers:\n- name: p\n  matchImages: [registry.example]\n  defaultCacheDuration: 1h\n  apiVersion: " + plugin.V1 + "\n" +
		"  env: [{name: " + testPlugin + ", value: old}, {name: ANY, value: \"1\"}]\n"
	for name, tt := range map[string]struct {
		content string
		stage   plugin.Stage
		want    string // text that the error must contain
	}{
		"today's answer to the predecessor's question": {old("regcred_test_plugin: only-new"), plugin.StageAPIVersion, "CredentialProviderResponse"},
		"the predecessor's answer to today's question": {today, plugin.StageAPIVersion, "RegistryCredentialPluginResponse"},
		"no zone in the timestamp":                     {old(`regcred_test_plugin: old, any: "1", expires: "2030-01-01T00:00:00"`), plugin.StageDecode, "expirationTimestamp"},
		"no date":                                      {old(`regcred_test_plugin: old, any: "1", expires: tomorrow`), plugin.StageDecode, "expirationTimestamp"},
	} {
		t.Run(name, func(t *testing.T) {
			k, _ := newOutOfTreeKeyring(t, tt.content)
			defer k.Close()
			res, err := k.Lookup(t.Context(), Request{Image: "registry.example/team/app"})
			var failed *LookupError
			if !errors.As(err, &failed) || len(res.Attempts) != 1 {
				t.Fatalf("got %v, want a LookupError", err)
			}
			a := res.Attempts[0]
			if a.Stage != tt.stage || !strings.Contains(fmt.Sprint(a.Err), tt.want) || !strings.Contains(fmt.Sprint(a.Err), `"p"`) {
				t.Errorf("stage %s, want %s; error %v", a.Stage, tt.stage, a.Err)
			}
			canary.AssertAbsent(t, "error", err.Error())
		})
	}
}
