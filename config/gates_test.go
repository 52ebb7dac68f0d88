// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestGatesAreTheKubelets compares the history of gates with what each kubelet of
// testdata/parity/skew.json has of them: defaults, stages (which AllAlpha and AllBeta
// go by), which are locked, and which are gone.
func TestGatesAreTheKubelets(t *testing.T) {
	type recorded struct {
		Name, Stage           string
		Default, Locked, Gone bool
	}
	var skew struct {
		Kubelets []struct {
			Kubelet string
			Gates   []recorded
		}
	}
	data, err := os.ReadFile(filepath.Join("..", "testdata", "parity", "skew.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &skew); err != nil {
		t.Fatal(err)
	}
	stages := map[string]string{allAlpha: "ALPHA", allBeta: "BETA", "": "GA"}
	compared := 0
	for _, s := range skew.Kubelets {
		k, err := Target{KubeletVersion: s.Kubelet}.kubelet()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range s.Gates {
			g, ok := gates[want.Name]
			if !ok {
				continue // TestParityGates says which there have to be
			}
			got := recorded{Name: want.Name, Gone: k.has(g.gone) || !k.has(g.known)}
			if !got.Gone {
				got.Stage, got.Default, got.Locked = stages[k.all(g)], k.has(g.on), k.has(g.locked)
			}
			if compared++; got != want {
				t.Errorf("kubelet %s: got %+v, want %+v", s.Kubelet, got, want)
			}
		}
	}
	if compared < 5*len(gates) {
		t.Errorf("%d gates compared", compared)
	}
}
