// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/match"
)

// patternRules are the rules for one entry of matchImages. A pattern that
// kubelet 1.37 rejects is [config.Config.Validate]'s business, except where older
// ones accept it.
func patternRules() []rule[*written] {
	return []rule[*written]{
		{"go-version", finding.SeverityError, ruleGoVersion},
		{"scheme", finding.SeverityError, ruleScheme},
		{"whitespace", finding.SeverityError, ruleWhitespace},
		{"userinfo", finding.SeverityWarning, ruleUserinfo},
		{"query", finding.SeverityWarning, ruleQuery},
		{"no-host", finding.SeverityError, ruleNoHost},
		{"empty-label", finding.SeverityError, ruleEmptyLabel},
		{"dotless-host", finding.SeverityError, ruleDotlessHost},
		{"bare-wildcard", finding.SeverityWarning, ruleBareWildcard},
		{"double-wildcard", finding.SeverityWarning, ruleDoubleWildcard},
		{"glued-wildcard", finding.SeverityWarning, ruleGluedWildcard},
		{"open-domain", finding.SeverityInfo, ruleOpenDomain},
		{"open-domain-token", finding.SeverityWarning, ruleOpenDomainToken},
		{"upper-case-host", finding.SeverityWarning, ruleUpperCaseHost},
		{"docker-index-host", finding.SeverityError, ruleDockerIndexHost},
		{"docker-hub-host", finding.SeverityWarning, ruleDockerHubHost},
		{"ipv6-without-port", finding.SeverityError, ruleIPv6WithoutPort},
		{"port-range", finding.SeverityError, rulePortRange},
		{"default-port", finding.SeverityWarning, ruleDefaultPort},
		{"empty-port", finding.SeverityInfo, ruleEmptyPort},
		{"path-glob", finding.SeverityError, rulePathGlob},
		{"tag-or-digest", finding.SeverityError, ruleTagOrDigest},
		{"upper-case-path", finding.SeverityError, ruleUpperCasePath},
		{"percent-escape", finding.SeverityWarning, rulePercentEscape},
		{"api-path", finding.SeverityWarning, ruleAPIPath},
		{"sibling-path", finding.SeverityWarning, ruleSiblingPath},
		{"slash-only", finding.SeverityInfo, ruleSlashOnly},
		{"unmatchable", finding.SeverityError, ruleUnmatchable},
		{"no-such-registry", finding.SeverityWarning, ruleNoSuchRegistry},
	}
}

func ruleScheme(w *written) []remark {
	if w.scheme == "" {
		return nil
	}
	return say(w.fixed(), "%q never matches, because a pattern cannot have a scheme: %q is parsed as the host", w.shown, strings.TrimSuffix(w.scheme, "//"))
}

func ruleWhitespace(w *written) []remark {
	if !w.blank {
		return nil
	}
	return say(w.fixed(), "%q never matches, because an image name cannot contain whitespace", w.shown)
}

func ruleUserinfo(w *written) []remark {
	authority, _, _ := strings.Cut(w.body, "/")
	if !w.valid || !strings.Contains(authority, "@") {
		return nil
	}
	return say(w.fixed(), "%q: the kubelet ignores the text before the @, including any credential", w.shown)
}

func ruleQuery(w *written) []remark {
	i := strings.IndexAny(w.body, "?#")
	if i < 0 {
		return nil
	}
	return say(w.fixed(), "%q: the kubelet ignores everything from the first %q onward", w.shown, w.body[i:i+1])
}

func rulePathGlob(w *written) []remark {
	if !strings.ContainsAny(w.meant.Path, "*[") {
		return nil
	}
	return say(w.fixed(), "%q never matches, because globs do not work in paths, which are matched as prefixes", w.shown)
}

func ruleTagOrDigest(w *written) []remark {
	if w.scheme == "" && strings.ContainsAny(w.meant.Path, ":@") {
		return say(w.fixed(), "%q never matches, because matching ignores tags and digests", w.shown)
	}
	return nil
}

func ruleUpperCasePath(w *written) []remark {
	path, _, _ := strings.Cut(w.meant.Path, ":")
	path, _, _ = strings.Cut(path, "@")
	if !strings.ContainsFunc(path, unicode.IsUpper) {
		return nil
	}
	return say(w.fixed(), "%q never matches, because image paths must be lowercase", w.shown)
}

func rulePercentEscape(w *written) []remark {
	raw, _, _ := strings.Cut(w.body, "?")
	raw, _, _ = strings.Cut(raw, "#")
	if _, path, _ := strings.Cut(raw, "/"); !w.valid || !strings.Contains(path, "%") {
		return nil
	}
	return say(w.fixed(), "%q is decoded to the path %q before matching", w.shown, excerpt.Value(w.meant.Path))
}

func ruleAPIPath(w *written) []remark {
	if !apiPath(w.meant.Path) {
		return nil
	}
	return say(w.fixed(), "%q matches only repositories named %s, because the registry's API path is not part of an image name",
		w.shown, strings.Trim(w.meant.Path, "/"))
}

func ruleSiblingPath(w *written) []remark {
	path := w.meant.Path
	if !w.matches || path == "" || apiPath(path) || !validRepositoryPath(path[1:]) {
		return nil
	}
	image := match.Location{Host: meetHosts(w.meant.Host, w.meant.Host), Port: w.meant.Port, Path: path}.String()
	return say(w.mended.String()+"/", "%q also matches %s-other/app, because paths are matched as plain string prefixes; a trailing slash excludes that repository, but also excludes the image %s",
		w.shown, image, image)
}

func ruleSlashOnly(w *written) []remark {
	if !w.matches || w.meant.Path != "/" {
		return nil
	}
	return say(w.fixed(), "%q matches the same images with or without the trailing slash, except that with the slash it does not match registry lookups without a path", w.shown)
}

func rulePortRange(w *written) []remark {
	if portPossible(w.meant.Port) {
		return nil
	}
	return say("", "%q never matches, because %s is not a valid port", w.shown, excerpt.Value(w.meant.Port))
}

func ruleDefaultPort(w *written) []remark {
	without := w.mended
	without.Port = ""
	if w.scheme != "" || w.meant.Port != "443" || w.lists(without.String()) || !matchable(without) {
		return nil
	}
	return say(without.String(), "%q matches only images with an explicit port: ports are compared as text, and %s has none",
		w.shown, fmt.Sprintf("%s/app", strings.TrimSuffix(without.String(), "/")))
}

func ruleEmptyPort(w *written) []remark {
	authority, _, _ := strings.Cut(w.body, "/")
	if !w.valid || !strings.HasSuffix(authority, ":") || w.meant.Host == "" {
		return nil
	}
	return say(w.fixed(), "%q: a colon without a port has no effect", w.shown)
}

func ruleUnmatchable(w *written) []remark {
	if !w.valid || w.scheme != "" || w.mended.Host == "" {
		return nil
	}
	if label, bad := badLabel(w.mended); bad && label != "" && !strings.HasPrefix(label, "[") {
		return say("", "%q never matches, because a registry host cannot contain the label %q", w.shown, excerpt.Value(label))
	}
	if !pathPossible(w.mended.Path) {
		return say("", "%q never matches, because an image path cannot begin with %q", w.shown, excerpt.Value(w.mended.Path))
	}
	return nil
}
