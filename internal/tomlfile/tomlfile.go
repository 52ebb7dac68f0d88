// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package tomlfile reads the TOML files of container runtimes, with the lines of keys.
// Errors have a position but no values, which may be passwords.
//
//	f, err := tomlfile.Read(inroot.FS{}, "/etc/containerd/config.toml")
//	…
//	f.Line("plugins", "io.containerd.grpc.v1.cri", "registry", "config_path") // 12
package tomlfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/regularfile"
)

// MaxSize limits the size of a file in bytes.
const MaxSize = 1 << 20

// File is a parsed file.
type File struct {
	Path string
	data []byte

	lines        map[string]int // line numbers by key path
	tables       [][]string     // keys of table headers, in order
	arrayLengths map[string]int // number of tables so far, by array of tables
}

// Error explains why a file is not valid TOML or why a value has the wrong type.
type Error struct {
	Line, Column int // 0 if unknown
	Reason       string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Reason
	}
	return fmt.Sprintf("line %d, column %d %s", e.Line, e.Column, e.Reason)
}

// Read reads a file on a node. For invalid TOML, it returns an [*Error].
func Read(ctx context.Context, root inroot.FS, path string) (*File, error) {
	data, err := root.ReadFile(ctx, path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, regularfile.BareError(err))
	case len(data) > MaxSize:
		return nil, fmt.Errorf("%s: larger than %d bytes", path, MaxSize)
	}
	return Parse(path, data)
}

// ReadContainerd1 reads a file as containerd 1 does. Unlike [Read], its parser accepts a byte order
// mark, old Mac line ends and invalid characters.
func ReadContainerd1(ctx context.Context, root inroot.FS, path string) (*File, error) {
	f, err := Read(ctx, root, path)
	if _, notTOML := errors.AsType[*Error](err); !notTOML {
		return f, err
	}
	return Parse(path, replaceInvalidChars(f.data))
}

// byteOrderMark is the character that some editors add at the start of a file.
const byteOrderMark = "\ufeff"

// replaceInvalidChars replaces invalid characters with spaces, so that positions do not change.
func replaceInvalidChars(data []byte) []byte {
	data = bytes.TrimPrefix(data, []byte(byteOrderMark))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	data = bytes.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return '\n'
		case r == utf8.RuneError || r < ' ' && r != '\n' && r != '\t' || r == 0x7f:
			return ' '
		}
		return r
	}, data)
	return data
}

// Parse parses data. If it returns an [*Error], the File contains everything before the
// error.
func Parse(path string, data []byte) (*File, error) {
	f := &File{Path: path, data: data, lines: map[string]int{}, arrayLengths: map[string]int{}}
	f.indexKeys()
	var all map[string]any
	if err := f.Decode(&all); err != nil {
		return f, err
	}
	return f, nil
}

// IsEmpty reports whether the file has no content.
func (f *File) IsEmpty() bool { return len(f.data) == 0 }

// Decode decodes the file into v. Its errors are of type [*Error].
func (f *File) Decode(v any) error {
	if bytes.HasPrefix(f.data, []byte(byteOrderMark)) {
		return &Error{Line: 1, Column: 1, Reason: "byte order mark: save the file as UTF-8 without one"}
	}
	err := toml.Unmarshal(f.data, v)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, column := e.Position()
		return &Error{Line: line, Column: column, Reason: "cannot be read"}
	}
	return &Error{Reason: "it cannot be read"}
}

// indexKeys records the positions of keys, up to the first error.
func (f *File) indexKeys() {
	p := unstable.Parser{}
	p.Reset(f.data)
	var newlines []int // offsets
	for i, c := range f.data {
		if c == '\n' {
			newlines = append(newlines, i)
		}
	}
	var table []string
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			keys, line := keyPath(e, newlines)
			table = f.resolveArrayTables(keys, e.Kind == unstable.ArrayTable)
			f.tables = append(f.tables, keys)
			f.recordLine(table, line)
		case unstable.KeyValue:
			f.indexValue(e, table, newlines)
		}
	}
}

// indexValue records a key, and the keys of inline tables.
func (f *File) indexValue(e *unstable.Node, table []string, newlines []int) {
	keys, line := keyPath(e, newlines)
	path := slices.Concat(table, keys)
	f.recordLine(path, line)
	if v := e.Value(); v != nil && v.Kind == unstable.InlineTable && len(path) < maxDepth {
		for it := v.Children(); it.Next(); {
			if n := it.Node(); n.Kind == unstable.KeyValue {
				f.indexValue(n, path, newlines)
			}
		}
	}
}

// maxDepth limits the depth of the recorded keys.
const maxDepth = 32

// keyPath returns the key of an expression and its line. It returns no key if the key has
// more than maxDepth parts.
func keyPath(e *unstable.Node, newlines []int) (keys []string, line int) {
	for it := e.Key(); it.Next(); {
		n := it.Node()
		if line == 0 {
			before, _ := slices.BinarySearch(newlines, int(n.Raw.Offset))
			line = before + 1
		}
		if keys = append(keys, string(n.Data)); len(keys) > maxDepth {
			return nil, line
		}
	}
	return keys, line
}

// resolveArrayTables returns keys with indexes. After the key of an array of tables, it inserts the
// index of the array's current table.
func (f *File) resolveArrayTables(keys []string, array bool) (path []string) {
	for i, key := range keys {
		path = append(path, key)
		at := joinKeys(path)
		if array && i == len(keys)-1 {
			f.arrayLengths[at]++
		}
		if n := f.arrayLengths[at]; n > 0 {
			path = append(path, strconv.Itoa(n-1))
		}
	}
	return path
}

func (f *File) recordLine(path []string, line int) {
	for i := len(path); i > 0; i-- {
		at := joinKeys(path[:i])
		if _, ok := f.lines[at]; ok {
			return
		}
		f.lines[at] = line
	}
}

func joinKeys(path []string) string { return strings.Join(path, "\x00") }

// Line returns the line of a key, or 0. The key of an array of tables must be followed
// by an index.
func (f *File) Line(keys ...string) int { return f.lines[joinKeys(keys)] }

// NearestLine returns the line of a key or, if the key is missing, of its table.
func (f *File) NearestLine(keys ...string) int {
	for i := len(keys); i > 0; i-- {
		if line := f.Line(keys[:i]...); line > 0 {
			return line
		}
	}
	return 0
}

// TableKeys returns the keys of all table headers, in order.
func (f *File) TableKeys() [][]string { return f.tables }
