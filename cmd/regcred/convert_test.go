// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/convert"
	"github.com/regcred/regcred/internal/must"
)

// TestConvertForNode verifies that the result is checked for the node's kubelet if only that kubelet accepts it, and
// no flag selects another.
func TestConvertForNode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	must.Do(t, os.WriteFile(path, []byte(`kind: CredentialProviderConfig
apiVersion: kubelet.config.k8s.io/v1
providers:
- name: tokens
  matchImages: [registry.example]
  defaultCacheDuration: 10m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  tokenAttributes: {serviceAccountTokenAudience: a, requireServiceAccount: true}
`), 0o600))
	res := must.Get(convert.Convert(path, convert.LayoutSingle, convert.Options{}))(t)
	gate := map[string]bool{"KubeletServiceAccountTokenForCredentialProviders": true}
	newest := config.Target{KubeletVersion: config.NewestKubelet}
	for _, tt := range []struct {
		name  string
		node  config.Target
		given bool // --kubelet-version
		want  string
	}{
		{"no kubelet", config.Target{}, false, config.NewestKubelet},
		{"accepts it", config.Target{KubeletVersion: "1.33.4", FeatureGates: gate}, false, "1.33.4"},
		{"without the gate", config.Target{KubeletVersion: "1.33.4"}, false, config.NewestKubelet},
		{"flag", config.Target{KubeletVersion: "1.33.4", FeatureGates: gate}, true, config.NewestKubelet},
	} {
		var stderr bytes.Buffer
		a := newApp(nil, nil, &stderr, nil)
		f := &convertFlags{target: newest, targetGiven: tt.given}
		a.useNodeTarget(f, res, path, func() config.Target { return tt.node })
		noted := strings.Contains(stderr.String(), "this node's kubelet")
		if f.target.KubeletVersion != tt.want || noted != (tt.want != config.NewestKubelet) {
			t.Errorf("%s: checked for %q, printed %q", tt.name, f.target.KubeletVersion, stderr.String())
		}
	}
}
