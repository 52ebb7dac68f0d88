// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
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
	for _, file := range r.kubeletConfigs(flags, more) {
		var cfg healthConfig
		if err := yaml.Unmarshal([]byte(r.file(file)), &cfg); err != nil {
			continue // the kubelet would not start with it, and says so
		}
		if cfg.HealthzPort != nil {
			port, from = *cfg.HealthzPort, file
		}
		if cfg.HealthzBindAddress != "" {
			bind, from = cfg.HealthzBindAddress, file
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

// kubeletConfigs lists the kubelet's configuration in the order in which it is read.
func (r *reading) kubeletConfigs(flags map[string]string, dirs []string) (files []string) {
	if file := flags["config"]; file != "" {
		files = append(files, path.Join("/", file))
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
func (r *reading) confFiles(dir string, depth int) (files []string) {
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
			files = append(files, p)
		}
	}
	return files
}
