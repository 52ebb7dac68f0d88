// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/node"
)

// TestRancher verifies the findings about registries.yaml of k3s and RKE2, including a file
// that changed after containerd's configuration was generated.
func TestRancher(t *testing.T) {
	const file, made = "/etc/rancher/rke2/registries.yaml", "/var/lib/rancher/rke2/agent/etc/containerd/config.toml"
	root := t.TempDir()
	node := node.Node{Root: root}
	says := func() string {
		t.Helper()
		r := &checkResults{}
		checkMirrors(t.Context(), &Input{runtime: &Runtime{node: node}}, r)
		var lines []string
		for _, c := range r.list {
			lines = append(lines, string(c.Severity)+" "+c.String()+" "+c.Fix)
		}
		return strings.Join(lines, "\n")
	}
	write := func(name, text string, changed time.Time) {
		t.Helper()
		path := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		must.Do(t, os.Chtimes(path, changed, changed))
	}
	if got := says(); got != "" {
		t.Errorf("without a file: %s", got)
	}
	day := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	write(file, "mirrors: {quay.io: {endpoint: [m.example]}}\n", day)
	if got := says(); got != "ok "+file+": no problems found " {
		t.Errorf("a sound file: %s", got)
	}
	write(made, "version = 2\n", day.Add(time.Hour))
	if got := says(); strings.Contains(got, "warning") {
		t.Errorf("a file that is read: %s", got)
	}
	write(file, "mirrors: {quay.io: {endpoint: [m.example]}}\n", day.Add(2*time.Hour))
	if got := says(); !strings.Contains(got, "warning "+file+": rke2 reads this file only when it starts") || !strings.Contains(got, "restart rke2") {
		t.Errorf("a file that was changed: %s", got)
	}
	write(file, "mirrros: {}\n", day)
	if got := says(); !strings.Contains(got, "warning "+file+":1: rke2 ignores the key \"mirrros\"") {
		t.Errorf("an unknown key: %s", got)
	}
	write(file, "a: b: c\n", day)
	if got := says(); !strings.Contains(got, "error "+file+":1: the file is not valid YAML") {
		t.Errorf("no YAML: %s", got)
	}
}
