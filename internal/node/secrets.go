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

// SecretValues returns values that must not appear in output. They belong to environment
// variables, flags, and k3s or rke2 settings that have names such as "token".
func (r *Reader) SecretValues(ctx context.Context) (values []string) {
	rd := r.newReader(ctx)
	s := r.kubeletService(rd)
	for name, v := range s.vars {
		if isSecretName(name) {
			values = append(values, v.value)
		}
	}
	values = append(values, secretFlagValues(wordTexts(rd.nextCommandWords(s)))...)
	if s.kind.isRancher() {
		for _, file := range rd.rancherFiles(s) {
			values = append(values, rd.secretYAMLValues(file)...)
		}
	}
	plain := func(v string) bool { return v == "" || v == "true" || v == "false" || path.IsAbs(v) }
	return slices.DeleteFunc(values, plain)
}

// secretYAMLValues returns the secret values of a k3s or rke2 configuration file, including
// flags in lists.
func (r *fileReader) secretYAMLValues(file string) (values []string) {
	var raw map[string]any
	if yaml.Unmarshal([]byte(r.readFile(file)), &raw) != nil {
		return nil
	}
	for key, v := range raw {
		if isSecretName(key) {
			values = append(values, fmt.Sprint(v))
		}
		if list, ok := v.([]any); ok {
			for _, arg := range list {
				values = append(values, secretFlagValues([]string{"--" + strings.TrimLeft(fmt.Sprint(arg), "-")})...)
			}
		}
	}
	return values
}

// secretFlagValues returns the values of flags that have secret names.
func secretFlagValues(words []string) (values []string) {
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
	secretNamePattern = regexp.MustCompile(`(?i)token|passw|secret|credential|api[-_]?key`)
	publicNamePattern = regexp.MustCompile(`(?i)[-_](file|path|dir|config)$|-ttl|webhook`)
)

// isSecretName reports whether the value of a setting is secret, based on the setting's name.
// Paths of secret files are not secret.
func isSecretName(name string) bool {
	return secretNamePattern.MatchString(name) && !publicNamePattern.MatchString(name)
}
