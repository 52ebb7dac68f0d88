// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registry

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// CredentialKeyProblem returns why containerd never uses a credential in registry.configs under
// a key, and how to fix it. containerd looks it up by the host that it contacts, with the port if
// there is one. endpoints and imageHosts list the hosts and ports of mirrors and of images for which
// there are settings. A host that is not listed may be the host of an image. CredentialKeyProblem
// returns "" if a request can use the credential.
func CredentialKeyProblem(key string, endpoints, imageHosts []string) (problem, fix string) {
	contacted := slices.Concat(endpoints, imageHosts)
	const never = "this credential is never used: "
	host := key
	isURL := strings.Contains(key, "/")
	if isURL {
		address := key
		if !strings.Contains(address, "://") {
			address = "https://" + address
		}
		if u, err := url.Parse(address); err == nil {
			host = u.Host
		} else {
			host = ""
		}
	}
	use := func(name string) string { return fmt.Sprintf("use the key %q", name) }
	server := host
	if host == DockerHub || host == DockerHubIndex {
		server = DockerHubServer
	}
	switch {
	case key == "*" || key == "_default":
		names := []string{"HOST[:PORT]"}
		if len(endpoints) > 0 {
			names = slices.Compact(slices.Sorted(slices.Values(endpoints)))
		}
		return never + "it is looked up by host, and a wildcard matches no host", "use the key " + strings.Join(names, " or ")
	case isURL && host == "":
		return never + "the key must be a host, optionally with a port", "use the key HOST[:PORT]"
	case isURL:
		return never + "the key must be a host, optionally with a port, not a URL", use(strings.ToLower(server))
	case slices.Contains(contacted, key):
		return "", ""
	case server != host:
		return never + "Docker Hub is contacted as " + DockerHubServer, use(server)
	case host != strings.ToLower(host) && slices.Contains(contacted, strings.ToLower(host)):
		return never + "host names are compared literally", use(strings.ToLower(host))
	}
	name, port := hostAndPort(key)
	var others []string
	for _, c := range contacted {
		if other, otherPort := hostAndPort(c); strings.EqualFold(other, name) && otherPort != port && !slices.Contains(others, c) {
			others = append(others, c)
		}
	}
	if len(others) > 0 {
		return fmt.Sprintf("%sthe host that is contacted is %s, and the port is part of the key", never, strings.Join(others, ", ")), use(others[0])
	}
	return "", ""
}

// hostAndPort splits a host without an error for a missing port.
func hostAndPort(host string) (name, port string) {
	u := url.URL{Host: host}
	return u.Hostname(), u.Port()
}

// CredentialAuthProblem returns why containerd cannot decode the auth value of a credential, or
// "". The text does not contain the value.
func CredentialAuthProblem(auth string) string {
	decoded, err := base64.StdEncoding.DecodeString(auth)
	switch {
	case auth == "":
		return ""
	case err != nil:
		return "auth is not valid base64"
	case !strings.Contains(string(decoded), ":"):
		return "auth is not user:password in base64"
	}
	return ""
}

// CredentialAuthFix is the fix for a CredentialAuthProblem.
const CredentialAuthFix = "set username and password, or set auth to base64 of USER:PASSWORD; a token is a password"
