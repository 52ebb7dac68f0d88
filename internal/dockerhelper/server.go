// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerhelper

import (
	"errors"
	"fmt"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/match"
)

// Requests returns what to ask a keyring for a server's name as clients send
// it: the registry host[:port], with or without a scheme and the path of its
// API, or an image's repository host[:port]/path. They are to be asked in their
// order until one has a credential: HTTPS on port 443 is the same server with
// and without its port, while a kubelet's patterns tell the two apart. There are
// none for a URL below the root of a registry's API: a client has something of
// its own in a store under that name, as docker the tokens of a login to Docker
// Hub, which "docker logout" takes out and sends away.
//
// Nothing is made of a name but what stands in it, except that the names of
// Docker Hub are all docker.io. The error says what is wrong with a name; it
// holds nothing that could be a password.
func Requests(server string) ([]regcred.Request, error) {
	host, path, plain, err := split(server)
	if err != nil || belowAPI(server, path) {
		return nil, err
	}
	hosts := []string{host}
	if other := otherForm(host); other != "" && !plain {
		hosts = append(hosts, other)
	}
	var requests []regcred.Request
	for _, host := range hosts {
		req, err := request(host, path)
		if err != nil {
			return nil, err
		}
		requests = append(requests, req)
	}
	return requests, nil
}

// split takes a name apart: the path is that of a repository, or empty. It is
// plain if the scheme is that of HTTP without TLS.
func split(server string) (host, path string, plain bool, err error) {
	if strings.ContainsAny(server, `@?#"`) { // it is not shown: it may hold a password, as a URL's or what is for store
		return "", "", false, errors.New("the server name contains an at sign, question mark, number sign or quotation mark: use host[:port] or host[:port]/repository")
	}
	if strings.ContainsFunc(server, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", "", false, fmt.Errorf("server %q: invalid character in a registry name", excerpt.Value(server))
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
		return "", "", false, fmt.Errorf("server %q: the scheme must be https or http", excerpt.Value(server))
	}
	host, path, _ = strings.Cut(rest, "/")
	// Of a repository v2 in the root of a registry nobody writes a URL, and none
	// has a slash at its end.
	if name, slash := strings.CutSuffix(path, "/"); (isURL || slash) && (name == "v1" || name == "v2") {
		path = ""
	}
	return host, path, plain, nil
}

// belowAPI reports whether a name is a URL of something in a registry's API.
func belowAPI(server, path string) bool {
	return strings.Contains(server, "://") && (strings.HasPrefix(path, "v1/") || strings.HasPrefix(path, "v2/"))
}

// otherForm is a host without the port of HTTPS, or with it; "" if it has
// another port.
func otherForm(host string) string {
	if bare, ok := strings.CutSuffix(host, ":443"); ok {
		return bare
	}
	if strings.Contains(host[strings.LastIndexByte(host, ']')+1:], ":") {
		return ""
	}
	return host + ":443"
}

func request(host, path string) (regcred.Request, error) {
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
		// As an image's, this name is one of Docker Hub's, whose password a
		// client would send to somebody else.
		return regcred.Request{}, fmt.Errorf("server %q: the part before the first slash must be a registry (localhost, or a name with a dot or a port)", excerpt.Value(image))
	}
	return regcred.Request{Image: image}, nil
}
