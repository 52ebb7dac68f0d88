// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/internal/hostpattern/public"
	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/plugin"
)

// Name is that of the plugin, and so of the provider in a configuration.
const Name = "auth-provider-gcp"

// fixedKeys are in every answer, as in those of the plugin that this one
// replaces.
func fixedKeys() []string {
	return []string{"container.cloud.google.com", "gcr.io", "*.gcr.io", "*.pkg.dev"}
}

// serves reports whether a registry may see the access token.
func (o Options) serves(host string) bool {
	// Names of hosts do not know case, and 443 is the port of every registry.
	name := strings.TrimSuffix(strings.ToLower(host), ":443")
	return hostpattern.Any(registry.PluginCloud(Name).Hosts, name) || hostpattern.Any(o.AllowHosts, host) ||
		o.AnyHost && host != ""
}

// keysFor returns the keys under which an image gets the access token, and for
// what the answer is good: the fixed keys and the registry's own, or that of
// the mirrored images. There are no keys for who must not see the token.
func (p *Provider) keysFor(req *plugin.Request) ([]string, plugin.CacheKeyType) {
	host := req.Registry()
	scope := p.mirrors.Scope(host)
	if _, ok := p.mirrors.Find(req.Image); ok {
		return []string{host}, scope
	}
	if !p.opts.serves(host) {
		return nil, scope
	}
	keys := fixedKeys()
	if !slices.Contains(keys, host) {
		keys = append(keys, host)
	}
	return keys, scope
}

// checkPatterns refuses patterns that match nothing, or strangers.
func checkPatterns(patterns []string) error {
	for _, pattern := range patterns {
		if err := public.Check(pattern); err != nil {
			return fmt.Errorf("--allow-host %q: %w", pattern, err)
		}
	}
	return nil
}

// isAddress reports whether s is a host with or without a port, as it stands
// in a URL.
func isAddress(s string) bool {
	u, err := url.Parse("http://" + s)
	if err != nil || u.Host != s || u.Hostname() == "" {
		return false
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return true
	}
	return hostpattern.IsName(u.Hostname())
}
