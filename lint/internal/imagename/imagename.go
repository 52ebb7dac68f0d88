// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package imagename determines whether any image can match a pattern or a docker config key, and
// corrects common mistakes in both. The grammar of image names is from distribution/reference.
package imagename

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/regcred/regcred/internal/diagnose"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/match"
)

// IsMatchable reports whether any image can match l.
func IsMatchable(l location.Location) bool {
	_, bad := InvalidLabel(l)
	return !bad && IsRegistryHost(l) && IsValidPort(l.Port) && IsValidPath(l.Path)
}

// InvalidLabel returns the first label of l's host that no image host can have.
func InvalidLabel(l location.Location) (label string, bad bool) {
	if strings.ContainsAny(l.Host, ":[") {
		return l.Host, l.Port == "" || strings.Trim(l.Host, "0123456789abcdefABCDEF:") != ""
	}
	for label := range strings.SplitSeq(l.Host, ".") {
		if !IsValidLabel(label) {
			return label, true
		}
	}
	return "", false
}

// IsValidLabel reports whether the glob matches at least one label that a host can have.
func IsValidLabel(glob string) bool {
	_, err := match.Registry(strings.ReplaceAll(glob, "*", "a"))
	return err == nil
}

// IsRegistryHost reports whether l's host can be the registry in an image reference. Such a host contains
// a dot, a port or upper-case letters, or is localhost.
func IsRegistryHost(l location.Location) bool {
	if l.Host == "index.docker.io" && l.Port == "" {
		return false // the kubelet converts this host in image names to docker.io
	}
	if !IsDotlessHost(l) || location.MatchLabel(l.Host, "localhost") {
		return true
	}
	return strings.Contains(l.Host, "*") || HasUpperCase(l.Host)
}

// IsDotlessHost reports whether l's host has one label and no port. Image references treat such a host
// as part of a Docker Hub name; [IsRegistryHost] knows the exceptions.
func IsDotlessHost(l location.Location) bool {
	return l.Host != "" && l.Port == "" && !strings.ContainsAny(l.Host, ".:[")
}

// HasUpperCase reports whether s contains an upper-case letter.
func HasUpperCase(s string) bool { return strings.ContainsFunc(s, unicode.IsUpper) }

// IsValidPort reports whether port is empty or a valid TCP port.
func IsValidPort(port string) bool {
	n, err := strconv.Atoi(port)
	return port == "" || err == nil && 0 < n && n < 1<<16
}

// IsValidPath reports whether path is a prefix of at least one valid repository path.
func IsValidPath(path string) bool {
	return path == "" || path[0] == '/' && (IsValidRepository(path[1:]) || IsValidRepository(path[1:]+"a"))
}

// IsValidRepository reports whether s is a valid repository path, which follows the host in an
// image name.
func IsValidRepository(s string) bool {
	name := "registry.example/" + s
	repository, err := match.Repository(name)
	return err == nil && repository == name // otherwise s has a tag or a digest
}

// RepairLocation returns l with common mistakes corrected. For example, it removes a tag and
// converts the path to lower case.
func RepairLocation(l location.Location) location.Location {
	if !strings.Contains(l.Host, ":") {
		l.Host = repairHost(l.Host, l.Port)
	}
	if i := strings.IndexFunc(l.Path, func(r rune) bool { return strings.ContainsRune("*[@:", r) || unicode.IsSpace(r) }); i >= 0 {
		l.Path = l.Path[:i]
	}
	l.Path = strings.ToLower(l.Path)
	if l.Path == "/" || IsAPIPath(l.Path) {
		l.Path = ""
	}
	return l
}

func repairHost(host, port string) string {
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
	if IsHubAlias(host) && port == "" {
		return "docker.io"
	}
	return host
}

// IsAPIPath reports whether path is the root of the registry API (/v1 or /v2). Keys in docker
// configs can have such a path, but image names cannot.
func IsAPIPath(path string) bool {
	path = strings.TrimSuffix(path, "/")
	return path == "/v1" || path == "/v2"
}

// IsHubAlias reports whether host is another name for docker.io, the only Docker Hub host in image
// names.
func IsHubAlias(host string) bool {
	return host == "*.docker.io" || host == "*.docker.com" || slices.Contains(diagnose.HubAliases, host)
}
