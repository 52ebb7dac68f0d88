// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/cloudplugin"
	"github.com/regcred/regcred/internal/containerd"
	"github.com/regcred/regcred/internal/mirror"
	"github.com/regcred/regcred/internal/node"
)

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
	runtimes, err := findContainerd(n)
	if err != nil {
		r.Add(check, Warn, "make sure that the runtime never queries this host; CRI-O and podman do not send this credential to any other host",
			"%s has --mirror-origin=none for %s, but regcred cannot check here whether this is safe: %v", provider, host, err)
		return
	}
	for _, runtime := range runtimes {
		if why := runtime.Origin(host); why != "" {
			r.Add(check, Fail, "in the host's hosts.toml, also set the mirror as the server (docs/plugins/README.md has an example for all versions)",
				"%s has --mirror-origin=none for %s, but containerd (%s) may send that host the credential: %s", provider, host, runtime.File, why)
			return
		}
	}
	r.Add(check, OK, "", "%s: containerd never queries %s itself", provider, host)
}

// findContainerd reads all configurations that there are: which of them is that
// of the kubelet's runtime cannot be seen here. Docker's own is passed over.
func findContainerd(n node.Node) (found []*containerd.Runtime, err error) {
	found, err = (&Runtime{node: n}).containerds()
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("found no containerd configuration for a kubelet (looked for %s)", strings.Join(containerdConfigs(), ", "))
	}
	return found, err
}
