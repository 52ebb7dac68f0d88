// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"slices"
	"strings"
	"unicode"
)

func (v *validator) checkExtraArgs(i int, p *Provider) {
	if f, index := v.c.fileOfProvider(i); f != nil && slices.Equal(f.argKeys[index], []string{"name", "value"}) {
		v.addError(i, "", "looks like a list item: put a dash before the first field", "env")
		return
	}
	first := make(map[string]int, len(p.Env))
	for k, e := range p.Env {
		if v.errors.isFull() {
			return
		}
		msg := variableProblem(e.Name)
		if v.wasYAMLBoolean(i, k) {
			msg = "must be quoted, because YAML parses yes, no, on and off as booleans"
		}
		if j, twice := first[e.Name]; twice && msg == "" {
			msg = "sets the same variable as " + v.c.position(i, "env", j, "name").String() + ", because names are converted to upper case: remove one of them"
		}
		if msg != "" {
			v.addError(i, "", msg, "env", k, "name")
			continue
		}
		first[e.Name] = k
		if strings.Contains(e.Value.Reveal(), "\x00") {
			v.addError(i, "", "contains a NUL byte, which is not allowed in an environment variable", "env", k, "value")
		}
	}
}

// wasYAMLBoolean reports whether the name of extra argument k was parsed as a YAML boolean,
// such as yes.
func (v *validator) wasYAMLBoolean(i, k int) bool {
	f, index := v.c.fileOfProvider(i)
	if f == nil || f.argKeys[index] == nil || k >= len(f.argKeys[index]) {
		return false
	}
	name := f.argKeys[index][k]
	return (name == "true" || name == "false") && !v.c.hasField(i, "extraArgs", name)
}

// variableProblem returns why an environment variable name is invalid, or "". It uses the rules
// for containers (IsEnvVarName in k8s.io/apimachinery).
func variableProblem(name string) string {
	const msg = "cannot be used as an environment variable name: "
	switch {
	case name == "":
		return msg + "it is empty"
	case strings.Contains(name, "="):
		return msg + "it contains =; move the text after the = to the value"
	case strings.Contains(name, "\x00"):
		return msg + "it contains a NUL"
	case strings.ContainsFunc(name, unicode.IsSpace):
		return msg + "it contains white space"
	case '0' <= name[0] && name[0] <= '9':
		return msg + "it begins with a digit"
	case strings.Trim(name, variableNameChars) != "":
		return msg + `it can contain only letters, digits, "_", "-" and "."`
	}
	return ""
}
