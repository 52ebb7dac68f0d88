// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"crypto/rand"
	"fmt"
	"hash"
	"os"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// tempPrefix begins the names of files that are not whole yet.
const tempPrefix = ".tmp-"

// pending is a file that gets its name only when it is whole: it is written
// beside its place, synced and renamed.
type pending struct {
	l    *layout
	file *os.File
	tmp  string // "" once it is gone
	name string
}

// newPending creates a file that is to have this name, with the permissions
// that the umask leaves: an image is no secret.
func (l *layout) newPending(name string) (*pending, error) {
	tmp := path.Join(path.Dir(name), tempPrefix+rand.Text())
	f, err := l.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	return &pending{l: l, file: f, tmp: tmp, name: name}, nil
}

func (p *pending) commit() error {
	if err := p.file.Sync(); err != nil {
		return err
	}
	if err := p.file.Close(); err != nil {
		return err
	}
	if err := p.l.root.Rename(p.tmp, p.name); err != nil {
		return err
	}
	p.tmp = ""
	return nil
}

// abort removes the file unless it has been committed.
func (p *pending) abort() {
	if p.tmp != "" {
		_ = p.file.Close() // after a failed commit it is closed already
		_ = p.l.root.Remove(p.tmp)
		p.tmp = ""
	}
}

// replace writes a whole small file.
func (l *layout) replace(name string, content []byte) error {
	p, err := l.newPending(name)
	if err != nil {
		return err
	}
	defer p.abort()
	if _, err := p.file.Write(content); err != nil {
		return err
	}
	if err := p.commit(); err != nil {
		return err
	}
	return l.syncDirs(".")
}

// blobWriter is a blob on its way into the layout.
type blobWriter struct {
	*pending
	desc v1.Descriptor
	hash hash.Hash
	size int64
}

// create begins a blob. Only commit gives it its name, and only if size and
// digest are right.
func (l *layout) create(d v1.Descriptor) (*blobWriter, error) {
	h, err := v1.Hasher(d.Digest.Algorithm)
	if err != nil {
		return nil, err
	}
	if err := l.root.MkdirAll(path.Dir(blobPath(d.Digest)), 0o777); err != nil {
		return nil, l.fail("making a place for blobs", err)
	}
	p, err := l.newPending(blobPath(d.Digest))
	if err != nil {
		return nil, l.fail("writing blob "+d.Digest.String(), err)
	}
	return &blobWriter{pending: p, desc: d, hash: h}, nil
}

func (w *blobWriter) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	w.hash.Write(p[:n])
	w.size += int64(n)
	if err != nil {
		return n, w.l.fail("writing blob "+w.desc.Digest.String(), err)
	}
	return n, nil
}

func (w *blobWriter) commit() error {
	if w.size != w.desc.Size {
		return fmt.Errorf("%w: the manifest says %d bytes, the registry sent %s", errMismatch, w.desc.Size, atLeast(w.size, w.desc.Size))
	}
	if got := fmt.Sprintf("%x", w.hash.Sum(nil)); got != w.desc.Digest.Hex {
		return fmt.Errorf("%w: what the registry sent has the digest %s:%s", errMismatch, w.desc.Digest.Algorithm, got)
	}
	if err := w.pending.commit(); err != nil {
		return w.l.fail("writing blob "+w.desc.Digest.String(), err)
	}
	return nil
}

func atLeast(n, want int64) string {
	if n > want {
		return "more"
	}
	return fmt.Sprint(n)
}
