// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package parity

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/generate"
	"github.com/regcred/regcred/upstream/kubelet"
)

// recordingScript is a plugin script that records its input, arguments and environment.
const recordingScript = `{
	env | sort
	pwd
	for arg in "$0" "$@"; do echo "arg <$arg>"; done
	cat
} > "${0%/*}/seen"
echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image","auth":{"*.io":{"username":"u","password":"canary-password-4b1d"}}}'
`

// TestProcess compares the arguments, environment, working directory and standard input with which
// regcred and the kubelet run a real plugin process.
func TestProcess(t *testing.T) {
	dir := t.TempDir()
	writeScript(t, filepath.Join(dir, "p"), recordingScript)
	path := filepath.Join(dir, "config.yaml")
	t.Setenv("INHERITED", "from the host")
	runCases(t, 40, func(r *rand.Rand) bool {
		word := func() string {
			return generate.PickElement(r, []string{"a", "", " ", "a b", "'", "\\\"", "*", "$HOME", "--flag=x", "é", "-", "get-credentials"})
		}
		var cfg strings.Builder
		cfg.WriteString("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: p\n  matchImages: ['*.io']\n  defaultCacheDuration: 0s\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  args: [")
		for range r.IntN(4) {
			fmt.Fprintf(&cfg, "\"%s\", ", word())
		}
		cfg.WriteString("]\n  env: [")
		for range r.IntN(4) {
			fmt.Fprintf(&cfg, "{name: %s, value: \"%s\"}, ", generate.PickElement(r, []string{"A", "B", "INHERITED", "HOME"}), word())
		}
		cfg.WriteString("]\n")
		writeFile(t, path, cfg.String())

		must.Do(t, kubelet.RegisterPlugins(path, dir, kubelet.TokenFuncs{}))
		creds, _ := kubelet.NewKeyring("", "", "", "").Lookup("registry.io/app")
		want := takeRecordedRequest(t, dir)
		c := must.Get(config.Load(path))(t)
		k := openKeyring(t, c, regcred.Options{BinDir: dir})
		defer k.Close()
		res := must.Get(k.Lookup(t.Context(), regcred.Request{Image: "registry.io/app"}))(t)
		if got := takeRecordedRequest(t, dir); got != want || len(creds) != 1 || len(res.Credentials) != 1 {
			t.Errorf("the plugin was given:\n%s\nby the kubelet (%d credentials):\n%s", got, len(creds), want)
			return false
		}
		return true
	})
}

// takeRecordedRequest returns the plugin's record and removes it.
func takeRecordedRequest(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "seen")
	data := must.Get(os.ReadFile(path))(t)
	os.Remove(path)
	return string(data)
}
