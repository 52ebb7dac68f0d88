// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package hostpattern matches registry hosts with patterns, for plugins whose registries can be
// configured. A pattern has the form host[:port]. A * matches any text within one label. The
// patterns are a subset of the kubelet's patterns ([match.Pattern]).
package hostpattern

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// Validate rejects patterns that match no host. It also rejects patterns that match third-party
// third-party hosts, because those would receive the credential: a * must not be in the
// last two labels or directly below a public suffix such as co.uk or github.io.
func Validate(pattern string) error {
	if err := ValidateForm(pattern); err != nil {
		return err
	}
	name, _, _ := strings.Cut(pattern, ":")
	if suffix := OpenSuffix(name); suffix != "" {
		return fmt.Errorf("anyone can register a name under the public suffix %q (publicsuffix.org), "+
			"so the * would send the password to third-party hosts; spell out the domain", suffix)
	}
	return nil
}

// ValidateForm is like [Validate] but does not consult the public suffix list.
func ValidateForm(pattern string) error {
	host := strings.ReplaceAll(pattern, "*", "x")
	if (&plugin.Request{Image: host + "/x"}).Registry() != host || hasEmptyLabel(host) {
		return errors.New("must have the form host[:port]; remove the scheme and path")
	}
	if _, err := netip.ParseAddrPort(host); err != nil && strings.HasPrefix(host, "[") {
		return errors.New("an address in brackets needs a port; use [address]:port")
	}
	name, _, _ := strings.Cut(pattern, ":")
	labels := strings.Split(name, ".")
	if strings.Contains(strings.Join(labels[max(0, len(labels)-2):], "."), "*") {
		return errors.New("a * in one of the last two labels would send the password to third-party hosts; spell out the domain")
	}
	return nil
}

// IsHostname reports whether s is a DNS name, with or without a trailing dot, or an
// IPv4 address.
func IsHostname(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' || strings.ContainsFunc(label, isInvalidLabelRune) {
			return false
		}
	}
	return true
}

func isInvalidLabelRune(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
}

// MatchAny reports whether any of the patterns matches an image's host, ignoring case.
func MatchAny(patterns []string, host string) bool {
	host = strings.ToLower(host)
	return !hasEmptyLabel(host) && slices.ContainsFunc(patterns, func(pattern string) bool {
		return Match(strings.ToLower(pattern), host)
	})
}

// hasEmptyLabel reports whether a host has an empty label, which a * could match.
func hasEmptyLabel(host string) bool {
	name, _, _ := strings.Cut(host, ":")
	return strings.Contains("."+name+".", "..") && !strings.HasPrefix(host, "[")
}

// Match reports whether a pattern matches host[:port] as in the kubelet. Matching is
// case-sensitive, and an address in brackets needs a port.
func Match(pattern, host string) bool {
	// notInHost lists characters of URLs and of bracketed addresses. With URL characters,
	// match.Parse would not compare exactly the host. Only identical bracketed addresses match.
	const notInHost = `[]@%/?#`
	if host == "" || pattern != host && (strings.ContainsAny(pattern, notInHost) || strings.ContainsAny(host, notInHost)) {
		return false
	}
	p, err := match.Parse(pattern)
	return err == nil && p.Match(host)
}
