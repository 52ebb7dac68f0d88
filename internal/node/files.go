// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// fileCache reads each file and directory of a node once.
type fileCache struct {
	Node
	files map[string]content
	dirs  map[string]content
}

// cache returns an empty cache.
func (n Node) cache() *fileCache {
	return &fileCache{Node: n, files: map[string]content{}, dirs: map[string]content{}}
}

// content is a file's text or the names in a directory.
type content struct {
	text  string
	names []string
	err   error
}

// reader reads files for one result, and records which files the result depends
// on. Paths do not include [Node.Root].
type reader struct {
	*fileCache
	ctx    context.Context
	used   map[string]bool // files that were read
	unread []string        // paths on this machine that this user has no permission to read
}

func (c *fileCache) reader(ctx context.Context) *reader {
	return &reader{fileCache: c, ctx: ctx, used: map[string]bool{}}
}

// load returns the content of a file. Errors of a canceled context are not kept.
func (r *reader) load(name string) content {
	c, ok := r.files[name]
	if !ok {
		var data []byte
		data, c.err = r.fs().ReadFile(r.ctx, name)
		if c.text = string(data); r.ctx.Err() == nil {
			r.files[name] = c
		}
	}
	r.note(name, c.err)
	return c
}

// file returns the text of a file; "" if it cannot be read.
func (r *reader) file(name string) string {
	c := r.load(name)
	if c.err == nil {
		r.used[name] = true
	}
	return c.text
}

// list returns the names in a directory.
func (r *reader) list(dir string) []string {
	c, ok := r.dirs[dir]
	if !ok {
		var entries []fs.DirEntry
		entries, c.err = r.fs().ReadDir(dir)
		for _, e := range entries {
			c.names = append(c.names, e.Name())
		}
		r.dirs[dir] = c
	}
	r.note(dir, c.err)
	return c.names
}

// exists reports whether a path exists. Symlinks are followed.
func (r *reader) exists(name string) bool {
	_, err := r.fs().Stat(name)
	r.note(name, err)
	return err == nil
}

// note records a path that this user has no permission to read.
func (r *reader) note(name string, err error) { r.noteHost(r.Host(name), err) }

func (r *reader) noteHost(name string, err error) {
	if errors.Is(err, fs.ErrPermission) && !slices.Contains(r.unread, name) {
		r.unread = append(r.unread, name)
	}
}

// include records that the result depends on everything that other has read.
func (r *reader) include(other *reader) {
	maps.Copy(r.used, other.used)
	for _, name := range other.unread {
		r.noteHost(name, fs.ErrPermission)
	}
}

// usedFiles returns the paths on this machine of the files that were read.
func (r *reader) usedFiles() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(r.used)) {
		names = append(names, r.Host(name))
	}
	return names
}

// flagFiles returns the files in usedFiles that contain a credential provider flag.
func (r *reader) flagFiles() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(r.used)) {
		if strings.Contains(strings.ReplaceAll(r.files[name].text, "_", "-"), "--image-credential-provider-") {
			names = append(names, r.Host(name))
		}
	}
	return names
}

// glob returns the files that match a pattern, or the pattern itself without a
// match.
func (r *reader) glob(pattern string) []string {
	matches := []string{"/"}
	for _, part := range components(pattern) {
		var next []string
		for _, dir := range matches {
			if !strings.ContainsAny(part, `*?[\`) {
				next = append(next, path.Join(dir, part))
				continue
			}
			for _, e := range r.list(dir) {
				// As in glob(7), except for "[!…]".
				if ok, err := path.Match(part, e); err == nil && ok {
					next = append(next, path.Join(dir, e))
				}
			}
		}
		matches = next
	}
	matches = slices.DeleteFunc(matches, func(m string) bool { return m != path.Clean(pattern) && !r.exists(m) })
	if len(matches) == 0 {
		return []string{pattern}
	}
	return matches
}
