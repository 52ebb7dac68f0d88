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
	"github.com/regcred/regcred/internal/diagnose"
	"github.com/regcred/regcred/lint"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// The checks in this file examine auth keys. The kubelet matches keys like matchImages, so the
// checks use the linter's pattern rules.

func checkKeyMatch(s *suite, resp *plugin.Response) []Finding {
	all := authKeys(resp)
	if taken := selectKeys(all, s.image); len(taken) > 0 {
		return passFinding(s.baseRun().action, "%q matches", redactKey(trimKey(taken[0])))
	}
	var reasons []string
	for _, key := range all[:min(len(all), maxListedItems)] {
		reasons = append(reasons, fmt.Sprintf("%q: %s", redactKey(key), noMatchReason(key, s.image)))
	}
	return newFinding(finding.SeverityError, s.baseRun().action, fmt.Sprintf("the response has %s, and no key matches: %s", diagnose.FormatCount(len(all), "key"), strings.Join(reasons, "; ")),
		"The kubelet matches keys the same way as matchImages patterns, finds no match, and pulls anonymously.",
		fmt.Sprintf("Use the registry as the auth key: %q.", registryOf(s.image)))
}

func noMatchReason(key, image string) string {
	p, err := match.Parse(trimKey(key))
	if err != nil {
		return truncateText("invalid pattern: " + err.Error())
	}
	return truncateText(p.Why(normalizeImage(image)))
}

// lintKey returns the linter's findings for a key, as for a pattern in matchImages.
func lintKey(key string) []finding.Finding {
	key = trimKey(key)
	if rest, ok := strings.CutPrefix(key, "index.docker.io"); ok && (rest == "" || rest[0] == '/') {
		key = "docker.io" + rest // equivalent in keys, but not in patterns
	}
	c := &config.Config{Providers: []config.Provider{{Name: "key", MatchImages: []string{key}}}}
	return slices.DeleteFunc(lint.Check(c), func(f finding.Finding) bool { return !strings.Contains(f.Path, "matchImages") })
}

func checkUnmatchableKey(s *suite, resp *plugin.Response) []Finding {
	var findings []Finding
	for _, key := range authKeys(resp) {
		if reason := unmatchableReason(key); reason != "" && len(findings) < maxListedItems {
			findings = append(findings, newFinding(finding.SeverityWarning, s.baseRun().action, reason,
				"The kubelet accepts the key but never uses it.",
				"Write the registry as it appears in image names, in lowercase and with the port, if any; use a path only as a prefix.")...)
		}
	}
	if len(findings) > 0 {
		return findings
	}
	return passFinding(s.baseRun().action, "every key can match")
}

// unmatchableReason returns why a key matches no image, or matches only images in an unusual
// spelling. It returns "" if there is no such problem.
func unmatchableReason(key string) string {
	if _, err := match.Parse(trimKey(key)); err != nil {
		return fmt.Sprintf("the key %q is ignored: %v", redactKey(key), err)
	}
	for _, f := range lintKey(key) {
		if slices.Contains([]string{"go-version", "unmatchable-pattern", "narrow-pattern"}, f.Rule) {
			return "the key " + truncateText(f.Message)
		}
	}
	return ""
}

func checkBroadKey(s *suite, resp *plugin.Response) []Finding {
	for _, key := range authKeys(resp) {
		if resp.Auth[key].Equal(plugin.AuthConfig{}) {
			continue // an anonymous credential, which contains no secret
		}
		for _, f := range lintKey(key) {
			if slices.Contains([]string{"open-domain", "glued-wildcard", "bare-wildcard"}, f.Rule) {
				return newFinding(finding.SeverityWarning, s.baseRun().action, fmt.Sprintf("the key %q matches registries outside your control", redactKey(key)),
					"The kubelet sends the password to every registry that the key matches, within the response's cache scope.",
					"Name the registry in the key. Use * only for one label of a domain that has a single owner, as in *.registry.example.")
			}
		}
	}
	return passFinding(s.baseRun().action, "each key is limited to one registry or domain")
}

func checkKeyPort(s *suite, _ *plugin.Response) []Finding {
	host, _, hasPort := strings.Cut(registryOf(s.image), ":")
	if !hasPort {
		host += ":5000"
	}
	image := replaceRegistry(s.image, host)
	r := s.sendRequest(s.newRequestFor(image))
	if !r.hasResponse() {
		return passFinding(r.action, "%s", r.describeOutcome())
	}
	all := authKeys(r.exchange.Response)
	if len(all) == 0 || len(selectKeys(all, image)) > 0 {
		return passFinding(r.action, "a response with %s", diagnose.FormatCount(len(all), "auth key"))
	}
	return newFinding(finding.SeverityInfo, r.action, fmt.Sprintf("none of the response's keys (%s) match", formatKeys(all)),
		"The kubelet finds no key for the image and pulls anonymously.",
		"Use the image's host and port as the key, or return no credential for a port that you do not serve.")
}

func authKeys(resp *plugin.Response) []string { return slices.Sorted(maps.Keys(resp.Auth)) }

// selectCredentials returns the credentials that the kubelet uses for an image, in the order in
// which it tries them.
func selectCredentials(resp *plugin.Response, image string) []plugin.AuthConfig {
	var creds []plugin.AuthConfig
	for _, key := range selectKeys(authKeys(resp), image) {
		creds = append(creds, resp.Auth[key])
	}
	return creds
}

// selectKeys returns the keys that the kubelet uses for an image, in the order in which it
// tries them. It returns nil if the image is invalid.
func selectKeys(keys []string, image string) []string {
	repository, err := match.Repository(image)
	if err != nil {
		return nil
	}
	return match.Select(keys, repository)
}

func formatKeys(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	shown := make([]string, len(list))
	for i, key := range list {
		shown[i] = redactKey(key)
	}
	return quoteList(shown)
}

// redactKey hides the user info, query and fragment of an auth key, because they may be secret.
func redactKey(key string) string {
	if i := strings.LastIndexByte(key, '@'); i >= 0 {
		key = "…" + key[i:]
	}
	if i := strings.IndexAny(key, "?#"); i >= 0 {
		key = key[:i+1] + "…"
	}
	return truncateText(key)
}

// trimKey removes the scheme and the registry API path from an auth key. Use it only for
// messages. selectKeys determines which keys match.
func trimKey(key string) string {
	rest, ok := strings.CutPrefix(key, "https://")
	if !ok {
		rest = strings.TrimPrefix(key, "http://")
	}
	host, path, _ := strings.Cut(rest, "/")
	if strings.HasPrefix(path, "v1/") || strings.HasPrefix(path, "v2/") {
		path = path[len("v1/"):]
	}
	if path == "" {
		return host
	}
	return host + "/" + path
}
