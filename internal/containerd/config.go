// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package containerd reads containerd's registry configuration. It determines which hosts
// containerd queries for an image, in which order, and which credential each host receives.
//
//	r, err := containerd.Read("", containerd.DefaultFile, containerd.ParseVersion("2.1.4"))
//	…
//	fmt.Println(r.Route(image)) // containerd tries mirror.example, then docker.io itself; …
package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/tomlfile"
)

// Runtime is the configuration of a containerd.
type Runtime struct {
	Root    string   // root directory; "" means "/"
	File    string   // config.toml
	Files   []string // File and its imports, in the order they are read
	Version Version  // zero if unknown; then the newest known release is assumed

	checked  sync.Once
	findings []finding.Finding // set by the first Check

	files  []*parsedConfigFile
	format int // config version, 1 if not set
}

// parsedConfigFile is config.toml or a file that it imports.
type parsedConfigFile struct {
	*tomlfile.File
	format  int
	plugins map[string]any
}

// ErrNoCRI is returned if the CRI plugin is disabled, so that no kubelet can use this containerd.
// Docker's package, for example, disables the plugin.
var ErrNoCRI = errors.New("the CRI plugin is disabled")

// Plugins with a registry table, for config versions 1, 2 and 3.
const (
	criPluginV1    = "cri"
	criPluginV2    = "io.containerd.grpc.v1.cri"
	imagesPluginV3 = "io.containerd.cri.v1.images"
)

const maxImports = 64

// Read reads a config.toml and its imports as the given version of containerd does. The
// error is [fs.ErrNotExist] if there is no file, and [ErrNoCRI] if no kubelet uses this
// containerd.
func Read(root, path string, version Version) (*Runtime, error) {
	r := &Runtime{Root: root, File: path, Version: version}
	disabled := map[string]bool{}
	pending := []string{path}
	for len(pending) > 0 {
		path, pending = pending[0], pending[1:]
		if slices.Contains(r.Files, path) {
			continue
		}
		imports, err := r.readFile(path, disabled)
		if err != nil {
			return nil, err
		}
		if pending = append(pending, imports...); len(r.Files)+len(pending) > maxImports {
			return nil, fmt.Errorf("%s imports more than %d files", r.File, maxImports)
		}
	}
	r.format = cmp.Or(r.format, 1)
	if disabled[criPluginV1] || disabled[criPluginV2] || disabled[imagesPluginV3] {
		return nil, fmt.Errorf("%s: %w", r.File, ErrNoCRI)
	}
	return r, nil
}

// ReadText is like Read for the text of a single file. Imports are not read.
func ReadText(path string, data []byte, version Version) (*Runtime, error) {
	r := &Runtime{Root: filepath.Dir(path), File: path, Version: version}
	f, err := tomlfile.Parse(path, data)
	if err == nil {
		_, err = r.addFile(f, map[string]bool{})
	}
	r.format = cmp.Or(r.format, 1)
	return r, err
}

func (r *Runtime) fs() inroot.FS { return inroot.FS{Root: r.Root} }

// readFile adds a file to r and its disabled plugins to disabled. It returns the file's imports.
func (r *Runtime) readFile(path string, disabled map[string]bool) (imports []string, err error) {
	f, err := r.versionOrNewest().tomlParser()(context.Background(), r.fs(), path)
	if e, ok := errors.AsType[*tomlfile.Error](err); ok {
		return nil, fmt.Errorf("%s: invalid TOML: %w", path, e)
	}
	if errors.Is(err, fs.ErrNotExist) && path != r.File {
		return nil, fmt.Errorf("%s imports %s, which does not exist: containerd does not start", r.File, path)
	}
	if err != nil {
		return nil, err
	}
	return r.addFile(f, disabled)
}

// addFile adds a parsed file to r. It returns the file's imports.
func (r *Runtime) addFile(f *tomlfile.File, disabled map[string]bool) (imports []string, err error) {
	path := f.Path
	var top struct {
		Version  int            `toml:"version"`
		Imports  []string       `toml:"imports"`
		Disabled []string       `toml:"disabled_plugins"`
		Plugins  map[string]any `toml:"plugins"`
	}
	if err := f.Decode(&top); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if top.Version < 0 || top.Version > 4 {
		return nil, fmt.Errorf("%s:%d: unsupported containerd config version %d", path, f.Line("version"), top.Version)
	}
	for _, id := range top.Disabled {
		disabled[id] = true
	}
	r.Files = append(r.Files, path)
	r.files = append(r.files, &parsedConfigFile{File: f, format: cmp.Or(top.Version, 1), plugins: top.Plugins})
	r.format = cmp.Or(top.Version, r.format)
	return r.resolveImports(path, top.Imports)
}

// resolveImports expands globs in the imports of a file. Imports are relative to the directory of
// the file.
func (r *Runtime) resolveImports(path string, imports []string) (found []string, err error) {
	for _, pattern := range imports {
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(path), pattern)
		}
		if !strings.Contains(pattern, "*") {
			found = append(found, filepath.Clean(pattern))
			continue
		}
		root := cmp.Or(r.Root, "/")
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, fmt.Errorf("%s imports %q: %w", path, pattern, err)
		}
		for _, m := range matches {
			rel, err := filepath.Rel(root, m)
			if err != nil {
				return nil, err
			}
			found = append(found, filepath.Join("/", rel))
		}
	}
	return found, nil
}

// keyLocation returns the file and line that set a plugin's key. If several files set it, the last
// one is returned.
func (r *Runtime) keyLocation(keys ...string) (file string, line int) {
	for _, s := range slices.Backward(r.files) {
		for _, plugin := range []string{imagesPluginV3, criPluginV2, criPluginV1} {
			if line := s.Line(append([]string{"plugins", plugin}, keys...)...); line > 0 {
				return s.Path, line
			}
		}
	}
	return r.File, 0
}

// Version is a containerd version. The zero Version means that the version is unknown.
type Version struct{ Major, Minor, Patch int }

// ParseVersion finds a version in containerd's output, such as "v2.1.4", "1.6.20~ds1"
// or "v1.7.23-k3s2". It returns the zero Version if none exists.
func ParseVersion(text string) (v Version) {
	number := regexp.MustCompile(`(?:^|[^.\d])(\d{1,2})\.(\d{1,3})\.(\d{1,3})(?:[^.\d]|$)`)
	if m := number.FindStringSubmatch(text); m != nil {
		v.Major, _ = strconv.Atoi(m[1]) // the pattern allows at most three digits
		v.Minor, _ = strconv.Atoi(m[2])
		v.Patch, _ = strconv.Atoi(m[3])
	}
	return v
}

// IsKnown reports whether the version is known.
func (v Version) IsKnown() bool { return v != Version{} }

func (v Version) String() string {
	if !v.IsKnown() {
		return ""
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}

func (v Version) atLeast(major, minor, patch int) bool {
	return cmp.Or(cmp.Compare(v.Major, major), cmp.Compare(v.Minor, minor), cmp.Compare(v.Patch, patch)) >= 0
}

// Differences between releases, taken from their sources and the tests in
// upstream/mirrors.

func (v Version) isAtLeast2() bool             { return v.Major >= 2 }                              // merges imports by key; accepts a server without a host table
func (v Version) supportsReferrers() bool      { return v.atLeast(2, 2, 0) }                        // supports the capability "referrers"
func (v Version) supportsDialTimeout() bool    { return v.atLeast(2, 1, 0) }                        // supports the key dial_timeout
func (v Version) hasDefaultConfigPath() bool   { return v.atLeast(2, 2, 0) }                        // has a default for config_path
func (v Version) supportsFormat4() bool        { return v.atLeast(2, 3, 0) }                        // reads config version 4, and migrates version 3
func (v Version) triesHTTPSFirst() bool        { return v.atLeast(1, 7, 0) }                        // tries HTTPS for loopback hosts and for http hosts with TLS settings
func (v Version) usesTransferService() bool    { return v.atLeast(2, 1, 0) }                        // pulls through the transfer service
func (v Version) allowsOnlyOneDirectory() bool { return v.atLeast(2, 1, 0) && !v.atLeast(2, 4, 3) } // treats config_path as one directory, even with a colon

// tomlParser returns the function that reads a TOML file as the given release does.
func (v Version) tomlParser() func(context.Context, inroot.FS, string) (*tomlfile.File, error) {
	if v.isAtLeast2() {
		return tomlfile.Read
	}
	return tomlfile.ReadContainerd1
}

// newestVersion is the newest release whose behavior was compared with this package.
func newestVersion() Version { return Version{2, 4, 3} }

// versionOrNewest returns the runtime's version or, if it is unknown, the newest
// version.
func (r *Runtime) versionOrNewest() Version {
	if r.Version.IsKnown() {
		return r.Version
	}
	return newestVersion()
}
