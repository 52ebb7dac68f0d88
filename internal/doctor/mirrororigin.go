// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/containerd"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/registry"
)

// checkMirrorOrigin checks providers with --mirror-origin=none, which states that the
// runtime never queries the mirrored registry itself. Otherwise, that registry receives
// a credential of the cloud.
func checkMirrorOrigin(_ context.Context, w *World, r *results) {
	cfg := w.Config
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		values := registry.FlagValues(p.Arguments(), "--mirror-origin")
		cloud := registry.PluginCloud(p.Name)
		if cloud == nil || len(values) == 0 || values[len(values)-1].Value != string(registry.OriginNone) {
			continue
		}
		var hosts []string
		for _, m := range cloud.MirrorArgs(p.Arguments()) {
			if m.Foreign && !slices.Contains(hosts, m.Host) {
				hosts = append(hosts, m.Host)
			}
		}
		for _, host := range hosts {
			checkOrigin(r, w.Node.Node, p.Name, host)
		}
	}
}

func checkOrigin(r *results, n node.Node, provider, host string) {
	runtimes, err := findContainerd(n)
	if err != nil {
		r.add(finding.SeverityWarning, "make sure that the runtime never queries this host; CRI-O and podman do not send this credential to any other host",
			"%s has --mirror-origin=none for %s, but regcred cannot check here whether this is safe: %v", provider, host, err)
		return
	}
	for _, runtime := range runtimes {
		if why := runtime.Origin(host); why != "" {
			r.add(finding.SeverityError, "in the host's hosts.toml, also set the mirror as the server (docs/plugins/README.md has an example for all versions)",
				"%s has --mirror-origin=none for %s, but containerd (%s) may send that host the credential: %s", provider, host, runtime.File, why)
			return
		}
	}
	r.add(finding.SeverityOK, "", "%s: containerd never queries %s itself", provider, host)
}

// findContainerd reads all containerd configurations of the node except Docker's,
// because it is unknown which one serves the kubelet.
func findContainerd(n node.Node) (found []*containerd.Runtime, err error) {
	found, err = (&Runtime{node: n}).containerds()
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("found no containerd configuration for a kubelet (looked for %s)", strings.Join(containerdConfigs(), ", "))
	}
	return found, err
}
