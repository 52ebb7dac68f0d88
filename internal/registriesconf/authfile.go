// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registriesconf

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/tomlfile"
)

// authFile is a file with credentials. Only its server names are read.
type authFile struct {
	path    string
	servers map[string]int // lines, by name without scheme and API path, as c/image looks them up
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
		if a, ok := c.readAuthFile(name); ok {
			c.credentialFiles = append(c.credentialFiles, a)
		}
	}
}

func (c *Config) readAuthFile(name string) (a authFile, ok bool) {
	data, err := c.opts.fs().ReadFile(context.Background(), name)
	if err != nil {
		return a, false
	}
	var file struct {
		Auths   map[string]json.RawMessage `json:"auths"`
		Helpers map[string]json.RawMessage `json:"credHelpers"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return a, false
	}
	a = authFile{path: name, servers: map[string]int{}}
	for _, servers := range []map[string]json.RawMessage{file.Auths, file.Helpers} {
		for server := range servers {
			key, _ := json.Marshal(server) // a string
			before, _, _ := bytes.Cut(data, key)
			a.servers[canonicalServer(server)] = 1 + bytes.Count(before, []byte("\n"))
		}
	}
	return a, true
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

// namespacedAuth returns CRI-O's credential file for a single pull of an image, which a credential
// provider writes before the pull. Its name contains the pod's namespace, so the files of all
// namespaces are considered. CRI-O: internal/storage, namespaced_auth_dir.
func (c *Config) namespacedAuth(repository string) (list []authFile) {
	if c.Runtime != CRIO {
		return nil
	}
	dir := cmp.Or(c.crioImageSetting(func(s crioImageSettings) *string { return s.NamespacedAuthDir }), "/etc/crio/auth")
	suffix := fmt.Sprintf("-%x.json", sha256.Sum256([]byte(repository)))
	entries, _ := c.opts.fs().ReadDir(dir) // the directory may not exist
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			if a, ok := c.readAuthFile(path.Join(dir, e.Name())); ok {
				list = append(list, a)
			}
		}
	}
	return list
}

// crioImageSettings is the table crio.image of CRI-O's configuration.
type crioImageSettings struct {
	GlobalAuthFile    *string `toml:"global_auth_file"`
	NamespacedAuthDir *string `toml:"namespaced_auth_dir"`
}

// globalAuthFile returns CRI-O's global_auth_file, or "".
func (c *Config) globalAuthFile() string {
	return c.crioImageSetting(func(s crioImageSettings) *string { return s.GlobalAuthFile })
}

// crioImageSetting returns a setting of CRI-O, or "". Later files override earlier ones.
func (c *Config) crioImageSetting(get func(crioImageSettings) *string) (value string) {
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
				Image crioImageSettings `toml:"image"`
			} `toml:"crio"`
		}
		if f.Decode(&conf) != nil {
			continue
		}
		if v := get(conf.Crio.Image); v != nil {
			value = *v
		}
	}
	return value
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

// authFileFor returns the first file with a credential for a repository, and its line. It returns ""
// if no file has one. A credential for a host or a path also applies to the repositories below it.
// image is the image that the kubelet requests.
func (c *Config) authFileFor(repository, image string) (file string, line int) {
	for _, a := range slices.Concat(c.namespacedAuth(image), c.credentialFiles) {
		for name := repository; name != "." && name != "/"; name = path.Dir(name) {
			if line, ok := a.servers[name]; ok {
				return a.path, line
			}
		}
	}
	return "", 0
}

// credentialHosts returns the hosts for which the runtime has its own credentials.
func (c *Config) credentialHosts() (list []string) {
	for _, a := range c.credentialFiles {
		for server := range a.servers {
			host, _, _ := strings.Cut(server, "/")
			list = append(list, host)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
