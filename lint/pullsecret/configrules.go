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

// configRules returns the rules for a docker config as a whole.
func configRules() []rules.Rule[*dockerConfig] {
	const invalid = "docker-config-invalid" // the kubelet finds no credential
	return []rules.Rule[*dockerConfig]{
		rules.Error(invalid, checkSyntax),
		rules.Error(invalid, checkTypes),
		rules.Error(invalid, checkEncoding),
		rules.Error(invalid, checkAuth),
		rules.Error(invalid, checkFormat),
		rules.Error(invalid, checkLevel),
		rules.Info("docker-config-nonstandard", checkUnknownField),
		rules.Info("docker-config-nonstandard", checkCase),
		rules.Warning("docker-helper-ignored", checkHelper),
		rules.Warning("docker-duplicate", checkDuplicate),
		rules.Warning("docker-duplicate", checkSameKey),
		rules.Info("no-credentials", checkEmpty),
	}
}

// refusal describes the effect of a problem.
const refusal = "; the kubelet ignores the whole file, and pulls that use it as a pull secret fail"

func (d *dockerConfig) problemsOf(kind dockerjson.Kind) (rs []rules.Result) {
	for _, p := range d.problems {
		if p.Kind == kind {
			rs = rules.Append(rs, d.atLine(p.Line, p.Column, p.Path, p.Fix, "%s%s", p.Msg, refusal)...)
		}
	}
	return rs
}

func checkSyntax(d *dockerConfig) []rules.Result {
	if dockerjson.IsBase64JSON(d.data) {
		return nil
	}
	return append(d.problemsOf(dockerjson.KindSyntax), d.problemsOf("")...)
}

func checkTypes(d *dockerConfig) []rules.Result {
	if len(checkFormat(d)) > 0 {
		return nil
	}
	return d.problemsOf(dockerjson.KindType)
}

func checkEncoding(d *dockerConfig) []rules.Result {
	if !dockerjson.IsBase64JSON(d.data) {
		return nil
	}
	return d.problemsOf(dockerjson.KindSyntax)
}

func checkAuth(d *dockerConfig) []rules.Result { return d.problemsOf(dockerjson.KindAuth) }

func checkFormat(d *dockerConfig) []rules.Result {
	auths := d.member("auths")
	switch {
	case d.root == nil:
		return nil
	case d.legacy && auths != nil && !isEntry(auths.Value):
		return d.at(auths.Start, "auths", "save it as config.json, or in a Secret of type kubernetes.io/dockerconfigjson under the key .dockerconfigjson",
			"this .dockercfg is in the config.json format: the kubelet treats auths as a registry name and finds no credential")
	case !d.legacy && auths == nil && d.store == nil && d.helpers == nil && len(misplacedEntries(d)) > 0 && len(misplacedEntries(d)) == len(d.root.Members):
		return d.at(d.root.Start, "", `wrap it in {"auths": …}, or use a Secret of type kubernetes.io/dockercfg`,
			"this config.json is in the .dockercfg format: the kubelet reads credentials only from auths and finds none")
	}
	return nil
}

// misplacedEntries returns top-level members that belong in auths.
func misplacedEntries(d *dockerConfig) (entries []jsonplace.Member) {
	for _, m := range d.root.Members {
		if isEntry(m.Value) && !strings.EqualFold(m.Key, "auths") {
			entries = append(entries, m)
		}
	}
	return entries
}

func checkLevel(d *dockerConfig) (rs []rules.Result) {
	if d.root == nil || d.legacy || len(checkFormat(d)) > 0 {
		return nil
	}
	for _, m := range d.root.Members {
		switch {
		case strings.EqualFold(m.Key, "auths"):
			for _, inner := range m.Members {
				if strings.EqualFold(inner.Key, "auths") && isEntryMap(inner.Value) {
					rs = rules.Append(rs, d.at(inner.Start, "auths.auths", "use only one auths", "auths is nested in auths: the kubelet treats the inner auths as a registry name and finds no credential")...)
				}
			}
			if isEntry(m.Value) {
				rs = rules.Append(rs, d.at(m.Start, "auths", `use {"auths": {"registry.example": {…}}}`, "auths contains a credential without a registry name, so the kubelet ignores it")...)
			}
		case isEntry(m.Value):
			rs = rules.Append(rs, d.at(m.Start, dockerjson.DisplayKey(m.Key), "move it into auths", "%s is a credential outside auths, so the kubelet ignores it", dockerjson.DisplayKey(m.Key))...)
		case isEntryMap(m.Value):
			rs = rules.Append(rs, d.at(m.Start, "", `rename it to "auths"`, "these credentials are under a name other than auths, so the kubelet ignores them")...)
		case slices.ContainsFunc(m.Members, func(inner jsonplace.Member) bool { return strings.EqualFold(inner.Key, "auths") }):
			rs = rules.Append(rs, d.at(m.Start, "", "move auths to the top level", "auths is one level too deep: the kubelet reads it only at the top level")...)
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
		if known("auths") || slices.ContainsFunc(dockerFields, known) || isEntry(m.Value) || isEntryMap(m.Value) {
			continue
		}
		rs = rules.Append(rs, d.at(m.Start, "", "", "unknown field, which kubelets and docker ignore")...)
	}
	return rs
}

func checkCase(d *dockerConfig) []rules.Result {
	if m := d.member("auths"); m != nil && m.Key != "auths" && !d.legacy {
		return d.at(m.Start, "auths", "auths", "kubelets and docker ignore the case of this field name, but other programs might not")
	}
	return nil
}

// checkHelper reports credentials that only docker finds, because only docker runs
// helpers.
func checkHelper(d *dockerConfig) (rs []rules.Result) {
	const fix = "configure a credential provider for these registries, or run docker login without credsStore and credHelpers"
	found := map[string]bool{}
	var without []string
	for i := range d.entries {
		switch e := &d.entries[i]; {
		case !e.isUsed():
		case e.user != "":
			found[dockerconfig.Scope(e.Key)] = true
		default:
			without = append(without, e.shown())
		}
	}
	if d.store != nil && (len(without) > 0 || len(d.entries) == 0) {
		rs = d.at(d.store.Start, "credsStore", fix, "kubelets do not run credential helpers: %s", missingCredentials(without))
	}
	var named []string
	for _, h := range d.helpers {
		if h.Text != "" && !found[dockerconfig.Scope(h.Key)] {
			named = append(named, dockerjson.DisplayKey(h.Key))
		}
	}
	if len(named) > 0 {
		rs = append(rs, d.at(d.member("credHelpers").Start, "credHelpers", fix, "kubelets do not run credential helpers: %s", missingCredentials(named))...)
	}
	return rs
}

// missingCredentials lists up to five registries that have no credential.
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
	for _, m := range d.emptied {
		rs = rules.Append(rs, d.at(m.Start, "auths", "remove it", "auths is also set above, and this null value discards all its credentials")...)
	}
	for i := range d.entries {
		e := &d.entries[i]
		if e.replaced {
			rs = rules.Append(rs, d.at(e.Start, e.path(), "remove it", "%s is repeated below: the last entry wins, and this credential is lost", e.shown())...)
		}
		seen := map[string]jsonplace.Member{}
		for _, f := range e.Members {
			name := fieldName(f.Key)
			if first, again := seen[name]; again && isEntry(&jsonplace.Value{Members: []jsonplace.Member{f}}) {
				rs = rules.Append(rs, d.at(first.Start, e.path()+"."+name, "remove it", "%s is repeated below, and the last value wins", name)...)
			}
			seen[name] = f
		}
	}
	return rs
}

// checkSameKey reports keys that the kubelet treats as equal.
func checkSameKey(d *dockerConfig) (rs []rules.Result) {
	first := map[string]*entry{}
	for i := range d.entries {
		e := &d.entries[i]
		if !e.isUsed() || !e.parses {
			continue
		}
		other := first[e.key.String()]
		if other == nil {
			first[e.key.String()] = e
			continue
		}
		if other.user != e.user || other.password != e.password {
			line, _ := d.lines.LineColumn(other.Start)
			rs = rules.Append(rs, d.at(e.Start, e.path(), "remove one of them", "the kubelet treats %s as the same key as %s on line %d, but their credentials differ: it tries both in random order", e.shown(), other.shown(), line)...)
		}
	}
	return rs
}

func checkEmpty(d *dockerConfig) []rules.Result {
	if d.root == nil || len(d.entries) > 0 || len(checkFormat(d)) > 0 || len(checkLevel(d)) > 0 || len(checkHelper(d)) > 0 {
		return nil
	}
	return d.at(d.root.Start, "", "", "the file has no credentials, so it has no effect on pulls")
}
