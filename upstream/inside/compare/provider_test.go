// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package compare

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

// provider is a provider in the configuration, and its plugin.
type provider struct {
	name string
	host string // host of the images and of the credential

	// script is sh code that runs before the plugin responds. Its working directory is scene.dir.
	script string

	tokenAttributes map[string]any // nil means none
}

// pluginName is the format of the plugin's script. It records the time of its run, in nanoseconds since
// 1970, and prints the response from a file.
const pluginName = `#!/bin/sh
cd '%[1]s' || exit 2
date +%%s%%N >>%[2]s.runs
%[3]s
cat %[2]s.answer
`

// writePlugin writes the plugin and its response.
func (p provider) writePlugin(t *testing.T, dir string) {
	t.Helper()
	writeFile(t, filepath.Join(dir, "bin", p.name), fmt.Sprintf(pluginName, dir, p.name, p.script))
	writeFile(t, filepath.Join(dir, p.name+".answer"), pluginResponse(t, map[string]any{p.host: map[string]string{"username": testUser, "password": canary.PasswordSecret}}))
}

// pluginResponse returns a plugin response with this auth field. It is cached for an hour for the whole
// registry.
func pluginResponse(t *testing.T, auth map[string]any) string {
	t.Helper()
	return indentedJSON(t, map[string]any{
		"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse",
		"cacheKeyType": "Registry", "cacheDuration": "1h", "auth": auth,
	})
}

// configText returns a CredentialProviderConfig as JSON, which is valid YAML.
func configText(t *testing.T, providers []provider) string {
	t.Helper()
	var entries []map[string]any
	for _, p := range providers {
		entry := map[string]any{
			"name": p.name, "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
			"matchImages": []string{p.host}, "defaultCacheDuration": "1h",
		}
		if p.tokenAttributes != nil {
			entry["tokenAttributes"] = p.tokenAttributes
		}
		entries = append(entries, entry)
	}
	return indentedJSON(t, map[string]any{"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": entries})
}

func indentedJSON(t *testing.T, value any) string {
	t.Helper()
	data := must.Get(json.MarshalIndent(value, "", "  "))(t)
	return string(data)
}

// pluginRunTimes returns the times at which a plugin ran, in order.
func (c *kubeletNode) pluginRunTimes(t *testing.T, name string) (times []time.Time) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.dir, name+".runs"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		n := must.Get(strconv.ParseInt(strings.TrimSpace(line), 10, 64))(t)
		times = append(times, time.Unix(0, n))
	}
	return times
}
