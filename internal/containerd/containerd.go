// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package containerd reads what a containerd is told about registries, as far
// as it says whether the images of a name may be asked of that name's own host:
// with the credential that a kubelet gave it for them.
package containerd

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/regcred/regcred/internal/regularfile"
)

// maxFile bounds a file in bytes.
const maxFile = 1 << 20

// Runtime is a containerd's configuration.
type Runtime struct {
	Root  string   // of the file system; "" means "/"
	File  string   // config.toml
	Certs []string // the directories of config_path, in which hosts.toml files are
}

// ErrNoCRI is the error of [Read] if a containerd pulls nothing for a kubelet:
// that of Docker, whose package switches the CRI off.
var ErrNoCRI = errors.New("its CRI plugin is disabled")

// section is the plugin that has the registries, by the version of a file.
var section = map[int]string{2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.images", 4: "io.containerd.cri.v1.images"}

// Read reads a config.toml, of version 2 or later. A file that it imports is an
// error: how it is merged depends on containerd. The error is an
// [fs.ErrNotExist] if there is none, and [ErrNoCRI] if it is for no kubelet.
func Read(root, path string) (*Runtime, error) {
	data, err := read(root, path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Version  int                       `toml:"version"`
		Imports  []string                  `toml:"imports"`
		Disabled []string                  `toml:"disabled_plugins"`
		Plugins  map[string]map[string]any `toml:"plugins"`
	}
	if err := toml.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("%s: it is not TOML: %w", path, position(err))
	}
	if slices.ContainsFunc(file.Disabled, func(id string) bool { return id == "cri" || id == "io.containerd.grpc.v1.cri" }) {
		return nil, fmt.Errorf("%s: %w", path, ErrNoCRI)
	}
	r := &Runtime{Root: root, File: path}
	name := section[file.Version]
	switch {
	case name == "":
		return nil, fmt.Errorf("%s is of version %d, in which not every containerd looks for config_path in the same place; write version = 2 or 3", path, file.Version)
	case r.imports(file.Imports):
		return nil, fmt.Errorf("%s imports other files, which are not read", path)
	}
	registry, _ := file.Plugins[name]["registry"].(map[string]any)
	if dirs, _ := registry["config_path"].(string); dirs != "" {
		r.Certs = filepath.SplitList(dirs)
	}
	return r, nil
}

// imports reports whether there are files that patterns name: what "containerd
// config default" writes names those of a directory that may have none.
func (r *Runtime) imports(patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(r.File), pattern)
		}
		found, err := filepath.Glob(filepath.Join(r.Root, pattern))
		return err != nil || len(found) > 0 || !strings.Contains(pattern, "*")
	})
}

// Origin says whether images of a host may be asked of that host itself, and
// why: "" if it never is.
func (r *Runtime) Origin(host string) string {
	if len(r.Certs) == 0 {
		return fmt.Sprintf("%s has no config_path, so no hosts.toml is read", r.File)
	}
	if i := slices.IndexFunc(r.Certs, func(dir string) bool { return !filepath.IsAbs(dir) }); i >= 0 {
		return fmt.Sprintf("config_path in %s has %q, which is no absolute path", r.File, r.Certs[i])
	}
	dir, err := r.dir(host)
	switch {
	case err != nil:
		return err.Error()
	case dir == "":
		return fmt.Sprintf("there is no directory for it in %s", strings.Join(r.Certs, ", "))
	}
	why, err := r.hosts(filepath.Join(dir, "hosts.toml"), host)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("%s has no hosts.toml, so the host alone is asked", dir)
	case err != nil:
		return fmt.Sprintf("%v: a hosts.toml that cannot be read leaves the host alone", err)
	case why == "" && len(r.Certs) > 1:
		return fmt.Sprintf("config_path in %s has %d directories, of which containerd 2.2.0 to 2.4.2 reads no hosts.toml", r.File, len(r.Certs))
	}
	return why
}

// dir is the directory that counts for a host: in the first of config_path that
// has any for it.
func (r *Runtime) dir(host string) (string, error) {
	names := []string{host, "_default"}
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		names = slices.Insert(names, 0, host[:i]+"_"+host[i+1:]+"_")
	}
	for _, certs := range r.Certs {
		for _, name := range names {
			dir := filepath.Join(certs, name)
			switch _, err := os.Stat(filepath.Join(r.Root, dir)); {
			case err == nil: // be it a file, as containerd does not look
				return dir, nil
			case !errors.Is(err, fs.ErrNotExist):
				return "", fmt.Errorf("%s cannot be looked at: %w", dir, regularfile.Cause(err))
			}
		}
	}
	return "", nil
}

// hosts says why a hosts.toml leads to the origin, or "".
func (r *Runtime) hosts(path, origin string) (why string, err error) {
	data, err := read(r.Root, path)
	if err != nil {
		return "", err
	}
	var file struct {
		Server string           `toml:"server"`
		Hosts  map[string]table `toml:"host"`
		table
	}
	var top map[string]any // in which a host table without hosts is one
	if err := errors.Join(toml.Unmarshal(data, &file), toml.Unmarshal(data, &top)); err != nil {
		return "", fmt.Errorf("%s: %w", path, position(err))
	}
	if why := file.broken(); why != "" {
		return fmt.Sprintf("%s has %s", path, why), nil
	}
	for _, name := range slices.Sorted(maps.Keys(file.Hosts)) {
		if isHost(name, origin) {
			return fmt.Sprintf("%s names it as a host", path), nil
		}
		if why := file.Hosts[name].broken(); why != "" {
			return fmt.Sprintf("%s has %s", path, why), nil
		}
	}
	switch {
	case file.Server == "":
		return fmt.Sprintf("%s has no server, so the host itself is asked after all others", path), nil
	case isHost(file.Server, origin):
		return fmt.Sprintf("%s names it as the server", path), nil
	case top["host"] == nil:
		return fmt.Sprintf("%s has no host table, for which containerd 1.6 and 1.7 take it for broken, and ask the host alone", path), nil
	}
	return "", nil
}

// table is what a hosts.toml says of a host, or of the server.
type table struct {
	Capabilities []string       `toml:"capabilities"`
	CA           any            `toml:"ca"`
	Client       any            `toml:"client"`
	SkipVerify   *bool          `toml:"skip_verify"`
	OverridePath bool           `toml:"override_path"`
	Header       map[string]any `toml:"header"`
	DialTimeout  string         `toml:"dial_timeout"`
}

// broken says what in a table makes containerd, or some versions of it, take
// the whole file for broken.
func (h table) broken() string {
	const then = ", for which some versions take the file for broken, and ask the host alone"
	for _, c := range h.Capabilities {
		if !slices.Contains([]string{"pull", "resolve", "push"}, c) {
			return fmt.Sprintf("the capability %q%s", c, then)
		}
	}
	if _, err := time.ParseDuration(h.DialTimeout); err != nil && h.DialTimeout != "" {
		return "a dial_timeout that is no duration" + then
	}
	if !isTexts(h.CA, 1) {
		return "a ca that is neither a path nor a list of them" + then
	}
	if !isTexts(h.Client, 2) {
		return "a client that is neither a path nor a list of them, or of pairs" + then
	}
	for _, value := range h.Header {
		if value == nil || !isTexts(value, 1) {
			return "a header that is neither a text nor a list of them" + then
		}
	}
	return ""
}

// isTexts reports whether a value is nothing, a text, or a list of such, as
// deep as that: the lists in a list are pairs.
func isTexts(value any, depth int) bool {
	switch v := value.(type) {
	case nil, string:
		return true
	case []any:
		return depth > 0 && !slices.ContainsFunc(v, func(item any) bool {
			pair, isList := item.([]any)
			return item == nil || isList && len(pair) != 2 || !isTexts(item, depth-1)
		})
	}
	return false
}

// isHost reports whether an address in a hosts.toml is that of a host of images.
func isHost(address, origin string) bool {
	if !strings.HasPrefix(address, "http") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return true // it leads to the origin, as does "httpcache.example" without a scheme
	}
	plain := func(host string) string {
		host = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(host), ":443"), ":80")
		host = strings.TrimSuffix(host, ".")
		if host == "registry-1.docker.io" || host == "index.docker.io" {
			return "docker.io"
		}
		return host
	}
	return plain(u.Host) == plain(origin)
}

// read reads a file below a root.
func read(root, path string) ([]byte, error) {
	f, err := regularfile.Open(filepath.Join(root, path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, regularfile.Cause(err))
	}
	defer f.Close()
	data, err := regularfile.ReadAll(f, maxFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// position is where a TOML file is wrong, without what stands there.
func position(err error) error {
	if e, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, column := e.Position()
		return fmt.Errorf("line %d, column %d cannot be read", line, column)
	}
	return errors.New("it cannot be read")
}
