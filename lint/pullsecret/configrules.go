// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/internal/dockerjson"
	"github.com/regcred/regcred/internal/jsonplace"
	"github.com/regcred/regcred/lint/internal/rules"
)

func configRules() []rules.Rule[*dockerConfig] {
	const invalid = "docker-config-invalid" // the kubelet finds no credential
	return []rules.Rule[*dockerConfig]{
		rules.ErrorRule(invalid, checkProblems),
		rules.ErrorRule(invalid, checkFormat),
		rules.ErrorRule(invalid, checkNestingLevel),
		rules.InfoRule("docker-config-nonstandard", checkUnknownField),
		rules.InfoRule("docker-config-nonstandard", checkFieldCase),
		rules.WarningRule("docker-helper-ignored", checkHelperCredentials),
		rules.WarningRule("docker-duplicate", checkDuplicate),
		rules.WarningRule("docker-duplicate", checkSameKey),
		rules.InfoRule("no-credentials", checkEmpty),
	}
}

const rejectionEffect = "; the kubelet ignores the whole file, and pulls that use it as a pull secret fail"

// checkProblems reports the problems for which the kubelet rejects the file.
func checkProblems(d *dockerConfig) (rs []rules.Result) {
	wrongFormat := len(checkFormat(d)) > 0
	for _, p := range d.problems {
		if p.Kind == dockerjson.KindType && wrongFormat {
			continue // the wrong format causes this problem
		}
		rs = append(rs, d.resultAtLine(p.Line, p.Column, p.Path, p.Fix, "%s%s", p.Msg, rejectionEffect)...)
	}
	return rs
}

func checkFormat(d *dockerConfig) []rules.Result {
	auths := d.topLevelMember("auths")
	switch {
	case d.root == nil:
		return nil
	case d.legacy && auths != nil && !looksLikeEntry(auths.Value):
		return d.resultAtOffset(auths.Start, "auths", "save it as config.json, or in a Secret of type kubernetes.io/dockerconfigjson under the key .dockerconfigjson",
			"this .dockercfg is in the config.json format: the kubelet treats auths as a registry name and finds no credential")
	case !d.legacy && auths == nil && d.credsStore == nil && d.helpers == nil && len(misplacedEntries(d)) > 0 && len(misplacedEntries(d)) == len(d.root.Members):
		return d.resultAtOffset(d.root.Start, "", `wrap it in {"auths": …}, or use a Secret of type kubernetes.io/dockercfg`,
			"this config.json is in the .dockercfg format: the kubelet reads credentials only from auths and finds none")
	}
	return nil
}

// misplacedEntries returns top-level members that belong in auths.
func misplacedEntries(d *dockerConfig) (entries []jsonplace.Member) {
	for _, m := range d.root.Members {
		if looksLikeEntry(m.Value) && !strings.EqualFold(m.Key, "auths") {
			entries = append(entries, m)
		}
	}
	return entries
}

func checkNestingLevel(d *dockerConfig) (rs []rules.Result) {
	if d.root == nil || d.legacy || len(checkFormat(d)) > 0 {
		return nil
	}
	for _, m := range d.root.Members {
		switch {
		case strings.EqualFold(m.Key, "auths"):
			for _, inner := range m.Members {
				if strings.EqualFold(inner.Key, "auths") && looksLikeAuthsMap(inner.Value) {
					rs = append(rs, d.resultAtOffset(inner.Start, "auths.auths", "use only one auths", "auths is nested in auths: the kubelet treats the inner auths as a registry name and finds no credential")...)
				}
			}
			if looksLikeEntry(m.Value) {
				rs = append(rs, d.resultAtOffset(m.Start, "auths", `use {"auths": {"registry.example": {…}}}`, "auths contains a credential without a registry name, so the kubelet ignores it")...)
			}
		case looksLikeEntry(m.Value):
			rs = append(rs, d.resultAtOffset(m.Start, dockerjson.DisplayKey(m.Key), "move it into auths", "%s is a credential outside auths, so the kubelet ignores it", dockerjson.DisplayKey(m.Key))...)
		case looksLikeAuthsMap(m.Value):
			rs = append(rs, d.resultAtOffset(m.Start, "", `rename it to "auths"`, "these credentials are under a name other than auths, so the kubelet ignores them")...)
		case slices.ContainsFunc(m.Members, func(inner jsonplace.Member) bool { return strings.EqualFold(inner.Key, "auths") }):
			rs = append(rs, d.resultAtOffset(m.Start, "", "move auths to the top level", "auths is one level too deep: the kubelet reads it only at the top level")...)
		}
	}
	return rs
}

// dockerFields lists the config.json fields that docker and podman use, except auths.
var dockerFields = []string{
	"credsStore", "credHelpers", "HttpHeaders", "psFormat", "imagesFormat", "networksFormat", "pluginsFormat", "volumesFormat",
	"statsFormat", "detachKeys", "serviceInspectFormat", "servicesFormat", "tasksFormat", "secretFormat", "configFormat",
	"nodesFormat", "pruneFilters", "proxies", "experimental", "stackOrchestrator", "kubernetes", "currentContext",
	"cliPluginsExtraDirs", "plugins", "aliases", "features", "configPath", "filename",
}

func checkUnknownField(d *dockerConfig) (rs []rules.Result) {
	if d.root == nil || d.legacy || len(checkFormat(d)) > 0 {
		return nil
	}
	for _, m := range d.root.Members {
		known := func(name string) bool { return strings.EqualFold(name, m.Key) }
		if known("auths") || slices.ContainsFunc(dockerFields, known) || looksLikeEntry(m.Value) || looksLikeAuthsMap(m.Value) {
			continue
		}
		rs = append(rs, d.resultAtOffset(m.Start, "", "", "unknown field, which kubelets and docker ignore")...)
	}
	return rs
}

func checkFieldCase(d *dockerConfig) []rules.Result {
	if m := d.topLevelMember("auths"); m != nil && m.Key != "auths" && !d.legacy {
		return d.resultAtOffset(m.Start, "auths", "auths", "kubelets and docker ignore the case of this field name, but other programs might not")
	}
	return nil
}

// checkHelperCredentials reports registries without a credential in the file, because docker gets it from a
// credential helper. The kubelet does not run credential helpers.
func checkHelperCredentials(d *dockerConfig) (rs []rules.Result) {
	const fix = "configure a credential provider for these registries, or run docker login without credsStore and credHelpers"
	found := map[string]bool{}
	var without []string
	for i := range d.entries {
		switch e := &d.entries[i]; {
		case !e.isUsed():
		case e.user != "":
			found[dockerconfig.Scope(e.Key)] = true
		default:
			without = append(without, e.displayKey())
		}
	}
	if d.credsStore != nil && (len(without) > 0 || len(d.entries) == 0) {
		rs = d.resultAtOffset(d.credsStore.Start, "credsStore", fix, "kubelets do not run credential helpers: %s", missingCredentials(without))
	}
	var named []string
	for _, h := range d.helpers {
		if h.Text != "" && !found[dockerconfig.Scope(h.Key)] {
			named = append(named, dockerjson.DisplayKey(h.Key))
		}
	}
	if len(named) > 0 {
		rs = append(rs, d.resultAtOffset(d.topLevelMember("credHelpers").Start, "credHelpers", fix, "kubelets do not run credential helpers: %s", missingCredentials(named))...)
	}
	return rs
}

// missingCredentials returns a message with up to five registries that have no credential.
func missingCredentials(keys []string) string {
	const most = 5
	switch {
	case len(keys) == 0:
		return "this file has no credentials"
	case len(keys) > most:
		keys = append(slices.Clone(keys[:most]), fmt.Sprintf("%d more", len(keys)-most))
	}
	return "this file has no credential for " + strings.Join(keys, ", ")
}

func checkDuplicate(d *dockerConfig) (rs []rules.Result) {
	for _, m := range d.nullAuths {
		rs = append(rs, d.resultAtOffset(m.Start, "auths", "remove it", "auths is also set above, and this null value discards all its credentials")...)
	}
	for i := range d.entries {
		e := &d.entries[i]
		if e.replaced {
			rs = append(rs, d.resultAtOffset(e.Start, e.path(), "remove it", "%s is repeated below: the last entry wins, and this credential is lost", e.displayKey())...)
		}
		seen := map[string]jsonplace.Member{}
		for _, f := range e.Members {
			name := fieldName(f.Key)
			if first, again := seen[name]; again && looksLikeEntry(&jsonplace.Value{Members: []jsonplace.Member{f}}) {
				rs = append(rs, d.resultAtOffset(first.Start, e.path()+"."+name, "remove it", "%s is repeated below, and the last value wins", name)...)
			}
			seen[name] = f
		}
	}
	return rs
}

// checkSameKey reports entries whose keys are equal for the kubelet but whose credentials differ.
func checkSameKey(d *dockerConfig) (rs []rules.Result) {
	first := map[string]*authEntry{}
	for i := range d.entries {
		e := &d.entries[i]
		if !e.isUsed() || !e.isValidKey {
			continue
		}
		switch other := first[e.key.String()]; {
		case other == nil:
			first[e.key.String()] = e
		case other.user != e.user || other.password != e.password:
			line, _ := d.lines.LineColumn(other.Start)
			rs = append(rs, d.resultAtOffset(e.Start, e.path(), "remove one of them", "the kubelet treats %s as the same key as %s on line %d, but their credentials differ: it tries both in random order", e.displayKey(), other.displayKey(), line)...)
		}
	}
	return rs
}

func checkEmpty(d *dockerConfig) []rules.Result {
	if d.root == nil || len(d.entries) > 0 || len(checkFormat(d)) > 0 || len(checkNestingLevel(d)) > 0 || len(checkHelperCredentials(d)) > 0 {
		return nil
	}
	return d.resultAtOffset(d.root.Start, "", "", "the file has no credentials, so it has no effect on pulls")
}
