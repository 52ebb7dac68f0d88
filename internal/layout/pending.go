// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package layout

import (
	"crypto/rand"
	"errors"
	"os"
	"path"
	"runtime"

	"github.com/regcred/regcred/internal/flock"
)

// The names of files that are not whole yet: what they begin with, and how many
// characters of chance follow.
const (
	tempPrefix = ".tmp-"
	tempLen    = 26
)

// pending is a file that gets its name only when it is whole: it is written
// beside its place, synced and renamed. It is held until then, so that others
// can tell it from what a pull left behind that was killed.
type pending struct {
	l    *Layout
	file *os.File
	tmp  string // "" once it is gone
	name string
}

// newPending creates a file that is to have this name, with the permissions
// that the umask leaves: an image is no secret.
func (l *Layout) newPending(name string) (*pending, error) {
	for {
		tmp := path.Join(path.Dir(name), tempPrefix+rand.Text())
		f, err := l.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return nil, err
		}
		p := &pending{l: l, file: f, tmp: tmp, name: name}
		held, err := flock.Hold(f)
		switch {
		case errors.Is(err, errors.ErrUnsupported), held && l.has(tmp, f):
			return p, nil
		case err != nil:
			p.Abort()
			return nil, err
		}
		p.Abort() // somebody took it for a leftover before it was held
	}
}

func (p *pending) commit() error {
	if err := p.file.Sync(); err != nil {
		return err
	}
	if !renamesOpen {
		if err := p.file.Close(); err != nil {
			return err
		}
	}
	if err := p.l.root.Rename(p.tmp, p.name); err != nil {
		return err
	}
	p.tmp = ""
	if renamesOpen { // held up to here
		return p.file.Close()
	}
	return nil
}

// Abort removes the file unless it has been committed.
func (p *pending) Abort() {
	if p.tmp != "" {
		_ = p.file.Close() // after a failed commit it is closed already
		_ = p.l.root.Remove(p.tmp)
		p.tmp = ""
	}
}

// replace writes a whole small file.
func (l *Layout) replace(name string, content []byte) error {
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

// syncDirs makes renames in directories last. Windows cannot, and need not.
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
