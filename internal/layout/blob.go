// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package layout

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/regcred/regcred/internal/regularfile"
)

const blobsDir = "blobs"

// ErrMismatch is the error for content whose size or digest differs from its descriptor.
var ErrMismatch = errors.New("does not match the manifest")

func blobPath(h v1.Hash) string { return path.Join(blobsDir, h.Algorithm, h.Hex) }

// VerifyBlob reports whether the layout contains the blob with the right size and digest. It
// does not remove a blob with wrong content.
func (l *Layout) VerifyBlob(ctx context.Context, d v1.Descriptor) (bool, error) {
	info, err := l.root.Lstat(blobPath(d.Digest))
	if err != nil || !info.Mode().IsRegular() || info.Size() != d.Size {
		return false, nil
	}
	f, err := regularfile.OpenIn(l.root, blobPath(d.Digest))
	if err != nil {
		return false, nil
	}
	defer f.Close()
	h, err := v1.Hasher(d.Digest.Algorithm)
	if err != nil {
		return false, err
	}
	if _, err := io.Copy(h, regularfile.WithContext(ctx, f)); err != nil {
		return false, ctx.Err() // treat an unreadable blob as missing
	}
	return fmt.Sprintf("%x", h.Sum(nil)) == d.Digest.Hex, nil
}

// ReadBlob returns the content of a blob. It is for small blobs such as manifests. It does not
// verify the digest.
func (l *Layout) ReadBlob(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	raw, err := regularfile.ReadIn(ctx, l.root, blobPath(d.Digest), d.Size)
	if err != nil {
		return nil, l.localError("reading blob "+d.Digest.String(), err)
	}
	return raw, nil
}

// PutBlob stores a small blob, such as a manifest, unless the layout already contains it.
func (l *Layout) PutBlob(ctx context.Context, d v1.Descriptor, raw []byte) error {
	if have, err := l.VerifyBlob(ctx, d); have || err != nil {
		return err
	}
	w, err := l.CreateBlob(d)
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := w.Write(raw); err != nil {
		return err
	}
	return w.Commit()
}

// BlobWriter writes a blob to a temporary file.
type BlobWriter struct {
	*pendingFile
	desc v1.Descriptor
	hash hash.Hash
	size int64
}

// CreateBlob returns a writer for a blob. The caller must call Commit or Abort.
func (l *Layout) CreateBlob(d v1.Descriptor) (*BlobWriter, error) {
	h, err := v1.Hasher(d.Digest.Algorithm)
	if err != nil {
		return nil, err
	}
	if err := l.root.MkdirAll(path.Dir(blobPath(d.Digest)), 0o777); err != nil {
		return nil, l.localError("create the blob directory", err)
	}
	p, err := l.newPending(blobPath(d.Digest))
	if err != nil {
		return nil, l.localError("writing blob "+d.Digest.String(), err)
	}
	return &BlobWriter{pendingFile: p, desc: d, hash: h}, nil
}

// Write appends to the blob.
func (w *BlobWriter) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	w.hash.Write(p[:n])
	w.size += int64(n)
	if err != nil {
		return n, w.l.localError("writing blob "+w.desc.Digest.String(), err)
	}
	return n, nil
}

// Commit verifies the blob's size and digest, and then renames the temporary file. It returns
// an error that wraps [ErrMismatch] if the size or the digest is wrong.
func (w *BlobWriter) Commit() error {
	if w.size != w.desc.Size {
		return fmt.Errorf("%w: expected %d bytes, received %s", ErrMismatch, w.desc.Size, sizeOrMore(w.size, w.desc.Size))
	}
	if got := fmt.Sprintf("%x", w.hash.Sum(nil)); got != w.desc.Digest.Hex {
		return fmt.Errorf("%w: received content with digest %s:%s", ErrMismatch, w.desc.Digest.Algorithm, got)
	}
	if err := w.commit(); err != nil {
		return w.l.localError("writing blob "+w.desc.Digest.String(), err)
	}
	return nil
}

func sizeOrMore(n, want int64) string {
	if n > want {
		return "more"
	}
	return fmt.Sprint(n)
}
