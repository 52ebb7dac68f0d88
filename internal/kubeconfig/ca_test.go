// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kubeconfig

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/regcred/regcred/internal/must"
)

func TestAddCAs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	must.Do(t, os.WriteFile(file, []byte("own"), 0o600))
	for _, tt := range []struct {
		name string
		cfg  rest.TLSClientConfig
		pem  string
		want string
	}{
		{"data", rest.TLSClientConfig{CAData: []byte("own")}, "more", "own\nmore"},
		{"file", rest.TLSClientConfig{CAFile: file}, "more", "own\nmore"},
		{"none of its own", rest.TLSClientConfig{}, "more", ""},
		{"not verified", rest.TLSClientConfig{Insecure: true}, "more", ""},
		{"nothing to add", rest.TLSClientConfig{CAData: []byte("own")}, "", "own"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := &rest.Config{TLSClientConfig: tt.cfg}
			if err := AddCAs(t.Context(), cfg, []byte(tt.pem)); err != nil || string(cfg.CAData) != tt.want {
				t.Errorf("got %q, %v; want %q", cfg.CAData, err, tt.want)
			}
		})
	}
	cfg := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: t.TempDir()}}
	if err := AddCAs(t.Context(), cfg, []byte("more")); err == nil {
		t.Error("a directory was read")
	}
}
