// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package layout writes images into OCI image layouts. Several pulls can write to the same
// layout. A blob gets its final name after its content has been verified. index.json is
// replaced atomically after all blobs of the image are stored.
//
//	l, err := layout.Open(dir)
//	w, err := l.CreateBlob(descriptor)
//	_, err = io.Copy(w, body)
//	err = w.Commit()
//	err = l.Tag(ctx, manifest, "registry.example/team/app:v1")
//
// The package does not download blobs. It removes only temporary files of pulls that were
// killed.
package layout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/regcred/regcred/internal/flock"
	"github.com/regcred/regcred/internal/regularfile"
)

// Names and values of the OCI image layout specification.
const (
	layoutFile        = "oci-layout"
	layoutVersion     = "1.0.0"
	indexFile         = "index.json"
	refNameAnnotation = "org.opencontainers.image.ref.name"
)

// Maximum sizes of the files that are read, in bytes.
const (
	maxLayoutFileSize = 1 << 20
	maxIndexSize      = 64 << 20
)

// Layout is an OCI image layout on disk. Except for [Layout.Tag], it is safe for concurrent
// use.
type Layout struct {
	dir  string
	root *os.Root // used for all files, so that symlinks cannot lead outside of dir
}

// LocalError is an error of this machine's file system, not of the registry.
type LocalError struct{ Err error }

// Error returns the text of the underlying error.
func (e *LocalError) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e *LocalError) Unwrap() error { return e.Err }

// CheckDir returns an error if an image cannot be written to dir. It does not change dir.
func CheckDir(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("output directory: %w", err)
	}
	// Ignore temporary files. Another pull may be creating a layout here, and writes oci-layout
	// first.
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), tempPrefix) })
	if len(entries) == 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("output directory: %w", err)
	}
	l := &Layout{dir: dir, root: root}
	defer l.Close()
	return l.checkLayout(ctx)
}

func (l *Layout) checkLayout(ctx context.Context) error {
	const left = "choose another directory"
	raw, err := regularfile.ReadIn(ctx, l.root, layoutFile, maxLayoutFileSize)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("output directory %q is not empty and is not an OCI image layout: "+left, l.dir)
	}
	if err != nil {
		return fmt.Errorf("output directory %q: %s: %w", l.dir, layoutFile, regularfile.BareError(err))
	}
	var marker struct {
		Version string `json:"imageLayoutVersion"`
	}
	if err := json.Unmarshal(raw, &marker); err != nil || marker.Version != layoutVersion {
		return fmt.Errorf("output directory %q is not an OCI image layout with version %s: "+left, l.dir, layoutVersion)
	}
	raw, err = l.readIndex(ctx)
	if err == nil {
		_, _, err = parseIndex(raw)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("output directory %q: %s: %w: "+left, l.dir, indexFile, err)
	}
	return nil
}

func (l *Layout) readIndex(ctx context.Context) ([]byte, error) {
	raw, err := regularfile.ReadIn(ctx, l.root, indexFile, maxIndexSize)
	return raw, regularfile.BareError(err)
}

// Open opens the layout in dir. If there is none, it creates a layout without index.json, which
// the first image adds. The caller must close the Layout.
func Open(dir string) (*Layout, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, &LocalError{fmt.Errorf("output directory: %w", err)}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &LocalError{fmt.Errorf("output directory: %w", err)}
	}
	l := &Layout{dir: dir, root: root}
	if _, err := root.Stat(layoutFile); err != nil {
		// Write oci-layout first. If this pull is interrupted, the next pull then accepts the
		// directory.
		if err := l.replaceFile(layoutFile, []byte(`{"imageLayoutVersion":"`+layoutVersion+`"}`)); err != nil {
			l.Close()
			return nil, l.localError("writing "+layoutFile, err)
		}
	}
	l.removeStaleFiles()
	return l, nil
}

// Close closes the layout's directory.
func (l *Layout) Close() { _ = l.root.Close() } // closing a directory handle cannot lose data

// localError wraps an error in a [LocalError].
func (l *Layout) localError(what string, err error) error {
	err = fmt.Errorf("%s in directory %q: %w", what, l.dir, err)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = fmt.Errorf("%w: free up space and pull again; verified blobs will not be downloaded again", err)
	}
	return &LocalError{err}
}

// Tag sets the descriptor for an image reference in index.json. If the system supports
// flock(2), other processes may call Tag at the same time. Within a process, the caller must
// serialize calls.
func (l *Layout) Tag(ctx context.Context, d v1.Descriptor, ref string) error {
	unlock, err := flock.LockDir(ctx, l.dir)
	if err != nil {
		return l.localError("locking", err)
	}
	defer unlock()
	raw, err := l.readIndex(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		raw, err = []byte(`{"schemaVersion":2,"mediaType":"`+string(types.OCIImageIndex)+`"}`), nil
	}
	if err != nil {
		return l.localError("reading "+indexFile, err)
	}
	d.Annotations = map[string]string{refNameAnnotation: ref}
	raw, err = withDescriptor(raw, d)
	if err != nil {
		return l.localError("changing "+indexFile, err)
	}
	// Blobs must be on disk before index.json refers to them.
	if err := l.syncDirs(path.Dir(blobPath(d.Digest)), blobsDir); err != nil {
		return l.localError("writing", err)
	}
	if err := l.replaceFile(indexFile, raw); err != nil {
		return l.localError("writing "+indexFile, err)
	}
	return nil
}

// parseIndex parses index.json. It returns all fields, including unknown ones, and the list of
// manifests.
func parseIndex(raw []byte) (doc map[string]json.RawMessage, list []json.RawMessage, err error) {
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, nil, fmt.Errorf("not valid: %w", err)
	}
	if doc == nil {
		return nil, nil, errors.New("not valid: not a JSON object")
	}
	if m, ok := doc["manifests"]; ok {
		if err := json.Unmarshal(m, &list); err != nil {
			return nil, nil, fmt.Errorf("not valid: manifests: %w", err)
		}
	}
	return doc, list, nil
}

// withDescriptor adds a descriptor to an index. It removes other descriptors with the same
// reference.
func withDescriptor(raw []byte, d v1.Descriptor) ([]byte, error) {
	doc, list, err := parseIndex(raw)
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
		if have.Annotations[refNameAnnotation] != d.Annotations[refNameAnnotation] {
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
