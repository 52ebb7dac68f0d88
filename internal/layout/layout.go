// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Names and values of the OCI image layout specification.
const (
	layoutFile    = "oci-layout"
	layoutVersion = "1.0.0"
	indexFile     = "index.json"
	blobsDir      = "blobs"
	refName       = "org.opencontainers.image.ref.name"
)

// maxIndexFile bounds an index.json that is read, in bytes.
const maxIndexFile = 64 << 20

// layout is an OCI image layout on disk. All access goes through an os.Root:
// a symbolic link inside cannot lead a write out of it.
type layout struct {
	dir  string
	root *os.Root
}

// checkDir reports whether dir can take an image, and changes nothing.
func checkDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("output directory: %w", err)
	}
	// Another pull may be about to make a layout here. Its marker comes first,
	// so it can be seen by now if anything else could be seen before.
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), tempPrefix) })
	if len(entries) == 0 {
		return nil
	}
	raw, err := os.ReadFile(filepath.Join(dir, layoutFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("output directory %q is not empty and not an OCI image layout: it is left as it is, choose another", dir)
	}
	if err != nil {
		return fmt.Errorf("output directory: %w", err)
	}
	var marker struct {
		Version string `json:"imageLayoutVersion"`
	}
	if err := json.Unmarshal(raw, &marker); err != nil || marker.Version != layoutVersion {
		return fmt.Errorf("output directory %q is not an OCI image layout of version %s: it is left as it is, choose another", dir, layoutVersion)
	}
	raw, err = os.ReadFile(filepath.Join(dir, indexFile))
	if err == nil {
		_, _, err = parseIndexFile(raw)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("output directory %q: %s: %w: it is left as it is, choose another", dir, indexFile, err)
	}
	return nil
}

// openLayout opens the layout at dir, or makes one. An index.json comes only
// with the first image.
func openLayout(dir string) (*layout, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, local(fmt.Errorf("output directory: %w", err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, local(fmt.Errorf("output directory: %w", err))
	}
	l := &layout{dir: dir, root: root}
	if _, err := root.Stat(layoutFile); err != nil {
		// First of all files, so that a pull that is cut short leaves a
		// directory that the next one accepts.
		if err := l.replace(layoutFile, []byte(`{"imageLayoutVersion":"`+layoutVersion+`"}`)); err != nil {
			l.close()
			return nil, l.fail("writing "+layoutFile, err)
		}
	}
	return l, nil
}

func (l *layout) close() { _ = l.root.Close() } // a directory handle: nothing can be lost

// fail describes an error of this machine, not of the registry.
func (l *layout) fail(what string, err error) error {
	err = fmt.Errorf("%s in directory %q: %w", what, l.dir, err)
	if isDiskFull(err) {
		err = fmt.Errorf("%w: make room and pull again; what has been verified is not downloaded twice", err)
	}
	return local(err)
}

func blobPath(h v1.Hash) string { return path.Join(blobsDir, h.Algorithm, h.Hex) }

// verify reports whether a blob is in the layout with the right content. One
// that is not right is left to be replaced.
func (l *layout) verify(ctx context.Context, d v1.Descriptor) (bool, error) {
	info, err := l.root.Lstat(blobPath(d.Digest))
	if err != nil || !info.Mode().IsRegular() || info.Size() != d.Size {
		return false, nil
	}
	f, err := l.root.Open(blobPath(d.Digest))
	if err != nil {
		return false, nil
	}
	defer f.Close()
	h, err := v1.Hasher(d.Digest.Algorithm)
	if err != nil {
		return false, err
	}
	if _, err := io.Copy(h, contextReader{ctx, f}); err != nil {
		return false, ctx.Err() // unreadable is as good as absent
	}
	return fmt.Sprintf("%x", h.Sum(nil)) == d.Digest.Hex, nil
}

// contextReader stops reading a file when the context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// read returns a small blob that has been stored.
func (l *layout) read(d v1.Descriptor) ([]byte, error) {
	if d.Size > maxManifest {
		return nil, fmt.Errorf("configuration %s: larger than %d bytes", d.Digest, maxManifest)
	}
	raw, err := l.root.ReadFile(blobPath(d.Digest))
	if err != nil {
		return nil, l.fail("reading blob "+d.Digest.String(), err)
	}
	return raw, nil
}

// put stores a manifest.
func (l *layout) put(ctx context.Context, m manifest) error {
	if have, err := l.verify(ctx, m.desc); have || err != nil {
		return err
	}
	w, err := l.create(m.desc)
	if err != nil {
		return err
	}
	defer w.abort()
	if _, err := w.Write(m.raw); err != nil {
		return err
	}
	return w.commit()
}

// name makes index.json name an image, in place of what it named so before.
func (l *layout) name(ctx context.Context, d v1.Descriptor, ref string) error {
	unlock, err := lockDir(ctx, l.dir)
	if err != nil {
		return l.fail("locking", err)
	}
	defer unlock()
	raw, err := l.root.ReadFile(indexFile)
	if errors.Is(err, fs.ErrNotExist) {
		raw, err = []byte(`{"schemaVersion":2,"mediaType":"`+string(types.OCIImageIndex)+`"}`), nil
	}
	if err != nil {
		return l.fail("reading "+indexFile, err)
	}
	d.Annotations = map[string]string{refName: ref}
	raw, err = withDescriptor(raw, d)
	if err != nil {
		return l.fail("changing "+indexFile, err)
	}
	// What index.json names must be on disk before it is named.
	if err := l.syncDirs(path.Dir(blobPath(d.Digest)), blobsDir); err != nil {
		return l.fail("writing", err)
	}
	if err := l.replace(indexFile, raw); err != nil {
		return l.fail("writing "+indexFile, err)
	}
	return nil
}

// parseIndexFile keeps what it does not know as it is.
func parseIndexFile(raw []byte) (doc map[string]json.RawMessage, list []json.RawMessage, err error) {
	if len(raw) > maxIndexFile {
		return nil, nil, fmt.Errorf("larger than %d bytes", maxIndexFile)
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, nil, fmt.Errorf("not valid: %w", err)
	}
	if doc == nil {
		return nil, nil, errors.New("not valid: not an object")
	}
	if m, ok := doc["manifests"]; ok {
		if err := json.Unmarshal(m, &list); err != nil {
			return nil, nil, fmt.Errorf("not valid: manifests: %w", err)
		}
	}
	return doc, list, nil
}

// withDescriptor adds a descriptor to an index, without those of the same name.
func withDescriptor(raw []byte, d v1.Descriptor) ([]byte, error) {
	doc, list, err := parseIndexFile(raw)
	if err != nil {
		return nil, err
	}
	kept := []json.RawMessage{}
	for _, m := range list {
		var have struct {
			Annotations map[string]string `json:"annotations"`
		}
		if err := json.Unmarshal(m, &have); err != nil {
			return nil, fmt.Errorf("not valid: manifests: %w", err)
		}
		if have.Annotations[refName] != d.Annotations[refName] {
			kept = append(kept, m)
		}
	}
	added, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	if doc["manifests"], err = json.Marshal(append(kept, added)); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err = enc.Encode(doc)
	return out.Bytes(), err
}

// syncDirs makes renames in directories last. Windows cannot, and need not.
func (l *layout) syncDirs(dirs ...string) error {
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
