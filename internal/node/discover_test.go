// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
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
			if diff := cmp.Diff(tt.want, effectiveFlags(splitFlags(tt.text))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestRootOfADrive verifies that configurations below a relative root directory are not used.
// Windows paths without a drive are relative, and any user might be able to create them.
func TestRootOfADrive(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, loc := range wellKnownLocations() {
		path := filepath.Join("root", loc.config)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("{}"), 0o600)))
	}
	o, err := Node{Root: "root", ConfigSetting: "REGCRED_CONFIG", BinDirSetting: "REGCRED_BIN_DIR"}.NewReader().Find(t.Context(), FindOptions{NeedBinDir: true})
	hinted, _ := errors.AsType[*HintError](err)
	if err == nil || hinted == nil || strings.Contains(hinted.Hint, DefaultConfig) {
		t.Errorf("found %+v, and %v; want nothing, and a hint about only the variables", o, err)
	}
}

// TestFindCanceled verifies that Find returns the context's error if it is canceled, instead of
// an error that the configuration is missing.
func TestFindCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, w := range []FindOptions{{NeedBinDir: true}, {Config: "/c", NeedBinDir: true}, {AllowNone: true}} {
		if _, err := (Node{Root: t.TempDir()}).NewReader().Find(ctx, w); !errors.Is(err, context.Canceled) {
			t.Errorf("%+v: got %v, want %v", w, err, context.Canceled)
		}
	}
}
