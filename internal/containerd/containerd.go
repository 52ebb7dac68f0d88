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
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

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

// Read reads a config.toml, of version 2 or 3. Files that it imports are not
// read. The error is an [fs.ErrNotExist] if there is none.
func Read(root, path string) (*Runtime, error) {
	data, err := read(root, path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Imports []string                  `toml:"imports"`
		Plugins map[string]map[string]any `toml:"plugins"`
	}
	if err := toml.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("%s: it is not TOML: %w", path, position(err))
	}
	r := &Runtime{Root: root, File: path}
	if len(file.Imports) > 0 {
		return nil, fmt.Errorf("%s imports other files, which are not read", path)
	}
	for _, name := range []string{"io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images"} {
		registry, _ := file.Plugins[name]["registry"].(map[string]any)
		if dirs, _ := registry["config_path"].(string); dirs != "" {
			r.Certs = filepath.SplitList(dirs)
		}
	}
	return r, nil
}

// Origin says whether images of a host may be asked of that host itself, and
// why: "" if it never is.
func (r *Runtime) Origin(host string) string {
	if len(r.Certs) == 0 {
		return fmt.Sprintf("%s has no config_path, so no hosts.toml is read", r.File)
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
			info, err := os.Stat(filepath.Join(r.Root, dir))
			switch {
			case err == nil && info.IsDir():
				return dir, nil
			case err != nil && !errors.Is(err, fs.ErrNotExist):
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
		Server string `toml:"server"`
		Hosts  map[string]struct {
			Capabilities []string `toml:"capabilities"`
		} `toml:"host"`
	}
	var top map[string]any // in which a host table without hosts is one
	if err := errors.Join(toml.Unmarshal(data, &file), toml.Unmarshal(data, &top)); err != nil {
		return "", fmt.Errorf("%s: %w", path, position(err))
	}
	for name, h := range file.Hosts {
		if isHost(name, origin) {
			return fmt.Sprintf("%s names it as a host", path), nil
		}
		for _, c := range h.Capabilities {
			if !slices.Contains([]string{"pull", "resolve", "push"}, c) {
				return fmt.Sprintf("%s has the capability %q, for which some versions take the file for broken, and ask the host alone", path, c), nil
			}
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

// isHost reports whether an address in a hosts.toml is that of a host of images.
func isHost(address, origin string) bool {
	if !strings.HasPrefix(address, "http") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return true // whatever it leads to
	}
	plain := func(host string) string {
		host = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(host), ":443"), ":80")
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
