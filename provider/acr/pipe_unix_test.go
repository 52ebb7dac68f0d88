// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package acr

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// makeNamedPipe creates a named pipe without a writer and returns its path.
func makeNamedPipe(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "arc.key")
	must.Do(t, syscall.Mkfifo(path, 0o600))
	return path
}
