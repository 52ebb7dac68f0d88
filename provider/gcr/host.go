// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/plugin"
)

// Name is the plugin's name, as an executable and in a CredentialProviderConfig.
const Name = "auth-provider-gcp"

// receivesToken reports whether a registry may receive the access token.
func (o Options) receivesToken(host string) bool {
	// Host names are case-insensitive, and 443 is the default port.
	name := strings.TrimSuffix(strings.ToLower(host), ":443")
	return hostpattern.MatchAny(registry.CloudOfPlugin(Name).Hosts, name) || hostpattern.MatchAny(o.AllowHosts, host) ||
		o.AnyHost && host != ""
}

// authKeysFor returns the keys under which an image's response contains the access token, and the
// response's scope. It returns no keys if the registry must not receive the token.
func (p *Provider) authKeysFor(req *plugin.Request) ([]string, plugin.CacheKeyType) {
	host := req.Registry()
	scope := p.mirrors.CacheKeyType(host)
	if _, ok := p.mirrors.Find(req.Image); ok {
		return []string{host}, scope
	}
	if !p.opts.receivesToken(host) {
		return nil, scope
	}
	keys := []string{"container.cloud.google.com", "gcr.io", "*.gcr.io", "*.pkg.dev"} // as in the upstream plugin
	if !slices.Contains(keys, host) {
		keys = append(keys, host)
	}
	return keys, scope
}

// checkPatterns rejects patterns that match no host or match third-party hosts.
func checkPatterns(patterns []string) error {
	for _, pattern := range patterns {
		if err := hostpattern.Validate(pattern); err != nil {
			return fmt.Errorf("--allow-host %q: %w", excerpt.RedactAddress(pattern), err)
		}
	}
	return nil
}

// isHostPort reports whether s is host[:port] in URL form.
func isHostPort(s string) bool {
	u, err := url.Parse("http://" + s)
	if err != nil || u.Host != s || u.Hostname() == "" {
		return false
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return true
	}
	return hostpattern.IsHostname(u.Hostname())
}

// Name returns [Name].
func (p *Provider) Name() string { return Name }

// MatchImages returns patterns for matchImages: Google's registries,
// Options.AllowHosts, and the sources of Options.Mirrors.
func (p *Provider) MatchImages() []string {
	list := append(registry.CloudOfPlugin(Name).Hosts, p.opts.AllowHosts...)
	return append(list, p.mirrors.Sources()...)
}
