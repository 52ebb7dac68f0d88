// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/kubelet"
	"github.com/regcred/regcred/upstream/skew/protocol"
	"github.com/regcred/regcred/upstream/vector"
)

func rawJSON(s string) json.RawMessage { return json.RawMessage(s) }

// TestRelevantOutput verifies which differences between vectors matter. Error texts and a missing
// hash are ignored. A different verdict, parsed result or hash is reported.
func TestRelevantOutput(t *testing.T) {
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
			got, _, err := diffVectors(tt.kind, rawJSON(tt.base), rawJSON(tt.got))
			if err != nil || string(got) != tt.want {
				t.Errorf("got %s, %v; want %s", got, err, tt.want)
			}
		})
	}
}

// TestReason verifies that differenceName names a difference only for a vector that the difference
// can cause.
func TestReason(t *testing.T) {
	old := &kubeletProcess{minor: 33, gates: []protocol.Gate{{Name: protocol.TokenGateName}}}
	for _, tt := range []struct{ kind, base, got, says, want string }{
		{"match", `{"pattern":"a:1:2","image":"a","invalid":true}`, `{"pattern":"a:1:2","image":"a"}`, `{"invalid":null}`, diffLooseColons},
		{"match", `{"pattern":"a:1:2","image":"a","invalid":true}`, `{"pattern":"a:1:2","image":"a","match":true}`, `{"invalid":null,"match":true}`, ""},
		{"match", `{"pattern":"a:1:2","image":"a:1:2","invalid":true}`, `{"pattern":"a:1:2","image":"a:1:2","match":true}`, `{"invalid":null,"match":true}`, diffLooseColons},
		{"match", `{"pattern":"*","image":"a:1:2"}`, `{"pattern":"*","image":"a:1:2","match":true}`, `{"match":true}`, diffLooseColons},
		{"match", `{"pattern":"*","image":"a:1:2"}`, `{"pattern":"*","image":"a:1:2","invalid":true}`, `{"invalid":true}`, ""},
		{"match", `{"pattern":"a","image":"a","match":true}`, `{"pattern":"a","image":"a"}`, `{"match":false}`, ""},
		{"cachekey", `{"cacheType":"Token"}`, `{"cacheType":"Token","same":true}`, `{"same":true}`, diffNoCacheType},
		{"cachekey", `{"cacheType":"ServiceAccount"}`, `{"cacheType":"ServiceAccount","same":true}`, `{"same":true}`, ""},
		{"serviceaccount", `{"echo":true,"credentials":0}`, `{"echo":true,"credentials":1}`, `{"credentials":1}`, diffNoCacheType},
		{"serviceaccount", `{"credentials":0}`, `{"credentials":1}`, `{"credentials":1}`, ""},
		{"serviceaccount", `{"from":"ns/sa/1"}`, `{}`, `{"from":null}`, diffNoOrigin},
		{"serviceaccount", `{"from":"ns/sa/1"}`, `{"from":"ns/sa/2"}`, `{"from":"ns/sa/2"}`, ""},
		{"config", `{"isDir":true}`, ``, `{"refused":true}`, diffNoDirectory},
		{"config", `{"isDir":true}`, ``, `{"refused":false}`, ""},
		{"config", `{"isDir":true}`, ``, `{"hash":"y"}`, ""},
		{"config", `{"providers":[{"matchImages":["b","a:1:2"]}]}`, ``, `{"refused":false}`, diffLooseColons},
		{"config", `{"providers":[{"matchImages":["b","a:1:2"]}]}`, ``, `{"refused":true}`, ""},
		{"config", `{"providers":[{"matchImages":["a:1"]}]}`, ``, `{"refused":false}`, ""},
		{"config", `{"files":[{"content":"tokenAttributes: {}"}]}`, ``, `{"refused":true}`, diffNoCacheType},
		{"config", `{"files":[{"content":"tokenAttributes: {}"}]}`, ``, `{"providers":[]}`, ""},
		{"config", `{"files":[{"content":"x"}]}`, ``, `{"refused":true}`, ""},
		{"serviceaccount", `{"from":"ns/sa/1","ran":true}`, `{"ran":false}`, `{"from":null,"ran":false}`, ""},
	} {
		if got := (differenceLine{Kind: tt.kind, Changes: rawJSON(tt.says)}).differenceName(old, rawJSON(tt.base), rawJSON(tt.got)); got != tt.want {
			t.Errorf("%s, %s says %s: %q, want %q", tt.kind, tt.base, tt.says, got, tt.want)
		}
	}
}

// TestReasonsAsRecorded verifies that differenceName returns the recorded name for each line of
// skew.json and each of its kubelets.
func TestReasonsAsRecorded(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "parity")
	base := must.Get(loadBaselineVectors(dir))(t)
	f := must.Get(loadRecordFile(filepath.Join(dir, "skew.json")))(t)
	if len(f.Cases) < 100 {
		t.Errorf("%d lines", len(f.Cases))
	}
	for _, l := range f.Cases {
		b := base[l.Kind][l.Case]
		vector := map[string]json.RawMessage{}
		must.Do(t, errors.Join(json.Unmarshal(b, &vector), json.Unmarshal(l.Changes, &vector)))
		got := must.Get(json.Marshal(vector))(t)
		for _, k := range l.Kubelets {
			o := &kubeletProcess{}
			must.Get(fmt.Sscanf(k, "v1.%d.", &o.minor))(t)
			if id := l.differenceName(o, b, got); id != l.ID {
				t.Errorf("%s, case %d, token gate off %t, of %s: %q, recorded as %q", l.Kind, l.Case, l.TokensOff, k, id, l.ID)
			}
		}
	}
}

// TestReasonGate verifies that turning the token gate off explains only rejections of additional
// configurations.
func TestReasonGate(t *testing.T) {
	o := &kubeletProcess{minor: 36}
	base := rawJSON(`{"files":[{"content":"tokenAttributes: {}"}]}`)
	for _, tt := range []struct {
		off        bool
		says, want string
	}{
		{true, `{"refused":true}`, diffTokenGate},
		{true, `{"refused":false}`, ""},
		{false, `{"refused":true}`, ""},
	} {
		if got := (differenceLine{Kind: "config", TokensOff: tt.off, Changes: rawJSON(tt.says)}).differenceName(o, base, nil); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

// TestScale verifies that every kind is compared at least once.
func TestScale(t *testing.T) {
	for scale, want := range map[float64]int{1e-9: 1, 0.1: 2, 1: 20, 2: 40} {
		got, err := (&comparison{ctx: t.Context()}).runComparisons(comparisonKind{n: 20, prepare: func(*comparison) (compareFunc, error) {
			return func(*comparison, *rand.Rand) (verdict, error) { return verdictAgreed, nil }, nil
		}}, options{scale: scale})
		if err != nil || got.Comparisons != want {
			t.Errorf("scale %v: %d comparisons, %v; want %d", scale, got.Comparisons, err, want)
		}
	}
}

// TestRefusal verifies that a known difference explains a rejection only if it is the cause.
func TestRefusal(t *testing.T) {
	const file = "apiVersion: %s\nkind: CredentialProviderConfig\nproviders:\n- name: '%s'\n  matchImages: [%s]\n  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n"
	const v1, internal = "kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/__internal"
	for _, tt := range []struct{ version, name, image, want string }{
		{v1, "", "a", diffRejectedNames},
		{v1, "", "'%zz'", ""},
		{v1, "p", "'%zz'", ""},
		{internal, "p", "a", diffInternalVersion},
		{v1, "p", "'a/__internal%zz'", ""},
	} {
		c := corpus.Config{Files: []corpus.File{{Name: "config.yaml", Content: corpus.RawString(fmt.Sprintf(file, tt.version, tt.name, tt.image))}}}
		l, err := loadConfig(filepath.Join(t.TempDir(), "c"), c, config.Target{})
		if err != nil || l.err == nil {
			t.Fatalf("%+v: %v, refused: %v", tt, err, l.err)
		}
		if got := l.rejectionDifference(vector.ConfigVector{Providers: []kubelet.Provider{{Name: tt.name}}}); got != tt.want {
			t.Errorf("%+v: %q, want %q (%v)", tt, got, tt.want, l.err)
		}
	}
}

// TestUnexplainedDifference verifies that an unexplained difference fails the run and is reported.
func TestUnexplainedDifference(t *testing.T) {
	k := kubeletReport{Build: protocol.Build{Kubelet: "v1.35.4"}, Generated: []comparisonCounts{{Kind: "matches", Comparisons: 3}}}
	rep := &report{Kubelets: []kubeletReport{k}}
	if err := rep.disagreementError(); err != nil {
		t.Errorf("no disagreement: %v", err)
	}
	tally := &rep.Kubelets[0].Generated[0]
	tally.countDifference(differenceFor(diffLooseColons, 35), "not shown")
	if err := rep.disagreementError(); err != nil || tally.differencesText() != "loose-colons 1" {
		t.Errorf("a difference with a name: %q, %v", tally.differencesText(), err)
	}
	tally.countDifference(differenceFor(diffLooseColons, 36), `pattern "a:1:2"`)
	var out strings.Builder
	if err := rep.write(&out, "text"); err != nil || !strings.Contains(out.String(), `v1.35.4, matches: pattern "a:1:2"`) {
		t.Errorf("the disagreement is not shown (%v):\n%s", err, out.String())
	}
	if err := rep.disagreementError(); err == nil {
		t.Error("a disagreement is not reported")
	}
}

// TestCompareRecording verifies that a recorded file equals its recording. A different line, gate
// or kubelet must be detected.
func TestCompareRecording(t *testing.T) {
	r := newRecording()
	l := differenceLine{ID: diffLooseColons, Kind: "match", Case: 7, Changes: rawJSON(`{"match":true}`)}
	r.addLine(l, "v1.34.4")
	r.addLine(l, "v1.35.4")
	if len(r.lines) != 1 || !slices.Equal(r.lines[0].Kubelets, []string{"v1.34.4", "v1.35.4"}) {
		t.Fatalf("two kubelets that say the same share no line: %v", r.lines)
	}
	gates := []protocol.Gate{{Name: "G", Default: true}}
	rep := &report{Kubelets: []kubeletReport{{Build: protocol.Build{Kubelet: "v1.34.4"}, Gates: gates}, {Build: protocol.Build{Kubelet: "v1.35.4"}}}}
	path := filepath.Join(t.TempDir(), "skew.json")
	must.Do(t, r.write(path, rep))
	if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 1 {
		t.Errorf("%v, %v; want one file", list, err)
	}
	have := must.Get(loadRecordFile(path))(t)
	one := &report{Kubelets: rep.Kubelets[:1]}
	if err := r.compare(have, one); err != nil {
		t.Errorf("what was recorded, of one kubelet: %v", err)
	}
	gates[0].Locked = true
	if err := r.compare(have, one); err == nil || !strings.Contains(err.Error(), "feature gates of kubelet v1.34.4") {
		t.Errorf("another gate: %v", err)
	}
	gates[0].Locked = false
	if err := newRecording().compare(have, one); err == nil || !strings.Contains(err.Error(), "kubelet v1.34.4") {
		t.Errorf("a line that is not true any more: %v", err)
	}
	other := &report{Kubelets: []kubeletReport{{Build: protocol.Build{Kubelet: "v1.38.0"}}}}
	if err := r.compare(have, other); err == nil || !strings.Contains(err.Error(), "nothing of kubelet v1.38.0") {
		t.Errorf("another kubelet: %v", err)
	}
}

// TestBaseline verifies that vectors of another corpus are rejected.
func TestBaseline(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "parity")
	if _, err := loadBaselineVectors(dir); err != nil {
		t.Error(err)
	}
	other := t.TempDir()
	for _, f := range []string{"match", "references", "config", "request", "response", "keyring", "dockerconfig", "cachekey", "serviceaccount", "cache"} {
		data := must.Get(os.ReadFile(filepath.Join(dir, f+".json")))(t)
		if f == "cache" {
			data = []byte(`{"cases": [{}]}`)
		}
		must.Do(t, os.WriteFile(filepath.Join(other, f+".json"), data, 0o600))
	}
	if _, err := loadBaselineVectors(other); err == nil || !strings.Contains(err.Error(), "cache.json has 1 cases") {
		t.Errorf("a file of one case: %v", err)
	}
}
