// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package containerd

import (
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// registryConfig is the registry table as a given release reads it.
type registryConfig struct {
	configPaths         []string            // config_path
	configPathSet       bool                // config_path is set explicitly
	mirrors             map[string][]string // endpoints, by host or "*" (deprecated)
	logins              map[string]bool     // hosts with a configured password (deprecated)
	auths               map[string]any      // the password's table by host
	misplaced           []string            // keys of configs with a password in the wrong place
	tls                 map[string]tlsFiles // TLS files by host, for containerd 1 (deprecated)
	invalidPath         bool                // config_path is not a string
	headers             []string            // names of headers that are sent to every host
	usesTransferService bool                // pulls go through the transfer service
}

type tlsFiles struct {
	ca, cert, key string
	skipVerify    bool
}

// defaultConfigPath is the default of config_path since containerd 2.2.0, if registry.mirrors is
// empty.
const defaultConfigPath = "/etc/containerd/certs.d:/etc/docker/certs.d"

// decodeRegistry decodes the registry table for a release.
func (r *Runtime) decodeRegistry(v Version) *registryConfig {
	plugin := r.mergedPluginTable(v)
	raw := asTable(plugin["registry"])
	if v.isAtLeast2() { // containerd 2's parser is case-insensitive
		lower := map[string]any{}
		for key, value := range raw {
			lower[strings.ToLower(key)] = value
		}
		raw = lower
	}
	reg := &registryConfig{mirrors: map[string][]string{}, logins: map[string]bool{}, auths: map[string]any{}, tls: map[string]tlsFiles{}}
	for host, m := range asTable(raw["mirrors"]) {
		reg.mirrors[host] = asStringList(asTable(m)["endpoint"])
	}
	reg.readConfigs(raw)
	reg.headers = slices.Sorted(maps.Keys(asTable(raw["headers"])))
	path, isText := raw["config_path"].(string)
	reg.invalidPath = !isText && raw["config_path"] != nil
	reg.configPathSet = path != ""
	if path == "" && v.hasDefaultConfigPath() && len(reg.mirrors) == 0 {
		path = defaultConfigPath
	}
	if path != "" {
		reg.configPaths = filepath.SplitList(path)
	}
	reg.usesTransferService = v.usesTransferService() && !isTransferDisabled(plugin, raw)
	return reg
}

func (reg *registryConfig) readConfigs(raw map[string]any) {
	for host, c := range asTable(raw["configs"]) {
		switch auth := asTable(c)["auth"].(type) {
		case map[string]any:
			reg.logins[host], reg.auths[host] = true, auth
		case nil:
			if isMisplacedPassword(host, asTable(c)) {
				reg.misplaced = append(reg.misplaced, host)
			}
		default:
			reg.misplaced = append(reg.misplaced, host)
		}
		if t := asTable(asTable(c)["tls"]); len(t) > 0 {
			skip, _ := t["insecure_skip_verify"].(bool)
			reg.tls[host] = tlsFiles{asString(t["ca_file"]), asString(t["cert_file"]), asString(t["key_file"]), skip}
		}
	}
	for endpoint, auth := range asTable(raw["auths"]) {
		if u, err := url.Parse(endpoint); err == nil && u.Scheme != "" {
			endpoint = u.Host
		}
		reg.logins[endpoint], reg.auths[endpoint] = true, auth
	}
}

// isMisplacedPassword reports whether a table in configs has a password outside a table named
// auth. Some guides use configs.auths.URL.
func isMisplacedPassword(host string, table map[string]any) bool {
	for key, value := range table {
		if key == "username" || key == "password" || host == "auths" && asTable(value) != nil {
			return true
		}
	}
	return false
}

// isTransferDisabled reports whether a setting disables the transfer service. Source: containerd's
// CheckLocalImagePullConfigs.
func isTransferDisabled(plugin, registry map[string]any) bool {
	is := func(key string, value bool) bool { b, ok := plugin[key].(bool); return ok && b == value }
	downloads, ok := plugin["max_concurrent_downloads"].(int64)
	return is("use_local_image_pull", true) || is("discard_unpacked_layers", true) || is("disable_snapshot_annotations", false) ||
		is("image_pull_with_sync_fs", true) || ok && downloads != 3 ||
		len(asTable(registry["mirrors"]))+len(asTable(registry["configs"]))+len(asTable(registry["auths"])) > 0
}

// mergedPluginTable returns the table of the plugin that pulls images, merged from all files.
func (r *Runtime) mergedPluginTable(v Version) map[string]any {
	if !v.isAtLeast2() {
		return r.pluginTableV1()
	}
	merged := map[string]any{}
	for _, s := range r.files {
		mergeTables(merged, s.migratedPluginTable(v))
	}
	return merged
}

// pluginTableV1 returns the table for containerd 1, where a later file replaces the
// whole table.
func (r *Runtime) pluginTableV1() (found map[string]any) {
	id := criPluginV2
	if r.format == 1 {
		id = criPluginV1
	}
	for _, s := range r.files {
		if p, ok := s.plugins[id]; ok {
			found = asTable(p)
		}
	}
	return found
}

// migratedPluginTable returns the plugin's table in one file, after containerd 2 has migrated it
// from an older format version. Source: containerd's migrateConfig in plugins/cri/images.
func (s *parsedConfigFile) migratedPluginTable(v Version) map[string]any {
	plugin := maps.Clone(asTable(s.plugins[imagesPluginV3]))
	if plugin == nil {
		plugin = map[string]any{}
	}
	old := asTable(s.plugins[criPluginV2])
	if s.format == 1 && s.plugins[criPluginV1] != nil {
		old = asTable(s.plugins[criPluginV1])
	}
	if s.format > 3 || s.format == 3 && !v.supportsFormat4() || old == nil {
		return plugin
	}
	snapshots := asTable(old["containerd"])
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

// mergeTables copies the keys of from into to. It merges tables, and replaces lists and
// other values.
func mergeTables(to, from map[string]any) {
	for key, value := range from {
		next, isTable := value.(map[string]any)
		if !isTable {
			to[key] = value
			continue
		}
		into := map[string]any{}
		mergeTables(into, asTable(to[key]))
		mergeTables(into, next)
		to[key] = into
	}
}

func asTable(v any) map[string]any { t, _ := v.(map[string]any); return t }

func asString(v any) string { s, _ := v.(string); return s }

func asStringList(v any) (list []string) {
	items, _ := v.([]any)
	for _, item := range items {
		if s, ok := item.(string); ok {
			list = append(list, s)
		}
	}
	return list
}
