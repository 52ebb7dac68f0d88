// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"strings"

	"sigs.k8s.io/yaml"
)

// hiddenValue replaces a value that may be a secret.
const hiddenValue = "(hidden)"

// hideArgs hides arguments except the names of flags.
func hideArgs(args []string) (list []string) {
	for _, a := range args {
		name, _, valued := strings.Cut(a, "=")
		switch {
		case !strings.HasPrefix(a, "--"):
			a = hiddenValue
		case valued:
			a = name + "=" + hiddenValue
		}
		list = append(list, a)
	}
	return list
}

// hideValues hides the values of args and env in a configuration, and drops comments.
func hideValues(data []byte) []byte {
	var doc map[string]any
	if yaml.Unmarshal(data, &doc) != nil {
		return []byte("# " + hiddenValue + "\n")
	}
	providers, _ := doc["providers"].([]any)
	for _, p := range providers {
		p, _ := p.(map[string]any)
		if args, ok := p["args"].([]any); ok {
			p["args"] = hideArgs(texts(args))
		}
		env, _ := p["env"].([]any)
		for _, e := range env {
			if e, ok := e.(map[string]any); ok {
				e["value"] = hiddenValue
			}
		}
	}
	text, err := yaml.Marshal(doc)
	if err != nil {
		return []byte("# " + hiddenValue + "\n")
	}
	return text
}

// texts returns the strings of a list, "" for other values.
func texts(list []any) (t []string) {
	for _, v := range list {
		s, _ := v.(string)
		t = append(t, s)
	}
	return t
}
