// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package parity

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/runstats"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/kubelet"
	"github.com/regcred/regcred/upstream/plugins"
)

// countingScript is the script of a plugin that counts its runs in a file and returns one
// credential for a host.
const countingScript = `echo >>%q
echo '{"kind":"CredentialProviderResponse","apiVersion":"%s","cacheKeyType":"Registry","cacheDuration":"1h","auth":{"registry.io":{"username":"%s","password":"canary-password-4b1d"}}}'
`

// TestDispatchProcess runs the real dispatcher with the kubelet's own code, through a symlink in
// the kubelet's bin directory. Then it switches to a generation with other providers. The
// generations require that the kubelet caches nothing.
func TestDispatchProcess(t *testing.T) {
	store, bin, runs := generation.Store{Dir: t.TempDir()}, t.TempDir(), filepath.Join(t.TempDir(), "runs")
	built := must.Get(plugins.Build(store.Dir, generation.DispatcherName))(t)
	entry := entries.Entry{Name: entries.DispatcherName, APIVersion: plugin.V1Beta1, MatchImages: []string{"registry.io"}}
	must.Do(t, os.Symlink(built, filepath.Join(bin, entry.Name)))
	for i, users := range [][]string{{"one"}, {"one", "two"}} {
		m := &generation.Manifest{Entries: []entries.Entry{entry}}
		config := `{"kind":"CredentialProviderConfig","apiVersion":"kubelet.config.k8s.io/v1","providers":[%s]}`
		var list []string
		var content []generation.SourceFile
		for _, user := range users {
			list = append(list, fmt.Sprintf(`{"name":%q,"matchImages":["registry.io"],"defaultCacheDuration":"0s","apiVersion":%q}`, user, plugin.V1))
			content = append(content, generation.SourceFileFromBytes(generation.ExecutablePath(user), 0o755, fmt.Appendf([]byte("#!/bin/sh\n"), countingScript, runs, plugin.V1, user)))
		}
		content = append(content, generation.SourceFileFromBytes(generation.ConfigFilePath("p.json"), 0o600, fmt.Appendf(nil, config, strings.Join(list, ","))))
		if err := store.Create(t.Context(), m, content, nil); err != nil || m.Number != i+1 {
			t.Fatal(err)
		}
	}
	counts := filepath.Join(t.TempDir(), "run")
	path := filepath.Join(bin, "config.yaml")
	writeFile(t, path, fmt.Sprintf("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- {name: %s, matchImages: [registry.io], defaultCacheDuration: 0s, apiVersion: %s, args: [--count-dir=%s]}\n", entry.Name, entry.APIVersion, counts))
	must.Do(t, kubelet.RegisterPlugins(path, bin, kubelet.TokenFuncs{}))
	for i, want := range [][]string{{"one"}, {"one", "two"}, {"one"}} {
		number := 1 + i%2
		must.Do(t, store.Activate(number))
		if got := usernames(lookUpWithKubelet("registry.io/app", "")); !slices.Equal(got, want) {
			t.Errorf("generation %d: %q, want %q", number, got, want)
		}
	}
	c, err := runstats.Read(t.Context(), counts)
	if err != nil || c.Runs[runstats.RunSucceeded] == 0 || c.Runs[runstats.RunFailed] != 0 || c.Providers["two"].Results[runstats.ResultFound] == 0 {
		t.Errorf("counted: %+v, %v", c, err)
	}
	if data, err := os.ReadFile(runs); err != nil || len(data) != int(c.Providers["one"].Runs+c.Providers["two"].Runs) {
		t.Errorf("%d runs, %v; counted %d and %d", len(data), err, c.Providers["one"].Runs, c.Providers["two"].Runs)
	}
}
