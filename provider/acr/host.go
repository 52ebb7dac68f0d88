// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/internal/hostpattern/public"
	"github.com/regcred/regcred/internal/registry"
)

// suffixes are those of the public clouds. All are known in every cloud.
func suffixes() []string { return strings.Fields(registry.AzureDomains) }

// registryName takes apart what precedes the suffix: the name of a registry,
// with the hash of a domain name label or without, and the region of a
// regional endpoint.
func registryName(s string) (name string, ok bool) {
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

// consistsOf reports whether s has nothing but letters and digits of ASCII and
// what is in more, and is not empty.
func consistsOf(s, more string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return false
		}
		return !strings.ContainsRune(more, r)
	})
}

// registry is a host that tokens may be sent to.
type acrHost struct {
	key    string // as the image has it
	server string // host and port, in lower case
	name   string // without region; "" of a host that was allowed by name
	suffix string // "" likewise
}

// hostRules say which hosts are registries.
type hostRules struct {
	suffixes []string
	allowed  []string
}

func newHostRules(allowed []string) (hostRules, error) {
	rules := hostRules{suffixes: suffixes()}
	for _, list := range allowed {
		for host := range strings.SplitSeq(list, ",") {
			host = strings.ToLower(strings.TrimSpace(host))
			if err := public.Check(host); err != nil {
				return rules, fmt.Errorf("--allow-host %q: %w", host, err)
			}
			rules.allowed = append(rules.allowed, withoutDefaultPort(host))
		}
	}
	return rules, nil
}

// withSuffix adds the suffix of a cloud of its own. One with a single label
// would make everybody's hosts registries, and is left out.
func (r hostRules) withSuffix(suffix string) hostRules {
	suffix = cleanSuffix(suffix)
	if !strings.Contains(suffix, ".") || slices.Contains(r.suffixes, suffix) {
		return r
	}
	r.suffixes = append(slices.Clone(r.suffixes), suffix)
	return r
}

// cleanSuffix takes off the dot or star that some environments begin with.
func cleanSuffix(suffix string) string {
	return strings.ToLower(strings.TrimLeft(strings.TrimSpace(suffix), "*."))
}

// find compares label by label: "evilazurecr.io" and "azurecr.io.example" are
// other people's.
func (r hostRules) find(host string) (acrHost, bool) {
	found := acrHost{key: host, server: withoutDefaultPort(strings.ToLower(host))}
	name := hostname(found.server)
	for _, suffix := range r.suffixes {
		before, ok := strings.CutSuffix(name, "."+suffix)
		if base, isName := registryName(before); ok && isName {
			found.name, found.suffix = base, suffix
			return found, true
		}
	}
	return found, hostpattern.Any(r.allowed, found.server)
}

// exchangeURL is where the token may be exchanged, if the realm of the
// registry's challenge is a place to send it to: the registry itself, or
// another endpoint of it, as a regional one may name the global one. A host
// that was allowed by name may stand before any registry.
func (r hostRules) exchangeURL(reg acrHost, realm string) (string, error) {
	u, err := url.Parse(realm)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("the challenge's realm is not a URL")
	}
	if u.Scheme != "https" || u.User != nil {
		return "", fmt.Errorf("the challenge's realm does not use https; refusing to send a token to it")
	}
	other, ok := r.find(u.Host)
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

// withoutDefaultPort takes off the port that every registry has.
func withoutDefaultPort(server string) string {
	if name, port, _ := strings.Cut(server, ":"); port == "443" {
		return name
	}
	return server
}

func hostname(server string) string {
	name, _, _ := strings.Cut(server, ":")
	return name
}
