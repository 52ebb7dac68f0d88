// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKubeletFlags(t *testing.T) {
	tests := []struct {
		name, text string
		want       map[string]string
	}{
		{"none", "KUBELET_EXTRA_ARGS=--v=2", map[string]string{}},
		{"empty", "", map[string]string{}},
		{
			"joined", "KUBELET_EXTRA_ARGS=--image-credential-provider-config=/a --root-dir=/r",
			map[string]string{configFlag: "/a", "root-dir": "/r"},
		},
		{
			"separate and quoted", `KUBELET_EXTRA_ARGS="--image-credential-provider-config /a '--image-credential-provider-bin-dir' /b"`,
			map[string]string{configFlag: "/a", binDirFlag: "/b"},
		},
		{
			"continued lines", "ExecStart=/usr/bin/kubelet \\\n  --image-credential-provider-config=/a \\\n  --v=2\n",
			map[string]string{configFlag: "/a"},
		},
		{"underscores", "--image_credential_provider_config=/a", map[string]string{configFlag: "/a"}},
		{"comments", "# --image-credential-provider-config=/a\n; --root-dir=/r\n", map[string]string{}},
		{"last wins", "--root-dir=/a --root-dir=/b", map[string]string{"root-dir": "/b"}},
		{"value missing", "--root-dir", map[string]string{"root-dir": ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, kubeletFlags(words(tt.text))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
