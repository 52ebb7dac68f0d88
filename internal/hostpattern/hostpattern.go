// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package hostpattern matches registry hosts with patterns, for plugins that
// are told by configuration which registries they serve: host[:port], where *
// stands for any text within one label. What matches here matches in a
// kubelet too, of whose patterns ([match.Pattern]) these are some.
package hostpattern

import (
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// Check refuses what matches nothing, and what matches strangers: a credential
// goes wherever a pattern says.
func Check(pattern string) error {
	// What stands for a * cannot be wrong; the rest is a host, or not.
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

// IsName reports whether s has the form of a name in the DNS, with or without
// a dot at the end, or of an IPv4 address.
func IsName(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' || strings.ContainsFunc(label, notInLabel) {
			return false
		}
	}
	return true
}

func notInLabel(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
}

// Any reports whether one of the patterns matches the host of an image. Here
// case does not count, as it does not in the names of hosts.
func Any(patterns []string, host string) bool {
	host = strings.ToLower(host)
	return !hasEmptyLabel(host) && slices.ContainsFunc(patterns, func(pattern string) bool {
		return Match(strings.ToLower(pattern), host)
	})
}

// hasEmptyLabel: a * would match an empty label, which no host has.
func hasEmptyLabel(host string) bool {
	name, _, _ := strings.Cut(host, ":")
	return strings.Contains("."+name+".", "..") && !strings.HasPrefix(host, "[")
}

// Match reports whether a pattern matches a host with its port, as a kubelet
// matches them: case counts, and an address in brackets needs a port.
func Match(pattern, host string) bool {
	// No URLs here, of which more than the host would be looked at, or less;
	// and no pattern matches an address in brackets but that address.
	const notInHost = `[]@%/?#`
	if host == "" || pattern != host && (strings.ContainsAny(pattern, notInHost) || strings.ContainsAny(host, notInHost)) {
		return false
	}
	p, err := match.Parse(pattern)
	return err == nil && p.Match(host)
}
