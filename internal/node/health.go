// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
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

// healthConfig is what matters here of a KubeletConfiguration.
type healthConfig struct {
	HealthzPort        *int32 `json:"healthzPort"`
	HealthzBindAddress string `json:"healthzBindAddress"`
}

// health finds where a kubelet with these flags tells that it is well. Its flags
// win over its --config-dir, and that over its --config.
// kubelet: pkg/kubelet/apis/config/v1beta1/defaults.go, cmd/kubelet/app/server.go.
func (r *reading) health(flags map[string]string, more ...string) Health {
	port, bind, from := int32(10248), "127.0.0.1", "the kubelet's default"
	read, cfg := r.kubeletConfig(r.kubeletConfigs(flags, more)), healthConfig{}
	if read.decode(&cfg) == nil { // else the kubelet would not start with it, and says so
		if cfg.HealthzPort != nil {
			port, from = *cfg.HealthzPort, read.from["healthzPort"]
		}
		if cfg.HealthzBindAddress != "" {
			bind, from = cfg.HealthzBindAddress, read.from["healthzBindAddress"]
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

// kubeletConfig reads the kubelet's configuration. A file that is none is left out:
// the kubelet would not start with it.
func (r *reading) kubeletConfig(files []configFile) (c kubeletConfig) {
	for _, file := range files {
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
		dirs = []string{path.Join("/", dir)}
	}
	for _, dir := range dirs {
		files = append(files, r.confFiles(dir, 0)...)
	}
	return files
}

// confFiles lists the files of a --config-dir, sub-directories included, as the
// kubelet walks them.
func (r *reading) confFiles(dir string, depth int) (files []configFile) {
	names := r.list(dir)
	slices.Sort(names)
	for _, name := range names {
		p := path.Join(dir, name)
		info, err := r.node.files().Lstat(p)
		switch {
		case err != nil:
		case info.IsDir() && depth < 8:
			files = append(files, r.confFiles(p, depth+1)...)
		case !info.IsDir() && strings.HasSuffix(name, ".conf"):
			files = append(files, configFile{p, true})
		}
	}
	return files
}
