// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// twoProvidersConfig returns a configuration with two providers. Each is for a different registry.
func twoProvidersConfig() *config.Config {
	entry := func(name, pattern string) config.Provider {
		return config.Provider{Name: name, MatchImages: []string{pattern}, DefaultCacheDuration: new(time.Hour), APIVersion: plugin.V1,
			Env: []config.EnvVar{{Name: testPlugin, Value: plugin.NewSecret("new")}}}
	}
	return &config.Config{Providers: []config.Provider{entry("a", "a.example"), entry("b", "b.example")}}
}

// newCountingKeyring returns a keyring for the configuration two, and the number of execs by provider.
func newCountingKeyring(t *testing.T, opts Options) (*Keyring, map[string]*atomic.Int32) {
	t.Helper()
	execs := map[string]*atomic.Int32{"a": {}, "b": {}, "c": {}}
	opts.Observer = func(e Event) {
		if e.Kind == EventExec {
			execs[e.Provider].Add(1)
		}
	}
	k := must.Get(New(twoProvidersConfig(), opts))(t)
	t.Cleanup(func() { k.Close() })
	return k, execs
}

// TestReloadUnderLoad does 100,000 lookups in eight goroutines. Meanwhile it reloads valid and
// invalid configurations.
func TestReloadUnderLoad(t *testing.T) {
	in := map[string]plugin.Provider{"a": responseForImage("a"), "b": responseForImage("b")}
	k, execs := newCountingKeyring(t, Options{BinDir: "none", InProcess: in})
	var lookups, changed atomic.Int32
	stop := make(chan struct{})
	var reloads, load sync.WaitGroup
	reloads.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			c := twoProvidersConfig()
			if i%3 == 1 { // b changes in every third configuration
				c.Providers[1].Args = []plugin.Secret{plugin.NewSecret("--other")}
			}
			if err := k.Reload(c); err != nil {
				t.Error(err)
			}
			changed.Add(1)
			c = twoProvidersConfig()
			c.Providers[0].APIVersion = "bad"
			if err := k.Reload(c); err == nil {
				t.Error("a bad configuration is accepted")
			}
		}
	})
	for n := range 8 {
		load.Go(func() {
			for i := range 100_000 / 8 {
				host := []string{"a.example", "b.example"}[(n+i)%2]
				res, err := k.Lookup(t.Context(), Request{Image: host + "/app"})
				if err != nil || len(res.Credentials) != 1 || res.Credentials[0].Username != host[:1] {
					t.Errorf("%s: %v, %v", host, res, err)
					return
				}
				lookups.Add(1)
			}
		})
	}
	load.Wait()
	close(stop)
	reloads.Wait()
	if n := execs["a"].Load(); n != 1 {
		t.Errorf("the unchanged provider ran %d times, want once", n)
	}
	if lookups.Load() != 100_000 || changed.Load() < 3 {
		t.Errorf("%d lookups during %d reloads", lookups.Load(), changed.Load())
	}
}

func TestReload(t *testing.T) {
	dir := testBinDir(t, "a", "b", "c")
	k, execs := newCountingKeyring(t, Options{BinDir: dir, Environ: testEnviron()})
	look := func() string {
		t.Helper()
		var said []string
		for _, host := range []string{"a.example", "b.example", "c.example"} {
			res := must.Get(k.Lookup(t.Context(), Request{Image: host + "/app"}))(t)
			for _, a := range res.Attempts {
				said = append(said, fmt.Sprint(a.Provider, a.Index, " ", a.Cache, " ", strings.TrimSpace(res.Credentials[0].Username)))
			}
		}
		return strings.Join(said, ", ")
	}
	reload := func(change func(c *config.Config)) error {
		c := twoProvidersConfig()
		change(c)
		return k.Reload(c)
	}
	edited := twoProvidersConfig() // the caller changes this configuration after Reload
	for _, step := range []struct {
		name   string
		change func() error
		want   string
	}{
		{"cold", func() error { return nil }, "a0 miss , b1 miss "},
		{"the same", func() error { return k.Reload(twoProvidersConfig()) }, "a0 hit , b1 hit "},
		{"another order", func() error {
			return reload(func(c *config.Config) { c.Providers[0], c.Providers[1] = c.Providers[1], c.Providers[0] })
		}, "a1 hit , b0 hit "},
		{"one entry", func() error {
			return reload(func(c *config.Config) { c.Providers[1].Args = []plugin.Secret{plugin.NewSecret("x")} })
		}, "a0 hit , b1 miss x"},
		{"the same list, changed", func() error {
			err := k.Reload(edited)
			edited.Providers[0].Env[0].Value = plugin.NewSecret("old-and-broken")
			edited.Providers[0].Env[0].Value = plugin.NewSecret("new")
			edited.Providers[0].Args = []plugin.Secret{plugin.NewSecret("y")}
			return errors.Join(err, k.Reload(edited))
		}, "a0 miss y, b1 miss "},
		{"a value that it points to, changed", func() error {
			*edited.Providers[1].DefaultCacheDuration = time.Minute
			return k.Reload(edited)
		}, "a0 hit y, b1 miss "},
		{"without it, and another", func() error {
			return reload(func(c *config.Config) { c.Providers[0].Name, c.Providers[0].MatchImages = "c", []string{"c.example"} })
		}, "b1 miss , c0 miss "},
		{"back again", func() error { return k.Reload(twoProvidersConfig()) }, "a0 miss , b1 hit "},
	} {
		if err := step.change(); err != nil {
			t.Fatal(step.name, err)
		}
		if got := look(); got != step.want {
			t.Errorf("%s: got %q, want %q", step.name, got, step.want)
		}
	}

	before := execs["a"].Load()
	for name, c := range map[string]*config.Config{
		"nil":         nil,
		"twice":       {Providers: append(twoProvidersConfig().Providers, twoProvidersConfig().Providers...)},
		"a bad name":  {Providers: []config.Provider{{Name: "../a", MatchImages: []string{"a.example"}, DefaultCacheDuration: new(time.Hour), APIVersion: plugin.V1}}},
		"no versions": {Providers: []config.Provider{{Name: "a", MatchImages: []string{"a.example"}, DefaultCacheDuration: new(time.Hour)}}},
	} {
		if err := k.Reload(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if got := look(); got != "a0 hit , b1 hit " || execs["a"].Load() != before {
			t.Errorf("%s: got %q", name, got)
		}
	}
	k.Close()
	if err := k.Reload(twoProvidersConfig()); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestReloadBinary verifies that Reload treats a provider as changed if its executable was
// replaced by another file with the same name.
func TestReloadBinary(t *testing.T) {
	dir, other := testBinDir(t, "a", "b"), t.TempDir()
	k, execs := newCountingKeyring(t, Options{BinDir: dir, Environ: testEnviron()})
	look := func(image string) {
		t.Helper()
		must.Get(k.Lookup(t.Context(), Request{Image: image}))(t)
	}
	look("a.example/x")
	look("b.example/x")
	self := must.Get(os.ReadFile(filepath.Join(dir, "a")))(t)
	copied := filepath.Join(other, "a")
	must.Do(t, os.WriteFile(copied, self, 0o700))
	must.Do(t, os.Rename(copied, filepath.Join(dir, "a")))
	must.Do(t, k.Reload(twoProvidersConfig()))
	look("a.example/x")
	look("b.example/x")
	if a, b := execs["a"].Load(), execs["b"].Load(); a != 2 || b != 1 {
		t.Errorf("%d and %d execs, want 2 of the one that was replaced and 1 of the other", a, b)
	}
	must.Do(t, os.Chtimes(filepath.Join(dir, "a"), time.Time{}, time.Now().Add(time.Hour)))
	must.Do(t, k.Reload(twoProvidersConfig()))
	if look("a.example/x"); execs["a"].Load() != 3 {
		t.Error("a plugin that was overwritten keeps its cached responses")
	}

	// Replace the executable by a file with the same size and modification time, as an archive
	// may do.
	if runtime.GOOS == "windows" {
		return
	}
	info := must.Get(os.Stat(filepath.Join(dir, "a")))(t)
	time.Sleep(20 * time.Millisecond) // longer than the resolution of file times
	f := must.Get(os.OpenFile(filepath.Join(dir, "a"), os.O_WRONLY, 0))(t)
	_, err := f.Write(self[:100])
	if err := errors.Join(err, f.Close(), os.Chtimes(filepath.Join(dir, "a"), info.ModTime(), info.ModTime()), k.Reload(twoProvidersConfig())); err != nil {
		t.Fatal(err)
	}
	if look("a.example/x"); execs["a"].Load() != 4 {
		t.Error("a plugin with its old modification time keeps its cached responses")
	}
}

// TestReloadBinaryThereAndBack replaces an executable for a while. It verifies that responses
// of the temporary executable are dropped when the previous executable is restored.
func TestReloadBinaryThereAndBack(t *testing.T) {
	one, other := testBinDir(t, "a", "b"), t.TempDir()
	self := must.Get(os.ReadFile(filepath.Join(one, "a")))(t)
	must.Do(t, os.WriteFile(filepath.Join(other, "a"), self, 0o700))
	current := filepath.Join(t.TempDir(), "current")
	point := func(dir string) {
		t.Helper()
		os.Remove(current)
		must.Do(t, os.Symlink(dir, current))
	}
	point(one)
	k, execs := newCountingKeyring(t, Options{BinDir: current, Environ: testEnviron()})
	point(other)
	look := func() {
		t.Helper()
		must.Get(k.Lookup(t.Context(), Request{Image: "a.example/x"}))(t)
	}
	look() // runs the temporary executable
	point(one)
	must.Do(t, k.Reload(twoProvidersConfig()))
	if look(); execs["a"].Load() != 2 {
		t.Errorf("%d execs, want 2: the response was the other's", execs["a"].Load())
	}
}

// TestReloadEndsRefreshes verifies that Reload cancels the background refreshes of a removed
// provider.
func TestReloadEndsRefreshes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		calls := 0
		in := plugin.ProviderFunc(func(ctx context.Context, _ *plugin.Request) (*plugin.Response, error) {
			if calls++; calls == 1 {
				return &plugin.Response{CacheKeyType: plugin.CacheGlobal, CacheDuration: new(time.Minute), Auth: authForUsers("a.example", "u")}, nil
			}
			running.Add(1)
			defer running.Add(-1)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		k, _ := newCountingKeyring(t, Options{BinDir: "none", InProcess: map[string]plugin.Provider{"a": in}, RefreshAhead: 30 * time.Second})
		for range 2 { // a cache miss, and later a hit near the end of the entry's lifetime
			must.Get(k.Lookup(t.Context(), Request{Image: "a.example/x"}))(t)
			if running.Load() == 0 {
				time.Sleep(50 * time.Second)
			}
		}
		synctest.Wait()
		if running.Load() != 1 {
			t.Fatal("no refresh was begun")
		}
		c := twoProvidersConfig()
		c.Providers = c.Providers[1:]
		must.Do(t, k.Reload(c))
		synctest.Wait()
		if n := running.Load(); n != 0 {
			t.Errorf("%d runs for nobody", n)
		}
	})
}

// TestReloadBeginsNoRefreshes verifies that a lookup that still uses the previous configuration
// does not start a refresh.
func TestReloadBeginsNoRefreshes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		close(hold)
		slow := sourceFunc(func() { <-hold })
		k, execs := newCountingKeyring(t, Options{BinDir: "none", InProcess: map[string]plugin.Provider{"a": responseForImage("a")}, Sources: []Source{slow}, RefreshAhead: 30 * time.Minute})
		lookup := func() {
			if _, err := k.Lookup(t.Context(), Request{Image: "a.example/x"}); err != nil {
				t.Error(err)
			}
		}
		lookup()
		time.Sleep(time.Hour - time.Minute)
		hold = make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(lookup)
		synctest.Wait()
		c := twoProvidersConfig()
		c.Providers = c.Providers[1:]
		must.Do(t, k.Reload(c))
		close(hold)
		wg.Wait()
		synctest.Wait()
		if n := execs["a"].Load(); n != 1 {
			t.Errorf("%d execs, want 1: the response is for nobody", n)
		}
	})
}

// sourceFunc is a source that calls a function and returns no credentials.
type sourceFunc func()

func (sourceFunc) Name() string { return "source" }

func (f sourceFunc) Auths(context.Context, string) ([]AuthSet, error) {
	f()
	return nil, nil
}

// TestOptionsAreCopied verifies that a caller may change the maps and slices in its Options
// after New.
func TestOptionsAreCopied(t *testing.T) {
	in := map[string]plugin.Provider{"a": responseForImage("a"), "b": responseForImage("b")}
	k, _ := newCountingKeyring(t, Options{BinDir: "none", InProcess: in})
	clear(in)
	c := twoProvidersConfig()
	c.Providers[0].Args = []plugin.Secret{plugin.NewSecret("x")}
	must.Do(t, k.Reload(c))
	if _, err := k.Lookup(t.Context(), Request{Image: "a.example/x"}); err != nil {
		t.Error(err)
	}
}

// TestReloadDuringALookup verifies that a lookup uses the configuration with which it started,
// even if Reload replaces the configuration.
func TestReloadDuringALookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) {
			time.Sleep(time.Second)
			return &plugin.Response{CacheKeyType: plugin.CacheGlobal, Auth: authForUsers("a.example", "u")}, nil
		})
		k, _ := newCountingKeyring(t, Options{BinDir: "none", InProcess: map[string]plugin.Provider{"a": slow}})
		done := make(chan error)
		go func() {
			_, err := k.Lookup(t.Context(), Request{Image: "a.example/x"})
			done <- err
		}()
		time.Sleep(time.Millisecond)
		c := twoProvidersConfig()
		c.Providers = c.Providers[1:]
		if err := k.Reload(c); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if res, err := k.Lookup(t.Context(), Request{Image: "a.example/x"}); err != nil || len(res.Attempts) != 0 {
			t.Errorf("afterwards: %v, %v", res, err)
		}
	})
}

// TestResultLeavesTheKeyring verifies that a Result or an error that a caller keeps does not
// keep the keyring or other credentials in memory.
func TestResultLeavesTheKeyring(t *testing.T) {
	var kept []any
	gone := func() []func() bool {
		in := map[string]plugin.Provider{"a": responseForImage("a"), "b": plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) {
			return nil, errors.New("broken")
		})}
		k := must.Get(New(twoProvidersConfig(), Options{InProcess: in, ServiceAccounts: &staticAccounts{}, Sources: []Source{&misbehavingClient{}}}))(t)
		defer k.Close()
		for _, image := range []string{"a.example/x", "b.example/x"} {
			res, err := k.Lookup(t.Context(), Request{Image: image})
			if (err == nil) != (image == "a.example/x") {
				t.Fatal(err)
			}
			kept = append(kept, res.Attempts, res.Credentials, err)
		}
		g := k.compiled.Load()
		r := g.runners[0]
		all := []func() bool{collectedFunc(k), collectedFunc(k.env), collectedFunc(g), collectedFunc(r), collectedFunc(g.runners[1]), collectedFunc(r.cache)}
		for _, a := range r.cache.entries {
			all = append(all, collectedFunc(a))
		}
		return all
	}()
	if len(gone) != 7 {
		t.Errorf("%d things are watched, want 7", len(gone))
	}
	for i, gone := range gone {
		for try := 0; try < 10 && !gone(); try++ {
			runtime.GC()
			time.Sleep(10 * time.Millisecond) // wait for the garbage collector
		}
		if !gone() {
			t.Errorf("%d is still there", i)
		}
	}
	runtime.KeepAlive(kept)
}

// collectedFunc returns a function that reports whether *p was garbage collected.
func collectedFunc[T any](p *T) (gone func() bool) {
	at := weak.Make(p)
	return func() bool { return at.Value() == nil }
}

func TestNewRefuses(t *testing.T) {
	in := map[string]plugin.Provider{"a": responseForImage("a"), "b": responseForImage("b")}
	badName, badPattern, noDefault := twoProvidersConfig(), twoProvidersConfig(), twoProvidersConfig()
	badName.Providers[1].Name = "../../../bin/sh"
	badPattern.Providers[0].MatchImages = []string{"a:b:c"}
	noDefault.Providers[0].DefaultCacheDuration = nil
	noFlag := oneProviderConfig(testTokenAttributes(config.CachePerToken))
	noFlag.Providers[0].TokenAttributes.RequireServiceAccount = nil
	for name, tt := range map[string]struct {
		c    *config.Config
		opts Options
		want string
	}{
		"nil":                    {nil, Options{BinDir: "d"}, "keyring: the configuration is nil"},
		"a name that is a path":  {badName, Options{BinDir: "d"}, "keyring: providers[1].name: must be a file name in the kubelet's --image-credential-provider-bin-dir, without slashes: \"../../../bin/sh\""},
		"a pattern":              {badPattern, Options{BinDir: "d"}, "keyring: providers[0].matchImages[0]: invalid pattern for the kubelet: the text after the first colon in the host is not a port: \"a:b:c\""},
		"no duration":            {noDefault, Options{BinDir: "d"}, "keyring: providers[0].defaultCacheDuration: required: "},
		"no flag":                {noFlag, Options{BinDir: "d"}, "keyring: providers[0].tokenAttributes.requireServiceAccount: "},
		"no BinDir":              {twoProvidersConfig(), Options{}, `keyring: Options.BinDir is required: provider "a" is an executable`},
		"no BinDir for one":      {twoProvidersConfig(), Options{InProcess: map[string]plugin.Provider{"a": responseForImage("a")}}, `keyring: Options.BinDir is required: provider "b" is an executable`},
		"none needed":            {twoProvidersConfig(), Options{InProcess: in}, ""},
		"no provider, no file":   {&config.Config{}, Options{}, ""},
		"in process, misspelled": {twoProvidersConfig(), Options{BinDir: "d", InProcess: map[string]plugin.Provider{"A": responseForImage("a")}}, `keyring: Options.InProcess: the configuration has no provider "A"`},
	} {
		k, err := New(tt.c, tt.opts)
		if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
		if err == nil {
			k.Close()
		}
	}
	_, err := New(badName, Options{BinDir: "d"})
	if fe, ok := errors.AsType[*config.FieldError](err); !ok || fe.Path != "providers[1].name" {
		t.Errorf("the cause is not to be had: %v", err)
	}
}

// TestCommandOptions verifies that the options for executables are set in the plugin.Command.
func TestCommandOptions(t *testing.T) {
	work := t.TempDir()
	k, err := New(twoProvidersConfig(), Options{BinDir: testBinDir(t, "a", "b"),
		Dir: work, Environ: append(testEnviron(), "REGION=here"), MaxOutput: 10, Timeout: time.Minute, Grace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	res, err := k.Lookup(t.Context(), Request{Image: "a.example/x"})
	if err == nil || res.Attempts[0].Stage != plugin.StageOutput {
		t.Errorf("got %v at stage %q, want a failure of the response's length", err, res.Attempts[0].Stage)
	}
	want := plugin.Command{Path: filepath.Join("bin", "a"), Name: "a", APIVersion: plugin.V1, Env: plugin.NewSecrets(testPlugin + "=new"),
		Dir: work, Environ: []string{"A=B"}, MaxOutput: 10, Timeout: time.Hour, Grace: time.Second}
	h := newKeyringEnv(Options{BinDir: "bin", Dir: work, Environ: []string{"A=B"}, MaxOutput: 10, Timeout: time.Hour, Grace: time.Second})
	if diff := cmp.Diff(plugin.Provider(want), newProvider(h, &twoProvidersConfig().Providers[0], nil)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestRegistryAgainstPaths verifies that a registry lookup reports a provider as skipped if its
// pattern has a path.
func TestRegistryAgainstPaths(t *testing.T) {
	c := twoProvidersConfig()
	c.Providers[0].MatchImages = []string{"other.example/x", "r.example/team", "r.example/b", "*.example/z"}
	c.Providers[1].MatchImages = []string{"r.example/team", "r.example"}
	third := c.Providers[0]
	third.Name, third.MatchImages = "c", []string{"s.example", "r.example:5000/x"}
	c.Providers = append(c.Providers, third)
	in := map[string]plugin.Provider{"a": responseForImage("a"), "b": responseForImage("b"), "c": responseForImage("c")}
	k := must.Get(New(c, Options{InProcess: in}))(t)
	defer k.Close()
	for registry, want := range map[string]string{
		"r.example":      "a0 r.example/team skipped, b1 r.example",
		"x.example":      "a0 *.example/z skipped",
		"r.example:5000": "c2 r.example:5000/x skipped",
		"s.example":      "a0 *.example/z skipped, c2 s.example",
		"other.io":       "",
	} {
		res, err := k.Lookup(t.Context(), Request{Registry: registry})
		if err != nil {
			t.Fatal(registry, err)
		}
		var said []string
		for _, a := range res.Attempts {
			s := fmt.Sprint(a.Provider, a.Index, " ", a.Pattern)
			if a.Skipped != "" {
				s += " skipped"
			}
			if (a.Skipped == "") != (a.Matched == 1) {
				t.Errorf("%s: %d credentials of %s", registry, a.Matched, s)
			}
			said = append(said, s)
		}
		if got := strings.Join(said, ", "); got != want {
			t.Errorf("%s: got %q, want %q", registry, got, want)
		}
	}
	if res, err := k.Lookup(t.Context(), Request{Image: "r.example/other"}); err != nil || len(res.Attempts) != 1 {
		t.Errorf("an image: %v, %v", res, err)
	}
}

// TestReloadMovesMasks verifies that the mask of a redacted argument contains the argument's
// current line, even if Reload keeps the provider.
func TestReloadMovesMasks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	load := func(before string) *config.Config {
		t.Helper()
		text := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n" + before + `- name: a
  matchImages: [a.example]
  defaultCacheDuration: 1h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  env: [{name: ` + testPlugin + `, value: refuses}]
  args: [--quiet, ` + canary.ArgSecret + "]\n"
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		return must.Get(config.Load(file))(t)
	}
	k := must.Get(New(load(""), Options{BinDir: testBinDir(t, "a", "b"), Environ: testEnviron()}))(t)
	defer k.Close()
	const other = "- name: b\n  matchImages: [b.example]\n  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n"
	for _, tt := range []struct{ before, place string }{{"", "args[1], " + file + ":9"}, {"# moved\n", "args[1], " + file + ":10"}, {other, "args[1], " + file + ":13"}} {
		c := load(tt.before)
		must.Do(t, k.Reload(c))
		c.Providers = nil // as if the caller changed the configuration
		res, err := k.Lookup(t.Context(), Request{Image: "a.example/" + strconv.Itoa(len(tt.before))})
		if err == nil {
			t.Fatal("the plugin does not fail")
		}
		text := fmt.Sprint(err, res.Attempts[0].Err)
		canary.AssertAbsent(t, "error", text)
		if want := "[redacted: " + tt.place + "]"; !strings.Contains(text, want) {
			t.Errorf("%s, want %s in it", text, want)
		}
	}
}
