// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/kubelet"
	"github.com/regcred/regcred/upstream/skew/protocol"
	"github.com/regcred/regcred/upstream/vector"
)

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// TestSays: texts of errors and a hash that is missing are no difference; a
// verdict, what was read, and a hash that is another are.
func TestSays(t *testing.T) {
	const provider = `"providers":[{"name":"p","apiVersion":"v1"}]`
	for _, tt := range []struct {
		name, kind, base, got, want string
	}{
		{"the same", "match", `{"pattern":"a","match":true}`, `{"match":true,"pattern":"a"}`, ""},
		{"another answer", "match", `{"pattern":"a","match":true}`, `{"pattern":"a","match":false}`, `{"match":false}`},
		{"a field that is gone", "match", `{"pattern":"a","invalid":true}`, `{"pattern":"a"}`, `{"invalid":null}`},
		{"escapes", "match", `{"pattern":"<"}`, `{"pattern":"\u003c"}`, ""},
		{"text and stage of an error", "config", `{"loadError":"a"}`, `{"validateError":"b",` + provider + `}`, ""},
		{"no hash", "config", `{"hash":"x",` + provider + `}`, `{` + provider + `}`, ""},
		{"another hash", "config", `{"hash":"x",` + provider + `}`, `{"hash":"y",` + provider + `}`, `{"hash":"y"}`},
		{"refused", "config", `{"loadError":"a"}`, `{` + provider + `}`, `{"refused":false}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := says(tt.kind, raw(tt.base), raw(tt.got))
			if err != nil || string(got) != tt.want {
				if !strings.Contains(tt.want, "refused") || !strings.Contains(string(got), `"refused":false`) {
					t.Errorf("got %s, %v; want %s", got, err, tt.want)
				}
			}
		})
	}
}

// TestReason: a difference explains what it brings with it and nothing else.
func TestReason(t *testing.T) {
	old := &oracle{minor: 33, gates: []protocol.Gate{{Name: protocol.Tokens}}}
	for _, tt := range []struct{ kind, base, got, says, want string }{
		{"match", `{"pattern":"a:1:2","image":"a","invalid":true}`, `{"pattern":"a:1:2","image":"a"}`, `{"invalid":null}`, looseColons},
		{"match", `{"pattern":"a:1:2","image":"a","invalid":true}`, `{"pattern":"a:1:2","image":"a","match":true}`, `{"invalid":null,"match":true}`, ""},
		{"match", `{"pattern":"a:1:2","image":"a:1:2","invalid":true}`, `{"pattern":"a:1:2","image":"a:1:2","match":true}`, `{"invalid":null,"match":true}`, looseColons},
		{"match", `{"pattern":"*","image":"a:1:2"}`, `{"pattern":"*","image":"a:1:2","match":true}`, `{"match":true}`, looseColons},
		{"match", `{"pattern":"*","image":"a:1:2"}`, `{"pattern":"*","image":"a:1:2","invalid":true}`, `{"invalid":true}`, ""},
		{"match", `{"pattern":"a","image":"a","match":true}`, `{"pattern":"a","image":"a"}`, `{"match":false}`, ""},
		{"cachekey", `{"cacheType":"Token"}`, `{"cacheType":"Token","same":true}`, `{"same":true}`, noCacheType},
		{"cachekey", `{"cacheType":"ServiceAccount"}`, `{"cacheType":"ServiceAccount","same":true}`, `{"same":true}`, ""},
		{"serviceaccount", `{"echo":true,"credentials":0}`, `{"echo":true,"credentials":1}`, `{"credentials":1}`, noCacheType},
		{"serviceaccount", `{"credentials":0}`, `{"credentials":1}`, `{"credentials":1}`, ""},
		{"serviceaccount", `{"from":"ns/sa/1"}`, `{}`, `{"from":null}`, noOrigin},
		{"serviceaccount", `{"from":"ns/sa/1"}`, `{"from":"ns/sa/2"}`, `{"from":"ns/sa/2"}`, ""},
		{"serviceaccount", `{"from":"ns/sa/1","ran":true}`, `{"ran":false}`, `{"from":null,"ran":false}`, ""},
	} {
		if got := (line{Kind: tt.kind, Says: raw(tt.says)}).reason(old, raw(tt.base), raw(tt.got)); got != tt.want {
			t.Errorf("%s, %s says %s: %q, want %q", tt.kind, tt.base, tt.says, got, tt.want)
		}
	}
}

// TestRefusal: the name of a difference stands for a refusal only if that is
// because of it.
func TestRefusal(t *testing.T) {
	const file = "apiVersion: %s\nkind: CredentialProviderConfig\nproviders:\n- name: '%s'\n  matchImages: [%s]\n  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n"
	const v1, internal = "kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/__internal"
	for _, tt := range []struct{ version, name, image, want string }{
		{v1, "", "a", refusedNames},
		{v1, "", "'%zz'", ""},
		{v1, "p", "'%zz'", ""},
		{internal, "p", "a", internalVersion},
		{v1, "p", "'a/__internal%zz'", ""},
	} {
		c := corpus.Config{Files: []corpus.File{{Name: "config.yaml", Content: corpus.Text(fmt.Sprintf(file, tt.version, tt.name, tt.image))}}}
		l, err := load(filepath.Join(t.TempDir(), "c"), c, config.Target{})
		if err != nil || l.err == nil {
			t.Fatalf("%+v: %v, refused: %v", tt, err, l.err)
		}
		if got := l.refusal(vector.Config{Providers: []kubelet.Provider{{Name: tt.name}}}); got != tt.want {
			t.Errorf("%+v: %q, want %q (%v)", tt, got, tt.want, l.err)
		}
	}
}

// TestOptions: a run that would compare nothing, or not what was asked for, is
// an error.
func TestOptions(t *testing.T) {
	good := options{output: "json", scale: 0.01}
	if err := good.valid(); err != nil {
		t.Error(err)
	}
	for _, o := range []options{{output: "yaml", scale: 1}, {output: "text"}, {output: "text", scale: -1}, {output: "text", scale: math.NaN()},
		{output: "text", scale: math.Inf(1)}, {output: "text", scale: 1, rest: []string{"1.34.4"}}} {
		if err := run(t.Context(), io.Discard, o); err == nil || strings.Contains(err.Error(), "match.json") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestDisagreement: what no difference explains fails a run, and is shown.
func TestDisagreement(t *testing.T) {
	k := kubeletReport{Build: protocol.Build{Kubelet: "v1.35.4"}, Generated: []tally{{Kind: "matches", Comparisons: 3}}}
	rep := &report{Kubelets: []kubeletReport{k}}
	if err := rep.err(); err != nil {
		t.Errorf("no disagreement: %v", err)
	}
	tally := &rep.Kubelets[0].Generated[0]
	tally.differs(of(looseColons, 35), "not shown")
	if err := rep.err(); err != nil || tally.text() != "loose-colons 1" {
		t.Errorf("a difference with a name: %q, %v", tally.text(), err)
	}
	tally.differs(of(looseColons, 36), `pattern "a:1:2"`)
	var out strings.Builder
	if err := rep.write(&out, "text"); err != nil || !strings.Contains(out.String(), `v1.35.4, matches: pattern "a:1:2"`) {
		t.Errorf("the disagreement is not shown (%v):\n%s", err, out.String())
	}
	if err := rep.err(); err == nil {
		t.Error("a disagreement is no error")
	}
}

// TestRecording: what is written is what is compared with, and another line, gate
// or kubelet is found.
func TestRecording(t *testing.T) {
	r := newRecording()
	l := line{ID: looseColons, Kind: "match", Case: 7, Says: raw(`{"match":true}`)}
	r.add(l, "v1.34.4")
	r.add(l, "v1.35.4")
	if len(r.lines) != 1 || !slices.Equal(r.lines[0].Kubelets, []string{"v1.34.4", "v1.35.4"}) {
		t.Fatalf("two kubelets that say the same share no line: %v", r.lines)
	}
	gates := []protocol.Gate{{Name: "G", Default: true}}
	rep := &report{Kubelets: []kubeletReport{{Build: protocol.Build{Kubelet: "v1.34.4"}, Gates: gates}, {Build: protocol.Build{Kubelet: "v1.35.4"}}}}
	path := filepath.Join(t.TempDir(), "skew.json")
	if err := r.write(path, rep); err != nil {
		t.Fatal(err)
	}
	one := &report{Kubelets: rep.Kubelets[:1]}
	if err := r.compare(path, one); err != nil {
		t.Errorf("what was recorded, of one kubelet: %v", err)
	}
	gates[0].Locked = true
	if err := r.compare(path, one); err == nil || !strings.Contains(err.Error(), "feature gates of kubelet v1.34.4") {
		t.Errorf("another gate: %v", err)
	}
	gates[0].Locked = false
	if err := newRecording().compare(path, one); err == nil || !strings.Contains(err.Error(), "kubelet v1.34.4") {
		t.Errorf("a line that is not true any more: %v", err)
	}
	other := &report{Kubelets: []kubeletReport{{Build: protocol.Build{Kubelet: "v1.38.0"}}}}
	if err := r.compare(path, other); err == nil || !strings.Contains(err.Error(), "nothing of kubelet v1.38.0") {
		t.Errorf("another kubelet: %v", err)
	}
}

// TestBaseline: vectors of another corpus are not compared with.
func TestBaseline(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "parity")
	if _, err := loadBaseline(dir); err != nil {
		t.Error(err)
	}
	other := t.TempDir()
	for _, f := range []string{"match", "references", "config", "request", "response", "keyring", "dockerconfig", "cachekey", "serviceaccount", "cache"} {
		data, err := os.ReadFile(filepath.Join(dir, f+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if f == "cache" {
			data = []byte(`{"cases": [{}]}`)
		}
		if err := os.WriteFile(filepath.Join(other, f+".json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := loadBaseline(other); err == nil || !strings.Contains(err.Error(), "cache.json has 1 cases") {
		t.Errorf("a file of one case: %v", err)
	}
}

// TestVersionThatIsNot: of a release that the Go proxy does not have the error
// names those that it has. The proxy is a directory here; all other modules
// come from what this machine has.
func TestVersionThatIsNot(t *testing.T) {
	proxy := t.TempDir()
	dir := filepath.Join(proxy, "k8s.io", "kubernetes", "@v")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"list":         "v1.33.12\nv1.33.13\nv1.34.0\n",
		"v1.34.0.info": `{"Version": "v1.34.0", "Time": "2025-08-27T00:00:00Z"}`,
		"v1.34.0.mod":  "module k8s.io/kubernetes\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOPROXY", "file://"+filepath.ToSlash(proxy)+",file://"+filepath.ToSlash(filepath.Join(strings.TrimSpace(string(cache)), "cache", "download")))
	t.Setenv("GONOSUMDB", "*")
	t.Setenv("GOMODCACHE", t.TempDir()) // which this proxy must not get into
	for version, want := range map[string]string{
		"1.33.99": "of this minor release the Go proxy has v1.33.12, v1.33.13",
		"1.99.0":  "of this minor release the Go proxy has none; of all it has v1.33.12 v1.33.13 v1.34.0",
	} {
		_, err := start(t.Context(), version)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "release v"+version) {
			t.Errorf("%s: %v; want %q in it", version, err, want)
		}
	}
}
