// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// gateState is the default and the stage of a feature gate in a kubelet.
type gateState struct {
	Name, Stage           string
	Default, Locked, Gone bool
}

// checkGateState returns this package's data about a feature gate in a kubelet.
func checkGateState(t *testing.T, version, name string) gateState {
	t.Helper()
	k := must.Get(Target{KubeletVersion: version}.resolve())(t)
	g := featureGates[name]
	if k.isAtLeast(g.removedSince) || !k.isAtLeast(g.alphaSince) {
		return gateState{Name: name, Gone: true}
	}
	stage := map[string]string{gateAllAlpha: "ALPHA", gateAllBeta: "BETA", "": "GA"}[k.defaultGate(g)]
	return gateState{name, stage, k.isAtLeast(g.betaSince), k.isAtLeast(g.lockedSince), false}
}

// TestGatesAreTheKubelets compares the history of the feature gates with
// testdata/parity/skew.json. For each kubelet it compares the defaults, the stages (which
// AllAlpha and AllBeta use), and which gates are locked or removed.
func TestGatesAreTheKubelets(t *testing.T) {
	var skew struct {
		Kubelets []struct {
			Kubelet string
			Gates   []gateState
		}
	}
	data := must.Get(os.ReadFile(filepath.Join("..", "testdata", "parity", "skew.json")))(t)
	must.Do(t, json.Unmarshal(data, &skew))
	compared, newest := 0, 0
	for _, s := range skew.Kubelets {
		k := must.Get(Target{KubeletVersion: s.Kubelet}.resolve())(t)
		newest = max(newest, k.minor)
		for _, want := range s.Gates {
			if _, ok := featureGates[want.Name]; !ok {
				continue // TestParityGates checks that no gate is missing
			}
			if got := checkGateState(t, s.Kubelet, want.Name); got != want {
				t.Errorf("kubelet %s: got %+v, want %+v", s.Kubelet, got, want)
			}
			compared++
		}
	}
	if compared < 5*len(featureGates) {
		t.Errorf("%d gates compared", compared)
	}
	known, err := Target{KubeletVersion: NewestKubelet}.resolve()
	if err != nil || known.minor != newestKubeletMinor || newest != newestKubeletMinor {
		t.Errorf("the newest kubelet is 1.%d, NewestKubelet %s, %v, and that of skew.json 1.%d", newestKubeletMinor, NewestKubelet, err, newest)
	}
}

// TestGatesOfOlderKubelets compares the history of the gate that Kubernetes 1.33 removed with
// versioned_kube_features.go of 1.32.13.
func TestGatesOfOlderKubelets(t *testing.T) {
	for _, tt := range []struct {
		version string
		want    gateState
	}{
		{"1.22", gateState{Gone: true}},
		{"1.23", gateState{Stage: "ALPHA"}},
		{"1.28", gateState{Stage: "ALPHA"}},
		{"1.29", gateState{Stage: "BETA", Default: true}},
		{"1.30", gateState{Stage: "BETA", Default: true}},
		{"1.31", gateState{Stage: "GA", Default: true, Locked: true}},
		{"1.32", gateState{Stage: "GA", Default: true, Locked: true}},
	} {
		tt.want.Name = gateDisableInTree
		if got := checkGateState(t, tt.version, gateDisableInTree); got != tt.want {
			t.Errorf("kubelet %s: got %+v, want %+v", tt.version, got, tt.want)
		}
	}
}
