// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The feature gates of credential providers.
const (
	gateProviders = "KubeletCredentialProviders"
	gateTokens    = "KubeletServiceAccountTokenForCredentialProviders"
	gateInTree    = "DisableKubeletCloudCredentialProviders" // turns off the built-in providers
	gateRecords   = "KubeletEnsureSecretPulledImages"        // records the credentials of pulled images
)

// The gates that set the default of alpha and beta gates.
const (
	allAlpha = "AllAlpha"
	allBeta  = "AllBeta"
)

// FeatureGates returns the names of the feature gates of credential providers, and
// AllAlpha and AllBeta. [Config.ValidateFor] ignores others, except wrong capitalization.
func FeatureGates() []string { return append([]string{allAlpha, allBeta}, gateNames()...) }

// gateNames returns the names of gates, sorted.
func gateNames() []string { return slices.Sorted(maps.Keys(gates)) }

// gate is the history of a feature gate, in minor releases of Kubernetes 1; 0 means not
// yet.
type gate struct {
	known  int // alpha; older kubelets do not start if it is set
	on     int // beta, and enabled by default
	locked int // kubelets do not start if it is not at its default
	gone   int // kubelets do not start if it is set
}

// gates is the history of FeatureGates. Source: pkg/features/kube_features.go of each
// release. TestParityGates compares with kubelets since 1.33 (testdata/parity/skew.json).
var gates = map[string]gate{
	gateProviders: {known: sinceV1Alpha1, on: sinceV1Beta1, locked: sinceV1, gone: 28},
	gateTokens:    {known: sinceTokenAttributes, on: sinceTokenAttributes + 1},
	gateInTree:    {known: 23, on: 29, locked: 31, gone: 33},
	gateRecords:   {known: 33, on: 35},
}

// has reports whether k is at least of minor release since, unless that is 0.
func (k kubelet) has(since int) bool { return since > 0 && k.minor >= since }

// enabled returns the setting of a gate, or its default. Settings of locked and removed
// gates are ignored.
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

// all returns the gate that sets the default of g; "" for none.
func (k kubelet) all(g gate) string {
	switch {
	case k.has(g.locked), k.has(g.gone), !k.has(g.known):
		return ""
	case k.has(g.on):
		return allBeta
	}
	return allAlpha
}

// removeGate is the fix for a gate, which is not set in the configuration file.
const removeGate = ": remove it from the kubelet's --feature-gates and featureGates"

// otherCase returns the gate that differs from name only in case; "" for none.
func otherCase(name string) string {
	for _, gate := range FeatureGates() {
		if gate != name && strings.EqualFold(gate, name) {
			return gate
		}
	}
	return ""
}

// gateErrors returns the gate settings with which the kubelet does not start.
func (k kubelet) gateErrors() (list []string) {
	for _, name := range slices.Sorted(maps.Keys(k.gates)) {
		if gate := otherCase(name); gate != "" {
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
			list = append(list, k.unknown("the feature gate "+name, g.known)+", and does not start if it is set"+removeGate)
		case k.has(g.gone):
			list = append(list, fmt.Sprintf("kubelet 1.%d does not support the feature gate %s (removed in 1.%d), and does not start if it is set%s", k.minor, name, g.gone, removeGate))
		case k.has(g.locked) && on != k.has(g.on):
			list = append(list, fmt.Sprintf("kubelet 1.%d does not start with feature gate %s=%t, because the gate has been locked since 1.%d%s", k.minor, name, on, g.locked, removeGate))
		}
	}
	return list
}
