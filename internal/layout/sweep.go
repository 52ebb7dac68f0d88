// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package layout

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/flock"
)

// stale is the age of a temporary file that may be removed where files cannot
// be locked. A pull writes to each file at least every few seconds.
const stale = 24 * time.Hour

// sweep removes files that killed pulls left behind. Errors do not matter to
// this pull.
func (l *Layout) sweep() {
	dirs := []string{"."}
	algorithms, _ := fs.ReadDir(l.root.FS(), blobsDir)
	for _, a := range algorithms {
		dirs = append(dirs, path.Join(blobsDir, a.Name()))
	}
	for _, dir := range dirs {
		entries, _ := fs.ReadDir(l.root.FS(), dir)
		for _, e := range entries {
			if isTemp(e.Name()) && e.Type().IsRegular() {
				l.sweepFile(path.Join(dir, e.Name()))
			}
		}
	}
}

// isTemp reports whether newPending chose a name.
func isTemp(name string) bool {
	rest, ok := strings.CutPrefix(name, tempPrefix)
	return ok && len(rest) == tempLen && strings.Trim(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// sweepFile removes a temporary file unless a process has locked it.
func (l *Layout) sweepFile(name string) {
	f, err := l.root.OpenFile(name, os.O_WRONLY|nonblock, 0)
	if err != nil {
		return
	}
	defer f.Close()
	held, err := flock.Hold(f)
	if errors.Is(err, errors.ErrUnsupported) {
		info, err := f.Stat()
		held = err == nil && time.Since(info.ModTime()) > stale
	}
	if held && l.has(name, f) {
		_ = l.root.Remove(name)
	}
}

// has reports whether a name still leads to an open file.
func (l *Layout) has(name string, f *os.File) bool {
	named, err := l.root.Lstat(name)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && os.SameFile(named, info)
}
