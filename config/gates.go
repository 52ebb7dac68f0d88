// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Feature gates for credential providers.
const (
	gateKubeletCredentialProviders = "KubeletCredentialProviders"
	gateServiceAccountTokens       = "KubeletServiceAccountTokenForCredentialProviders"
	gateDisableInTree              = "DisableKubeletCloudCredentialProviders" // disables the built-in providers
	gatePullRecords                = "KubeletEnsureSecretPulledImages"        // records the credentials of pulled images
)

// Gates that set the default of all alpha gates and of all beta gates.
const (
	gateAllAlpha = "AllAlpha"
	gateAllBeta  = "AllBeta"
)

// FeatureGates returns the names of the feature gates for credential providers, and AllAlpha
// and AllBeta. [Config.ValidateFor] reports these names if their capitalization is wrong. It
// ignores all other gates.
func FeatureGates() []string {
	return append([]string{gateAllAlpha, gateAllBeta}, sortedGateNames()...)
}

func sortedGateNames() []string { return slices.Sorted(maps.Keys(featureGates)) }

// gateHistory is the history of a feature gate. The numbers are minor releases of Kubernetes 1.
// 0 means that it has not happened yet.
type gateHistory struct {
	alphaSince   int // alpha; older kubelets do not start if the gate is set
	betaSince    int // beta, and enabled by default
	lockedSince  int // kubelets do not start if the gate is set to a non-default value
	removedSince int // kubelets do not start if the gate is set
}

// featureGates is the history of each gate. Source: pkg/features/kube_features.go of each
// release. TestParityGates compares it with kubelets since 1.33 (testdata/parity/skew.json).
var featureGates = map[string]gateHistory{
	gateKubeletCredentialProviders: {alphaSince: sinceV1Alpha1, betaSince: sinceV1Beta1, lockedSince: sinceV1, removedSince: 28},
	gateServiceAccountTokens:       {alphaSince: sinceTokenAttributes, betaSince: sinceTokenAttributes + 1},
	gateDisableInTree:              {alphaSince: 23, betaSince: 29, lockedSince: 31, removedSince: 33},
	gatePullRecords:                {alphaSince: 33, betaSince: 35},
}

// isAtLeast reports whether the kubelet's release is since or later. If since is 0, it returns
// false.
func (k kubelet) isAtLeast(since int) bool { return since > 0 && k.minor >= since }

// gateEnabled reports whether a gate is enabled by its setting or by default. Settings of
// locked and removed gates are ignored.
func (k kubelet) gateEnabled(name string) bool {
	g := featureGates[name]
	if on, ok := k.gates[name]; ok && !k.isAtLeast(g.lockedSince) && !k.isAtLeast(g.removedSince) {
		return on
	}
	if on, ok := k.gates[k.defaultGate(g)]; ok {
		return on
	}
	return k.isAtLeast(g.betaSince)
}

// defaultGate returns the gate that sets the default of g (AllAlpha or AllBeta), or "" if there
// is none.
func (k kubelet) defaultGate(g gateHistory) string {
	switch {
	case k.isAtLeast(g.lockedSince), k.isAtLeast(g.removedSince), !k.isAtLeast(g.alphaSince):
		return ""
	case k.isAtLeast(g.betaSince):
		return gateAllBeta
	}
	return gateAllAlpha
}

// removeGateFix is the fix for an invalid gate setting. Gates are set in the kubelet's flags
// and configuration, not in the CredentialProviderConfig.
const removeGateFix = ": remove it from the kubelet's --feature-gates and featureGates"

// gateErrors returns an error for each gate setting that prevents the kubelet from starting.
func (k kubelet) gateErrors() (list []string) {
	known := FeatureGates()
	for _, name := range slices.Sorted(maps.Keys(k.gates)) {
		i := slices.IndexFunc(known, func(gate string) bool { return gate != name && strings.EqualFold(gate, name) })
		if i >= 0 {
			list = append(list, fmt.Sprintf("the kubelet does not recognize the feature gate %s and does not start: spell it %s in the kubelet's --feature-gates or featureGates", name, known[i]))
		}
	}
	for _, name := range sortedGateNames() {
		on, set := k.gates[name]
		if !set {
			continue
		}
		switch g := featureGates[name]; {
		case !k.isAtLeast(g.alphaSince):
			list = append(list, k.unsupportedFeature("the feature gate "+name, g.alphaSince)+", and does not start if it is set"+removeGateFix)
		case k.isAtLeast(g.removedSince):
			list = append(list, fmt.Sprintf("kubelet 1.%d does not support the feature gate %s (removed in 1.%d), and does not start if it is set%s", k.minor, name, g.removedSince, removeGateFix))
		case k.isAtLeast(g.lockedSince) && on != k.isAtLeast(g.betaSince):
			list = append(list, fmt.Sprintf("kubelet 1.%d does not start with feature gate %s=%t, because the gate has been locked since 1.%d%s", k.minor, name, on, g.lockedSince, removeGateFix))
		}
	}
	return list
}
