// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package parity

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/kubelet"
)

// execs registers one provider per API version and returns their execs. No
// process is started.
func execs(t testing.TB) map[string]*kubelet.Exec {
	t.Helper()
	dir := t.TempDir()
	cfg := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
	for i, v := range corpus.Versions {
		cfg += fmt.Sprintf("- {name: p%d, matchImages: ['*'], defaultCacheDuration: 0s, apiVersion: %s}\n", i, v)
		writeScript(t, filepath.Join(dir, fmt.Sprintf("p%d", i)), "exit 1\n")
	}
	path := filepath.Join(dir, "config.yaml")
	write(t, path, cfg)
	if err := kubelet.Register(path, dir, kubelet.Tokens{}); err != nil {
		t.Fatal(err)
	}
	out := map[string]*kubelet.Exec{}
	for i, v := range corpus.Versions {
		e, err := kubelet.ExecOf(i)
		if err != nil {
			t.Fatal(err)
		}
		out[v] = e
	}
	return out
}

var requestScraps = []string{"/", ":", "\"", "\\", "<", ">", "&", "\u2028", "\u2029", "\x00", "\x1f", "\x7f", "\xff", "é", "\U0001f433", "\n", "\t", "\ufffd", "\xed\xa0\x80"}

func TestRequest(t *testing.T) {
	kubelets := execs(t)
	cases(t, 20_000, func(r *rand.Rand) bool {
		text := func() string { return mutate(r, pick(r, []string{"registry.io/app", "a", ""}), requestScraps) }
		req := plugin.Request{APIVersion: pick(r, corpus.Versions), Image: text()}
		if one(r, 2) {
			req.ServiceAccountToken = plugin.NewSecret(text())
		}
		if one(r, 2) {
			req.ServiceAccountAnnotations = map[string]string{}
			for range r.IntN(4) {
				req.ServiceAccountAnnotations[text()] = text()
			}
		}
		want, wantErr := kubelets[req.APIVersion].EncodeRequest(req.Image, req.ServiceAccountToken.Reveal(), req.ServiceAccountAnnotations)
		got, err := plugin.EncodeRequest(&req)
		if (err != nil) != (wantErr != nil) || string(got) != string(want) {
			t.Errorf("request in %s: %q, error %v; the kubelet's %q, error %v", req.APIVersion, got, err, want, wantErr)
			return false
		}
		return true
	})
}

// plainResponse is kubelet.Response of regcred's type.
func plainResponse(r *plugin.Response) *kubelet.Response {
	if r == nil {
		return nil
	}
	out := &kubelet.Response{CacheKeyType: corpus.Text(r.CacheKeyType), CacheDuration: r.CacheDuration}
	for _, k := range slices.Sorted(maps.Keys(r.Auth)) {
		out.Auth = append(out.Auth, kubelet.Entry{Key: corpus.Text(k), Username: corpus.Text(r.Auth[k].Username), Password: corpus.Text(r.Auth[k].Password.Reveal())})
	}
	return out
}

// checkResponse compares what both make of a plugin's output.
func checkResponse(t testing.TB, kubelets map[string]*kubelet.Exec, version, output string) (accepted, ok bool) {
	want, wantErr := kubelets[version].DecodeResponse([]byte(output))
	got, err := plugin.DecodeResponse([]byte(output), version)
	if (err != nil) != (wantErr != nil) {
		t.Errorf("asked in %s, output %s: error %v, the kubelet's %v", version, hide(output), err, wantErr)
		return false, false
	}
	if !reflect.DeepEqual(want, plainResponse(got)) {
		t.Errorf("asked in %s, output %s: the answers differ", version, hide(output))
		return false, false
	}
	return err == nil, true
}

// hide quotes an output without the password that the corpus plants.
func hide(output string) string {
	return fmt.Sprintf("%q", strings.ReplaceAll(output, "canary-", "…"))
}

var responseScraps = []string{
	"{", "}", "[", "]", ",", ":", "\"", "\\", "null", "true", "0", "-1", "1e9", "\"1h\"", "\"0s\"", "\"-5m\"", "\\u0061", "\\ud800", "\\n", "\x00", "\x1f", "\xff", "\xed\xa0\x80", "é",
	" ", "\n", "\t", "\ufeff", "---\n", "#", "//", "\"auth\":", "\"Auth\":", "\"kind\":", "\"apiVersion\":", "\"cacheDuration\":", "\"username\":", "\"password\":\"x\",", "\"x\":1,", "\"auth\":null,",
	"Registry", "Global", "v1", "v1beta1", "v1alpha1",
}

// outputs returns the corpus' answers below 2 KB.
func outputs() (out []string) {
	for _, r := range corpus.Responses() {
		if len(r.Output) < 2000 && r.Output != "" {
			out = append(out, string(r.Output))
		}
	}
	return out
}

func TestResponse(t *testing.T) {
	kubelets := execs(t)
	list := outputs()
	good := slices.DeleteFunc(slices.Clone(list), func(output string) bool {
		_, err := kubelets[corpus.Versions[0]].DecodeResponse([]byte(output))
		return err != nil
	})
	accepted, refused := 0, 0
	cases(t, 20_000, func(r *rand.Rand) bool {
		output, version := mostly(r, 3, good, list), corpus.Versions[0]
		if one(r, 5) {
			version = pick(r, corpus.Versions)
			output = strings.Replace(output, corpus.Versions[0], version, 1)
		}
		for range max(0, r.IntN(4)-1) {
			output = mutate(r, output, responseScraps)
		}
		yes, ok := checkResponse(t, kubelets, version, output)
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
	for _, output := range outputs() {
		f.Add(output)
	}
	kubelets := execs(f)
	f.Fuzz(func(t *testing.T, output string) {
		checkResponse(t, kubelets, corpus.Versions[0], output)
	})
}
