// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/cloudplugin"
	"github.com/regcred/regcred/internal/containerd"
	"github.com/regcred/regcred/internal/mirror"
	"github.com/regcred/regcred/internal/node"
)

// containerdConfigs are where containerd's configuration is; that of k3s and
// RKE2 is their own.
func containerdConfigs() []string {
	return []string{
		"/etc/containerd/config.toml",
		"/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
		"/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
	}
}

// checkMirrors holds what the arguments of the clouds' plugins say about the
// runtime, --mirror-origin=none, against what that is told. A credential of the
// cloud depends on it.
func (r *Report) checkMirrors(n node.Node, cfg *config.Config) {
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		said := cloudplugin.Flag(p.Arguments(), "--mirror-origin")
		cloud := cloudplugin.Named(p.Name)
		if cloud == nil || len(said) == 0 || said[len(said)-1].Value != string(mirror.OriginNone) {
			continue
		}
		var hosts []string
		for _, m := range cloud.Mirrors(p.Arguments()) {
			if m.Strange && !slices.Contains(hosts, m.Host) {
				hosts = append(hosts, m.Host)
			}
		}
		for _, host := range hosts {
			r.checkOrigin(n, p.Name, host)
		}
	}
}

func (r *Report) checkOrigin(n node.Node, provider, host string) {
	const check = "mirror-origin"
	runtime, err := findContainerd(n)
	if err != nil {
		r.Add(check, Warn, "make sure that the runtime never asks it: CRI-O and podman ask nobody else with this credential",
			"%s says --mirror-origin=none for %s, which cannot be checked here: %v", provider, host, err)
		return
	}
	if why := runtime.Origin(host); why != "" {
		r.Add(check, Fail, "let its hosts.toml name the mirror as the server too (docs/plugins/README.md has a file for all versions)",
			"%s says --mirror-origin=none for %s, but containerd may show that host the credential: %s", provider, host, why)
		return
	}
	r.Add(check, OK, "", "%s: containerd never asks %s itself", provider, host)
}

// findContainerd reads the first configuration that there is.
func findContainerd(n node.Node) (*containerd.Runtime, error) {
	for _, path := range containerdConfigs() {
		runtime, err := containerd.Read(n.Root, path)
		if !errors.Is(err, fs.ErrNotExist) {
			return runtime, err
		}
	}
	return nil, errors.New("there is no " + strings.Join(containerdConfigs(), ", "))
}
