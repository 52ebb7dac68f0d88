// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"strings"

	"github.com/regcred/regcred/finding"
)

// findingCases gives names to the different results of a rule, for use in tests. text is a part of the
// result's message or fix.
var findingCases = []struct{ name, rule, text string }{
	{"scheme", "unmatchable-pattern", "never matches, because a pattern cannot have a scheme: "},
	{"whitespace", "unmatchable-pattern", "never matches, because an image name cannot contain whitespace"},
	{"no-host", "unmatchable-pattern", "never matches, because it has no host"},
	{"empty-label", "unmatchable-pattern", "never matches, because a host cannot begin or end with a dot or have two dots in a row"},
	{"dotless-host", "unmatchable-pattern", "never matches, because a host without a dot or a port is part of a Docker Hub image name"},
	{"docker-index-host", "unmatchable-pattern", "never matches, because Docker Hub images are matched as docker.io/…, even if they name index.docker.io"},
	{"ipv6-without-port", "unmatchable-pattern", "never matches, because an IPv6 address without a port is parsed as a character class: add the port to the pattern and the image"},
	{"port-range", "unmatchable-pattern", " is not a valid port"},
	{"path-glob", "unmatchable-pattern", "never matches, because globs do not work in paths, which are matched as prefixes"},
	{"tag-or-digest", "unmatchable-pattern", "never matches, because matching ignores tags and digests"},
	{"upper-case-path", "unmatchable-pattern", "never matches, because image paths must be lowercase"},
	{"unmatchable", "unmatchable-pattern", "never matches, because a registry host cannot contain the label "},
	{"unmatchable", "unmatchable-pattern", "never matches, because an image path cannot begin with "},
	{"upper-case-host", "narrow-pattern", "matches only images with the same capitalization, because matching is case-sensitive"},
	{"default-port", "narrow-pattern", "matches only images with an explicit port: ports are compared as text, and "},
	{"userinfo", "misleading-pattern", ": the kubelet ignores the text before the @, including any credential"},
	{"query", "misleading-pattern", ": the kubelet ignores everything from the first "},
	{"percent-escape", "misleading-pattern", " is decoded to the path "},
	{"double-wildcard", "misleading-pattern", ": ** is the same as *, which never matches a dot"},
	{"docker-hub-host", "misleading-pattern", " does not match Docker Hub images, which are matched as docker.io/…"},
	{"api-path", "misleading-pattern", ", because the registry's API path is not part of an image name"},
	{"empty-port", "redundant-suffix", ": a colon without a port has no effect"},
	{"slash-only", "redundant-suffix", " matches the same images with or without the trailing slash, except that with the slash it does not match registry lookups without a path"},
	{"wildcard-ladder", "open-domain", " patterns that consist only of * labels match every registry host with up to "},
	{"open-domain", "open-domain", " matches registries you do not control, so the kubelet runs the plugin for each of them"},
	{"duplicate-pattern", "duplicate-pattern", " is already in matchImages["},
	{"shadowed-pattern", "duplicate-pattern", " is redundant, because "},
	{"shared-pattern", "duplicate-pattern", ": both plugins run for its images, and credentials from "},
	{"exe-suffix", "provider-name", ": omit .exe, which Windows does not require and other systems do not use"},
	{"hidden-name", "provider-name", " begins with a dot, so directory listings hide it"},
	{"short-cache", "cache-duration", " is too short to cache anything, so the plugin runs for each pull"},
	{"long-cache", "cache-duration", " exceeds the lifetime of most registry credentials, and the kubelet keeps a cache entry even after the registry rejects the credential"},
	{"old-config-version", "old-api-version", " is superseded by v1, which kubelet 1.26 and later support; tokenAttributes requires v1"},
	{"old-plugin-version", "old-api-version", " is superseded: newer plugins support only v1, which requires kubelet 1.26 or later"},
	{"joined-args", "literal-value", "this is a single argument that contains spaces, and no shell splits it"},
	{"split-flag", "literal-value", "a boolean flag accepts a value only after =, so the flag is true and this text is a separate argument"},
	{"empty-argument", "literal-value", "the plugin receives an empty argument, which most plugins reject"},
	{"unexpanded-variable", "literal-value", "no shell expands the variable"},
	{"unfilled", "literal-value", " is literally "},
	{"unfilled", "unmatchable-pattern", "never matches, because no shell or template engine replaces "},
	{"unfilled", "unmatchable-pattern", " unfilled placeholder"},
	{"unexpanded-command", "literal-value", "no shell runs the command in "},
	{"unexpanded-home", "literal-value", ", so the plugin uses a directory named ~"},
	{"placeholder", "literal-value", " looks like an unfilled placeholder"},
	{"literal-quotes", "literal-value", " is enclosed in quotes, which are passed to the plugin because no shell removes them"},
	{"outer-blanks", "literal-value", " ends with a carriage return, which is passed to the plugin"},
	{"outer-blanks", "literal-value", " ends with a newline, which is passed to the plugin"},
	{"outer-blanks", "literal-value", " begins or ends with spaces, which are passed to the plugin"},
	{"secret-in-args", "plaintext-secret", "this looks like a secret, and every user can see it in the process list"},
	{"secret-in-env", "plaintext-secret", " contains a secret that every user with read access to this file can see"},
	{"empty-variable", "overridden-variable", " is empty, which overrides the value from the kubelet's environment"},
	{"replaced-path", "overridden-variable", " replaces the kubelet's PATH but has neither /usr/bin nor /bin, so the plugin might not find other programs"},
	{"missing-path", "missing-path", " is a path that does not exist on this machine ("},
	{"empty-file", "missing-path", " points to an empty file on this machine"},
	{"writable-config", "writable-by-others", "make the directory writable only by its owner"},
	{"writable-config", "writable-by-others", "make the file and its parent directories writable only by their owner"},
	{"writable-bin-dir", "writable-by-others", "make the directory and its parents writable only by root"},
	{"writable-binary", "writable-by-others", "change the owner to root, and make it writable only by root"},
	{"not-a-file", "not-executable", " is a directory, so "},
	{"not-a-file", "not-executable", " is not a regular file"},
	{"not-executable", "not-executable", " has no execute permission (mode "},
	{"crlf-shebang", "unusable-binary", " cannot run, because its first line ends with a carriage return, which becomes part of the interpreter path"},
	{"missing-interpreter", "unusable-binary", ", which does not exist here, so starting the plugin fails with "},
	{"wrong-platform", "unusable-binary", " is built for "},
	{"not-a-program", "unusable-binary", " cannot run: "},
	{"not-a-program", "unusable-binary", " cannot run, because a byte order mark precedes its #! line"},
	{"not-a-program", "unusable-binary", " is a #! script, which Windows cannot run"},
	{"not-a-program", "unusable-binary", " has no interpreter after #!, so it cannot run"},
	{"not-a-program", "unusable-binary", ", so starting it fails with an exec format error"},
}

// caseName returns the name in cases that matches a finding. If cases does not contain the
// finding's rule, it returns the name of the rule.
func caseName(f finding.Finding) string {
	unknown := f.Rule
	for _, c := range findingCases {
		if c.rule != f.Rule {
			continue
		}
		if strings.Contains(f.Message+"\n"+f.Fix, c.text) {
			return c.name
		}
		unknown = "unknown case of " + f.Rule
	}
	return unknown
}
