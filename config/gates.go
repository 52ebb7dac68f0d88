// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The feature gates that concern credential providers: whether there are any,
// whether they get tokens, whether those that kubelets had built in are off, and
// whether the kubelet keeps records of whose credentials have pulled an image.
const (
	gateProviders = "KubeletCredentialProviders"
	gateTokens    = "KubeletServiceAccountTokenForCredentialProviders"
	gateInTree    = "DisableKubeletCloudCredentialProviders"
	gateRecords   = "KubeletEnsureSecretPulledImages"
)

// The gates that set those which are alpha or beta, and are not set themselves.
const (
	allAlpha = "AllAlpha"
	allBeta  = "AllBeta"
)

// FeatureGates are the names of the feature gates that concern credential
// providers, AllAlpha and AllBeta among them. [Config.ValidateFor] looks at no others,
// but for one of these in another case.
func FeatureGates() []string { return append([]string{allAlpha, allBeta}, gateNames()...) }

// gateNames are the names of gates, in order.
func gateNames() []string { return slices.Sorted(maps.Keys(gates)) }

// gate is a feature gate by the minor releases of Kubernetes 1 since which
// something holds of it; 0 is none yet.
type gate struct {
	known  int // and alpha; before that, a kubelet does not start where it is set
	on     int // by default, and beta
	locked int // at its default: a kubelet does not start with it set otherwise
	gone   int // from then on, a kubelet does not start where it is set
}

// gates are those of FeatureGates that have a history. testdata/parity/skew.json has what kubelets
// from 1.33 on say, and TestParityGates compares; what is older stands in
// pkg/features/kube_features.go of that time.
var gates = map[string]gate{
	gateProviders: {known: sinceV1Alpha1, on: sinceV1Beta1, locked: sinceV1, gone: 28},
	gateTokens:    {known: sinceTokenAttributes, on: sinceTokenAttributes + 1},
	gateInTree:    {known: 23, on: 29, locked: 31, gone: 33},
	gateRecords:   {known: 33, on: 35},
}

// has reports whether a release has come to a point, if there is one.
func (k kubelet) has(since int) bool { return since > 0 && k.minor >= since }

// enabled returns the setting of a gate, or its default. One that is gone, or
// locked, is as it is by default.
func (k kubelet) enabled(name string) bool {
	g := gates[name]
	if on, ok := k.gates[name]; ok && !k.has(g.locked) && !k.has(g.gone) {
		return on
	}
	if on, ok := k.gates[k.all(g)]; ok {
		return on
	}
	return k.has(g.on)
}

// all names the gate that sets a gate which is not set itself; "" is none.
func (k kubelet) all(g gate) string {
	switch {
	case k.has(g.locked), k.has(g.gone), !k.has(g.known):
		return ""
	case k.has(g.on):
		return allBeta
	}
	return allAlpha
}

// takeGateOut is what to do about a gate, which no file of providers sets.
const takeGateOut = ": remove it from the kubelet's --feature-gates and featureGates"

// ofOtherCase is the gate that a name means which differs in case alone; "" for none.
func ofOtherCase(name string) string {
	for _, gate := range FeatureGates() {
		if gate != name && strings.EqualFold(gate, name) {
			return gate
		}
	}
	return ""
}

// refusals says because of which gates the kubelet does not start, whatever its
// configuration.
func (k kubelet) refusals() (list []string) {
	for _, name := range slices.Sorted(maps.Keys(k.gates)) {
		if gate := ofOtherCase(name); gate != "" {
			list = append(list, fmt.Sprintf("the kubelet does not recognize the feature gate %s and does not start: spell it %s in the kubelet's --feature-gates or featureGates", name, gate))
		}
	}
	for _, name := range gateNames() {
		on, set := k.gates[name]
		if !set {
			continue
		}
		switch g := gates[name]; {
		case !k.has(g.known):
			list = append(list, k.unknown("the feature gate "+name, g.known)+", and does not start if it is set"+takeGateOut)
		case k.has(g.gone):
			list = append(list, fmt.Sprintf("kubelet 1.%d does not support the feature gate %s (removed in 1.%d), and does not start if it is set%s", k.minor, name, g.gone, takeGateOut))
		case k.has(g.locked) && on != k.has(g.on):
			list = append(list, fmt.Sprintf("kubelet 1.%d does not start with feature gate %s=%t, because the gate has been locked since 1.%d%s", k.minor, name, on, g.locked, takeGateOut))
		}
	}
	return list
}
