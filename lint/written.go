// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"strings"
	"unicode"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/match"
)

// written is a pattern as its author meant it, next to what the kubelet makes of it.
type written struct {
	raw    string // as in the file; print shown instead
	beside *list  // the patterns of the same provider
	tokens bool   // the provider is in service-account mode
	alone  bool   // no kubelet reads it

	valid   bool           // kubelet 1.37 accepts it
	scheme  string         // with "://"; the kubelet takes it for a host
	body    string         // without scheme and surrounding space
	meant   match.Location // what body means to the kubelet
	mended  match.Location // meant, without what can be mended and keep its meaning
	shown   string         // raw without user information, query and fragment
	matches bool           // some image can match
	blank   bool           // what is compared has white space
	rung    bool           // it is one of a ladder
}

func readPattern(p *config.Provider, k int, beside *list) *written {
	w := &written{raw: p.MatchImages[k], beside: beside, tokens: p.TokenAttributes != nil, alone: p.Predecessor()}
	w.shown = excerpt.Value(excerpt.Pattern(w.raw))
	at, err := match.ParseLocation(w.raw)
	if w.valid = err == nil; !w.valid {
		return w
	}
	w.body = strings.TrimSpace(w.raw)
	if scheme, rest, ok := strings.Cut(w.body, "://"); ok && !strings.ContainsAny(scheme, "/?#@") {
		w.scheme, w.body = scheme+"://", rest
	}
	if w.meant, err = match.ParseLocation(w.body); err != nil {
		w.meant = at
	}
	w.mended = mend(w.meant)
	w.matches = matchable(at)
	w.rung = beside.rung(w.raw)
	w.blank = strings.ContainsFunc(at.Host+at.Path, unicode.IsSpace)
	return w
}

// fixed is the text to write instead, "" if it would not match either.
func (w *written) fixed() string {
	if s := w.mended.String(); matchable(w.mended) && excerpt.Value(s) == s && s != w.raw {
		return s
	}
	return ""
}

// lists reports whether the provider also has the pattern s.
func (w *written) lists(s string) bool { return w.beside.index[s] > 0 }

// mend removes what has no place in a pattern.
func mend(l match.Location) match.Location {
	if !strings.Contains(l.Host, ":") {
		l.Host = mendHost(l.Host, l.Port)
	}
	if i := strings.IndexFunc(l.Path, func(r rune) bool { return strings.ContainsRune("*[@:", r) || unicode.IsSpace(r) }); i >= 0 {
		l.Path = l.Path[:i]
	}
	l.Path = strings.ToLower(l.Path)
	if l.Path == "/" || apiPath(l.Path) {
		l.Path = ""
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

// apiPath reports whether path is that of the registry's API, which docker
// config files have and the names of images have not.
func apiPath(path string) bool {
	path = strings.TrimSuffix(path, "/")
	return path == "/v1" || path == "/v2"
}

// dockerAlias reports whether host is another name of Docker Hub than the one
// that images have.
func dockerAlias(host string) bool {
	switch host {
	case "index.docker.io", "registry-1.docker.io", "registry.docker.io", "hub.docker.io", "www.docker.io", "*.docker.io",
		"docker.com", "hub.docker.com", "registry.hub.docker.com", "registry.docker.com", "index.docker.com", "www.docker.com", "*.docker.com":
		return true
	}
	return false
}
