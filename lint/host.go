// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/lint/internal/imagename"
	"github.com/regcred/regcred/lint/internal/rules"
)

func checkNoHost(p *pattern) []rules.Result {
	return rules.ResultIf(p.valid && p.parsed.Host == "",
		rules.NewResult("", "%q never matches, because it has no host", p.redacted))
}

func checkEmptyLabel(p *pattern) []rules.Result {
	h := p.parsed.Host
	return p.resultWithFix(h != "" && (strings.HasPrefix(h, ".") || strings.HasSuffix(h, ".") || strings.Contains(h, "..")),
		"%q never matches, because a host cannot begin or end with a dot or have two dots in a row")
}

func checkDotlessHost(p *pattern) []rules.Result {
	if _, bad := imagename.InvalidLabel(p.parsed); bad || p.scheme != "" || !imagename.IsDotlessHost(p.parsed) || imagename.IsRegistryHost(p.parsed) {
		return nil
	}
	hub := "docker.io/" + p.repaired.Host + p.repaired.Path
	if p.repaired.Path == "" {
		hub = "docker.io/library/" + p.repaired.Host
	}
	if strings.Contains(hub, "*") || !imagename.IsValidPath(hub[len("docker.io"):]) {
		hub = ""
	}
	return rules.NewResult(hub, "%q never matches, because a host without a dot or a port is part of a Docker Hub image name", p.redacted)
}

func checkBareWildcard(p *pattern) []rules.Result {
	return rules.ResultIf(!p.catchAll && p.scheme == "" && imagename.IsDotlessHost(p.parsed) && strings.Contains(p.parsed.Host, "*") && imagename.IsRegistryHost(p.parsed),
		rules.NewResult("list the registries, using one * for each label", "%q matches only single-label hosts without a port (in practice, only localhost)", p.redacted))
}

func checkDoubleWildcard(p *pattern) []rules.Result {
	return p.resultWithFix(strings.Contains(p.parsed.Host, "**"),
		"%q: ** is the same as *, which never matches a dot")
}

// openDomainLabels returns those of the host's last two labels that contain a *. If there are any,
// anyone can register a matching domain. It returns nil for IP addresses and private domains.
func openDomainLabels(host string) []string {
	labels := lastLabels(host, 2)
	if len(labels) < 2 || slices.Contains(privateTopLevelDomains(), labels[1]) || strings.Trim(host, "0123456789.*") == "" && strings.Trim(host, ".*") != "" {
		return nil
	}
	return slices.DeleteFunc(labels, func(s string) bool { return !strings.Contains(s, "*") })
}

// lastLabels returns the last n labels of a host, or all labels if there are fewer.
func lastLabels(host string, n int) []string {
	at := len(host)
	for range n {
		if at = strings.LastIndexByte(host[:at], '.'); at < 0 {
			return strings.Split(host, ".")
		}
	}
	return strings.Split(host[at+1:], ".")
}

// privateTopLevelDomains returns top-level domains that are not open to public registration
// (RFC 2606, RFC 6761, RFC 6762, RFC 8375, and ICANN's .internal).
func privateTopLevelDomains() []string {
	return []string{"internal", "local", "localdomain", "localhost", "lan", "corp", "home", "intranet", "private",
		"test", "example", "invalid", "arpa", "svc", "cluster"}
}

func isWildcard(label string) bool { return strings.Trim(label, "*") == "" }

func checkWildcardWithoutDot(p *pattern) []rules.Result {
	open := slices.DeleteFunc(openDomainLabels(p.parsed.Host), isWildcard)
	if len(open) == 0 || !p.matches {
		return nil
	}
	suggestion := "" // set only if a dot after the * fixes the pattern
	if rest, ok := strings.CutPrefix(p.repaired.Host, "*"); ok && !strings.Contains(rest, "*") && rest[0] != '-' {
		l := p.repaired
		l.Host = "*." + rest
		suggestion = l.String()
	}
	return rules.NewResult(suggestion, "%q also matches %s, a domain that anyone can register", p.redacted, strings.ReplaceAll(p.repaired.Host, "*", "evil"))
}

func isOpenDomain(p *pattern) bool {
	return p.matches && (slices.ContainsFunc(openDomainLabels(p.parsed.Host), isWildcard) || hostpattern.OpenSuffix(p.parsed.Host) != "" && len(openDomainLabels(p.parsed.Host)) == 0)
}

func checkOpenDomain(p *pattern) []rules.Result {
	return rules.ResultIf(isOpenDomain(p) && !p.usesTokens && !p.catchAll,
		rules.NewResult("", "%q matches registries you do not control, so the kubelet runs the plugin for each of them", p.redacted))
}

func checkOpenDomainToken(p *pattern) []rules.Result {
	return rules.ResultIf(isOpenDomain(p) && p.usesTokens && (!p.catchAll || p.raw == p.siblings.catchAll[len(p.siblings.catchAll)-1]),
		rules.NewResult("", "%q matches registries you do not control, so the plugin receives service account tokens for pulls from them", p.redacted))
}

func checkUpperCaseHost(p *pattern) []rules.Result {
	_, bad := imagename.InvalidLabel(p.parsed)
	return p.resultWithFix(!bad && p.scheme == "" && imagename.HasUpperCase(p.parsed.Host) && !strings.Contains(p.parsed.Host, ":"),
		"%q matches only images with the same capitalization, because matching is case-sensitive")
}

func checkDockerIndexHost(p *pattern) []rules.Result {
	return p.resultWithFix(p.scheme == "" && p.parsed.Host == "index.docker.io" && p.parsed.Port == "",
		"%q never matches, because Docker Hub images are matched as docker.io/…, even if they name index.docker.io")
}

func checkDockerHubHost(p *pattern) []rules.Result {
	alias := imagename.IsHubAlias(p.parsed.Host) && p.parsed.Host != "index.docker.io"
	return p.resultWithFix(alias && p.scheme == "" && p.parsed.Port == "" && !p.hasSibling(p.repaired.String()) && !p.hasSibling("docker.io"),
		"%q does not match Docker Hub images, which are matched as docker.io/…")
}

func checkIPv6WithoutPort(p *pattern) []rules.Result {
	return rules.ResultIf(strings.HasPrefix(p.parsed.Host, "["),
		rules.NewResult("", "%q never matches, because an IPv6 address without a port is parsed as a character class: add the port to the pattern and the image", p.redacted))
}

// checkGoVersion reports patterns that net/url rejects since Go 1.26. Their hosts contain several
// colons, or brackets that do not enclose an IPv6 address.
func checkGoVersion(p *pattern) []rules.Result {
	if p.valid || p.outOfTree {
		return nil
	}
	rest, _, _ := strings.Cut(p.raw, "#")
	rest, _, _ = strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if !isAcceptedByOlderGo(authority[strings.LastIndexByte(authority, '@')+1:]) {
		return nil
	}
	if _, err := location.Parse("x/" + path); err != nil {
		return nil
	}
	return rules.NewResult("list each host separately, and put an IPv6 address in brackets, followed by the port", "%q is valid only for kubelets built with an older Go version: kubelet 1.36 rejects the whole configuration", p.redacted)
}

// isAcceptedByOlderGo reports whether net/url accepted a host before Go 1.26. In those versions,
// the port starts after the last colon or after the closing bracket. Other colons and brackets are
// ordinary characters.
func isAcceptedByOlderGo(host string) bool {
	name, port := host, ""
	if strings.HasPrefix(host, "[") {
		end := strings.LastIndexByte(host, ']')
		if end <= 0 {
			return false
		}
		name, port = host[:end+1], host[end+1:]
	} else if i := strings.LastIndexByte(host, ':'); i >= 0 {
		name, port = host[:i], host[i:]
	}
	if port != "" && port[0] != ':' {
		return false
	}
	_, err := location.Parse(strings.NewReplacer(":", "x", "[", "x", "]", "x").Replace(name) + port)
	return err == nil
}
