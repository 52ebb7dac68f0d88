// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/node"
)

// TestRuntimeOfUnit verifies that Runtime reads the environment from the unit if the runtime is
// not running.
func TestRuntimeOfUnit(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must.Do(t, os.WriteFile(file, []byte(text), 0o644))
	}
	n := node.Node{Root: root}
	if found := n.NewReader().Runtime(t.Context(), 0); found != nil {
		t.Errorf("found %+v where there is none", found)
	}
	write("usr/lib/systemd/system/containerd.service", "[Service]\nExecStart=/usr/bin/containerd\n")
	write("etc/systemd/system/containerd.service.d/proxy.conf", "[Service]\nEnvironment=HTTPS_PROXY=http://proxy.example:3128\nEnvironmentFile=-/etc/default/containerd\n")
	write("etc/default/containerd", "NO_PROXY=.example\n")
	found := n.NewReader().Runtime(t.Context(), 0)
	if found == nil || found.Name != "containerd" || found.From != "containerd, from containerd.service" {
		t.Fatalf("found %+v", found)
	}
	if want := []string{"HTTPS_PROXY=http://proxy.example:3128", "NO_PROXY=.example"}; !slices.Equal(found.Environ, want) {
		t.Errorf("got %q, want %q", found.Environ, want)
	}
}
