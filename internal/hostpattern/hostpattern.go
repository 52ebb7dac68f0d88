// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package hostpattern matches registry hosts with patterns, for plugins that
// are told by configuration which registries they serve: host[:port], where *
// stands for any text within one label. What matches here matches in a
// kubelet too. The whole matcher of a kubelet is match.Pattern, which a
// small plugin does not link.
package hostpattern

import (
	"errors"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/regcred/regcred/plugin"
)

// Check refuses what matches nothing, and what matches strangers: a credential
// goes wherever a pattern says.
func Check(pattern string) error {
	// What stands for a * cannot be wrong; the rest is a host, or not.
	host := strings.ReplaceAll(pattern, "*", "x")
	if (&plugin.Request{Image: host + "/x"}).Registry() != host || hasEmptyLabel(host) {
		return errors.New("it is not host[:port]; give it without scheme and path")
	}
	if _, err := netip.ParseAddrPort(host); err != nil && strings.HasPrefix(host, "[") {
		return errors.New("an address in brackets needs a port, [address]:port; no kubelet matches it without")
	}
	name, _, _ := strings.Cut(pattern, ":")
	labels := strings.Split(name, ".")
	if strings.Contains(strings.Join(labels[max(0, len(labels)-2):], "."), "*") {
		return errors.New("a * in one of the last two labels would give the password to strangers; name the domain")
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

// Match reports whether a pattern matches a host with its port. The ports are
// the same text, the numbers of labels are equal, and each label matches. As
// in a kubelet, case counts.
func Match(pattern, host string) bool {
	if pattern == host {
		// kubelet: an address in brackets without a port is taken for a
		// character class, so nothing that an answer says can match it.
		return host != "" && !strings.HasSuffix(host, "]")
	}
	// No patterns here: what else path.Match knows, and addresses in brackets.
	if strings.ContainsAny(pattern, `[]?\/`) {
		return false
	}
	pattern, wantPort, _ := strings.Cut(pattern, ":")
	host, port, _ := strings.Cut(host, ":")
	labels, got := strings.Split(pattern, "."), strings.Split(host, ".")
	if port != wantPort || len(labels) != len(got) {
		return false
	}
	for i := range labels {
		if ok, err := path.Match(labels[i], got[i]); err != nil || !ok {
			return false
		}
	}
	return true
}
