// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerhelper

import (
	"slices"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/match"
)

// Hosts returns the registries about which a helper with this configuration
// can be asked by name, as host[:port], in the configuration's order and each
// once: what a client can list, or have as a key in credHelpers. Not among them
// are patterns with a * or a path, which no client knows, those of a provider
// that answers only for a pod's service account, and those that match no image.
// Docker Hub is docker.io; what each client calls it is for the caller to know.
func Hosts(cfg *config.Config) []string {
	var hosts []string
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		if NeedsPod(p) {
			continue
		}
		for _, pattern := range p.MatchImages {
			if host, ok := exactHost(pattern); ok && !slices.Contains(hosts, host) {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}

// Asks reports whether a helper with this configuration asks a provider about a
// registry (host[:port], or docker.io) as a whole, which is what clients send.
func Asks(cfg *config.Config, registry string) bool {
	requests, err := Requests(registry)
	return err == nil && slices.ContainsFunc(requests, func(r regcred.Request) bool {
		return slices.ContainsFunc(cfg.Providers, func(p config.Provider) bool {
			return !NeedsPod(&p) && slices.ContainsFunc(p.MatchImages, func(pattern string) bool {
				parsed, err := match.Parse(pattern)
				return err == nil && parsed.Match(r.Registry)
			})
		})
	})
}

// NeedsPod reports whether a provider is not asked unless a pod is there.
func NeedsPod(p *config.Provider) bool {
	t := p.TokenAttributes
	return t != nil && t.RequireServiceAccount != nil && *t.RequireServiceAccount
}

// exactHost returns the registry that a pattern matches, if it is one alone,
// and the whole of it.
func exactHost(pattern string) (host string, ok bool) {
	p, err := match.Parse(pattern)
	if err != nil {
		return "", false
	}
	at := p.Location()
	host = at.Host
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]" // an IPv6 address loses its brackets with its port
	}
	if at.Port != "" {
		host += ":" + at.Port
	}
	name, err := match.Registry(host)
	if err != nil || !p.Match(name) {
		return "", false
	}
	repository, err := match.Repository(name + "/x")
	return host, err == nil && strings.HasPrefix(repository, name+"/") // or else it is a name of Docker Hub
}
