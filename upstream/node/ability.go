// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import "testing"

// Ability describes a feature that only some kubelets have.
type Ability struct {
	what   string
	since  int    // minor release of Kubernetes 1 that first enables it by default
	gate   string // feature gate that enables it in earlier releases; may be ""
	gated  int    // first minor release with the gate
	inside bool   // only the kubelet with embedded regcred has it
}

// Credential features that kubelets gained after 1.32.
//
// Sources: pkg/features/kube_features.go and pkg/credentialprovider/plugin of 1.33.13,
// 1.34.4, 1.35.4 and 1.36.3.
var (
	ConfigDirectory  = Ability{what: "a directory for the configuration of its plugins", since: 34}
	ConfigHash       = Ability{what: "a metric with the hash of that configuration", since: 34}
	ServiceAccounts  = Ability{what: "tokens of service accounts for its plugins", since: 34, gate: "KubeletServiceAccountTokenForCredentialProviders", gated: 33}
	CacheType        = Ability{what: "tokenAttributes.cacheType, without which a plugin may return the token", since: 34}
	ChecksImageFirst = Ability{what: "no need of credentials for an image that it has", since: 34}
	PullRecords      = Ability{what: "records of what pulled an image (KEP-2535)", since: 35, gate: "KubeletEnsureSecretPulledImages", gated: 33}
	NamedFailures    = Ability{what: "the names of provider and image with each failure in its log", since: 35}
)

// Features only of the kubelet with embedded regcred: docs/project/upstream.md.
var (
	ReportsToPods    = Ability{what: "the failures of its plugins in the events of pods", inside: true}
	RunsConcurrently = Ability{what: "plugins that run side by side", inside: true}
	SharesTokens     = Ability{what: "one token for all pods of a service account that share an answer", inside: true}
)

// Has reports whether the run's kubelet has the feature enabled by default.
func (a Ability) Has() bool {
	if a.inside {
		return chosen.inside
	}
	minor, err := minorOf(chosen.kubelet)
	return err == nil && minor >= a.since
}

// Need skips the test if the run's kubelet lacks the feature and has no gate to enable it.
func (a Ability) Need(t testing.TB) {
	t.Helper()
	if minor, err := minorOf(chosen.kubelet); err != nil || !a.Has() && (a.gate == "" || minor < a.gated) {
		t.Skipf("kubelet %s does not have %s (1.%d)", chosen.kubelet, a.what, a.since)
	}
}

// On returns the KubeletConfiguration fields that enable the feature, for
// [KubeletOptions.Config], or nil if it is on by default. Like [Ability.Need], it skips
// the test if the kubelet lacks the feature.
func (a Ability) On(t testing.TB) map[string]any {
	t.Helper()
	a.Need(t)
	if a.Has() {
		return nil
	}
	return map[string]any{"featureGates": map[string]bool{a.gate: true}}
}
