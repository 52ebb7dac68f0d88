// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registriesconf

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/tomlfile"
)

// authFile is a file with credentials. Only its server names are read.
type authFile struct {
	path    string
	servers []string // without scheme and API path, as c/image looks them up
}

// crioConfigFile and crioConfigDir are the paths of CRI-O's own configuration.
const (
	crioConfigFile = "/etc/crio/crio.conf"
	crioConfigDir  = "/etc/crio/crio.conf.d"
)

// readAuth reads the names of servers for which the runtime has credentials. Like the
// runtime, it ignores unreadable files.
func (c *Config) readAuth() {
	for _, name := range c.authFiles() {
		data, err := c.opts.fs().ReadFile(context.Background(), name)
		if err != nil {
			continue
		}
		var file struct {
			Auths   map[string]json.RawMessage `json:"auths"`
			Helpers map[string]json.RawMessage `json:"credHelpers"`
		}
		if err := json.Unmarshal(data, &file); err != nil {
			continue
		}
		a := authFile{path: name}
		for _, servers := range []map[string]json.RawMessage{file.Auths, file.Helpers} {
			for server := range servers {
				a.servers = append(a.servers, canonicalServer(server))
			}
		}
		c.credentialFiles = append(c.credentialFiles, a)
	}
}

// authFiles returns the credential files in the order in which the runtime reads them.
func (c *Config) authFiles() (list []string) {
	if c.Runtime == CRIO {
		if name := c.globalAuthFile(); name != "" {
			list = append(list, name)
		}
	}
	return append(list, "/run/containers/0/auth.json", path.Join(c.opts.Home, ".config/containers/auth.json"),
		path.Join(c.opts.Home, ".docker/config.json"), path.Join(c.opts.Home, ".dockercfg"))
}

// globalAuthFile returns CRI-O's global_auth_file, or "". Later files override earlier ones.
func (c *Config) globalAuthFile() (name string) {
	files := []string{crioConfigFile}
	entries, _ := c.opts.fs().ReadDir(crioConfigDir) // the directory may not exist
	for _, e := range entries {
		if !e.IsDir() {
			files = append(files, path.Join(crioConfigDir, e.Name()))
		}
	}
	for _, file := range files {
		f, err := tomlfile.Read(context.Background(), c.opts.fs(), file)
		if errors.Is(err, fs.ErrNotExist) || f == nil {
			continue
		}
		var conf struct {
			Crio struct {
				Image struct {
					Auth *string `toml:"global_auth_file"`
				} `toml:"image"`
			} `toml:"crio"`
		}
		if f.Decode(&conf) == nil && conf.Crio.Image.Auth != nil {
			name = *conf.Crio.Image.Auth
		}
	}
	return name
}

// canonicalServer returns the canonical name of a server. For example,
// "https://index.docker.io/v1/" becomes docker.io.
func canonicalServer(server string) string {
	name, _ := strings.CutPrefix(server, "https://")
	name, _ = strings.CutPrefix(name, "http://")
	if name != server || strings.HasSuffix(name, "/v1/") || strings.HasSuffix(name, "/v2/") {
		name, _, _ = strings.Cut(name, "/")
	}
	switch host, rest, _ := strings.Cut(name, "/"); host {
	case "index.docker.io", dockerHub:
		return strings.TrimSuffix("docker.io/"+rest, "/")
	}
	return name
}

// authFileFor returns the first file with a credential for a repository, or "". A credential for a
// host or a path also applies to the repositories below it.
func (c *Config) authFileFor(repository string) string {
	for _, a := range c.credentialFiles {
		for name := repository; name != "." && name != "/"; name = path.Dir(name) {
			if slices.Contains(a.servers, name) {
				return a.path
			}
		}
	}
	return ""
}
