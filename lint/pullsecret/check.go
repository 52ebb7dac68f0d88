// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/dockerjson"
	"github.com/regcred/regcred/internal/jsonplace"
	"github.com/regcred/regcred/lint/internal/rules"
)

// Kind is the format of a file with credentials.
type Kind string

// The formats.
const (
	DockerConfig Kind = "docker config.json"
	Dockercfg    Kind = ".dockercfg" // a map of registries without an auths field
	Manifest     Kind = "Secret manifest"
)

// Result contains the result of a check.
type Result struct {
	Kind        Kind
	Secrets     int  // number of Secrets in a manifest
	Credentials int  // number of registries for which the kubelet finds a user name
	Refused     bool // the kubelet rejects the file or one of the Secrets
	Findings    []finding.Finding
}

// Check detects the format of a file and checks it. It returns nil for unknown formats.
// The File of the findings is name. now is used to determine which passwords have
// expired.
func Check(name string, data []byte, now time.Time) *Result {
	kind := detect(name, data)
	if kind == "" {
		return nil
	}
	r := CheckAs(kind, name, data, now)
	if kind == Manifest && r.Secrets == 0 && !r.Refused {
		return nil
	}
	return r
}

// CheckAs checks a file in a known format. A manifest can be YAML or JSON with several
// documents; objects other than Secrets are ignored.
func CheckAs(kind Kind, name string, data []byte, now time.Time) *Result {
	if kind == Manifest {
		return checkManifest(name, data, now)
	}
	var found rules.Collector
	c := &dockerConfig{data: data, now: now, legacy: kind == Dockercfg, locate: inFile(name)}
	c.check(&found)
	return &Result{Kind: kind, Credentials: c.credentials(), Refused: len(c.problems) > 0, Findings: found.Sorted()}
}

// Rules returns the sorted names of all rules.
func Rules() []string {
	names := slices.Concat(rules.Names(configRules()), rules.Names(entryRules()), rules.Names(secretRules()), rules.Names(manifestRules()))
	slices.Sort(names)
	return slices.Compact(names)
}

// check runs the rules for a docker config.
func (c *dockerConfig) check(found *rules.Collector) {
	c.parse()
	rules.Apply(found, configRules(), c, nil)
	if len(checkFormat(c)) > 0 {
		return // the entries are not credentials
	}
	list := entryRules()
	for i := range c.entries {
		if e := &c.entries[i]; e.isUsed() && !e.misplaced {
			rules.Apply(found, list, e, nil)
		}
	}
}

// entryRules returns the rules for an entry of a docker config.
func entryRules() []rules.Rule[*entry] {
	const (
		incomplete = "docker-no-password"
		unusable   = "docker-unusable-credential"   // rejected by the registry, or ignored by the runtime
		suspect    = "docker-suspicious-credential" // probably not the intended value
	)
	return []rules.Rule[*entry]{
		rules.Warning(incomplete, checkEmptyEntry),
		rules.Error(unusable, checkTokenOnly),
		rules.Error(unusable, checkNoUser),
		rules.Warning(incomplete, checkNoPassword),
		rules.Error("docker-control-character", checkControlCharacter),
		rules.Warning(suspect, checkOuterSpace),
		rules.Warning(suspect, checkPlaceholder),
		rules.Info("docker-config-nonstandard", checkWrappedAuth),
		rules.Warning("docker-auth-wins", checkAuthWins),
		rules.Warning(suspect, checkEncodedPassword),
		rules.Error("docker-password-ended", checkExpired),
		rules.Warning("docker-password-ends", checkExpires),
		rules.Error(unusable, checkJSONKey),
		rules.Error("docker-key-no-image", checkUnmatchableKey),
		rules.Warning("docker-key-other-image", checkMisleadingKey),
	}
}

// These patterns also recognize files that cannot be parsed.
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
	authsBegin = sync.OnceValue(func() *regexp.Regexp { // without a preceding bracket
		return regexp.MustCompile(`(?m)^["']?(?i:auths|credHelpers|credsStore)["']?\s*:`)
	})
)

// detect returns the format of a file based on its name and contents, or "".
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

// looksLike returns the docker config format that text resembles, or "". The text does
// not need to be valid JSON.
func looksLike(data []byte) Kind {
	if dockerjson.IsBase64JSON(data) {
		return DockerConfig
	}
	root, err := jsonplace.Parse(data)
	switch {
	case err != nil && looksLikeAuths(withoutNUL(data)):
		return DockerConfig
	case err != nil || root.Kind != jsonplace.KindObject:
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
			return DockerConfig // auths is misspelled
		}
	}
	return ""
}

// looksLikeAuths reports whether text that is not JSON resembles a docker config. In
// other YAML files, auths can be a nested field.
func looksLikeAuths(text []byte) bool {
	if start := bytes.TrimLeft(text, "\ufeff\xfe\xff \t\r\n"); len(start) > 0 && (start[0] == '{' || start[0] == '"' || start[0] == '\'') {
		return authsLook().Match(text)
	}
	return authsBegin().Match(text)
}

// withoutNUL removes NULs so that patterns also match UTF-16.
func withoutNUL(data []byte) []byte { return bytes.ReplaceAll(data, []byte{0}, nil) }
