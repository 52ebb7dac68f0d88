// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/login"
)

// checkPath rejects a path if some server may interpret it as the path of another
// repository than repo. If repo is "", it rejects the paths of all repositories. It allows
// paths outside /v2/, because upload URLs may use them.
func checkPath(u *url.URL, repo string) error {
	list := pathVariants(u.EscapedPath())
	if len(list) >= maxPathVariants {
		return fmt.Errorf("the path can be interpreted in more than %d ways: %q", maxPathVariants, login.Truncate(u.Path, 200))
	}
	for _, p := range list {
		switch repos := possibleRepositories(p); {
		case repos == nil:
		case repo == "":
			return fmt.Errorf("the transport is only for registry-level requests, but %q belongs to the repository %q: create a transport for that repository", u.Path, repos[0])
		case slices.ContainsFunc(repos, func(r string) bool { return r != repo }):
			return fmt.Errorf("the transport is for the repository %q, but %q is ambiguous or for another repository: create a transport for that repository", repo, u.Path)
		}
	}
	return nil
}

const maxPathVariants = 16

// pathVariants returns the ways in which servers may interpret a path. A server may resolve
// dots and slashes, decode escapes, do both, or repeat these steps.
func pathVariants(p string) []string {
	list := []string{p}
	for i := 0; i < len(list) && len(list) < maxPathVariants; i++ {
		for _, next := range []string{cleanPath(list[i]), decodePath(list[i])} {
			if !slices.Contains(list, next) {
				list = append(list, next)
			}
		}
	}
	return list
}

// cleanPath is like [path.Clean] but keeps a trailing slash.
func cleanPath(p string) string {
	clean := path.Clean("/" + strings.ReplaceAll(p, `\`, "/"))
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

func decodePath(p string) string {
	if d, err := url.PathUnescape(p); err == nil {
		return d
	}
	return p
}

// possibleRepositories returns the repositories that a path may belong to according to the
// distribution specification. There are several if a component of a repository's name
// is also the name of an endpoint. It returns nil for registry-level paths.
func possibleRepositories(p string) (list []string) {
	rest, ok := strings.CutPrefix(p, "/v2/")
	if !ok || rest == "" || rest == "_catalog" {
		return nil
	}
	elements := strings.Split(rest, "/")
	for i := 1; i < len(elements); i++ {
		if isEndpoint(elements[i], elements[i+1:]) {
			list = append(list, strings.Join(elements[:i], "/"))
		}
	}
	if list == nil {
		return []string{rest}
	}
	return list
}

// isEndpoint reports whether a path element is an endpoint, based on the elements after
// it.
func isEndpoint(name string, rest []string) bool {
	switch name {
	case "manifests", "referrers":
		return len(rest) == 1
	case "blobs":
		return len(rest) == 1 || len(rest) > 1 && rest[0] == "uploads"
	case "tags":
		return len(rest) == 1 && rest[0] == "list"
	}
	return false
}
