// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package config

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestLoadSpecialFiles verifies that a socket and a named pipe without a writer are rejected
// without waiting.
func TestLoadSpecialFiles(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "a.yaml"), 0o600))
	l := must.Get(net.Listen("unix", filepath.Join(dir, "b.yaml")))(t)
	defer l.Close()
	for path, want := range map[string]string{
		filepath.Join(dir, "a.yaml"): "a.yaml: is expected a regular file but found a named pipe, which regcred does not read; save its contents to a file",
		filepath.Join(dir, "b.yaml"): "b.yaml: is expected a regular file but found a socket",
		dir:                          "a.yaml: is expected a regular file but found a named pipe, which regcred does not read; save its contents to a file",
	} {
		_, err := Load(path)
		if got := errorLines(t, dir, err); len(got) == 0 || got[0] != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}
