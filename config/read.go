// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/regularfile"
)

const (
	// maxConfigSize limits the total size of a configuration's files, in bytes. A
	// thousand providers take about 0.5 MiB.
	maxConfigSize = 16 << 20
	// maxConfigEntries limits the number of line ends and value separators (, [ { - : and ?) in
	// all files. The decoders need up to a thousand bytes of memory per value. A thousand
	// providers have about 30,000 separators.
	maxConfigEntries = 1 << 17
	// maxConfigFiles limits the number of files in a directory.
	maxConfigFiles = 4096
)

// configPaths returns the files of the configuration at path in merge order.
func configPaths(path string) (paths []string, dir bool, err error) {
	if path == "" {
		return nil, false, &FieldError{Msg: "the configuration path is empty: set it to a file or directory"}
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, false, fileError(path, "cannot be found", err)
	}
	if !info.IsDir() {
		return []string{path}, false, nil
	}
	paths, err = listConfigDir(path)
	return paths, true, err
}

const maxListedIgnored = 3

// listConfigDir returns the configuration files in dir, sorted by name. It reads the directory
// in chunks, so that a huge directory does not need much memory.
func listConfigDir(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, fileError(dir, "cannot be opened", err)
	}
	defer d.Close()
	var paths, others []string
	for {
		entries, err := d.ReadDir(256)
		for _, e := range entries {
			if isConfigEntry(e) {
				paths = append(paths, filepath.Join(dir, e.Name()))
			} else if len(others) < maxListedIgnored && !e.IsDir() {
				others = append(others, strconv.Quote(excerpt.TruncateValue(e.Name())))
			}
		}
		if len(paths) > maxConfigFiles {
			return nil, fileCountError(dir, len(paths))
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fileError(dir, "cannot be listed", err)
		}
	}
	if err := fileCountError(dir, len(paths)); err != nil {
		if len(others) > 0 {
			slices.Sort(others)
			err.Msg += "; the kubelet ignores " + joinWithAnd(others)
		}
		return nil, err
	}
	slices.Sort(paths)
	return paths, nil
}

// isConfigEntry reports whether the kubelet reads a directory entry.
//
// kubelet: it includes dotfiles. It also includes symlinks to directories, and then fails to
// read them.
func isConfigEntry(e fs.DirEntry) bool {
	switch filepath.Ext(e.Name()) {
	case ".json", ".yaml", ".yml":
		return !e.IsDir()
	}
	return false
}

// readLimits holds how many bytes and separators the remaining files may have.
type readLimits struct{ bytes, entries int }

func newReadLimits() *readLimits { return &readLimits{maxConfigSize, maxConfigEntries} }

func (r *readLimits) read(name string) ([]byte, error) {
	data, err := regularfile.Read(context.Background(), name, int64(r.bytes))
	refused, irregular := errors.AsType[*regularfile.NotRegularError](err)
	_, large := errors.AsType[*regularfile.TooLargeError](err)
	switch {
	case irregular:
		return nil, &FieldError{File: name, Msg: "is expected a regular file but found " + irregularFileText(refused), err: refused}
	case large:
		r.bytes = -1
	case err != nil:
		return nil, fileError(name, "cannot be read", err)
	}
	return data, nil
}

func (r *readLimits) consume(name string, data []byte) error {
	r.bytes -= len(data)
	for _, separator := range []byte("\n\r,[{-:?") {
		r.entries -= bytes.Count(data, []byte{separator})
	}
	if r.bytes < 0 || r.entries < 0 {
		return &FieldError{File: name, Msg: fmt.Sprintf("with this file the configuration has more than %d MiB, or more than %d line ends and separators (, [ { - : ?)",
			maxConfigSize>>20, maxConfigEntries), err: regularfile.ErrLimit}
	}
	return nil
}

func irregularFileText(what *regularfile.NotRegularError) string {
	switch {
	case what.Mode.IsDir():
		return what.Kind() + "; the kubelet does not read subdirectories and rejects symlinks to directories"
	case what.Mode&fs.ModeNamedPipe != 0:
		return what.Kind() + ", which regcred does not read; save its contents to a file"
	}
	return what.Kind()
}

// fileError returns an error for a file that cannot be read. The message omits the path that
// errors of package os contain.
func fileError(name, msg string, err error) error {
	err = regularfile.BareError(err)
	return &FieldError{File: name, Msg: fmt.Sprintf("%s: %v", msg, err), err: err}
}

func fileCountError(dir string, n int) *FieldError {
	switch {
	case n == 0:
		return &FieldError{File: dir, Msg: "the directory has no configuration files (.json, .yaml or .yml)"}
	case n > maxConfigFiles:
		return &FieldError{File: dir, Msg: fmt.Sprintf("the directory has more than %d configuration files", maxConfigFiles), err: regularfile.ErrLimit}
	}
	return nil
}
