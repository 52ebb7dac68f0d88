// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"github.com/regcred/regcred/upstream/skew/protocol"
	"github.com/regcred/regcred/upstream/vector"
)

// baselineVectors holds the vectors that upstream/record wrote, by kind.
type baselineVectors map[string][]json.RawMessage

func loadBaselineVectors(dir string) (baselineVectors, error) {
	b := baselineVectors{}
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

// compareCorpus compares a kubelet's vectors for the whole corpus with the baseline. If
// the token gate can be turned off, it repeats the configurations with the gate off.
func (r *recording) compareCorpus(o *kubeletProcess, base baselineVectors) (comparisonCounts, error) {
	t := comparisonCounts{Kind: "corpus"}
	for _, k := range vector.Kinds {
		if err := r.compareKind(o, k, base[k.Name], false, &t); err != nil {
			return t, err
		}
		if k.Name == "config" && !o.featureGate(protocol.TokenGateName).IsLocked() {
			if err := r.compareKind(o, k, base[k.Name], true, &t); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}

func (r *recording) compareKind(o *kubeletProcess, k vector.Kind, base []json.RawMessage, off bool, t *comparisonCounts) error {
	for i, c := range k.Cases() {
		got, err := queryVector[json.RawMessage](o, k.Name, c, off)
		if err != nil {
			return fmt.Errorf("case %d: %w", i, err)
		}
		l := differenceLine{Kind: k.Name, Case: i, TokensOff: off}
		t.Comparisons++
		if l.Changes, l.Name, err = diffVectors(k.Name, base[i], got); err != nil {
			return err
		}
		if l.Changes == nil {
			continue
		}
		l.ID = l.differenceName(o, base[i], got)
		t.countDifference(l.ID, fmt.Sprintf("%s, case %d %q, token gate off %t: %s", k.Name, i, l.Name, off, l.Changes))
		r.addLine(l, o.version)
	}
	return nil
}

// diffVectors returns the parts of a vector that differ from the baseline, or nil. For a
// configuration, it compares whether it is rejected and, if it is accepted, the parsed result. It
// ignores error texts and a missing hash.
func diffVectors(kind string, base, got json.RawMessage) (diff json.RawMessage, name string, err error) {
	var b, g map[string]json.RawMessage
	if err := unmarshalBoth(base, &b, got, &g); err != nil {
		return nil, "", err
	}
	_ = json.Unmarshal(b["name"], &name)
	if kind == "config" {
		if b, g, err = comparedParts(base, got); err != nil {
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

// sameJSON reports whether two JSON values are equal. A missing value does not equal any value.
func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if a == nil || b == nil || unmarshalBoth(a, &x, b, &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}

func unmarshalBoth(a json.RawMessage, into any, b json.RawMessage, intoB any) error {
	if err := json.Unmarshal(a, into); err != nil {
		return err
	}
	return json.Unmarshal(b, intoB)
}

// comparedParts returns the parts of a configuration's two vectors that must be equal.
func comparedParts(base, got json.RawMessage) (b, g map[string]json.RawMessage, err error) {
	var x, y vector.ConfigVector
	if err := unmarshalBoth(base, &x, got, &y); err != nil {
		return nil, nil, err
	}
	if y.Hash == "" || x.IsRejected() || y.IsRejected() {
		x.Hash, y.Hash = "", ""
	}
	if x.IsRejected() || y.IsRejected() {
		x.Providers, y.Providers = nil, nil
	}
	both := make([]map[string]json.RawMessage, 2)
	for i, v := range []vector.ConfigVector{x, y} {
		data, err := json.Marshal(map[string]any{"refused": v.IsRejected(), "hash": v.Hash, "providers": v.Providers})
		if err != nil {
			return nil, nil, err
		}
		if err := json.Unmarshal(data, &both[i]); err != nil {
			return nil, nil, err
		}
	}
	return both[0], both[1], nil
}
