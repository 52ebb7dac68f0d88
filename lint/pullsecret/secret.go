// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/dockerjson"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/lint/internal/rules"
)

// Secret is a Kubernetes Secret from an API server.
type Secret struct {
	Namespace, Name, Type string
	Data                  map[string][]byte
}

var dockerConfigKeys = map[string]string{dockerjson.SecretTypeConfigJSON: dockerjson.SecretKeyConfigJSON, dockerjson.SecretTypeDockercfg: dockerjson.SecretKeyDockercfg}

// CheckSecret checks a Secret that is listed in a pod's imagePullSecrets. Lines and
// columns of findings refer to the decoded value.
func CheckSecret(s Secret, now time.Time) *Result {
	name := strings.TrimPrefix(s.Namespace+"/"+s.Name, "/")
	at := config.Position{File: "Secret " + name}
	w := &secret{kind: s.Type, now: now, fromAPIServer: true, referenced: true, values: map[string]*secretValue{}, position: at, typePosition: at}
	for key, data := range s.Data {
		w.values[key] = &secretValue{data: data, locate: fileLocator("Secret " + name + ", " + key)}
	}
	return checkSecrets([]*secret{w})
}

type secret struct {
	kind          string // the Secret's type; "" means Opaque
	now           time.Time
	fromAPIServer bool // read from an API server, not from a file
	referenced    bool // a pod uses it as a pull secret
	values        map[string]*secretValue
	position      config.Position
	typePosition  config.Position
}

type secretValue struct {
	data          []byte // decoded value
	locate        positionMapper
	position      config.Position
	problem       string // why the value cannot be decoded
	overridesData bool   // the value is in stringData, and data has the same key
}

func secretRules() []rules.Rule[*secret] {
	return []rules.Rule[*secret]{
		rules.ErrorRule("secret-type", checkSecretType),
		rules.ErrorRule("secret-invalid", checkBase64),
		rules.WarningRule("docker-duplicate", checkDuplicateValue),
		rules.InfoRule("no-credentials", checkNotPullSecret),
	}
}

func checkSecrets(list []*secret) *Result {
	r := &Result{Kind: Manifest, Secrets: len(list)}
	var found rules.Collector
	for _, s := range list {
		rules.Apply(&found, secretRules(), s, nil)
		for key, v := range s.values {
			if v.problem != "" {
				r.Rejected = r.Rejected || key == s.dockerConfigKey()
				continue
			}
			if key != dockerjson.SecretKeyConfigJSON && key != dockerjson.SecretKeyDockercfg || len(v.data) == 0 {
				continue // the kubelet ignores an empty value
			}
			c := &dockerConfig{data: v.data, legacy: key == dockerjson.SecretKeyDockercfg, now: s.now, fromAPIServer: s.fromAPIServer, locate: v.locate}
			c.checkEntries(&found)
			if key == s.dockerConfigKey() {
				r.Credentials += c.countCredentials()
				r.Rejected = r.Rejected || len(c.problems) > 0
				r.Unchecked = cmp.Or(r.Unchecked, c.limit)
			}
		}
	}
	r.Findings = found.SortedFindings()
	return r
}

// dockerConfigKey returns the data key that the kubelet reads for the Secret's type. It returns ""
// if the Secret is not a pull secret.
func (s *secret) dockerConfigKey() string { return dockerConfigKeys[s.kind] }

// misplacedKey returns a data key with a docker config that the kubelet does not read, or "" if
// there is none.
func (s *secret) misplacedKey() string {
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		v, isDocker := s.values[key], key == dockerjson.SecretKeyConfigJSON || key == dockerjson.SecretKeyDockercfg
		if key != s.dockerConfigKey() && (isDocker || v.problem == "" && guessKind(v.data) != "") {
			return key
		}
	}
	return ""
}

func checkSecretType(s *secret) []rules.Result {
	key, misplaced := s.dockerConfigKey(), s.misplacedKey()
	v := s.values[key]
	switch {
	case key == "" && misplaced != "":
		kind := dockerjson.SecretTypeConfigJSON
		if misplaced == dockerjson.SecretKeyDockercfg {
			kind = dockerjson.SecretTypeDockercfg
		}
		return rules.NewPositionResult(s.typePosition, fmt.Sprintf("recreate the Secret with type %s and key %s, because its type is immutable", kind, dockerConfigKeys[kind]),
			"the Secret has a docker config under %s but has %s, so kubelets silently ignore it", excerpt.QuoteSecretKey(misplaced), excerpt.DescribeSecretType(s.kind))
	case key == "" && s.referenced:
		return rules.NewPositionResult(s.typePosition, "create one with kubectl create secret docker-registry", "the Secret has %s, so kubelets silently ignore it as a pull secret", excerpt.DescribeSecretType(s.kind))
	case key == "" || v != nil && (len(v.data) > 0 || v.problem != ""):
		return nil
	case misplaced != "":
		return rules.NewPositionResult(s.typePosition, fmt.Sprintf("rename %s to %q if it contains a docker config", excerpt.QuoteSecretKey(misplaced), key), "the Secret is of type %s but has its data under %s: kubelets read only %q, and the API server rejects the Secret", s.kind, excerpt.QuoteSecretKey(misplaced), key)
	}
	return rules.NewPositionResult(s.position, "", "the Secret is of type %s but has no value under %q: kubelets ignore it, and the API server rejects it", s.kind, key)
}

func checkBase64(s *secret) (rs []rules.Result) {
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		if v := s.values[key]; v.problem != "" {
			fix := "encode it with base64 -w0, or move it to stringData"
			if v.problem == unrenderedTemplate {
				fix = "check the output of helm template"
			}
			rs = append(rs, rules.NewPositionResult(v.position, fix, "%s, so the API server rejects the Secret", v.problem)...)
		}
	}
	return rs
}

func checkDuplicateValue(s *secret) (rs []rules.Result) {
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		if v := s.values[key]; v.overridesData && (key == dockerjson.SecretKeyConfigJSON || key == dockerjson.SecretKeyDockercfg) {
			rs = append(rs, rules.NewPositionResult(v.position, "remove one of them", "the key is set in both data and stringData, and stringData takes precedence")...)
		}
	}
	return rs
}

func checkNotPullSecret(s *secret) []rules.Result {
	return rules.ResultIf(s.dockerConfigKey() == "" && s.misplacedKey() == "" && !s.referenced,
		rules.NewPositionResult(s.typePosition, "", "the Secret has %s and no docker config, so it is not a pull secret", excerpt.DescribeSecretType(s.kind)))
}
