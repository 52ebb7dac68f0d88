// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/regcred/regcred/internal/dockerjson"
	"github.com/regcred/regcred/internal/jsonplace"
)

// These patterns recognize files that do not parse, too.
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
	authsBegin = sync.OnceValue(func() *regexp.Regexp { // without a bracket before it
		return regexp.MustCompile(`(?m)^["']?(?i:auths|credHelpers|credsStore)["']?\s*:`)
	})
)

// detect returns the format of a file by its name and content, or "".
func detect(name string, data []byte) Kind {
	if secretLook().Match(withoutNUL(data)) {
		return Manifest
	}
	if otherLook().Match(data) {
		return ""
	}
	look := looksLike(data)
	switch base := strings.ToLower(filepath.Base(name)); base { // the file name decides how the kubelet reads it
	case ".dockercfg", "dockercfg":
		return Dockercfg
	case "config.json", ".dockerconfigjson", "dockerconfig.json", "auth.json":
		return DockerConfig
	}
	return look
}

// looksLike returns the docker config format that a text resembles, or "". The text
// need not be valid JSON.
func looksLike(data []byte) Kind {
	if dockerjson.IsBase64JSON(data) {
		return DockerConfig
	}
	root, err := jsonplace.Parse(data)
	switch {
	case err != nil && looksLikeAuths(withoutNUL(data)):
		return DockerConfig
	case err != nil || root.Kind != jsonplace.Object:
		return ""
	}
	d := dockerConfig{data: data, root: root}
	if d.member("auths") != nil || d.member("credHelpers") != nil || d.member("credsStore") != nil {
		return DockerConfig
	}
	if isEntryMap(root) {
		return Dockercfg
	}
	for _, m := range root.Members {
		if isEntryMap(m.Value) {
			return DockerConfig // auths has the wrong name
		}
	}
	return ""
}

// looksLikeAuths reports whether a text that is not JSON resembles a docker config. In
// other YAML files, auths can be an inner field.
func looksLikeAuths(text []byte) bool {
	if start := bytes.TrimLeft(text, "\ufeff\xfe\xff \t\r\n"); len(start) > 0 && (start[0] == '{' || start[0] == '"' || start[0] == '\'') {
		return authsLook().Match(text)
	}
	return authsBegin().Match(text)
}

// withoutNUL removes NULs so that a pattern can match UTF-16.
func withoutNUL(data []byte) []byte { return bytes.ReplaceAll(data, []byte{0}, nil) }
