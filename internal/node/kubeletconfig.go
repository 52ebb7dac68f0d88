// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"encoding/json"
	"maps"
	"net"
	"path"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// configFile is a configuration file or drop-in of the kubelet.
type configFile struct {
	path   string
	dropIn bool // whether the file is a drop-in from --config-dir
}

// kubeletFields holds the fields of a KubeletConfiguration that this package uses.
type kubeletFields struct {
	FeatureGates             map[string]bool `json:"featureGates,omitempty"`
	HealthzPort              *int32          `json:"healthzPort,omitempty"`
	HealthzBindAddress       string          `json:"healthzBindAddress,omitempty"`
	ImageServiceEndpoint     string          `json:"imageServiceEndpoint,omitempty"`
	ContainerRuntimeEndpoint string          `json:"containerRuntimeEndpoint,omitempty"`
}

// Default values of configuration fields. kubelet: pkg/kubelet/apis/config/v1beta1/defaults.go.
const (
	defaultHealthzPort = 10248
	defaultHealthzBind = "127.0.0.1"
	defaultRuntime     = "unix:///run/containerd/containerd.sock"
)

// kubeletConfig is the kubelet's configuration, merged from all files.
type kubeletConfig struct {
	fields map[string]any
	from   map[string]string // the last file that sets each field, by field name
}

// newKubeletConfig returns the default configuration. kubelet: it sets these defaults before it
// merges drop-ins. If the names of several fields differ only in case, the last one wins, so
// HealthzPort in a drop-in has no effect.
func newKubeletConfig() kubeletConfig {
	return kubeletConfig{
		fields: map[string]any{"healthzPort": defaultHealthzPort, "healthzBindAddress": defaultHealthzBind, "containerRuntimeEndpoint": defaultRuntime},
		from:   map[string]string{},
	}
}

// mergeFile merges the next file. A drop-in is a merge patch (RFC 7396). Field names in the
// --config file are case-sensitive, but field names in the merged configuration are not.
// kubelet: cmd/kubelet/app/server.go, mergeKubeletConfigurations.
func (c *kubeletConfig) mergeFile(file configFile, data []byte) error {
	data, err := yaml.YAMLToJSON(data)
	if err != nil {
		return err
	}
	if !file.dropIn {
		var known kubeletFields
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &known); err != nil {
			return err
		}
		if data, err = json.Marshal(known); err != nil {
			return err
		}
	}
	var fields map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &fields); err != nil {
		return err
	}
	for name := range fields {
		c.from[name] = file.path
	}
	applyMergePatch(c.fields, fields)
	return nil
}

// applyMergePatch applies a merge patch (RFC 7396) to a value and returns the result. It
// modifies value if value is a map.
func applyMergePatch(value, by any) any {
	changes, ok := by.(map[string]any)
	if !ok {
		return by
	}
	fields, ok := value.(map[string]any)
	if !ok {
		fields = map[string]any{}
	}
	for name, change := range changes {
		if change == nil {
			delete(fields, name)
		} else {
			fields[name] = applyMergePatch(fields[name], change)
		}
	}
	return fields
}

// decodeFields returns the fields of the configuration that this package uses.
func (c *kubeletConfig) decodeFields() (known kubeletFields, err error) {
	data, err := json.Marshal(c.fields)
	if err == nil {
		err = json.Unmarshal(data, &known)
	}
	return known, err
}

// kubeletConfig reads and merges the kubelet's configuration files. It ignores invalid files,
// because the kubelet does not start with them.
func (r *fileReader) kubeletConfig(files []configFile) (c kubeletConfig) {
	c = newKubeletConfig()
	for _, file := range files {
		_ = c.mergeFile(file, []byte(r.readFile(file.path)))
	}
	return c
}

// configFiles returns the kubelet's configuration files in the order in which the kubelet reads
// them. If args contain no --config-dir, it reads drop-ins from dirs.
func (r *fileReader) configFiles(args []string, dirs ...string) (files []configFile) {
	flags := effectiveFlags(args, "config", "config-dir")
	if file := flags["config"]; file != "" {
		files = append(files, configFile{path: r.absolutePath(file)})
	}
	if dir := flags["config-dir"]; dir != "" {
		dirs = []string{dir}
	}
	for _, dir := range dirs {
		name := r.absolutePath(dir)
		if real, err := r.fs().EvalSymlinks(name); err == nil && strings.HasSuffix(dir, "/") {
			name = real
		}
		files = append(files, r.dropInFiles(name)...)
	}
	return files
}

// dropInFiles returns the drop-ins in a --config-dir and its subdirectories. kubelet: it does
// not follow symlinks, except for a --config-dir that ends in a slash.
func (r *fileReader) dropInFiles(name string) (files []configFile) {
	info, err := r.fs().Lstat(name)
	r.recordUnreadable(name, err)
	switch {
	case err != nil:
	case info.IsDir():
		for _, n := range r.readDirNames(name) {
			files = append(files, r.dropInFiles(path.Join(name, n))...)
		}
	case path.Ext(name) == ".conf":
		files = append(files, configFile{name, true})
	}
	return files
}

// healthEndpoint returns the URL of the kubelet's health endpoint. Flags override the
// configuration. kubelet: cmd/kubelet/app/server.go, kubeletConfigFlagPrecedence.
func healthEndpoint(args []string, read kubeletConfig) HealthEndpoint {
	const portFlag, bindFlag = "healthz-port", "healthz-bind-address"
	port, bind, from := int32(defaultHealthzPort), defaultHealthzBind, "the kubelet's default"
	if cfg, err := read.decodeFields(); err == nil { // if this fails, the kubelet does not start
		if cfg.HealthzPort != nil {
			port, from = *cfg.HealthzPort, cmp.Or(read.from["healthzPort"], from)
		}
		if cfg.HealthzBindAddress != "" {
			bind, from = cfg.HealthzBindAddress, cmp.Or(read.from["healthzBindAddress"], from)
		}
	}
	flags := effectiveFlags(args, portFlag, bindFlag)
	if n, err := strconv.ParseInt(flags[portFlag], 10, 32); err == nil {
		port, from = int32(n), "--"+portFlag
	}
	if flags[bindFlag] != "" {
		bind, from = flags[bindFlag], "--"+bindFlag
	}
	if port <= 0 {
		return HealthEndpoint{From: from}
	}
	if ip := net.ParseIP(bind); ip != nil && ip.IsUnspecified() {
		bind = map[bool]string{true: "127.0.0.1", false: "::1"}[ip.To4() != nil]
	}
	return HealthEndpoint{URL: "http://" + net.JoinHostPort(bind, strconv.Itoa(int(port))) + "/healthz", From: from}
}

// featureGates returns the feature gates in the kubelet's configuration and flags. Flags
// override the configuration. kubelet: cmd/kubelet/app/server.go, kubeletConfigFlagPrecedence.
func featureGates(args []string, read kubeletConfig) map[string]bool {
	gates := map[string]bool{}
	if cfg, err := read.decodeFields(); err == nil { // if this fails, the kubelet does not start
		maps.Copy(gates, cfg.FeatureGates)
	}
	for _, f := range parseFlags(args, featureGatesFlag) {
		_ = ParseFeatureGates(gates, f.value) // if this fails, the kubelet does not start
	}
	return gates
}
