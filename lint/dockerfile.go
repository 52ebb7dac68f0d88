// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/jsonplace"
)

// dockerRules are the rules for a docker config as a whole.
func dockerRules() []rule[*docker] {
	return []rule[*docker]{
		{"docker-config-syntax", finding.SeverityError, ruleDockerSyntax},
		{"docker-config-type", finding.SeverityError, ruleDockerType},
		{"docker-config-encoded", finding.SeverityError, ruleDockerEncoded},
		{"docker-auth", finding.SeverityError, ruleDockerAuth},
		{"docker-config-form", finding.SeverityError, ruleDockerForm},
		{"docker-config-level", finding.SeverityError, ruleDockerLevel},
		{"docker-config-field", finding.SeverityInfo, ruleDockerField},
		{"docker-config-case", finding.SeverityInfo, ruleDockerCase},
		{"docker-helper-ignored", finding.SeverityWarning, ruleDockerHelperIgnored},
		{"docker-duplicate", finding.SeverityWarning, ruleDockerDuplicate},
		{"docker-same-key", finding.SeverityWarning, ruleDockerSameKey},
		{"docker-config-empty", finding.SeverityInfo, ruleDockerEmpty},
	}
}

// refusal says what follows from a problem.
const refusal = "; the kubelet ignores the whole file, and pulls that use it as a pull secret fail"

func (d *docker) problemsOf(kind dockerconfig.ProblemKind) (rs []remark) {
	for _, p := range d.problems {
		if p.Kind == kind {
			rs = and(rs, d.atLine(p.Line, p.Column, p.Path, p.Fix, "%s%s", p.Msg, refusal)...)
		}
	}
	return rs
}

func ruleDockerSyntax(d *docker) []remark {
	if dockerconfig.Encoded(d.data) {
		return nil
	}
	return append(d.problemsOf(dockerconfig.ProblemSyntax), d.problemsOf("")...)
}

func ruleDockerType(d *docker) []remark {
	if len(ruleDockerForm(d)) > 0 {
		return nil
	}
	return d.problemsOf(dockerconfig.ProblemType)
}

func ruleDockerEncoded(d *docker) []remark {
	if !dockerconfig.Encoded(d.data) {
		return nil
	}
	return d.problemsOf(dockerconfig.ProblemSyntax)
}

func ruleDockerAuth(d *docker) []remark { return d.problemsOf(dockerconfig.ProblemAuth) }

func ruleDockerForm(d *docker) []remark {
	auths := d.member("auths")
	switch {
	case d.root == nil:
		return nil
	case d.legacy && auths != nil && !isLogin(auths.Value):
		return d.at(auths.Start, "auths", "save it as config.json, or in a Secret of type kubernetes.io/dockerconfigjson under the key .dockerconfigjson",
			"this .dockercfg is in the config.json format: the kubelet treats auths as a registry name and finds no credential")
	case !d.legacy && auths == nil && d.store == nil && d.helpers == nil && len(strayLogins(d)) > 0 && len(strayLogins(d)) == len(d.root.Members):
		return d.at(d.root.Start, "", `wrap it in {"auths": …}, or use a Secret of type kubernetes.io/dockercfg`,
			"this config.json is in the .dockercfg format: the kubelet reads credentials only from auths and finds none")
	}
	return nil
}

// strayLogins are the members of the document that belong into auths.
func strayLogins(d *docker) (stray []jsonplace.Member) {
	for _, m := range d.root.Members {
		if isLogin(m.Value) && !strings.EqualFold(m.Key, "auths") {
			stray = append(stray, m)
		}
	}
	return stray
}

func ruleDockerLevel(d *docker) (rs []remark) {
	if d.root == nil || d.legacy || len(ruleDockerForm(d)) > 0 {
		return nil
	}
	for _, m := range d.root.Members {
		switch {
		case strings.EqualFold(m.Key, "auths"):
			for _, inner := range m.Members {
				if strings.EqualFold(inner.Key, "auths") && isLoginList(inner.Value) {
					rs = and(rs, d.at(inner.Start, "auths.auths", "use only one auths", "auths is nested in auths: the kubelet treats the inner auths as a registry name and finds no credential")...)
				}
			}
			if isLogin(m.Value) {
				rs = and(rs, d.at(m.Start, "auths", `use {"auths": {"registry.example": {…}}}`, "auths contains a credential without a registry name, so the kubelet ignores it")...)
			}
		case isLogin(m.Value):
			rs = and(rs, d.at(m.Start, dockerconfig.ShowKey(m.Key), "move it into auths", "%s is a credential outside auths, so the kubelet ignores it", dockerconfig.ShowKey(m.Key))...)
		case isLoginList(m.Value):
			rs = and(rs, d.at(m.Start, "", `rename it to "auths"`, "these credentials are under a name other than auths, so the kubelet ignores them")...)
		case slices.ContainsFunc(m.Members, func(inner jsonplace.Member) bool { return strings.EqualFold(inner.Key, "auths") }):
			rs = and(rs, d.at(m.Start, "", "move auths to the top level", "auths is one level too deep: the kubelet reads it only at the top level")...)
		}
	}
	return rs
}

// dockerFields are the fields of config.json that docker and podman know,
// beside auths.
var dockerFields = []string{
	"credsStore", "credHelpers", "HttpHeaders", "psFormat", "imagesFormat", "networksFormat", "pluginsFormat", "volumesFormat",
	"statsFormat", "detachKeys", "serviceInspectFormat", "servicesFormat", "tasksFormat", "secretFormat", "configFormat",
	"nodesFormat", "pruneFilters", "proxies", "experimental", "stackOrchestrator", "kubernetes", "currentContext",
	"cliPluginsExtraDirs", "plugins", "aliases", "features", "configPath", "filename",
}

func ruleDockerField(d *docker) (rs []remark) {
	if d.root == nil || d.legacy || len(ruleDockerForm(d)) > 0 {
		return nil
	}
	for _, m := range d.root.Members {
		known := func(name string) bool { return strings.EqualFold(name, m.Key) }
		if known("auths") || slices.ContainsFunc(dockerFields, known) || isLogin(m.Value) || isLoginList(m.Value) {
			continue
		}
		rs = and(rs, d.at(m.Start, "", "", "unknown field, which kubelets and docker ignore")...)
	}
	return rs
}

func ruleDockerCase(d *docker) []remark {
	if m := d.member("auths"); m != nil && m.Key != "auths" && !d.legacy {
		return d.at(m.Start, "auths", "auths", "kubelets and docker ignore the case of this field name, but other programs might not")
	}
	return nil
}

// ruleDockerHelperIgnored is about logins that only docker finds.
func ruleDockerHelperIgnored(d *docker) (rs []remark) {
	const cure = "configure a credential provider for these registries, or run docker login without credsStore and credHelpers"
	here := map[string]bool{}
	var without []string
	for i := range d.entries {
		switch e := &d.entries[i]; {
		case !e.counts():
		case e.user != "":
			here[dockerconfig.Scope(e.Key)] = true
		default:
			without = append(without, e.shown())
		}
	}
	if d.store != nil && (len(without) > 0 || len(d.entries) == 0) {
		rs = d.at(d.store.Start, "credsStore", cure, "kubelets do not run credential helpers: %s", noLogin(without))
	}
	var named []string
	for _, h := range d.helpers {
		if h.Text != "" && !here[dockerconfig.Scope(h.Key)] {
			named = append(named, dockerconfig.ShowKey(h.Key))
		}
	}
	if len(named) > 0 {
		rs = append(rs, d.at(d.member("credHelpers").Start, "credHelpers", cure, "kubelets do not run credential helpers: %s", noLogin(named))...)
	}
	return rs
}

// noLogin names the registries for which there is no login, a few of them.
func noLogin(keys []string) string {
	const most = 5
	switch {
	case len(keys) == 0:
		return "this file has no credentials"
	case len(keys) > most:
		keys = append(slices.Clone(keys[:most]), fmt.Sprintf("%d more", len(keys)-most))
	}
	return "this file has no credential for " + strings.Join(keys, ", ")
}

func ruleDockerDuplicate(d *docker) (rs []remark) {
	for _, m := range d.emptied {
		rs = and(rs, d.at(m.Start, "auths", "remove it", "auths is also set above, and this null value discards all its credentials")...)
	}
	for i := range d.entries {
		e := &d.entries[i]
		if e.replaced {
			rs = and(rs, d.at(e.Start, e.path(), "remove it", "%s is repeated below: the last entry wins, and this credential is lost", e.shown())...)
		}
		seen := map[string]jsonplace.Member{}
		for _, f := range e.Members {
			name := fieldName(f.Key)
			if first, again := seen[name]; again && isLogin(&jsonplace.Value{Members: []jsonplace.Member{f}}) {
				rs = and(rs, d.at(first.Start, e.path()+"."+name, "remove it", "%s is repeated below, and the last value wins", name)...)
			}
			seen[name] = f
		}
	}
	return rs
}

// ruleDockerSameKey is about keys that are one to a kubelet.
func ruleDockerSameKey(d *docker) (rs []remark) {
	first := map[string]*dockerEntry{}
	for i := range d.entries {
		e := &d.entries[i]
		if !e.counts() || !e.parses {
			continue
		}
		other := first[e.key.String()]
		if other == nil {
			first[e.key.String()] = e
			continue
		}
		if other.user != e.user || other.password != e.password {
			line, _ := d.lines.At(other.Start)
			rs = and(rs, d.at(e.Start, e.path(), "remove one of them", "the kubelet treats %s as the same key as %s on line %d, but their credentials differ: it tries both in random order", e.shown(), other.shown(), line)...)
		}
	}
	return rs
}

func ruleDockerEmpty(d *docker) []remark {
	if d.root == nil || len(d.entries) > 0 || len(ruleDockerForm(d)) > 0 || len(ruleDockerLevel(d)) > 0 || len(ruleDockerHelperIgnored(d)) > 0 {
		return nil
	}
	return d.at(d.root.Start, "", "", "the file has no credentials, so it has no effect on pulls")
}
