// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kubelet_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	credentialproviderapi "k8s.io/kubelet/pkg/apis/credentialprovider"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/kubelet"
)

func TestMain(m *testing.M) {
	kubelet.DisableLog()
	os.Exit(m.Run())
}

const configSymbol = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: one
  matchImages: ["registry.example"]
  defaultCacheDuration: 1h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
`

const pluginScript = `#!/bin/sh
tee "$(dirname "$0")/stdin" >/dev/null
echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image","auth":{"registry.example":{"username":"u","password":"open-sesame"}}}'
`

func registerCredentialProviders(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), mode))
	}
	write("config.yaml", configSymbol, 0o600)
	write("one", pluginScript, 0o700)
	must.Do(t, kubelet.RegisterPlugins(filepath.Join(dir, "config.yaml"), dir, kubelet.TokenFuncs{}))
	return dir
}

// TestBridge verifies that the package uses the kubelet's own objects. A real process must read the
// same bytes that EncodeRequest returns, and registering twice must not panic.
func TestBridge(t *testing.T) {
	registerCredentialProviders(t)
	dir := registerCredentialProviders(t)
	creds, ok := kubelet.NewKeyring("", "", "", "").Lookup("registry.example/app")
	if !ok || len(creds) != 1 || creds[0].Username != "u" {
		t.Fatalf("Lookup through a real process: %d credentials, want 1", len(creds))
	}
	got := must.Get(os.ReadFile(filepath.Join(dir, "stdin")))(t)
	exec := must.Get(kubelet.ExecPluginAt(0))(t)
	want, err := exec.EncodeRequest("registry.example/app", "", nil)
	if err != nil || string(got) != string(want) || !strings.Contains(string(want), "registry.example/app") {
		t.Errorf("stdin of the process %q, EncodeRequest %q, %v", got, want, err)
	}
}

type stubPlugin struct{ calls int }

func (s *stubPlugin) ExecPlugin(context.Context, string, string, map[string]string) (*credentialproviderapi.CredentialProviderResponse, error) {
	s.calls++
	return &credentialproviderapi.CredentialProviderResponse{CacheKeyType: credentialproviderapi.GlobalPluginCacheKeyType}, nil
}

func TestSetPlugin(t *testing.T) {
	registerCredentialProviders(t)
	s := &stubPlugin{}
	must.Do(t, kubelet.SetPlugin(0, s))
	k := kubelet.NewKeyring("", "", "", "")
	k.Lookup("registry.example/a")
	k.Lookup("registry.example/b")
	if s.calls != 1 {
		t.Errorf("the plugin ran %d times, want 1: its response is kept globally", s.calls)
	}
	if err := kubelet.SetPlugin(1, s); err == nil {
		t.Error("SetPlugin of a provider that does not exist: no error")
	}
}

func TestCacheKey(t *testing.T) {
	key := func(id corpus.Identity) (string, error) { return kubelet.CacheKey("Token", id) }
	a := must.Get(key(corpus.Identity{Image: "x", Namespace: "ab", Name: "c"}))(t)
	b, err := key(corpus.Identity{Image: "x", Namespace: "a", Name: "bc"})
	if err != nil || a == b {
		t.Errorf("two identities share a key (%v)", err)
	}
	if _, err := key(corpus.Identity{Image: "x", Name: strings.Repeat("n", 70000)}); err == nil {
		t.Error("a name of 70,000 bytes: no error")
	}
}

// TestCheckRelease checks that CheckRelease accepts a program only if its modules have the versions
// that the release requires.
func TestCheckRelease(t *testing.T) {
	pinned := "v0" + strings.TrimPrefix(kubelet.Version, "v1")
	for _, tt := range []struct {
		name string
		deps []*debug.Module
		want string // substring of the error
	}{
		{"the release", []*debug.Module{{Path: "k8s.io/kubernetes", Version: kubelet.Version}, {Path: "k8s.io/api", Version: pinned}, {Path: "sigs.k8s.io/yaml", Version: "v1.6.0"}}, ""},
		{"another release", []*debug.Module{{Path: "k8s.io/kubernetes", Version: "v1.36.2"}}, "built with k8s.io/kubernetes v1.36.2"},
		{"another library", []*debug.Module{{Path: "sigs.k8s.io/yaml", Version: "v1.5.0"}}, "built with sigs.k8s.io/yaml v1.5.0"},
		{"a replaced one", []*debug.Module{{Path: "k8s.io/api", Version: "v0.99.0", Replace: &debug.Module{Path: "k8s.io/api", Version: pinned}}}, ""},
		{"replaced by another", []*debug.Module{{Path: "k8s.io/api", Version: pinned, Replace: &debug.Module{Path: "k8s.io/api", Version: "v0.36.2"}}}, "built with k8s.io/api v0.36.2"},
		{"nothing of it", []*debug.Module{{Path: "registry.example/module", Version: "v1.0.0"}}, "without any library"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := kubelet.CheckRelease(&debug.BuildInfo{Deps: tt.deps})
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
