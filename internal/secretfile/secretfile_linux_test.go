// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package secretfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestReadUnreadableAsRoot is like TestReadUnreadable, but runs as root. It reads in a thread that
// may not read other users' files.
func TestReadUnreadableAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can; TestReadUnreadable does it for everybody else")
	}
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		must.Do(t, os.Chmod(d, 0o755))
	}
	closed, open := writeFile(t, filepath.Join(dir, "closed"), "x", 0o600), writeFile(t, filepath.Join(dir, "open"), "x", 0o644)
	var closedErr, openErr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		if closedErr = syscall.Setfsuid(65534); closedErr != nil {
			return
		}
		_, closedErr = Read(closed)
		_, openErr = Read(open)
	}()
	<-done
	if errors.Is(openErr, fs.ErrPermission) {
		t.Skip("the directory for temporary files is closed to others:", os.TempDir())
	}
	if !errors.Is(closedErr, fs.ErrPermission) || openErr != nil {
		t.Errorf("a file of root's: error %v; one of everybody's: error %v", closedErr, openErr)
	}
}
