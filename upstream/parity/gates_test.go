// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package parity

import (
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/kubelet"
)

// TestGateSettings compares which feature gate settings prevent a kubelet's start, and which turn
// off service account tokens. The settings include AllAlpha and AllBeta.
func TestGateSettings(t *testing.T) {
	const tokens = string(features.KubeletServiceAccountTokenForCredentialProviders)
	c := must.Get(config.Parse("f", []byte("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: p\n  matchImages: [a]\n  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n"+
		"  tokenAttributes: {serviceAccountTokenAudience: a, cacheType: Token, requireServiceAccount: true}\n")))(t)
	refused := 0
	for _, settings := range []string{
		tokens + "=true", tokens + "=false", tokens + "=false," + tokens + "=true", strings.ToLower(tokens) + "=true",
		"AllAlpha=true", "AllAlpha=false", "AllBeta=true", "AllBeta=false", "allBeta=true", "ALLALPHA=false", "AllAlpha=true,AllBeta=false",
		"AllBeta=false," + tokens + "=true", tokens + "=true,AllBeta=false", "AllBeta=true," + tokens + "=false", "AllAlpha=true," + tokens + "=false",
		"KubeletEnsureSecretPulledImages=false", "KubeletCredentialProviders=true", "DisableKubeletCloudCredentialProviders=true",
	} {
		gate := utilfeature.DefaultMutableFeatureGate.DeepCopy()
		want := gate.Set(settings) != nil || !gate.Enabled(features.KubeletServiceAccountTokenForCredentialProviders)
		set := map[string]bool{}
		for setting := range strings.SplitSeq(settings, ",") {
			name, value, _ := strings.Cut(setting, "=")
			set[name] = value == "true"
		}
		got := c.ValidateFor(config.Target{KubeletVersion: kubelet.Version, FeatureGates: set})
		if (got != nil) != want {
			t.Errorf("%s: %v; the kubelet refuses it: %t", settings, got, want)
		}
		if want {
			refused++
		}
	}
	if refused < 5 {
		t.Errorf("%d settings are refused", refused)
	}
}
