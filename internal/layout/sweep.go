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

// stale is how old a temporary file must be where nothing tells whether
// somebody still writes it. A pull writes each at least once in some seconds.
const stale = 24 * time.Hour

// sweep takes away what pulls have left behind that were killed. What another
// pull is writing stays. It is of no concern to this pull whether it succeeds.
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

// isTemp tells our temporary files from those of others.
func isTemp(name string) bool {
	rest, ok := strings.CutPrefix(name, tempPrefix)
	return ok && len(rest) == tempLen && strings.Trim(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// sweepFile removes a temporary file unless somebody holds it.
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

// has reports whether a name still is that of an open file.
func (l *Layout) has(name string, f *os.File) bool {
	named, err := l.root.Lstat(name)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && os.SameFile(named, info)
}
