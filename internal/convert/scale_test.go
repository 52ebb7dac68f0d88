// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// versionsOnOneLine returns a configuration with n providers, all on one line.
func versionsOnOneLine(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("{name: p%d, apiVersion: credentialprovider.kubelet.k8s.io/v1beta1, matchImages: [r.example], defaultCacheDuration: 1m}", i))
	}
	return "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: CredentialProviderConfig\nproviders: [" + strings.Join(list, ", ") + "]\n"
}

// versionsOnSeparateLines returns a configuration with n providers, one per line.
func versionsOnSeparateLines(n int) string {
	var b strings.Builder
	b.WriteString("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: CredentialProviderConfig\nproviders:\n")
	for i := range n {
		fmt.Fprintf(&b, "- name: p%d\n  apiVersion: credentialprovider.kubelet.k8s.io/v1beta1\n  defaultCacheDuration: 1m\n  matchImages:\n  - r%d.example\n", i, i)
	}
	return b.String()
}

func writeTempFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestConvertOneLine verifies that every version is replaced in place if many versions are on one
// line.
func TestConvertOneLine(t *testing.T) {
	text := versionsOnOneLine(300)
	res := must.Get(Convert(writeTempFile(t, text), LayoutKeep, Options{PluginAPIVersion: plugin.V1}))(t)
	if want := strings.ReplaceAll(text, "/v1beta1", "/v1"); string(res.Files[0].Data) != want {
		t.Errorf("got %.300s", res.Files[0].Data)
	}
}

// BenchmarkConvert measures conversions of large files. The time must grow linearly with the size
// of the text.
func BenchmarkConvert(b *testing.B) {
	for name, text := range map[string]func(int) string{"one line": versionsOnOneLine, "blocks": versionsOnSeparateLines} {
		for _, n := range []int{1500, 3000} {
			text := text(n)
			path := writeTempFile(b, text)
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					if _, err := Convert(path, LayoutKeep, Options{PluginAPIVersion: plugin.V1}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
