// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"strings"
	"unicode"

	"github.com/regcred/regcred/internal/dockerjson"
	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/lint/internal/imagename"
	"github.com/regcred/regcred/lint/internal/rules"
)

func splitScheme(key string) (rest, scheme string) {
	scheme, rest, ok := strings.Cut(key, "://")
	if !ok || strings.ContainsAny(scheme, "/?#@") {
		return key, ""
	}
	return rest, scheme + "://"
}

// repairKey returns a corrected key that images match, or "" if the key cannot be
// corrected.
func repairKey(key string) string {
	rest, _ := splitScheme(strings.TrimSpace(key))
	at, err := location.Parse(rest)
	if err != nil {
		return ""
	}
	at = imagename.RepairLocation(at)
	repaired := at.String()
	switch {
	case at.Host == "docker.io" && at.Port == "" && at.Path == "":
		repaired = registry.DockerHubConfigKey
	case !imagename.IsMatchable(at):
		return ""
	}
	if repaired == key || dockerjson.DisplayKey(repaired)[0] != '"' {
		return ""
	}
	return repaired
}

// checkUnmatchableKey reports a key if and only if no image can match it.
func checkUnmatchableKey(e *authEntry) []rules.Result {
	if !e.isValidKey {
		return e.config.resultAtOffset(e.Start, e.path(), repairKey(e.Key), "%s is not a valid host and path, so the kubelet ignores it", e.displayKey())
	}
	at := e.key.Location
	if e.key.String() == location.HubKey || imagename.IsMatchable(at) {
		return nil
	}
	return e.config.resultAtOffset(e.Start, e.path(), repairKey(e.Key), "no image matches %s: %s", e.displayKey(), unmatchableReason(e.Key, at))
}

// unmatchableReason returns why no image matches a valid key.
func unmatchableReason(key string, at location.Location) string {
	_, scheme := splitScheme(key)
	switch {
	case scheme != "" && scheme != "https://" && scheme != "http://":
		return "the kubelet removes only lowercase https:// and http:// from the key, and treats any other scheme as the host"
	case at.Host == "":
		return "it has no host"
	case strings.IndexFunc(key, unicode.IsSpace) >= 0:
		return "it contains white space"
	case at.Host == "index.docker.io" && at.Port == "":
		return "the kubelet looks up Docker Hub images under index.docker.io, and strips /v1/ and /v2/ but not /v1 or /v2 without a trailing slash"
	case strings.ContainsAny(at.Path, "*[") && !strings.ContainsAny(at.Path, ":@"):
		return "globs do not work in paths, which are matched as prefixes"
	case strings.ContainsAny(at.Path, ":@"):
		return "matching ignores tags and digests"
	case strings.ContainsFunc(at.Path, unicode.IsUpper):
		return "image paths must be lowercase"
	case imagename.IsDotlessHost(at):
		return "a host without a dot or a port is part of a Docker Hub image name"
	case !imagename.IsValidPort(at.Port):
		return "its port is invalid"
	case !imagename.IsValidPath(at.Path):
		return "an image name cannot contain this path"
	}
	return "an image name cannot contain this host"
}

// checkMisleadingKey reports keys that match different images than their text suggests.
func checkMisleadingKey(e *authEntry) []rules.Result {
	at := e.key.Location
	if !e.isValidKey || e.key.String() == location.HubKey || !imagename.IsMatchable(at) {
		return nil
	}
	rest, _ := splitScheme(e.Key)
	authority, path, _ := strings.Cut(rest, "/")
	fix := repairKey(e.Key)
	result := func(format string, args ...any) []rules.Result {
		return e.config.resultAtOffset(e.Start, e.path(), fix, "%s: "+format, append([]any{e.displayKey()}, args...)...)
	}
	if suffix := hostpattern.OpenSuffix(at.Host); suffix != "" {
		fix = "spell out the domain"
		return result("anyone can register a name under the public suffix %s, so third-party hosts receive the password", suffix)
	}
	switch {
	case at.Port == "" && at.Host != "docker.io" && imagename.IsHubAlias(at.Host):
		return result("Docker Hub images are matched as docker.io/…, so this key does not match them")
	case strings.Contains(authority, "@"):
		return result("the kubelet ignores the text before the @, including any credential")
	case strings.ContainsAny(rest, "?#"):
		return result("the kubelet ignores the query and the fragment")
	case imagename.IsAPIPath(at.Path):
		return result("this key matches only repositories named %s, because the kubelet strips /v1/ and /v2/ but not /v1 or /v2 without a trailing slash", strings.Trim(at.Path, "/"))
	case imagename.HasUpperCase(at.Host):
		return result("matching is case-sensitive, and hosts in image names are lowercase")
	case at.Port == "443":
		without := at
		without.Port = ""
		fix = without.String()
		return result("this key matches only images with an explicit port, because the kubelet compares ports as text")
	case len(path) > len("v1/") && (strings.HasPrefix(path, "v1/") || strings.HasPrefix(path, "v2/")):
		fix = at.String()
		return result("the kubelet removes /%s, so the key matches images under %s", path[:3], at.String())
	}
	return nil
}
