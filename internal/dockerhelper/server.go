// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package dockerhelper maps docker's credential-helper protocol to a keyring.
// It parses server names, and lists the hosts for which a client can use the
// helper.
package dockerhelper

import (
	"errors"
	"fmt"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/match"
)

// ErrNotRegistry is returned for a name such as "library/app". Nomad sends image names of Docker Hub
// without their host.
var ErrNotRegistry = errors.New("the part before the first slash must be a registry (localhost, or a name with a dot or a port)")

// ParseServer returns the keyring requests for a server name as clients send it. The
// name is a registry host[:port], with or without scheme and API path, or a repository
// host[:port]/path. The caller tries the requests in order until one has a credential.
// There may be two, because HTTPS with and without port 443 is the same server for
// clients, but not for the kubelet's patterns.
//
// There are no requests for a URL below the root of a registry's API. Clients store
// their own data under such names. For example, docker stores the tokens of a Docker
// Hub login, which "docker logout" removes and sends to the server.
//
// Names are not completed, except that all names of Docker Hub become docker.io. Errors
// contain nothing that could be a password.
func ParseServer(server string) ([]regcred.Request, error) {
	host, path, plain, err := splitServer(server)
	if err != nil || isBelowAPI(server, path) {
		return nil, err
	}
	hosts := []string{host}
	if other := alternateHostForm(host); other != "" && !plain {
		hosts = append(hosts, other)
	}
	var requests []regcred.Request
	for _, host := range hosts {
		req, err := newRequest(host, path)
		if err != nil {
			return nil, err
		}
		requests = append(requests, req)
	}
	return requests, nil
}

// splitServer splits a server name. path is a repository or empty. plain means HTTP
// without TLS.
func splitServer(server string) (host, path string, plain bool, err error) {
	if strings.ContainsAny(server, `@?#"`) { // not printed, because the text may contain a password
		return "", "", false, errors.New("the server name contains an at sign, question mark, number sign or quotation mark: use host[:port] or host[:port]/repository")
	}
	if strings.ContainsFunc(server, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", "", false, fmt.Errorf("server %q: invalid character in a registry name", excerpt.TruncateValue(server))
	}
	scheme, rest, isURL := strings.Cut(server, "://")
	if !isURL {
		scheme, rest = "https", server
	}
	switch strings.ToLower(scheme) {
	case "https":
	case "http":
		plain = true
	default:
		return "", "", false, fmt.Errorf("server %q: the scheme must be https or http", excerpt.TruncateValue(server))
	}
	host, path, _ = strings.Cut(rest, "/")
	// For a repository named v2 in the root of a registry, clients send neither a URL
	// nor a trailing slash.
	if name, slash := strings.CutSuffix(path, "/"); (isURL || slash) && (name == "v1" || name == "v2") {
		path = ""
	}
	return host, path, plain, nil
}

// isBelowAPI reports whether a name is a URL below the root of a registry's API.
func isBelowAPI(server, path string) bool {
	return strings.Contains(server, "://") && (strings.HasPrefix(path, "v1/") || strings.HasPrefix(path, "v2/"))
}

// alternateHostForm returns a host with HTTPS's port removed or added, or "" if it has
// another port.
func alternateHostForm(host string) string {
	if bare, ok := strings.CutSuffix(host, ":443"); ok {
		return bare
	}
	if strings.Contains(host[strings.LastIndexByte(host, ']')+1:], ":") {
		return ""
	}
	return host + ":443"
}

func newRequest(host, path string) (regcred.Request, error) {
	name, err := match.Registry(host)
	if err != nil || path == "" {
		return regcred.Request{Registry: name}, err
	}
	image := name + "/" + path
	repository, err := match.Repository(image)
	switch {
	case err != nil:
		return regcred.Request{}, err
	case !strings.HasPrefix(repository, name+"/"):
		// In an image name, this would be a repository on Docker Hub. The client would send Docker
		// Hub's password to another server.
		return regcred.Request{}, fmt.Errorf("server %q: %w", excerpt.TruncateValue(image), ErrNotRegistry)
	}
	return regcred.Request{Image: image}, nil
}
