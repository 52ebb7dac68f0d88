// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/lint/internal/imagename"
	"github.com/regcred/regcred/lint/internal/rules"
	"github.com/regcred/regcred/plugin"
)

// patternRules returns the rules for one pattern in matchImages. [config.Config.Validate] reports
// the patterns that kubelet 1.37 rejects. Of these rules, only go-version reports them too, because
// older kubelets accept some of them.
func patternRules() []rules.Rule[*pattern] {
	const (
		unmatchable = "unmatchable-pattern" // matches no image
		narrow      = "narrow-pattern"      // matches only images with unusual names
		misleading  = "misleading-pattern"  // is parsed differently from how it reads
		redundant   = "redundant-suffix"
	)
	return []rules.Rule[*pattern]{
		rules.ErrorRule("go-version", checkGoVersion),
		rules.ErrorRule(unmatchable, checkScheme),
		rules.ErrorRule(unmatchable, checkWhitespace),
		rules.WarningRule(misleading, checkUserinfo),
		rules.WarningRule(misleading, checkQuery),
		rules.ErrorRule(unmatchable, checkNoHost),
		rules.ErrorRule(unmatchable, checkEmptyLabel),
		rules.ErrorRule(unmatchable, checkDotlessHost),
		rules.WarningRule("bare-wildcard", checkBareWildcard),
		rules.WarningRule(misleading, checkDoubleWildcard),
		rules.WarningRule("glued-wildcard", checkWildcardWithoutDot),
		rules.InfoRule("open-domain", checkOpenDomain),
		rules.WarningRule("open-domain-token", checkOpenDomainToken),
		rules.WarningRule(narrow, checkUpperCaseHost),
		rules.ErrorRule(unmatchable, checkDockerIndexHost),
		rules.WarningRule(misleading, checkDockerHubHost),
		rules.ErrorRule(unmatchable, checkIPv6WithoutPort),
		rules.ErrorRule(unmatchable, checkPortRange),
		rules.WarningRule(narrow, checkDefaultPort),
		rules.InfoRule(redundant, checkEmptyPort),
		rules.ErrorRule(unmatchable, checkPathGlob),
		rules.ErrorRule(unmatchable, checkTagOrDigest),
		rules.ErrorRule(unmatchable, checkUpperCasePath),
		rules.WarningRule(misleading, checkPercentEscape),
		rules.WarningRule(misleading, checkAPIPath),
		rules.WarningRule("sibling-path", checkSiblingPath),
		rules.InfoRule(redundant, checkSlashOnly),
		rules.ErrorRule(unmatchable, checkInvalidName),
		rules.WarningRule("no-such-registry", checkNoSuchRegistry),
	}
}

// unfilledPatternRules returns the only rules for patterns that a tool or the user should have filled in.
func unfilledPatternRules() []rules.Rule[*pattern] {
	return []rules.Rule[*pattern]{rules.ErrorRule("unmatchable-pattern", checkUnfilledPattern)}
}

func checkScheme(p *pattern) []rules.Result {
	return p.resultWithFix(p.scheme != "",
		"%q never matches, because a pattern cannot have a scheme: %q is parsed as the host", strings.TrimSuffix(p.scheme, "//"))
}

func checkWhitespace(p *pattern) []rules.Result {
	return p.resultWithFix(p.hasSpace,
		"%q never matches, because an image name cannot contain whitespace")
}

func checkUserinfo(p *pattern) []rules.Result {
	authority, _, _ := strings.Cut(p.body, "/")
	return p.resultWithFix(p.valid && strings.Contains(authority, "@"),
		"%q: the kubelet ignores the text before the @, including any credential")
}

func checkQuery(p *pattern) []rules.Result {
	before, _, _ := strings.Cut(strings.ReplaceAll(p.body, "#", "?"), "?")
	rest := p.body[len(before):]
	return p.resultWithFix(rest != "", "%q: the kubelet ignores everything from the first %.1q onward", rest)
}

func checkPathGlob(p *pattern) []rules.Result {
	return p.resultWithFix(strings.ContainsAny(p.parsed.Path, "*["),
		"%q never matches, because globs do not work in paths, which are matched as prefixes")
}

func checkTagOrDigest(p *pattern) []rules.Result {
	return p.resultWithFix(p.scheme == "" && strings.ContainsAny(p.parsed.Path, ":@"),
		"%q never matches, because matching ignores tags and digests")
}

func checkUpperCasePath(p *pattern) []rules.Result {
	path, _, _ := strings.Cut(p.parsed.Path, ":")
	path, _, _ = strings.Cut(path, "@")
	return p.resultWithFix(strings.ContainsFunc(path, unicode.IsUpper),
		"%q never matches, because image paths must be lowercase")
}

func checkPercentEscape(p *pattern) []rules.Result {
	raw, _, _ := strings.Cut(p.body, "?")
	raw, _, _ = strings.Cut(raw, "#")
	_, path, _ := strings.Cut(raw, "/")
	return p.resultWithFix(p.valid && strings.Contains(path, "%"),
		"%q is decoded to the path %q before matching", excerpt.TruncateValue(p.parsed.Path))
}

func checkAPIPath(p *pattern) []rules.Result {
	return p.resultWithFix(imagename.IsAPIPath(p.parsed.Path),
		"%q matches only repositories named %s, because the registry's API path is not part of an image name", strings.Trim(p.parsed.Path, "/"))
}

func checkSiblingPath(p *pattern) []rules.Result {
	path := p.parsed.Path
	if !p.matches || path == "" || imagename.IsAPIPath(path) || !imagename.IsValidRepository(path[1:]) {
		return nil
	}
	image := location.Location{Host: commonHost(p.parsed.Host, p.parsed.Host), Port: p.parsed.Port, Path: path}.String()
	return rules.NewResult(p.repaired.String()+"/", "%q also matches %s-other/app, because paths are matched as plain string prefixes; a trailing slash excludes that repository, but also excludes the image %s",
		p.redacted, image, image)
}

func checkSlashOnly(p *pattern) []rules.Result {
	return p.resultWithFix(p.matches && p.parsed.Path == "/",
		"%q matches the same images with or without the trailing slash, except that with the slash it does not match registry lookups without a path")
}

func checkPortRange(p *pattern) []rules.Result {
	return rules.ResultIf(!imagename.IsValidPort(p.parsed.Port),
		rules.NewResult("", "%q never matches, because %s is not a valid port", p.redacted, excerpt.TruncateValue(p.parsed.Port)))
}

func checkDefaultPort(p *pattern) []rules.Result {
	without := p.repaired
	without.Port = ""
	if p.scheme != "" || p.parsed.Port != "443" || p.hasSibling(without.String()) || !imagename.IsMatchable(without) {
		return nil
	}
	return rules.NewResult(without.String(), "%q matches only images with an explicit port: ports are compared as text, and %s has none",
		p.redacted, fmt.Sprintf("%s/app", strings.TrimSuffix(without.String(), "/")))
}

func checkEmptyPort(p *pattern) []rules.Result {
	authority, _, _ := strings.Cut(p.body, "/")
	return p.resultWithFix(p.valid && strings.HasSuffix(authority, ":") && p.parsed.Host != "",
		"%q: a colon without a port has no effect")
}

func checkInvalidName(p *pattern) []rules.Result {
	if !p.valid || p.scheme != "" || p.repaired.Host == "" {
		return nil
	}
	if label, bad := imagename.InvalidLabel(p.repaired); bad && label != "" && !strings.HasPrefix(label, "[") {
		return rules.NewResult("", "%q never matches, because a registry host cannot contain the label %q", p.redacted, excerpt.TruncateValue(label))
	}
	if !imagename.IsValidPath(p.repaired.Path) {
		return rules.NewResult("", "%q never matches, because an image path cannot begin with %q", p.redacted, excerpt.TruncateValue(p.repaired.Path))
	}
	return nil
}

// pattern is a pattern in matchImages. It contains the pattern as the kubelet parses it and a
// repaired pattern.
type pattern struct {
	raw        string // as in the file; it can contain a password, so messages use redacted
	siblings   *patternList
	usesTokens bool // the provider uses service account tokens
	outOfTree  bool // only regcred reads the file

	valid    bool              // kubelet 1.37 accepts it
	scheme   string            // including "://"; the kubelet parses it as the host
	body     string            // without scheme and surrounding space
	parsed   location.Location // body as parsed by the kubelet
	repaired location.Location // parsed, after imagename.RepairLocation
	redacted string            // raw without user info, query and fragment
	matches  bool              // at least one image can match the pattern
	hasSpace bool              // the host or the path contains whitespace
	catchAll bool              // part of the catch-all; see patternList
}

func parsePattern(provider *config.Provider, k int, siblings *patternList) *pattern {
	p := &pattern{raw: provider.MatchImages[k], siblings: siblings, usesTokens: provider.TokenAttributes != nil, outOfTree: provider.APIVersion == plugin.OutOfTree}
	p.redacted = excerpt.TruncateValue(excerpt.RedactPattern(p.raw))
	whole, err := location.Parse(p.raw)
	if p.valid = err == nil; !p.valid {
		return p
	}
	p.body = strings.TrimSpace(p.raw)
	if scheme, rest, ok := strings.Cut(p.body, "://"); ok && !strings.ContainsAny(scheme, "/?#@") {
		p.scheme, p.body = scheme+"://", rest
	}
	if p.parsed, err = location.Parse(p.body); err != nil {
		p.parsed = whole
	}
	p.repaired = imagename.RepairLocation(p.parsed)
	p.matches = imagename.IsMatchable(whole)
	p.catchAll = siblings.isInCatchAll(p.raw)
	p.hasSpace = strings.ContainsFunc(whole.Host+whole.Path, unicode.IsSpace)
	return p
}

// suggestedFix returns the repaired pattern. It returns "" if the repaired pattern is unchanged,
// too long to show, or matches no image.
func (p *pattern) suggestedFix() string {
	if s := p.repaired.String(); imagename.IsMatchable(p.repaired) && excerpt.TruncateValue(s) == s && s != p.raw {
		return s
	}
	return ""
}

// resultWithFix returns a result if found is true. Its fix is the repaired pattern. The format's
// first argument is the redacted pattern.
func (p *pattern) resultWithFix(found bool, format string, args ...any) []rules.Result {
	if !found {
		return nil
	}
	return rules.NewResult(p.suggestedFix(), format, append([]any{p.redacted}, args...)...)
}

func (p *pattern) hasSibling(s string) bool { return p.siblings.index[s] > 0 }

// patternList indexes a provider's matchImages.
type patternList struct {
	index map[string]int // position of the first occurrence, counted from 1
	// Distinct patterns in which each label is *, such as * and *.*, in order. Two or more of them
	// are an intentional catch-all, which is reported once rather than once per pattern. If there
	// is only one, catchAll is nil.
	catchAll []string
}

func newPatternList(patterns []string) *patternList {
	l := &patternList{index: make(map[string]int, len(patterns))}
	for k, s := range patterns {
		if l.index[s] > 0 {
			continue
		}
		if l.index[s] = k + 1; hasOnlyStars(s) {
			l.catchAll = append(l.catchAll, s)
		}
	}
	if len(l.catchAll) < 2 {
		l.catchAll = nil
	}
	return l
}

// isInCatchAll reports whether a pattern is part of the provider's catch-all.
func (l *patternList) isInCatchAll(pattern string) bool {
	return l.catchAll != nil && hasOnlyStars(pattern)
}

// hasOnlyStars reports whether each label of a pattern is *.
func hasOnlyStars(pattern string) bool {
	return pattern != "" && strings.Trim(pattern, "*.") == "" && !strings.Contains("."+pattern+".", "..") && !strings.Contains(pattern, "**")
}

func checkCatchAll(p *config.Provider) []rules.Result {
	l := newPatternList(p.MatchImages)
	if l.catchAll == nil {
		return nil
	}
	most := 0
	for _, s := range l.catchAll {
		most = max(most, strings.Count(s, "*"))
	}
	return rules.NewFieldResult(fmt.Sprintf("matchImages[%d]", l.index[l.catchAll[0]]-1), "",
		"%d patterns that consist only of * labels match every registry host with up to %d labels and no port, so the kubelet runs the plugin for each host",
		len(l.catchAll), most)
}
