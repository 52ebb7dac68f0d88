// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package containerd

import (
	"cmp"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// registry is the registry table as one release reads it.
type registry struct {
	certs       []string            // config_path
	explicit    bool                // config_path is set, not the default
	mirrors     map[string][]string // endpoints, by host or "*" (deprecated)
	logins      map[string]bool     // hosts with a password (deprecated)
	tls         map[string]tlsFiles // by host, for containerd 1 (deprecated)
	invalidPath bool                // config_path is not a string
	headers     []string            // names of headers that are sent to every host
	transfer    bool                // pulls go through the transfer service
}

type tlsFiles struct {
	ca, cert, key string
	skipVerify    bool
}

// defaultCerts is the default of config_path from containerd 2.2.0, without mirrors.
const defaultCerts = "/etc/containerd/certs.d:/etc/docker/certs.d"

// registry decodes the registry table for a release.
func (r *Runtime) registry(v Version) *registry {
	plugin := r.plugin(v)
	raw := table(plugin["registry"])
	if v.two() { // its parser is case-insensitive
		lower := map[string]any{}
		for key, value := range raw {
			lower[strings.ToLower(key)] = value
		}
		raw = lower
	}
	reg := &registry{mirrors: map[string][]string{}, logins: map[string]bool{}, tls: map[string]tlsFiles{}}
	for host, m := range table(raw["mirrors"]) {
		reg.mirrors[host] = texts(table(m)["endpoint"])
	}
	reg.readConfigs(raw)
	reg.headers = slices.Sorted(maps.Keys(table(raw["headers"])))
	path, isText := raw["config_path"].(string)
	reg.invalidPath = !isText && raw["config_path"] != nil
	reg.explicit = path != ""
	if path == "" && v.defaultCerts() && len(reg.mirrors) == 0 {
		path = defaultCerts
	}
	if path != "" {
		reg.certs = filepath.SplitList(path)
	}
	reg.transfer = v.transfer() && !pullsLocally(plugin, raw)
	return reg
}

func (reg *registry) readConfigs(raw map[string]any) {
	for host, c := range table(raw["configs"]) {
		if table(c)["auth"] != nil {
			reg.logins[host] = true
		}
		if t := table(table(c)["tls"]); len(t) > 0 {
			skip, _ := t["insecure_skip_verify"].(bool)
			reg.tls[host] = tlsFiles{text(t["ca_file"]), text(t["cert_file"]), text(t["key_file"]), skip}
		}
	}
	for endpoint := range table(raw["auths"]) {
		if u, err := url.Parse(endpoint); err == nil && u.Scheme != "" {
			endpoint = u.Host
		}
		reg.logins[endpoint] = true
	}
}

// pullsLocally reports whether a setting disables the transfer service.
// containerd: CheckLocalImagePullConfigs.
func pullsLocally(plugin, registry map[string]any) bool {
	is := func(key string, value bool) bool { b, ok := plugin[key].(bool); return ok && b == value }
	downloads, ok := plugin["max_concurrent_downloads"].(int64)
	return is("use_local_image_pull", true) || is("discard_unpacked_layers", true) || is("disable_snapshot_annotations", false) ||
		is("image_pull_with_sync_fs", true) || ok && downloads != 3 ||
		len(table(registry["mirrors"]))+len(table(registry["configs"]))+len(table(registry["auths"])) > 0
}

// plugin returns the table of the plugin that pulls images, merged from all files.
func (r *Runtime) plugin(v Version) map[string]any {
	if !v.two() {
		return r.pluginOfOne()
	}
	merged := map[string]any{}
	for _, s := range r.files {
		merge(merged, s.migrated(v))
	}
	return merged
}

// pluginOfOne returns the table for containerd 1, where a later file replaces it.
func (r *Runtime) pluginOfOne() (found map[string]any) {
	id := criV2
	if r.format == 1 {
		id = criV1
	}
	for _, s := range r.files {
		if p, ok := s.plugins[id]; ok {
			found = table(p)
		}
	}
	return found
}

// migrated returns the plugin's table of one file after containerd 2 has migrated it
// from an older version. containerd: plugins/cri/images, migrateConfig.
func (s *source) migrated(v Version) map[string]any {
	plugin := maps.Clone(table(s.plugins[images]))
	if plugin == nil {
		plugin = map[string]any{}
	}
	old := table(s.plugins[criV2])
	if s.format == 1 && s.plugins[criV1] != nil {
		old = table(s.plugins[criV1])
	}
	if s.format > 3 || s.format == 3 && !v.formatFour() || old == nil {
		return plugin
	}
	snapshots := table(old["containerd"])
	for _, key := range []string{"registry", "max_concurrent_downloads", "image_pull_with_sync_fs"} {
		if value, ok := old[key]; ok {
			plugin[key] = value
		}
	}
	for _, key := range []string{"disable_snapshot_annotations", "discard_unpacked_layers"} {
		if value, ok := snapshots[key]; ok {
			plugin[key] = value
		}
	}
	return plugin
}

// merge copies from into to, key by key. Lists and other values are replaced.
func merge(to, from map[string]any) {
	for key, value := range from {
		next, isTable := value.(map[string]any)
		if !isTable {
			to[key] = value
			continue
		}
		into := map[string]any{}
		merge(into, table(to[key]))
		merge(into, next)
		to[key] = into
	}
}

func table(v any) map[string]any { t, _ := v.(map[string]any); return t }

func text(v any) string { s, _ := v.(string); return s }

func texts(v any) (list []string) {
	items, _ := v.([]any)
	for _, item := range items {
		if s, ok := item.(string); ok {
			list = append(list, s)
		}
	}
	return list
}

// endpoints returns the endpoints of a host's mirrors, and the key that has them.
func (reg *registry) endpoints(host string) (list []string, key string) {
	key = host
	if _, ok := reg.mirrors[host]; !ok {
		key = "*"
	}
	return reg.mirrors[key], cmp.Or(key, host)
}
