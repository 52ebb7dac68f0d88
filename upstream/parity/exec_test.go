// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package parity

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/adapter"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/generate"
	"github.com/regcred/regcred/upstream/kubelet"
)

// registerExecPlugins registers a provider for each API version and returns the exec plugins. It starts no
// process.
func registerExecPlugins(t testing.TB) map[string]*kubelet.ExecPlugin {
	t.Helper()
	dir := t.TempDir()
	cfg := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
	for i, v := range corpus.Versions {
		cfg += fmt.Sprintf("- {name: p%d, matchImages: ['*'], defaultCacheDuration: 0s, apiVersion: %s}\n", i, v)
		writeScript(t, filepath.Join(dir, fmt.Sprintf("p%d", i)), "exit 1\n")
	}
	path := filepath.Join(dir, "config.yaml")
	writeFile(t, path, cfg)
	must.Do(t, kubelet.RegisterPlugins(path, dir, kubelet.TokenFuncs{}))
	out := map[string]*kubelet.ExecPlugin{}
	for i, v := range corpus.Versions {
		e := must.Get(kubelet.ExecPluginAt(i))(t)
		out[v] = e
	}
	return out
}

func TestRequest(t *testing.T) {
	kubelets := registerExecPlugins(t)
	runCases(t, 20_000, func(r *rand.Rand) bool {
		req := generate.RandomRequest(r)
		want, wantErr := kubelets[req.APIVersion].EncodeRequest(string(req.Image), req.Token, req.Annotations)
		got, err := adapter.EncodeRequest(req)
		if (err != nil) != (wantErr != nil) || string(got) != string(want) {
			t.Errorf("request in %s: %q, error %v; the kubelet's %q, error %v", req.APIVersion, got, err, want, wantErr)
			return false
		}
		return true
	})
}

// checkResponse compares how regcred and the kubelet decode a plugin's output.
func checkResponse(t testing.TB, kubelets map[string]*kubelet.ExecPlugin, version, output string) (accepted, ok bool) {
	want, wantErr := kubelets[version].DecodeResponse([]byte(output))
	got, err := plugin.DecodeResponse([]byte(output), version)
	if (err != nil) != (wantErr != nil) {
		t.Errorf("asked in %s, output %s: error %v, the kubelet's %v", version, hidePassword(output), err, wantErr)
		return false, false
	}
	if !reflect.DeepEqual(want, adapter.ConvertResponse(got)) {
		t.Errorf("asked in %s, output %s: the answers differ", version, hidePassword(output))
		return false, false
	}
	return err == nil, true
}

// hidePassword quotes an output, without the password in the corpus.
func hidePassword(output string) string {
	return fmt.Sprintf("%q", strings.ReplaceAll(output, "canary-", "…"))
}

func TestResponse(t *testing.T) {
	kubelets := registerExecPlugins(t)
	list := generate.SmallResponses()
	good := slices.DeleteFunc(slices.Clone(list), func(output string) bool {
		_, err := kubelets[corpus.Versions[0]].DecodeResponse([]byte(output))
		return err != nil
	})
	accepted, refused := 0, 0
	runCases(t, 20_000, func(r *rand.Rand) bool {
		c := generate.MutateResponse(r, good, list)
		yes, ok := checkResponse(t, kubelets, c.APIVersion, string(c.Output))
		if yes {
			accepted++
		} else {
			refused++
		}
		return ok
	})
	t.Logf("%d accepted, %d refused", accepted, refused)
	if accepted < 100 || refused < 100 {
		t.Error("the generator no longer makes both kinds")
	}
}

func FuzzResponse(f *testing.F) {
	for _, output := range generate.SmallResponses() {
		f.Add(output)
	}
	kubelets := registerExecPlugins(f)
	f.Fuzz(func(t *testing.T, output string) {
		checkResponse(t, kubelets, corpus.Versions[0], output)
	})
}
