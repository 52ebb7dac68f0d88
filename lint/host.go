// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"slices"
	"strings"

	"github.com/regcred/regcred/match"
)

// The rules for the host of a pattern.

func ruleNoHost(w *written) []remark {
	if !w.valid || w.meant.Host != "" {
		return nil
	}
	return say("", "%q never matches, because it has no host", w.shown)
}

func ruleEmptyLabel(w *written) []remark {
	h := w.meant.Host
	if h == "" || !strings.HasPrefix(h, ".") && !strings.HasSuffix(h, ".") && !strings.Contains(h, "..") {
		return nil
	}
	return say(w.fixed(), "%q never matches, because a host cannot begin or end with a dot or have two dots in a row", w.shown)
}

func ruleDotlessHost(w *written) []remark {
	if _, bad := badLabel(w.meant); bad || w.scheme != "" || !dotless(w.meant) || domainPossible(w.meant) {
		return nil
	}
	hub := "docker.io/" + w.mended.Host + w.mended.Path
	if w.mended.Path == "" {
		hub = "docker.io/library/" + w.mended.Host
	}
	if strings.Contains(hub, "*") || !pathPossible(hub[len("docker.io"):]) {
		hub = ""
	}
	return say(hub, "%q never matches, because a host without a dot or a port is part of a Docker Hub image name", w.shown)
}

func ruleBareWildcard(w *written) []remark {
	if w.rung || w.scheme != "" || !dotless(w.meant) || !strings.Contains(w.meant.Host, "*") || !domainPossible(w.meant) {
		return nil
	}
	return say("list the registries, using one * for each label", "%q matches only single-label hosts without a port (in practice, only localhost)", w.shown)
}

func ruleDoubleWildcard(w *written) []remark {
	if !strings.Contains(w.meant.Host, "**") {
		return nil
	}
	return say(w.fixed(), "%q: ** is the same as *, which never matches a dot", w.shown)
}

// openLabels returns those of the last two labels that have a wildcard, in a
// host whose owner anybody could be: not an IP address, not a private domain.
func openLabels(host string) []string {
	labels := lastLabels(host, 2)
	if len(labels) < 2 || slices.Contains(privateDomains(), labels[1]) || strings.Trim(host, "0123456789.*") == "" && strings.Trim(host, ".*") != "" {
		return nil
	}
	return slices.DeleteFunc(labels, func(s string) bool { return !strings.Contains(s, "*") })
}

// lastLabels returns the last labels of a host, at most n.
func lastLabels(host string, n int) []string {
	at := len(host)
	for range n {
		if at = strings.LastIndexByte(host[:at], '.'); at < 0 {
			return strings.Split(host, ".")
		}
	}
	return strings.Split(host[at+1:], ".")
}

// privateDomains are top-level domains in which nobody can register a name
// that others see (RFC 2606, RFC 6761, RFC 6762, RFC 8375, ICANN's .internal).
func privateDomains() []string {
	return []string{"internal", "local", "localdomain", "localhost", "lan", "corp", "home", "intranet", "private",
		"test", "example", "invalid", "arpa", "svc", "cluster"}
}

func isWildcard(label string) bool { return strings.Trim(label, "*") == "" }

func ruleGluedWildcard(w *written) []remark {
	open := slices.DeleteFunc(openLabels(w.meant.Host), isWildcard)
	if len(open) == 0 || !w.matches {
		return nil
	}
	suggestion := "" // only a missing dot can be mended
	if rest, ok := strings.CutPrefix(w.mended.Host, "*"); ok && !strings.Contains(rest, "*") && rest[0] != '-' {
		l := w.mended
		l.Host = "*." + rest
		suggestion = l.String()
	}
	return say(suggestion, "%q also matches %s, a domain that anyone can register", w.shown, strings.ReplaceAll(w.mended.Host, "*", "evil"))
}

func openDomain(w *written) bool {
	return w.matches && slices.ContainsFunc(openLabels(w.meant.Host), isWildcard)
}

func ruleOpenDomain(w *written) []remark {
	if !openDomain(w) || w.tokens || w.rung {
		return nil
	}
	return say("", "%q matches registries you do not control, so the kubelet runs the plugin for each of them", w.shown)
}

func ruleOpenDomainToken(w *written) []remark {
	if !openDomain(w) || !w.tokens || w.rung && w.raw != w.beside.rungs[len(w.beside.rungs)-1] {
		return nil
	}
	return say("", "%q matches registries you do not control, so the plugin receives service account tokens for pulls from them", w.shown)
}

func ruleUpperCaseHost(w *written) []remark {
	if _, bad := badLabel(w.meant); bad || w.scheme != "" || !hasCapital(w.meant.Host) || strings.Contains(w.meant.Host, ":") {
		return nil
	}
	return say(w.fixed(), "%q matches only images with the same capitalization, because matching is case-sensitive", w.shown)
}

func ruleDockerIndexHost(w *written) []remark {
	if w.scheme != "" || w.meant.Host != "index.docker.io" || w.meant.Port != "" {
		return nil
	}
	return say(w.fixed(), "%q never matches, because Docker Hub images are matched as docker.io/…, even if they name index.docker.io", w.shown)
}

func ruleDockerHubHost(w *written) []remark {
	host := w.meant.Host
	if w.scheme != "" || !dockerAlias(host) || host == "index.docker.io" || w.meant.Port != "" || w.lists(w.mended.String()) || w.lists("docker.io") {
		return nil
	}
	return say(w.fixed(), "%q does not match Docker Hub images, which are matched as docker.io/…", w.shown)
}

func ruleIPv6WithoutPort(w *written) []remark {
	if !strings.HasPrefix(w.meant.Host, "[") {
		return nil
	}
	return say("", "%q never matches, because an IPv6 address without a port is parsed as a character class: add the port to the pattern and the image", w.shown)
}

// ruleGoVersion names patterns that net/url accepted before Go 1.26: several
// colons, brackets that hold no IPv6 address or do not begin the host.
func ruleGoVersion(w *written) []remark {
	if w.valid || w.alone {
		return nil
	}
	rest, _, _ := strings.Cut(w.raw, "#")
	rest, _, _ = strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if !olderGoAccepts(authority[strings.LastIndexByte(authority, '@')+1:]) {
		return nil
	}
	if _, err := match.ParseLocation("x/" + path); err != nil {
		return nil
	}
	return say("list each host separately, and put an IPv6 address in brackets, followed by the port", "%q is valid only for kubelets built with an older Go version: kubelet 1.36 rejects the whole configuration", w.shown)
}

// olderGoAccepts asks today's parser about the host without what only today's
// minds: the port begins at the last colon or, after an address in brackets,
// behind these.
func olderGoAccepts(host string) bool {
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
	_, err := match.ParseLocation(strings.NewReplacer(":", "x", "[", "x", "]", "x").Replace(name) + port)
	return err == nil
}
