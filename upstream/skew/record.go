// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/regcred/regcred/upstream/skew/protocol"
	"github.com/regcred/regcred/upstream/vector"
)

// baseline are the vectors that upstream/record has written, by kind.
type baseline map[string][]json.RawMessage

func loadBaseline(dir string) (baseline, error) {
	b := baseline{}
	for _, k := range vector.Kinds {
		data, err := os.ReadFile(filepath.Join(dir, k.Name+".json"))
		if err != nil {
			return nil, err
		}
		var file struct{ Cases []json.RawMessage }
		if err := json.Unmarshal(data, &file); err != nil {
			return nil, fmt.Errorf("%s.json: %w", k.Name, err)
		}
		if want := len(k.Cases()); len(file.Cases) != want {
			return nil, fmt.Errorf("%s.json has %d cases, and the corpus %d: run go run ./record first", k.Name, len(file.Cases), want)
		}
		b[k.Name] = file.Cases
	}
	return b, nil
}

// line is one case of which some kubelets say something else than the vectors.
type line struct {
	ID        string          `json:"id"` // of the difference
	Kind      string          `json:"kind"`
	Case      int             `json:"case"` // its number in the kind's file
	Name      string          `json:"name,omitempty"`
	TokensOff bool            `json:"tokensOff,omitempty"` // the feature gate is off
	Says      json.RawMessage `json:"says"`                // what is different
	Kubelets  []string        `json:"kubelets"`
}

// recording collects lines; kubelets that say the same share one.
type recording struct {
	lines []*line
	index map[string]*line
}

func newRecording() *recording { return &recording{index: map[string]*line{}} }

func (r *recording) add(l line, kubelet string) {
	key := fmt.Sprintf("%s %s %d %t %s", l.ID, l.Kind, l.Case, l.TokensOff, l.Says)
	if r.index[key] == nil {
		r.index[key] = &l
		r.lines = append(r.lines, &l)
	}
	r.index[key].Kubelets = append(r.index[key].Kubelets, kubelet)
}

// compareCorpus asks a kubelet about the whole corpus, and about
// configurations once more with the token gate off.
func (r *recording) compareCorpus(o *oracle, base baseline) (tally, error) {
	t := tally{Kind: "corpus"}
	for _, k := range vector.Kinds {
		if err := r.compareKind(o, k, base[k.Name], false, &t); err != nil {
			return t, err
		}
		if k.Name == "config" && !o.gate(protocol.Tokens).Gone {
			if err := r.compareKind(o, k, base[k.Name], true, &t); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}

func (r *recording) compareKind(o *oracle, k vector.Kind, base []json.RawMessage, off bool, t *tally) error {
	for i, c := range k.Cases() {
		got, err := about[json.RawMessage](o, k.Name, c, off)
		if err != nil {
			return fmt.Errorf("case %d: %w", i, err)
		}
		l := line{Kind: k.Name, Case: i, TokensOff: off}
		t.Comparisons++
		if l.Says, l.Name, err = says(k.Name, base[i], got); err != nil {
			return err
		}
		if l.Says == nil {
			continue
		}
		l.ID = l.reason(o, base[i], got)
		t.differs(l.ID, fmt.Sprintf("%s, case %d %q, token gate off %t: %s", k.Name, i, l.Name, off, l.Says))
		r.add(l, o.version)
	}
	return nil
}

// says returns what of a vector is not as in the base, or nil. Of a
// configuration it counts whether it is refused and, where it is not, what the
// kubelet makes of it; texts of errors and a missing hash do not.
func says(kind string, base, got json.RawMessage) (diff json.RawMessage, name string, err error) {
	var b, g map[string]json.RawMessage
	if err := unmarshal(base, &b, got, &g); err != nil {
		return nil, "", err
	}
	_ = json.Unmarshal(b["name"], &name)
	if kind == "config" {
		if b, g, err = verdicts(base, got); err != nil {
			return nil, "", err
		}
	}
	out := map[string]json.RawMessage{}
	for key, v := range g {
		if !sameJSON(v, b[key]) {
			out[key] = v
		}
	}
	for key := range b {
		if _, ok := g[key]; !ok {
			out[key] = json.RawMessage("null")
		}
	}
	if len(out) == 0 {
		return nil, name, nil
	}
	diff, err = json.Marshal(out)
	return diff, name, err
}

// sameJSON compares two values, one of which may be missing.
func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if a == nil || b == nil || unmarshal(a, &x, b, &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}

func unmarshal(a json.RawMessage, into any, b json.RawMessage, intoB any) error {
	if err := json.Unmarshal(a, into); err != nil {
		return err
	}
	return json.Unmarshal(b, intoB)
}

// verdicts are two vectors of a configuration, as far as they count.
func verdicts(base, got json.RawMessage) (b, g map[string]json.RawMessage, err error) {
	var x, y vector.Config
	if err := unmarshal(base, &x, got, &y); err != nil {
		return nil, nil, err
	}
	if y.Hash == "" || x.Refused() || y.Refused() {
		x.Hash, y.Hash = "", ""
	}
	if x.Refused() || y.Refused() {
		x.Providers, y.Providers = nil, nil
	}
	both := make([]map[string]json.RawMessage, 2)
	for i, v := range []vector.Config{x, y} {
		data, err := json.Marshal(map[string]any{"refused": v.Refused(), "hash": v.Hash, "providers": v.Providers})
		if err != nil {
			return nil, nil, err
		}
		if err := json.Unmarshal(data, &both[i]); err != nil {
			return nil, nil, err
		}
	}
	return both[0], both[1], nil
}

// file is skew.json.
type file struct {
	Kubelets []kubeletReport `json:"kubelets"`
	Command  string          `json:"command"`
	Cases    []*line         `json:"cases"`
}

// write records the lines, one on a line, so that a changed one is seen in a diff.
func (r *recording) write(path string, rep *report) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	list := func(name string, n int, item func(int) any) error {
		fmt.Fprintf(&buf, "%q: [\n", name)
		for i := range n {
			if err := enc.Encode(item(i)); err != nil {
				return err
			}
			if i < n-1 {
				buf.Truncate(buf.Len() - 1)
				buf.WriteString(",\n")
			}
		}
		buf.WriteString("]")
		return nil
	}
	fmt.Fprintf(&buf, "{\n\"command\": %q,\n", "go run ./skew -record")
	if err := list("kubelets", len(rep.Kubelets), func(i int) any { return rep.Kubelets[i] }); err != nil {
		return err
	}
	buf.WriteString(",\n")
	if err := list("cases", len(r.lines), func(i int) any { return r.lines[i] }); err != nil {
		return err
	}
	buf.WriteString("\n}\n")
	return os.WriteFile(path, buf.Bytes(), 0o644)
}

// compare fails unless the file has these lines and gates, as far as they are
// about the kubelets that were asked.
func (r *recording) compare(path string, rep *report) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var have file
	if err := json.Unmarshal(data, &have); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, k := range rep.Kubelets {
		i := slices.IndexFunc(have.Kubelets, func(h kubeletReport) bool { return h.Kubelet == k.Kubelet })
		if i < 0 {
			return fmt.Errorf("%s has nothing of kubelet %s: record it", path, k.Kubelet)
		}
		if !slices.Equal(have.Kubelets[i].Gates, k.Gates) {
			return fmt.Errorf("%s has other feature gates of kubelet %s: record them again", path, k.Kubelet)
		}
		if got, want := linesOf(r.lines, k.Kubelet), linesOf(have.Cases, k.Kubelet); !slices.Equal(got, want) {
			return fmt.Errorf("%s is not what kubelet %s says now (%d lines, there %d): record it again", path, k.Kubelet, len(got), len(want))
		}
	}
	return nil
}

// linesOf are the lines that are true of a kubelet, as text.
func linesOf(lines []*line, kubelet string) (list []string) {
	for _, l := range lines {
		if slices.Contains(l.Kubelets, kubelet) {
			list = append(list, fmt.Sprintf("%s %s %d %t %s", l.ID, l.Kind, l.Case, l.TokensOff, l.Says))
		}
	}
	slices.Sort(list)
	return list
}
