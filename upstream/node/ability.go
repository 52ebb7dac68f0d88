// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import "testing"

// KubeletFeature describes a feature that only some kubelets have.
type KubeletFeature struct {
	description  string
	defaultSince int    // minor release of Kubernetes 1 that first enables it by default
	gate         string // feature gate that enables it in earlier releases; may be ""
	gateSince    int    // first minor release with the gate
	embeddedOnly bool   // only the kubelet with embedded regcred has it
}

// FeatureConfigDirectory and the following variables are credential features that
// kubelets gained after 1.32.
//
// Sources: pkg/features/kube_features.go and pkg/credentialprovider/plugin of 1.33.13,
// 1.34.4, 1.35.4 and 1.36.3.
var (
	FeatureConfigDirectory  = KubeletFeature{description: "a directory for the configuration of its plugins", defaultSince: 34}
	FeatureConfigHash       = KubeletFeature{description: "a metric with the hash of that configuration", defaultSince: 34}
	FeatureServiceAccounts  = KubeletFeature{description: "tokens of service accounts for its plugins", defaultSince: 34, gate: "KubeletServiceAccountTokenForCredentialProviders", gateSince: 33}
	FeatureCacheType        = KubeletFeature{description: "tokenAttributes.cacheType, without which a plugin may return the token", defaultSince: 34}
	FeatureChecksImageFirst = KubeletFeature{description: "no need of credentials for an image that it has", defaultSince: 34}
	FeaturePullRecords      = KubeletFeature{description: "records of what pulled an image (KEP-2535)", defaultSince: 35, gate: "KubeletEnsureSecretPulledImages", gateSince: 33}
	FeatureNamedFailures    = KubeletFeature{description: "the names of provider and image with each failure in its log", defaultSince: 35}
)

// FeatureReportsToPods and the following variables are features that only the kubelet with embedded
// regcred has (docs/project/upstream.md).
var (
	FeatureReportsToPods     = KubeletFeature{description: "the failures of its plugins in the events of pods", embeddedOnly: true}
	FeatureConcurrentPlugins = KubeletFeature{description: "plugins that run side by side", embeddedOnly: true}
	FeatureSharedTokens      = KubeletFeature{description: "one token for all pods of a service account that share an answer", embeddedOnly: true}
)

// IsEnabled reports whether the run's kubelet has the feature enabled by default.
func (a KubeletFeature) IsEnabled() bool {
	if a.embeddedOnly {
		return selectedVersions.hasRegcred
	}
	minor, err := minorVersion(selectedVersions.kubelet)
	return err == nil && minor >= a.defaultSince
}

// SkipUnlessSupported skips the test if the run's kubelet lacks the feature and has no gate to enable it.
func (a KubeletFeature) SkipUnlessSupported(t testing.TB) {
	t.Helper()
	if minor, err := minorVersion(selectedVersions.kubelet); err != nil || !a.IsEnabled() && (a.gate == "" || minor < a.gateSince) {
		t.Skipf("kubelet %s does not have %s (1.%d)", selectedVersions.kubelet, a.description, a.defaultSince)
	}
}

// EnablingConfig returns the KubeletConfiguration fields that enable the feature, for
// [KubeletOptions.Config], or nil if it is on by default. Like [KubeletFeature.SkipUnlessSupported], it skips
// the test if the kubelet lacks the feature.
func (a KubeletFeature) EnablingConfig(t testing.TB) map[string]any {
	t.Helper()
	a.SkipUnlessSupported(t)
	if a.IsEnabled() {
		return nil
	}
	return map[string]any{"featureGates": map[string]bool{a.gate: true}}
}
