// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/dockerjson"
	"github.com/regcred/regcred/internal/jsonplace"
	"github.com/regcred/regcred/lint/internal/rules"
)

// Kind is the format of a file with credentials.
type Kind string

// The supported formats.
const (
	DockerConfig Kind = "docker config.json"
	Dockercfg    Kind = ".dockercfg" // a map of registries without an auths field
	Manifest     Kind = "Secret manifest"
)

// Result contains the result of a check.
type Result struct {
	Kind        Kind
	Secrets     int   // number of Secrets in a manifest
	Credentials int   // number of registries for which the kubelet finds a user name
	Rejected    bool  // the kubelet rejects the file or one of the Secrets
	Unchecked   error // set if the file exceeds a limit of regcred, so that it was not checked
	Findings    []finding.Finding
}

// Check detects the format of a file and checks it. It returns nil for unknown formats. The File
// field of the findings is name. A password has expired if its expiry is before now.
func Check(name string, data []byte, now time.Time) *Result {
	kind := detectKind(name, data)
	if kind == "" {
		return nil
	}
	r := CheckAs(kind, name, data, now)
	if kind == Manifest && r.Secrets == 0 && !r.Rejected && r.Unchecked == nil {
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
	c := &dockerConfig{data: data, now: now, legacy: kind == Dockercfg, locate: fileLocator(name)}
	c.checkEntries(&found)
	return &Result{Kind: kind, Credentials: c.countCredentials(), Rejected: len(c.problems) > 0, Unchecked: c.limit, Findings: found.SortedFindings()}
}

// Rules returns the sorted names of all rules.
func Rules() []string {
	names := slices.Concat(rules.Names(configRules()), rules.Names(authEntryRules()), rules.Names(secretRules()), rules.Names(manifestRules()))
	slices.Sort(names)
	return slices.Compact(names)
}

func (c *dockerConfig) checkEntries(found *rules.Collector) {
	if c.parseEntries(); c.limit != nil {
		return
	}
	rules.Apply(found, configRules(), c, nil)
	if len(checkFormat(c)) > 0 {
		return // in the wrong format, members are not credentials
	}
	list := authEntryRules()
	for i := range c.entries {
		if e := &c.entries[i]; e.isUsed() && !e.misplaced {
			rules.Apply(found, list, e, nil)
		}
	}
}

func authEntryRules() []rules.Rule[*authEntry] {
	const (
		incomplete = "docker-no-password"
		unusable   = "docker-unusable-credential"   // rejected by the registry, or ignored by the runtime
		suspect    = "docker-suspicious-credential" // probably not the intended value
	)
	return []rules.Rule[*authEntry]{
		rules.WarningRule(incomplete, checkEmptyEntry),
		rules.ErrorRule(unusable, checkTokenOnly),
		rules.ErrorRule(unusable, checkNoUser),
		rules.WarningRule(incomplete, checkNoPassword),
		rules.ErrorRule("docker-control-character", checkControlCharacter),
		rules.WarningRule(suspect, checkOuterSpace),
		rules.WarningRule(suspect, checkPlaceholder),
		rules.InfoRule("docker-config-nonstandard", checkWrappedAuth),
		rules.WarningRule("docker-auth-wins", checkAuthWins),
		rules.WarningRule(suspect, checkEncodedPassword),
		rules.ErrorRule("docker-password-ended", checkExpired),
		rules.WarningRule("docker-password-ends", checkExpires),
		rules.ErrorRule(unusable, checkJSONKey),
		rules.ErrorRule("docker-key-no-image", checkUnmatchableKey),
		rules.WarningRule("docker-key-other-image", checkMisleadingKey),
	}
}

// These patterns also recognize files that cannot be parsed.
var (
	secretPattern        = rules.LazyRegexp(`(?m)^([^#\n]*[{,\s])?["']?kind["']?[ \t]*:[ \t]*["']?Secret(List)?["']?[ \t]*(#.*)?([,}\r]|$)`)
	otherManifestPattern = rules.LazyRegexp(`(?m)^[ \t{]*["']?(providers|apiVersion|kind)["']?[ \t]*:`)
	authsPattern         = rules.LazyRegexp(`["']?(?i:auths|credHelpers|credsStore)["']?\s*:`)
	authsStartPattern    = rules.LazyRegexp(`(?m)^["']?(?i:auths|credHelpers|credsStore)["']?\s*:`) // only at the start of a line
)

// detectKind returns the format of a file based on its name and contents, or "".
func detectKind(name string, data []byte) Kind {
	if secretPattern().Match(removeNULs(data)) {
		return Manifest
	}
	if otherManifestPattern().Match(data) {
		return ""
	}
	switch strings.ToLower(filepath.Base(name)) { // the kubelet chooses the format by the file name
	case ".dockercfg", "dockercfg":
		return Dockercfg
	case "config.json", ".dockerconfigjson", "dockerconfig.json", "auth.json":
		return DockerConfig
	}
	return guessKind(data)
}

// guessKind returns the docker config format that text resembles, or "". The text does
// not need to be valid JSON.
func guessKind(data []byte) Kind {
	if dockerjson.IsBase64JSON(data) {
		return DockerConfig
	}
	root, err := jsonplace.Parse(data)
	d := dockerConfig{root: root}
	switch {
	case err != nil && looksLikeAuths(removeNULs(data)):
		return DockerConfig
	case err != nil || root.Kind != jsonplace.KindObject:
		return ""
	case d.topLevelMember("auths") != nil || d.topLevelMember("credHelpers") != nil || d.topLevelMember("credsStore") != nil:
		return DockerConfig
	case looksLikeAuthsMap(root):
		return Dockercfg
	case slices.ContainsFunc(root.Members, func(m jsonplace.Member) bool { return looksLikeAuthsMap(m.Value) }):
		return DockerConfig // auths is probably misspelled
	}
	return ""
}

// looksLikeAuths reports whether text that is not valid JSON resembles a docker config. If the text
// does not begin like JSON, the field must be at the start of a line, because other YAML files can
// have a nested auths field.
func looksLikeAuths(text []byte) bool {
	if start := bytes.TrimLeft(text, "\ufeff\xfe\xff \t\r\n"); len(start) > 0 && (start[0] == '{' || start[0] == '"' || start[0] == '\'') {
		return authsPattern().Match(text)
	}
	return authsStartPattern().Match(text)
}

// removeNULs removes NUL bytes, so that the patterns also match UTF-16 text.
func removeNULs(data []byte) []byte { return bytes.ReplaceAll(data, []byte{0}, nil) }
