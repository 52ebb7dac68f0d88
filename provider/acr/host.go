// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/internal/registry"
)

// publicCloudSuffixes returns the registry domains of the public clouds. Hosts in them are accepted
// in every cloud.
func publicCloudSuffixes() []string { return strings.Fields(registry.AzureDomains) }

// parseRegistryName parses a host name without its suffix. This is the registry's name, which may
// include the hash of a domain name label, and the region of a regional endpoint.
func parseRegistryName(s string) (name string, ok bool) {
	name, regional, isRegional := strings.Cut(s, ".")
	if isRegional {
		region, ok := strings.CutSuffix(regional, ".geo")
		if !ok || !isAlphanumeric(region) {
			return "", false
		}
	}
	base, hash, hashed := strings.Cut(name, "-")
	return name, isAlphanumeric(base) && (!hashed || isAlphanumeric(hash))
}

func isAlphanumeric(s string) bool { return consistsOf(s, "") }

// consistsOf reports whether s is not empty and has only ASCII letters, digits
// and the characters in more.
func consistsOf(s, more string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return false
		}
		return !strings.ContainsRune(more, r)
	})
}

// acrHost is a host that may receive tokens.
type acrHost struct {
	authKey string // the host in the image reference
	server  string // lower-case host and port
	name    string // registry name without region; "" for an allowed host
	suffix  string // "" for an allowed host
}

// hostRules determines which hosts are registries.
type hostRules struct {
	suffixes []string
	allowed  []string
}

func newHostRules(allowed []string) (hostRules, error) {
	rules := hostRules{suffixes: publicCloudSuffixes()}
	for _, list := range allowed {
		for host := range strings.SplitSeq(list, ",") {
			host = strings.ToLower(strings.TrimSpace(host))
			if err := hostpattern.Validate(host); err != nil {
				return rules, fmt.Errorf("--allow-host %q: %w", excerpt.RedactAddress(host), err)
			}
			rules.allowed = append(rules.allowed, trimDefaultPort(host))
		}
	}
	return rules, nil
}

// withSuffix returns the rules with the suffix of a custom cloud. It ignores a suffix with a single
// label, because that would match third-party hosts.
func (r hostRules) withSuffix(suffix string) hostRules {
	suffix = trimSuffixWildcard(suffix)
	if !strings.Contains(suffix, ".") || slices.Contains(r.suffixes, suffix) {
		return r
	}
	r.suffixes = append(slices.Clone(r.suffixes), suffix)
	return r
}

// trimSuffixWildcard returns the suffix without the leading dot or asterisk that some
// configurations have.
func trimSuffixWildcard(suffix string) string {
	return strings.ToLower(strings.TrimLeft(strings.TrimSpace(suffix), "*."))
}

// findRegistry returns the registry for a host. It compares whole labels, so that "evilazurecr.io"
// and "azurecr.io.example" do not match.
func (r hostRules) findRegistry(host string) (acrHost, bool) {
	found := acrHost{authKey: host, server: trimDefaultPort(strings.ToLower(host))}
	name := hostname(found.server)
	for _, suffix := range r.suffixes {
		before, ok := strings.CutSuffix(name, "."+suffix)
		if base, isName := parseRegistryName(before); ok && isName {
			found.name, found.suffix = base, suffix
			return found, true
		}
	}
	return found, hostpattern.MatchAny(r.allowed, found.server)
}

// exchangeURL returns the URL for the token exchange. The realm in the challenge must be on the
// registry's host or on another endpoint of the registry, because a regional endpoint may refer to
// the global one. An allowed host may refer to any registry.
func (r hostRules) exchangeURL(reg acrHost, realm string) (string, error) {
	u, err := url.Parse(realm)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("the challenge's realm is not a URL")
	}
	if u.Scheme != "https" || u.User != nil {
		return "", fmt.Errorf("the challenge's realm does not use https; refusing to send a token to it")
	}
	other, ok := r.findRegistry(u.Host)
	same := other.server == reg.server || hostname(other.server) == hostname(reg.server) && !strings.Contains(other.server, ":")
	switch {
	case same:
	case ok && reg.suffix == "":
	case ok && other.name == reg.name && other.suffix == reg.suffix && !strings.Contains(other.server, ":"):
	default:
		return "", fmt.Errorf("the challenge's realm is on another host, %.100q; refusing to send a token to it", u.Host)
	}
	return "https://" + other.server + "/oauth2/exchange", nil
}

// trimDefaultPort removes the port if it is 443.
func trimDefaultPort(server string) string {
	if name, port, _ := strings.Cut(server, ":"); port == "443" {
		return name
	}
	return server
}

func hostname(server string) string {
	name, _, _ := strings.Cut(server, ":")
	return name
}
