// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/node"
)

// provider is a provider in a CredentialProviderConfig.
type provider struct {
	name    string
	version string // version of the protocol, such as "v1"
	images  []string
	args    []string
	environ []string // "name=value"

	defaultCacheDuration string         // "" means 1m
	tokenAttributes      map[string]any // nil means none
}

// writeProviders writes a CredentialProviderConfig of a version and returns its path.
func writeProviders(t *testing.T, path, version string, providers ...provider) string {
	t.Helper()
	var entries []map[string]any
	for _, p := range providers {
		entries = append(entries, p.configEntry())
	}
	data := must.Get(yaml.Marshal(map[string]any{
		"apiVersion": "kubelet.config.k8s.io/" + version, "kind": "CredentialProviderConfig", "providers": entries,
	}))(t)
	return writeFile(t, path, string(data))
}

func (p provider) configEntry() map[string]any {
	entry := map[string]any{
		"name": p.name, "apiVersion": "credentialprovider.kubelet.k8s.io/" + p.version,
		"matchImages": p.images, "defaultCacheDuration": "1m", "args": p.args,
	}
	if p.defaultCacheDuration != "" {
		entry["defaultCacheDuration"] = p.defaultCacheDuration
	}
	if p.tokenAttributes != nil {
		entry["tokenAttributes"] = p.tokenAttributes
		if !node.FeatureCacheType.IsEnabled() {
			delete(p.tokenAttributes, "cacheType")
		}
	}
	var environ []map[string]string
	for _, e := range p.environ {
		name, value, _ := strings.Cut(e, "=")
		environ = append(environ, map[string]string{"name": name, "value": value})
	}
	entry["env"] = environ
	return entry
}

// writeFile writes an executable file, because it may be a program, and returns its path.
func writeFile(t *testing.T, path, content string) string {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, []byte(content), 0o700))
	return path
}
