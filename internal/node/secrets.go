// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Secrets returns values of the kubelet's next start that must not appear in output:
// values of variables, flags and k3s or rke2 settings with names such as "token".
func (r *Reading) Secrets(ctx context.Context) (values []string) {
	rd := r.reader(ctx)
	s := r.kubeletService(rd)
	for name, v := range s.vars {
		if isSecretName(name) {
			values = append(values, v.value)
		}
	}
	values = append(values, secretFlags(texts(rd.command(s)))...)
	if s.kind.isRancher() {
		for _, file := range rd.rancherFiles(s) {
			values = append(values, rd.secretKeys(file)...)
		}
	}
	plain := func(v string) bool { return v == "" || v == "true" || v == "false" || path.IsAbs(v) }
	return slices.DeleteFunc(values, plain)
}

// secretKeys returns the secret values of a YAML mapping.
func (r *reader) secretKeys(file string) (values []string) {
	var raw map[string]any
	if yaml.Unmarshal([]byte(r.file(file)), &raw) != nil {
		return nil
	}
	for key, v := range raw {
		if isSecretName(key) {
			values = append(values, fmt.Sprint(v))
		}
		if list, ok := v.([]any); ok {
			for _, arg := range list {
				values = append(values, secretFlags([]string{"--" + strings.TrimLeft(fmt.Sprint(arg), "-")})...)
			}
		}
	}
	return values
}

// secretFlags returns the secret values of flags.
func secretFlags(words []string) (values []string) {
	for i, w := range words {
		name, value, inline := strings.Cut(w, "=")
		switch {
		case !strings.HasPrefix(name, "-") || !isSecretName(name):
		case inline:
			values = append(values, value)
		case i+1 < len(words):
			values = append(values, words[i+1])
		}
	}
	return values
}

var (
	secretName = regexp.MustCompile(`(?i)token|passw|secret|credential|api[-_]?key`)
	publicName = regexp.MustCompile(`(?i)[-_](file|path|dir|config)$|-ttl|webhook`)
)

// isSecretName reports whether the value of a setting is secret. A path is not.
func isSecretName(name string) bool {
	return secretName.MatchString(name) && !publicName.MatchString(name)
}
