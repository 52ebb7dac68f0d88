// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
)

// Secret is a Kubernetes Secret, as an API server has it.
type Secret struct {
	Namespace, Name, Type string
	Data                  map[string][]byte
}

// The types of pull secrets, and the keys under which each has its file.
const (
	typeDockerConfigJSON = "kubernetes.io/dockerconfigjson"
	keyDockerConfigJSON  = ".dockerconfigjson"
	typeDockercfg        = "kubernetes.io/dockercfg"
	keyDockercfg         = ".dockercfg"
)

// PullSecret checks a Secret that pods name in imagePullSecrets. Lines and
// columns are those within the value.
func PullSecret(s Secret, now time.Time) *Credentials {
	name := strings.TrimPrefix(s.Namespace+"/"+s.Name, "/")
	w := &secret{kind: s.Type, now: now, live: true, asked: true, values: map[string]*datum{}, at: config.Position{File: "Secret " + name}}
	for key, data := range s.Data {
		w.values[key] = &datum{data: data, place: inFileNamed("Secret " + name + ", " + key)}
	}
	return checkSecrets([]*secret{w})
}

// secret is a Secret as it is written or was had.
type secret struct {
	kind   string // its type; "" is Opaque
	now    time.Time
	live   bool // an object, not a manifest
	asked  bool // it is meant as a pull secret
	values map[string]*datum
	at     config.Position // of the whole
	typeAt config.Position // of its type
}

// datum is one value of data or stringData.
type datum struct {
	data    []byte // decoded
	place   placer
	at      config.Position
	problem string // why it cannot be decoded
	text    bool   // it stands in stringData
	hides   bool   // a value of the same key in data
}

func secretRules() []rule[*secret] {
	return []rule[*secret]{
		{"secret-type", finding.SeverityError, ruleSecretType},
		{"secret-base64", finding.SeverityError, ruleSecretBase64},
		{"secret-twice", finding.SeverityWarning, ruleSecretTwice},
		{"secret-no-pull-secret", finding.SeverityInfo, ruleNoPullSecret},
	}
}

func checkSecrets(list []*secret) *Credentials {
	c := &Credentials{Kind: SecretFile, Secrets: len(list)}
	l := linter{config: &config.Config{}}
	for _, s := range list {
		apply(&l, secretRules(), s, nowhere)
		for key, v := range s.values {
			if v.problem != "" {
				c.Refused = c.Refused || key == s.key()
				continue
			}
			if key != keyDockerConfigJSON && key != keyDockercfg || len(v.data) == 0 {
				continue // kubelet: an empty one is passed over
			}
			d := &docker{data: v.data, legacy: key == keyDockercfg, now: s.now, live: s.live, place: v.place}
			d.check(&l)
			if key == s.key() {
				c.Logins += d.logins()
				c.Refused = c.Refused || len(d.problems) > 0
			}
		}
	}
	c.Findings = l.sorted()
	return c
}

// key is that of the value that a kubelet reads; "" if it reads none.
func (s *secret) key() string {
	return map[string]string{typeDockerConfigJSON: keyDockerConfigJSON, typeDockercfg: keyDockercfg}[s.kind]
}

// docker returns the key under which s has a docker config that no kubelet
// finds there, "" if there is none.
func (s *secret) astray() string {
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		v := s.values[key]
		if key == s.key() {
			continue
		}
		if key == keyDockerConfigJSON || key == keyDockercfg || v.problem == "" && looksLike(v.data) != "" {
			return key
		}
	}
	return ""
}

func ruleSecretType(s *secret) []remark {
	key, astray := s.key(), s.astray()
	v := s.values[key]
	switch {
	case key == "" && astray != "":
		kind := typeDockerConfigJSON
		if astray == keyDockercfg {
			kind = typeDockercfg
		}
		return inDocument(s.typeAt, fmt.Sprintf("recreate the Secret with type %s and key %s, because its type is immutable", kind, map[string]string{typeDockerConfigJSON: keyDockerConfigJSON, typeDockercfg: keyDockercfg}[kind]),
			"the Secret has a docker config under %s but has %s, so kubelets silently ignore it", ShowName(astray), s.shownType())
	case key == "" && s.asked:
		return inDocument(s.typeAt, "create one with kubectl create secret docker-registry", "the Secret has %s, so kubelets silently ignore it as a pull secret", s.shownType())
	case key == "" || v != nil && (len(v.data) > 0 || v.problem != ""):
		return nil
	case astray != "":
		return inDocument(s.typeAt, fmt.Sprintf("rename %s to %q if it contains a docker config", ShowName(astray), key), "the Secret is of type %s but has its data under %s: kubelets read only %q, and the API server rejects the Secret", s.kind, ShowName(astray), key)
	}
	return inDocument(s.at, "", "the Secret is of type %s but has no value under %q: kubelets ignore it, and the API server rejects it", s.kind, key)
}

// shownType is the type as a message shows it.
func (s *secret) shownType() string { return ShowType(s.kind) }

// ShowType is the type of a Secret as a message shows it: if it looks like one.
func ShowType(kind string) string {
	lower := strings.ToLower(kind)
	domain, _, ok := strings.Cut(lower, "/")
	switch {
	case kind == "":
		return "type Opaque"
	case len(kind) >= 100 || strings.Trim(lower, "abcdefghijklmnopqrstuvwxyz0123456789./-") != "":
	case ok && strings.Contains(domain, "."), strings.Contains(lower, "docker"), lower == "opaque":
		return "type " + kind
	}
	return "another type"
}

func ruleSecretBase64(s *secret) (rs []remark) {
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		if v := s.values[key]; v.problem != "" {
			fix := "encode it with base64 -w0, or move it to stringData"
			if v.problem == unfilled {
				fix = "check the output of helm template"
			}
			rs = and(rs, inDocument(v.at, fix, "%s, so the API server rejects the Secret", v.problem)...)
		}
	}
	return rs
}

func ruleSecretTwice(s *secret) (rs []remark) {
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		if v := s.values[key]; v.hides && (key == keyDockerConfigJSON || key == keyDockercfg) {
			rs = and(rs, inDocument(v.at, "remove one of them", "the key is set in both data and stringData, and stringData takes precedence")...)
		}
	}
	return rs
}

func ruleNoPullSecret(s *secret) []remark {
	if s.key() != "" || s.astray() != "" || s.asked {
		return nil
	}
	return inDocument(s.typeAt, "", "the Secret has %s and no docker config, so it is not a pull secret", s.shownType())
}
