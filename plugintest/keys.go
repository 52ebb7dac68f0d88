// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/lint"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// Checks of auth keys. Keys are matched like matchImages, so the linter's pattern rules
// apply.

func checkKeyMatch(s *suite, resp *plugin.Response) []Finding {
	all := authKeys(resp)
	if taken := selected(all, s.image); len(taken) > 0 {
		return pass(s.base().did, "%q matches", shownKey(bareKey(taken[0])))
	}
	var reasons []string
	for _, key := range all[:min(len(all), maxListed)] {
		reasons = append(reasons, fmt.Sprintf("%q: %s", shownKey(key), whyNoMatch(key, s.image)))
	}
	return found(finding.SeverityError, s.base().did, fmt.Sprintf("the response has %s, and no key matches: %s", plural(len(all), "key"), strings.Join(reasons, "; ")),
		"The kubelet matches keys the same way as matchImages patterns, finds no match, and pulls anonymously.",
		fmt.Sprintf("Use the registry as the auth key: %q.", registry(s.image)))
}

// whyNoMatch returns why a key does not match an image.
func whyNoMatch(key, image string) string {
	p, err := match.Parse(bareKey(key))
	if err != nil {
		return shorten("invalid pattern: " + err.Error())
	}
	return shorten(p.Why(normal(image)))
}

// lintKey returns lint findings for a key as if it were a pattern.
func lintKey(key string) []finding.Finding {
	key = bareKey(key)
	if rest, ok := strings.CutPrefix(key, "index.docker.io"); ok && (rest == "" || rest[0] == '/') {
		key = "docker.io" + rest // in keys, unlike in patterns, this is equivalent
	}
	c := &config.Config{Providers: []config.Provider{{Name: "key", MatchImages: []string{key}}}}
	return slices.DeleteFunc(lint.Check(c), func(f finding.Finding) bool { return !strings.Contains(f.Path, "matchImages") })
}

// deadRules returns the lint rules for patterns that match no image, or no image with a
// usual name.
func deadRules() []string { return []string{"go-version", "unmatchable-pattern", "narrow-pattern"} }

func checkKeyDead(s *suite, resp *plugin.Response) []Finding {
	var findings []Finding
	for _, key := range authKeys(resp) {
		if reason := deadKey(key); reason != "" && len(findings) < maxListed {
			findings = append(findings, found(finding.SeverityWarning, s.base().did, reason,
				"The kubelet accepts the key but never uses it.",
				"Write the registry as it appears in image names, in lowercase and with the port, if any; use a path only as a prefix.")...)
		}
	}
	if len(findings) > 0 {
		return findings
	}
	return pass(s.base().did, "every key can match")
}

// deadKey returns why a key matches no image, or only images in an unusual spelling.
func deadKey(key string) string {
	if _, err := match.Parse(bareKey(key)); err != nil {
		return fmt.Sprintf("the key %q is ignored: %v", shownKey(key), err)
	}
	for _, f := range lintKey(key) {
		if slices.Contains(deadRules(), f.Rule) {
			return "the key " + shorten(f.Message)
		}
	}
	return ""
}

func checkKeyWide(s *suite, resp *plugin.Response) []Finding {
	for _, key := range authKeys(resp) {
		if resp.Auth[key].Equal(plugin.AuthConfig{}) {
			continue // anonymous, so no credential is sent
		}
		for _, f := range lintKey(key) {
			if slices.Contains([]string{"open-domain", "glued-wildcard", "bare-wildcard"}, f.Rule) {
				return found(finding.SeverityWarning, s.base().did, fmt.Sprintf("the key %q matches registries outside your control", shownKey(key)),
					"The kubelet sends the password to every registry that the key matches, within the response's cache scope.",
					"Name the registry in the key. Use * only for one label of a domain that has a single owner, as in *.registry.example.")
			}
		}
	}
	return pass(s.base().did, "each key is limited to one registry or domain")
}

func checkKeyPort(s *suite, _ *plugin.Response) []Finding {
	host, _, hasPort := strings.Cut(registry(s.image), ":")
	if !hasPort {
		host += ":5000"
	}
	image := inRegistry(s.image, host)
	r := s.ask(s.requestFor(image))
	if !r.answered() {
		return pass(r.did, "%s", r.outcome())
	}
	all := authKeys(r.x.Response)
	if len(all) == 0 || len(selected(all, image)) > 0 {
		return pass(r.did, "a response with %s", plural(len(all), "auth key"))
	}
	return found(finding.SeverityInfo, r.did, fmt.Sprintf("none of the response's keys (%s) match", shownKeys(all)),
		"The kubelet finds no key for the image and pulls anonymously.",
		"Use the image's host and port as the key, or return no credential for a port that you do not serve.")
}

// authKeys returns a response's keys, sorted.
func authKeys(resp *plugin.Response) []string { return slices.Sorted(maps.Keys(resp.Auth)) }

// pick returns the credentials that the kubelet uses for an image, in the kubelet's
// order.
func pick(resp *plugin.Response, image string) []plugin.AuthConfig {
	var creds []plugin.AuthConfig
	for _, key := range selected(authKeys(resp), image) {
		creds = append(creds, resp.Auth[key])
	}
	return creds
}

// selected returns the keys that the kubelet uses for an image, in the kubelet's order.
// It returns nil if the image is invalid.
func selected(keys []string, image string) []string {
	repository, err := match.Repository(image)
	if err != nil {
		return nil
	}
	return match.Select(keys, repository)
}

// shownKeys formats auth keys for a finding.
func shownKeys(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	shown := make([]string, len(list))
	for i, key := range list {
		shown[i] = shownKey(key)
	}
	return listed(shown)
}

// shownKey returns an auth key without user info, query and fragment, because they may
// be secret.
func shownKey(key string) string {
	if i := strings.LastIndexByte(key, '@'); i >= 0 {
		key = "…" + key[i:]
	}
	if i := strings.IndexAny(key, "?#"); i >= 0 {
		key = key[:i+1] + "…"
	}
	return shorten(key)
}

// bareKey returns an auth key without a scheme or registry API path. It is used only in
// messages; selected determines which keys match.
func bareKey(key string) string {
	rest, ok := strings.CutPrefix(key, "https://")
	if !ok {
		rest = strings.TrimPrefix(key, "http://")
	}
	host, path, _ := strings.Cut(rest, "/")
	for _, api := range []string{"v1/", "v2/"} {
		if p, ok := strings.CutPrefix(path, api); ok {
			path = p
			break
		}
	}
	if path == "" {
		return host
	}
	return host + "/" + path
}
