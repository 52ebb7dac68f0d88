// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package layout

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/regcred/regcred/internal/flock"
)

// The name of a temporary file consists of tempPrefix and tempSuffixLength random characters.
const (
	tempPrefix       = ".tmp-"
	tempSuffixLength = 26
)

// pendingFile is a file that is written under a temporary name, synced and then renamed. It is
// locked until the rename. The lock distinguishes it from a file that a killed pull left
// behind.
type pendingFile struct {
	l    *Layout
	file *os.File
	tmp  string // temporary name; "" after the file was renamed or removed
	name string
}

// canRenameOpenFiles is false on Windows, where an open file cannot be renamed.
const canRenameOpenFiles = runtime.GOOS != "windows"

// newPending creates a temporary file that will be renamed to name. Its permissions follow the
// umask, because images are not secret.
func (l *Layout) newPending(name string) (*pendingFile, error) {
	for {
		tmp := path.Join(path.Dir(name), tempPrefix+rand.Text())
		f, err := l.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return nil, err
		}
		p := &pendingFile{l: l, file: f, tmp: tmp, name: name}
		held, err := flock.TryLock(f)
		switch {
		case errors.Is(err, errors.ErrUnsupported), held && l.isSameFile(tmp, f):
			return p, nil
		case err != nil:
			p.Abort()
			return nil, err
		}
		p.Abort() // another process removed the file as a leftover before it was locked
	}
}

func (p *pendingFile) commit() error {
	if err := p.file.Sync(); err != nil {
		return err
	}
	if !canRenameOpenFiles {
		if err := p.file.Close(); err != nil {
			return err
		}
	}
	if err := p.l.root.Rename(p.tmp, p.name); err != nil {
		return err
	}
	p.tmp = ""
	if canRenameOpenFiles { // keep the lock until after the rename
		return p.file.Close()
	}
	return nil
}

// Abort removes the file unless it was committed.
func (p *pendingFile) Abort() {
	if p.tmp != "" {
		_ = p.file.Close() // a failed commit may already have closed it
		_ = p.l.root.Remove(p.tmp)
		p.tmp = ""
	}
}

// replaceFile atomically writes or replaces a small file.
func (l *Layout) replaceFile(name string, content []byte) error {
	p, err := l.newPending(name)
	if err != nil {
		return err
	}
	defer p.Abort()
	if _, err := p.file.Write(content); err != nil {
		return err
	}
	if err := p.commit(); err != nil {
		return err
	}
	return l.syncDirs(".")
}

// syncDirs syncs directories, so that renames survive a power loss. It does nothing on Windows,
// which cannot sync directories.
func (l *Layout) syncDirs(dirs ...string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	for _, d := range dirs {
		f, err := l.root.Open(d)
		if err != nil {
			return err
		}
		err = f.Sync()
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// staleAge is the minimum age of temporary files that are removed on systems without file
// locks. A running pull writes to its files every few seconds.
const staleAge = 24 * time.Hour

// removeStaleFiles removes temporary files of killed pulls. It ignores errors, because they do
// not affect this pull.
func (l *Layout) removeStaleFiles() {
	dirs := []string{"."}
	algorithms, _ := fs.ReadDir(l.root.FS(), blobsDir)
	for _, a := range algorithms {
		dirs = append(dirs, path.Join(blobsDir, a.Name()))
	}
	for _, dir := range dirs {
		entries, _ := fs.ReadDir(l.root.FS(), dir)
		for _, e := range entries {
			if isTemp(e.Name()) && e.Type().IsRegular() {
				l.removeIfStale(path.Join(dir, e.Name()))
			}
		}
	}
}

// isTemp reports whether name has the form of a temporary name from newPending.
func isTemp(name string) bool {
	rest, ok := strings.CutPrefix(name, tempPrefix)
	return ok && len(rest) == tempSuffixLength && strings.Trim(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// removeIfStale removes a temporary file unless another process has locked it. Without locks,
// it checks the file's age.
func (l *Layout) removeIfStale(name string) {
	flags := os.O_WRONLY
	if runtime.GOOS != "windows" {
		flags |= syscall.O_NONBLOCK // do not block on a named pipe without a reader
	}
	f, err := l.root.OpenFile(name, flags, 0)
	if err != nil {
		return
	}
	defer f.Close()
	held, err := flock.TryLock(f)
	if errors.Is(err, errors.ErrUnsupported) {
		info, err := f.Stat()
		held = err == nil && time.Since(info.ModTime()) > staleAge
	}
	if held && l.isSameFile(name, f) {
		_ = l.root.Remove(name)
	}
}

// isSameFile reports whether name still refers to the open file f.
func (l *Layout) isSameFile(name string, f *os.File) bool {
	named, err := l.root.Lstat(name)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && os.SameFile(named, info)
}
