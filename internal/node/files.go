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

// fileCache reads the files and directories of a node, and caches their content.
type fileCache struct {
	Node
	files map[string]fileContent
	dirs  map[string]fileContent
}

// newFileCache returns an empty cache.
func (n Node) newFileCache() *fileCache {
	return &fileCache{Node: n, files: map[string]fileContent{}, dirs: map[string]fileContent{}}
}

// fileContent is the content of a file or directory, or the error from reading it.
type fileContent struct {
	text  string
	names []string
	err   error
}

// fileReader reads files for a single result and records the files on which the result depends.
// Its methods expect paths on the node, without [Node.Root].
type fileReader struct {
	*fileCache
	ctx             context.Context
	used            map[string]bool // files that were read successfully
	service         *kubeletService // the service that starts the kubelet, once it is known
	unreadablePaths []string        // paths on this machine that this user has no permission to read
}

func (c *fileCache) newReader(ctx context.Context) *fileReader {
	return &fileReader{fileCache: c, ctx: ctx, used: map[string]bool{}}
}

// loadContent returns the content of a file from the cache, or reads it. It does not cache the
// error of a canceled context.
func (r *fileReader) loadContent(name string) fileContent {
	c, ok := r.files[name]
	if !ok {
		var data []byte
		data, c.err = r.fs().ReadFile(r.ctx, name)
		if c.text = string(data); r.ctx.Err() == nil {
			r.files[name] = c
		}
	}
	r.recordUnreadable(name, c.err)
	return c
}

// readFile returns the text of a file, or "" if the file cannot be read. It records that the
// file was used.
func (r *fileReader) readFile(name string) string {
	c := r.loadContent(name)
	if c.err == nil {
		r.used[name] = true
	}
	return c.text
}

// readDirNames returns the names of the files in a directory. It returns none if the directory
// cannot be read.
func (r *fileReader) readDirNames(dir string) []string {
	c, ok := r.dirs[dir]
	if !ok {
		var entries []fs.DirEntry
		entries, c.err = r.fs().ReadDir(dir)
		for _, e := range entries {
			c.names = append(c.names, e.Name())
		}
		r.dirs[dir] = c
	}
	r.recordUnreadable(dir, c.err)
	return c.names
}

// fileExists reports whether a path exists. It follows symlinks.
func (r *fileReader) fileExists(name string) bool {
	_, err := r.fs().Stat(name)
	r.recordUnreadable(name, err)
	return err == nil
}

// recordUnreadable records a path on the node if err is a permission error.
func (r *fileReader) recordUnreadable(name string, err error) {
	r.recordUnreadableHost(r.HostPath(name), err)
}

func (r *fileReader) recordUnreadableHost(name string, err error) {
	if errors.Is(err, fs.ErrPermission) && !slices.Contains(r.unreadablePaths, name) {
		r.unreadablePaths = append(r.unreadablePaths, name)
	}
}

// mergeDependencies records that the result also depends on the files that other has read.
func (r *fileReader) mergeDependencies(other *fileReader) {
	maps.Copy(r.used, other.used)
	for _, name := range other.unreadablePaths {
		r.recordUnreadableHost(name, fs.ErrPermission)
	}
}

// usedFiles returns the files that were read, as paths on this machine.
func (r *fileReader) usedFiles() []string { return r.usedFilesWith("") }

// flagFiles returns those files in usedFiles that contain a credential provider flag.
func (r *fileReader) flagFiles() []string { return r.usedFilesWith("--image-credential-provider-") }

func (r *fileReader) usedFilesWith(text string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(r.used)) {
		if strings.Contains(strings.ReplaceAll(r.files[name].text, "_", "-"), text) {
			names = append(names, r.HostPath(name))
		}
	}
	return names
}

// globPaths returns the paths that match a pattern. If no path matches, it returns the pattern
// itself.
func (r *fileReader) globPaths(pattern string) []string {
	matches := []string{"/"}
	for _, part := range pathComponents(pattern) {
		var next []string
		for _, dir := range matches {
			if !strings.ContainsAny(part, `*?[\`) {
				next = append(next, path.Join(dir, part))
				continue
			}
			for _, e := range r.readDirNames(dir) {
				// path.Match has the syntax of glob(7), except for "[!…]".
				if ok, err := path.Match(part, e); err == nil && ok {
					next = append(next, path.Join(dir, e))
				}
			}
		}
		matches = next
	}
	matches = slices.DeleteFunc(matches, func(m string) bool { return m != path.Clean(pattern) && !r.fileExists(m) })
	if len(matches) == 0 {
		return []string{pattern}
	}
	return matches
}
