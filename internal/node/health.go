// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
)

// The kubelet's flags that say where it tells that it is well.
const (
	healthzPort = "healthz-port"
	healthzBind = "healthz-bind-address"
)

// healthOf is where a kubelet with these flags, and this configuration, tells that it
// is well. Its flags win.
// kubelet: cmd/kubelet/app/server.go, kubeletConfigFlagPrecedence.
func healthOf(flags map[string]string, read kubeletConfig) Health {
	port, bind, from := int32(defaultHealthzPort), defaultHealthzBind, "the kubelet's default"
	if cfg, err := read.decode(); err == nil { // else the kubelet would not start with it, and says so
		if cfg.HealthzPort != nil {
			port, from = *cfg.HealthzPort, cmp.Or(read.from["healthzPort"], from)
		}
		if cfg.HealthzBindAddress != "" {
			bind, from = cfg.HealthzBindAddress, cmp.Or(read.from["healthzBindAddress"], from)
		}
	}
	if n, err := strconv.ParseInt(flags[healthzPort], 10, 32); err == nil {
		port, from = int32(n), "--"+healthzPort
	}
	if flags[healthzBind] != "" {
		bind, from = flags[healthzBind], "--"+healthzBind
	}
	if port <= 0 {
		return Health{From: from}
	}
	if ip := net.ParseIP(bind); ip != nil && ip.IsUnspecified() {
		bind = map[bool]string{true: "127.0.0.1", false: "::1"}[ip.To4() != nil]
	}
	return Health{URL: "http://" + net.JoinHostPort(bind, strconv.Itoa(int(port))) + "/healthz", From: from}
}

// kubeletConfig reads the kubelet's configuration, with its drop-ins in these
// directories if its flags name none. A file that is none is left out: the kubelet would
// not start with it.
func (r *reading) kubeletConfig(flags map[string]string, dirs ...string) (c kubeletConfig) {
	c = newKubeletConfig()
	for _, file := range r.kubeletConfigs(flags, dirs) {
		_ = c.add(file, []byte(r.file(file.path)))
	}
	return c
}

// kubeletConfigs lists the kubelet's configuration in the order in which it is read.
func (r *reading) kubeletConfigs(flags map[string]string, dirs []string) (files []configFile) {
	if file := flags["config"]; file != "" {
		files = append(files, configFile{path: path.Join("/", file)})
	}
	if dir := flags["config-dir"]; dir != "" {
		dirs = []string{dir}
	}
	for _, dir := range dirs {
		name := path.Join("/", dir)
		if real, err := r.node.files().Real(name); err == nil && strings.HasSuffix(dir, "/") {
			name = real
		}
		files = append(files, r.confFiles(name)...)
	}
	return files
}

// confFiles lists the files of a --config-dir, sub-directories included.
// kubelet: it walks no link, of which the directory itself may be one, unless the flag
// ends in a slash.
func (r *reading) confFiles(name string) (files []configFile) {
	info, err := r.node.files().Lstat(name)
	r.note(name, err)
	switch {
	case err != nil:
	case info.IsDir():
		names := r.list(name)
		slices.Sort(names)
		for _, n := range names {
			files = append(files, r.confFiles(path.Join(name, n))...)
		}
	case path.Ext(name) == ".conf":
		files = append(files, configFile{name, true})
	}
	return files
}
