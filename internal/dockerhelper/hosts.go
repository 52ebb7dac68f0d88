// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerhelper

import (
	"slices"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/match"
)

// ExactHosts returns the registries that clients can request by name, as host[:port], in
// configuration order. A client can list them or use them as keys in credHelpers. ExactHosts omits
// patterns with a * or a path, patterns that match no image, and providers that need a pod's
// service account. Docker Hub is docker.io, although clients use other names for it.
func ExactHosts(cfg *config.Config) []string {
	var hosts []string
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		if NeedsPod(p) {
			continue
		}
		for _, pattern := range p.MatchImages {
			if host, ok := exactRegistry(pattern); ok && !slices.Contains(hosts, host) {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}

// HasProvider reports whether a provider is configured for a whole registry (host[:port], or
// docker.io). Clients request credentials for whole registries.
func HasProvider(cfg *config.Config, registry string) bool {
	requests, err := ParseServer(registry)
	return err == nil && slices.ContainsFunc(requests, func(r regcred.Request) bool {
		return slices.ContainsFunc(cfg.Providers, func(p config.Provider) bool {
			return !NeedsPod(&p) && slices.ContainsFunc(p.MatchImages, func(pattern string) bool {
				parsed, err := match.Parse(pattern)
				return err == nil && parsed.Match(r.Registry)
			})
		})
	})
}

// NeedsPod reports whether a provider runs only for pods.
func NeedsPod(p *config.Provider) bool {
	t := p.TokenAttributes
	return t != nil && t.RequireServiceAccount != nil && *t.RequireServiceAccount
}

// exactRegistry returns the registry that a pattern matches, if the pattern matches
// exactly one registry and all of its images.
func exactRegistry(pattern string) (host string, ok bool) {
	p, err := match.Parse(pattern)
	if err != nil {
		return "", false
	}
	at, _ := location.Parse(pattern)
	host = at.Host
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]" // url.Hostname removed the brackets of an IPv6 address
	}
	if at.Port != "" {
		host += ":" + at.Port
	}
	name, err := match.Registry(host)
	if err != nil || !p.Match(name) {
		return "", false
	}
	repository, err := match.Repository(name + "/x")
	return host, err == nil && strings.HasPrefix(repository, name+"/") // false for any name of Docker Hub
}
