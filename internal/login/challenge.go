// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"net/http"
	"slices"
	"strings"

	"github.com/regcred/regcred"
)

// Runtime selects the client whose rules a login follows. The zero value is containerd.
//
//	rule                     containerd            CRI-O and podman       go-containerregistry
//	several challenges       Bearer before Basic   the first known        Bearer before Basic
//	no user name             anonymous             anonymous              anonymous
//	user without a password  anonymous token, no   anonymous token, but   anonymous token, but
//	                         Basic                 Basic                  Basic
//	token request            POST, then GET        GET                    GET
//	status of a token        200 to 399            200, 206               200 to 399
//	a bad issued_at          fails                 fails                  is ignored
//
// Sources: containerd 2.4.2, core/remotes/docker/authorizer.go, core/remotes/docker/auth, and ParseAuth in
// internal/cri/server/images/image_pull.go; containers/image 5.42.1, docker/docker_client.go;
// CRI-O, server/image_pull.go. The column for go-containerregistry contains regcred's rules for package
// keychain, which differ from the library in the first two lines.
type Runtime int

// The clients with different rules.
const (
	Containerd Runtime = iota
	ContainersImage
	GoContainerregistry
)

// NewRuntime returns the rules for a runtime's name. Unknown runtimes have containerd's rules.
func NewRuntime(name string) Runtime {
	if name == "CRI-O" || name == "podman" {
		return ContainersImage
	}
	return Containerd
}

// usernamePassword returns what the runtime uses of a credential. It ignores a password without a user name,
// so that the login is anonymous.
func usernamePassword(cred *regcred.Credential) (username, password string) {
	if cred == nil || cred.Username == "" {
		return "", ""
	}
	return cred.Username, cred.Password.Reveal()
}

// sendsBasic reports whether the runtime sends a credential to a registry that requires Basic authentication.
func (rt Runtime) sendsBasic(cred *regcred.Credential) bool {
	username, password := usernamePassword(cred)
	return username != "" && (password != "" || rt != Containerd)
}

// Challenge is a registry's request for authentication.
type Challenge struct {
	Scheme     string            // "basic" or "bearer"
	Parameters map[string]string // names are lower case
}

// The schemes that runtimes support. containerd parses Digest too, but never uses it.
const (
	SchemeBasic  = "basic"
	SchemeBearer = "bearer"
)

// chooseChallenge returns the challenge that the runtime chooses, or nil if it supports none.
func (rt Runtime) chooseChallenge(header http.Header) *Challenge {
	var basic *Challenge
	for _, line := range header.Values("WWW-Authenticate") {
		c := rt.parseChallenge(line)
		switch {
		case c.Scheme == SchemeBearer, c.Scheme == SchemeBasic && rt == ContainersImage:
			return c
		case c.Scheme == SchemeBasic && basic == nil:
			basic = c
		}
	}
	return basic
}

// parseChallenge parses the first challenge in a header line. The runtimes ignore further ones.
func (rt Runtime) parseChallenge(line string) *Challenge {
	scheme, rest := cutToken(line)
	c := &Challenge{Scheme: strings.ToLower(scheme), Parameters: map[string]string{}}
	for {
		key, after := cutToken(trimSpace(rest))
		if key == "" || !strings.HasPrefix(after, "=") {
			return c
		}
		var value string
		if value, rest = cutValue(after[1:]); value == "" && rt == ContainersImage {
			return c
		}
		c.Parameters[strings.ToLower(key)] = value
		if rest = trimSpace(rest); !strings.HasPrefix(rest, ",") {
			return c
		}
		rest = rest[1:]
	}
}

func trimSpace(s string) string { return strings.TrimLeft(s, " \t\r\n") }

// cutToken cuts a token (RFC 9110, section 5.6.2) from the beginning of s.
func cutToken(s string) (token, rest string) {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[]\{}`, c) >= 0 {
			return s[:i], s[i:]
		}
	}
	return s, ""
}

// cutValue cuts a token or a quoted string from the beginning of s. An unterminated string is empty.
func cutValue(s string) (value, rest string) {
	if !strings.HasPrefix(s, `"`) {
		return cutToken(s)
	}
	var unquoted []byte
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return string(unquoted), s[i+1:]
		case s[i] == '\\':
			if i++; i == len(s) {
				return "", ""
			}
		}
		unquoted = append(unquoted, s[i])
	}
	return "", ""
}

// tokenScopes returns the scopes to request: the scope of the pull and the challenge's scopes.
func (rt Runtime) tokenScopes(pull string, c *Challenge) []string {
	scopes := []string{pull}
	scope, ok := c.Parameters["scope"]
	switch {
	case rt == ContainersImage && c.Parameters["error"] == "insufficient_scope" && strings.Count(scope, ":") == 2:
		return append(scopes, scope)
	case rt == ContainersImage:
		return scopes
	case ok:
		scopes = append(scopes, strings.Split(scope, " ")...)
	}
	slices.Sort(scopes)
	return slices.Compact(scopes)
}
