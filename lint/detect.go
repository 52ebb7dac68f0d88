// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/internal/jsonplace"
)

// What files look like, also those that do not parse.
var (
	secretLook = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^([^#\n]*[{,\s])?["']?kind["']?[ \t]*:[ \t]*["']?Secret(List)?["']?[ \t]*(#.*)?([,}\r]|$)`)
	})
	otherLook = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^[ \t{]*["']?(providers|apiVersion|kind)["']?[ \t]*:`)
	})
	authsLook = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`["']?(?i:auths|credHelpers|credsStore)["']?\s*:`)
	})
	authsBegin = sync.OnceValue(func() *regexp.Regexp { // where no bracket stands around it
		return regexp.MustCompile(`(?m)^["']?(?i:auths|credHelpers|credsStore)["']?\s*:`)
	})
)

// detect says what a file is by its name or its look; "" if it has none of these.
func detect(name string, data []byte) CredentialKind {
	if secretLook().Match(withoutNUL(data)) {
		return SecretFile
	}
	if otherLook().Match(data) {
		return ""
	}
	look := looksLike(data)
	switch base := strings.ToLower(filepath.Base(name)); base { // where it lies decides how it is read
	case ".dockercfg", "dockercfg":
		return DockercfgFile
	case "config.json", ".dockerconfigjson", "dockerconfig.json", "auth.json":
		return DockerConfigFile
	}
	return look
}

// looksLike says which docker config a text looks like, whether it is JSON or
// not; "" if none.
func looksLike(data []byte) CredentialKind {
	if dockerconfig.Encoded(data) {
		return DockerConfigFile
	}
	root, err := jsonplace.Parse(data)
	switch {
	case err != nil && looksLikeAuths(withoutNUL(data)):
		return DockerConfigFile
	case err != nil || root.Kind != jsonplace.Object:
		return ""
	}
	d := docker{data: data, root: root}
	if d.member("auths") != nil || d.member("credHelpers") != nil || d.member("credsStore") != nil {
		return DockerConfigFile
	}
	if isLoginList(root) {
		return DockercfgFile
	}
	for _, m := range root.Members {
		if isLoginList(m.Value) {
			return DockerConfigFile // logins at a wrong level
		}
	}
	return ""
}

// looksLikeAuths says so of a text that is not JSON. In other YAML than that of a
// docker config auths may stand anywhere.
func looksLikeAuths(text []byte) bool {
	if start := bytes.TrimLeft(text, "\ufeff\xfe\xff \t\r\n"); len(start) > 0 && (start[0] == '{' || start[0] == '"' || start[0] == '\'') {
		return authsLook().Match(text)
	}
	return authsBegin().Match(text)
}

// withoutNUL makes of UTF-16 what a pattern matches.
func withoutNUL(data []byte) []byte { return bytes.ReplaceAll(data, []byte{0}, nil) }
