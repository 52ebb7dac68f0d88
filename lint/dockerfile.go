// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/internal/jsonplace"
)

// dockerRules are the rules for a docker config as a whole.
func dockerRules() []rule[*docker] {
	return []rule[*docker]{
		{"docker-config-syntax", SeverityError, ruleDockerSyntax},
		{"docker-config-type", SeverityError, ruleDockerType},
		{"docker-config-encoded", SeverityError, ruleDockerEncoded},
		{"docker-auth", SeverityError, ruleDockerAuth},
		{"docker-config-form", SeverityError, ruleDockerForm},
		{"docker-config-level", SeverityError, ruleDockerLevel},
		{"docker-config-field", SeverityInfo, ruleDockerField},
		{"docker-config-case", SeverityInfo, ruleDockerCase},
		{"docker-helper-ignored", SeverityWarning, ruleDockerHelperIgnored},
		{"docker-duplicate", SeverityWarning, ruleDockerDuplicate},
		{"docker-same-key", SeverityWarning, ruleDockerSameKey},
		{"docker-config-empty", SeverityInfo, ruleDockerEmpty},
	}
}

// refusal says what follows from a problem.
const refusal = "; a kubelet reads nothing of it, and a pull with it as a pull secret fails"

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
		return d.at(auths.Start, "auths", "save it as config.json; in a Secret, of type kubernetes.io/dockerconfigjson under .dockerconfigjson",
			"this is a config.json, where a .dockercfg belongs: a kubelet takes auths for the name of a registry, and finds no login")
	case !d.legacy && auths == nil && d.store == nil && d.helpers == nil && len(strayLogins(d)) > 0 && len(strayLogins(d)) == len(d.root.Members):
		return d.at(d.root.Start, "", `put it into {"auths": …}; a Secret of type kubernetes.io/dockercfg has it as it is under .dockercfg`,
			"this is a .dockercfg, where a config.json belongs: a kubelet looks for logins in auths alone, and finds none")
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
					rs = and(rs, d.at(inner.Start, "auths.auths", "write auths once", "auths stands in auths: a kubelet takes the inner one for the name of a registry, and finds no login")...)
				}
			}
			if isLogin(m.Value) {
				rs = and(rs, d.at(m.Start, "auths", `write {"auths": {"registry.example": {…}}}`, "auths holds a login itself: the registry that it is for is missing")...)
			}
		case isLogin(m.Value):
			rs = and(rs, d.at(m.Start, dockerconfig.ShowKey(m.Key), "put it into auths", "%s is a credential outside auths, where the kubelet does not look", dockerconfig.ShowKey(m.Key))...)
		case isLoginList(m.Value):
			rs = and(rs, d.at(m.Start, "", `write "auths"`, "here are logins under a name that is not auths, where no kubelet looks")...)
		case slices.ContainsFunc(m.Members, func(inner jsonplace.Member) bool { return strings.EqualFold(inner.Key, "auths") }):
			rs = and(rs, d.at(m.Start, "", "move auths to the top", "auths stands one level too low: a kubelet looks for it at the top alone")...)
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
		rs = and(rs, d.at(m.Start, "", "", "a field that neither a kubelet nor docker knows")...)
	}
	return rs
}

func ruleDockerCase(d *docker) []remark {
	if m := d.member("auths"); m != nil && m.Key != "auths" && !d.legacy {
		return d.at(m.Start, "auths", "auths", "kubelets and docker read it in any case; programs that are not written in Go do not")
	}
	return nil
}

// ruleDockerHelperIgnored is about logins that only docker finds.
func ruleDockerHelperIgnored(d *docker) (rs []remark) {
	const cure = "for the node, configure a credential provider for these registries; for a pull secret, log in with a config.json that has neither credsStore nor credHelpers"
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
		rs = d.at(d.store.Start, "credsStore", cure, "kubelets run no credential helper: %s", noLogin(without))
	}
	var named []string
	for _, h := range d.helpers {
		if h.Text != "" && !here[dockerconfig.Scope(h.Key)] {
			named = append(named, dockerconfig.ShowKey(h.Key))
		}
	}
	if len(named) > 0 {
		rs = append(rs, d.at(d.member("credHelpers").Start, "credHelpers", cure, "kubelets run no credential helper: %s", noLogin(named))...)
	}
	return rs
}

// noLogin names the registries for which there is no login, a few of them.
func noLogin(keys []string) string {
	const most = 5
	switch {
	case len(keys) == 0:
		return "for no registry does this file have a login"
	case len(keys) > most:
		keys = append(slices.Clone(keys[:most]), fmt.Sprintf("%d more", len(keys)-most))
	}
	return "this file has no login for " + strings.Join(keys, ", ")
}

func ruleDockerDuplicate(d *docker) (rs []remark) {
	for _, m := range d.emptied {
		rs = and(rs, d.at(m.Start, "auths", "remove it", "auths stands above too, and this null takes back all of its logins")...)
	}
	for i := range d.entries {
		e := &d.entries[i]
		if e.replaced {
			rs = and(rs, d.at(e.Start, e.path(), "remove it", "%s follows again below: of two members of one name the last one counts, and this login is lost", e.shown())...)
		}
		seen := map[string]jsonplace.Member{}
		for _, f := range e.Members {
			name := fieldName(f.Key)
			if first, again := seen[name]; again && isLogin(&jsonplace.Value{Members: []jsonplace.Member{f}}) {
				rs = and(rs, d.at(first.Start, e.path()+"."+name, "remove it", "%s follows again below, which counts", name)...)
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
			rs = and(rs, d.at(e.Start, e.path(), "keep one of them", "%s is the same to a kubelet as %s on line %d, with another login: it tries both, in an order that changes from one start to the next", e.shown(), other.shown(), line)...)
		}
	}
	return rs
}

func ruleDockerEmpty(d *docker) []remark {
	if d.root == nil || len(d.entries) > 0 || len(ruleDockerForm(d)) > 0 || len(ruleDockerLevel(d)) > 0 || len(ruleDockerHelperIgnored(d)) > 0 {
		return nil
	}
	return d.at(d.root.Start, "", "", "it holds no login: pulls with it are as those without")
}
