// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// patternRules are the rules for one entry of matchImages. A pattern that
// kubelet 1.36 rejects is [Config.Validate]'s business, except where older
// ones accept it.
func patternRules() []rule[*written] {
	return []rule[*written]{
		{"go-version", SeverityError, ruleGoVersion},
		{"scheme", SeverityError, ruleScheme},
		{"whitespace", SeverityError, ruleWhitespace},
		{"userinfo", SeverityWarning, ruleUserinfo},
		{"query", SeverityWarning, ruleQuery},
		{"no-host", SeverityError, ruleNoHost},
		{"empty-label", SeverityError, ruleEmptyLabel},
		{"dotless-host", SeverityError, ruleDotlessHost},
		{"bare-wildcard", SeverityWarning, ruleBareWildcard},
		{"double-wildcard", SeverityWarning, ruleDoubleWildcard},
		{"glued-wildcard", SeverityWarning, ruleGluedWildcard},
		{"open-domain", SeverityInfo, ruleOpenDomain},
		{"open-domain-token", SeverityWarning, ruleOpenDomainToken},
		{"upper-case-host", SeverityWarning, ruleUpperCaseHost},
		{"docker-index-host", SeverityError, ruleDockerIndexHost},
		{"docker-hub-host", SeverityWarning, ruleDockerHubHost},
		{"ipv6-without-port", SeverityError, ruleIPv6WithoutPort},
		{"port-range", SeverityError, rulePortRange},
		{"default-port", SeverityWarning, ruleDefaultPort},
		{"empty-port", SeverityInfo, ruleEmptyPort},
		{"path-glob", SeverityError, rulePathGlob},
		{"tag-or-digest", SeverityError, ruleTagOrDigest},
		{"upper-case-path", SeverityError, ruleUpperCasePath},
		{"percent-escape", SeverityWarning, rulePercentEscape},
		{"api-path", SeverityWarning, ruleAPIPath},
		{"sibling-path", SeverityWarning, ruleSiblingPath},
		{"slash-only", SeverityInfo, ruleSlashOnly},
		{"unmatchable", SeverityError, ruleUnmatchable},
	}
}

// written is a pattern as its author meant it, next to what the kubelet makes of it.
type written struct {
	raw    string   // as in the file; print shown instead
	beside []string // the patterns of the same provider
	tokens bool     // the provider is in service-account mode
	alone  bool     // no kubelet reads it

	valid   bool     // kubelet 1.36 accepts it
	scheme  string   // with "://"; the kubelet takes it for a host
	body    string   // without scheme and surrounding space
	meant   location // what body means to the kubelet
	mended  location // meant, without what can be mended and keep its meaning
	shown   string   // raw without user information, query and fragment
	matches bool     // some image can match
	blank   bool     // what is compared has white space
}

func readPattern(p *Provider, k int) *written {
	w := &written{raw: p.MatchImages[k], beside: p.MatchImages, tokens: p.TokenAttributes != nil, alone: p.predecessor()}
	w.shown = shown(showPattern(w.raw))
	at, err := parseLocation(w.raw)
	if w.valid = err == nil; !w.valid {
		return w
	}
	w.body = strings.TrimSpace(w.raw)
	if scheme, rest, ok := strings.Cut(w.body, "://"); ok && !strings.ContainsAny(scheme, "/?#@") {
		w.scheme, w.body = scheme+"://", rest
	}
	if w.meant, err = parseLocation(w.body); err != nil {
		w.meant = at
	}
	w.mended = mend(w.meant)
	w.matches = matchable(at)
	w.blank = strings.ContainsFunc(at.host+at.path, unicode.IsSpace)
	return w
}

// fixed is the text to write instead, "" if it would not match either.
func (w *written) fixed() string {
	if s := w.mended.text(); matchable(w.mended) && shown(s) == s && s != w.raw {
		return s
	}
	return ""
}

// lists reports whether the provider also has the pattern s.
func (w *written) lists(s string) bool { return slices.Contains(w.beside, s) }

// text is l as a pattern.
func (l location) text() string {
	host := l.host
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]"
	}
	if l.port != "" {
		host += ":" + l.port
	}
	return host + l.path
}

// mend removes what has no place in a pattern.
func mend(l location) location {
	if !strings.Contains(l.host, ":") {
		l.host = mendHost(l.host, l.port)
	}
	if i := strings.IndexFunc(l.path, func(r rune) bool { return strings.ContainsRune("*[@:", r) || unicode.IsSpace(r) }); i >= 0 {
		l.path = l.path[:i]
	}
	l.path = strings.ToLower(l.path)
	if l.path == "/" || apiPath(l.path) {
		l.path = ""
	}
	return l
}

func mendHost(host, port string) string {
	host = strings.TrimSpace(host)
	for strings.Contains(host, "**") {
		host = strings.ReplaceAll(host, "**", "*")
	}
	if strings.HasPrefix(host, ".") {
		host = "*" + host
	}
	host = strings.TrimSuffix(host, ".")
	if strings.Contains(host, ".") || port != "" {
		host = strings.ToLower(host)
	}
	if dockerAlias(host) && port == "" {
		return "docker.io"
	}
	return host
}

// showPattern hides what may be a secret: user information, query, fragment.
func showPattern(s string) string {
	if i := strings.LastIndexByte(s, '@'); i >= 0 && !strings.HasPrefix(s[i:], "@sha256") && !strings.HasPrefix(s[i:], "@sha512") {
		scheme, _, ok := strings.Cut(s[:i], "://")
		if s = "…" + s[i:]; ok {
			s = scheme + "://" + s
		}
	}
	if i := strings.IndexAny(s, "?#"); i >= 0 && i < len(s)-1 {
		s = s[:i+1] + "…"
	}
	return s
}

func ruleScheme(w *written) []remark {
	if w.scheme == "" {
		return nil
	}
	return say(w.fixed(), "%q never matches, because a pattern has no scheme: %q is taken for the host", w.shown, strings.TrimSuffix(w.scheme, "//"))
}

func ruleWhitespace(w *written) []remark {
	if !w.blank {
		return nil
	}
	return say(w.fixed(), "%q never matches, because no image name has white space", w.shown)
}

func ruleUserinfo(w *written) []remark {
	authority, _, _ := strings.Cut(w.body, "/")
	if !w.valid || !strings.Contains(authority, "@") {
		return nil
	}
	return say(w.fixed(), "%q: what stands before the @ is dropped; it is not the place for credentials", w.shown)
}

func ruleQuery(w *written) []remark {
	i := strings.IndexAny(w.body, "?#")
	if i < 0 {
		return nil
	}
	return say(w.fixed(), "%q: everything from the first %q on is dropped", w.shown, w.body[i:i+1])
}

func rulePathGlob(w *written) []remark {
	if !strings.ContainsAny(w.meant.path, "*[") {
		return nil
	}
	return say(w.fixed(), "%q never matches, because globs do not work in a path; a path matches everything that begins with it", w.shown)
}

func ruleTagOrDigest(w *written) []remark {
	if w.scheme == "" && strings.ContainsAny(w.meant.path, ":@") {
		return say(w.fixed(), "%q never matches, because images are compared without tag and digest", w.shown)
	}
	return nil
}

func ruleUpperCasePath(w *written) []remark {
	path, _, _ := strings.Cut(w.meant.path, ":")
	path, _, _ = strings.Cut(path, "@")
	if !strings.ContainsFunc(path, unicode.IsUpper) {
		return nil
	}
	return say(w.fixed(), "%q never matches, because the path of an image name is lower case", w.shown)
}

func rulePercentEscape(w *written) []remark {
	raw, _, _ := strings.Cut(w.body, "?")
	raw, _, _ = strings.Cut(raw, "#")
	if _, path, _ := strings.Cut(raw, "/"); !w.valid || !strings.Contains(path, "%") {
		return nil
	}
	return say(w.fixed(), "%q is compared decoded, as the path %q", w.shown, shown(w.meant.path))
}

// apiPath reports whether path is that of the registry's API, which docker
// config files have and the names of images have not.
func apiPath(path string) bool {
	path = strings.TrimSuffix(path, "/")
	return path == "/v1" || path == "/v2"
}

func ruleAPIPath(w *written) []remark {
	if !apiPath(w.meant.path) {
		return nil
	}
	return say(w.fixed(), "%q matches only repositories named %s, because the path of the registry's API is no part of an image name",
		w.shown, strings.Trim(w.meant.path, "/"))
}

func ruleSiblingPath(w *written) []remark {
	path := w.meant.path
	if !w.matches || path == "" || apiPath(path) || !isLower(path[len(path)-1]) && !isDigit(path[len(path)-1]) {
		return nil
	}
	image := location{host: meetHosts(w.meant.host, w.meant.host), port: w.meant.port, path: path}.text()
	return say(w.mended.text()+"/", "%q also matches %s-other/app, because a path is a plain prefix; with a slash at the end it matches neither that nor an image %s itself",
		w.shown, image, image)
}

func ruleSlashOnly(w *written) []remark {
	if !w.matches || w.meant.path != "/" {
		return nil
	}
	return say(w.fixed(), "%q matches the same images without the slash; with it, a lookup for the bare registry does not match", w.shown)
}

func rulePortRange(w *written) []remark {
	if n, err := strconv.Atoi(w.meant.port); w.meant.port == "" || err == nil && 0 < n && n < 1<<16 {
		return nil
	}
	return say("", "%q never matches, because %s is not a port", w.shown, shown(w.meant.port))
}

func ruleDefaultPort(w *written) []remark {
	without := w.mended
	without.port = ""
	if w.scheme != "" || w.meant.port != "443" || w.lists(without.text()) || !matchable(without) {
		return nil
	}
	return say(without.text(), "%q matches only images that spell the port out; ports are compared as text, and %s has none",
		w.shown, fmt.Sprintf("%s/app", strings.TrimSuffix(without.text(), "/")))
}

func ruleEmptyPort(w *written) []remark {
	authority, _, _ := strings.Cut(w.body, "/")
	if !w.valid || !strings.HasSuffix(authority, ":") || w.meant.host == "" {
		return nil
	}
	return say(w.fixed(), "%q: a colon without a port means the same as none", w.shown)
}

func ruleUnmatchable(w *written) []remark {
	if !w.valid || w.scheme != "" || w.mended.host == "" {
		return nil
	}
	if label, bad := badLabel(w.mended); bad && label != "" && !strings.HasPrefix(label, "[") {
		return say("", "%q never matches, because no image has a host with the label %q", w.shown, shown(label))
	}
	if !pathPossible(w.mended.path) {
		return say("", "%q never matches, because no image name has a path that begins with %q", w.shown, shown(w.mended.path))
	}
	return nil
}
