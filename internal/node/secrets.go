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

// Secrets are the values that the kubelet's next start is given by names that say
// that they are secret: in its environment, its flags, and the configuration of k3s
// and rke2. They are to be kept out of what is shown of its log.
func (n Node) Secrets(ctx context.Context) (values []string) {
	r := newReading(ctx, n)
	found := r.find()
	for name, v := range found.vars {
		if secretName(name) {
			values = append(values, v.value)
		}
	}
	values = append(values, secretFlags(texts(r.command(found)))...)
	if found.program == "k3s" || found.program == "rke2" {
		for _, file := range r.rancherFiles(found) {
			values = append(values, r.secretKeys(file)...)
		}
	}
	plain := func(v string) bool { return v == "" || v == "true" || v == "false" || path.IsAbs(v) }
	return slices.DeleteFunc(values, plain)
}

// secretKeys are the values of a YAML mapping whose keys say that they are secret.
func (r *reading) secretKeys(file string) (values []string) {
	var raw map[string]any
	if yaml.Unmarshal([]byte(r.file(file)), &raw) != nil {
		return nil
	}
	for key, v := range raw {
		if secretName(key) {
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

// secretFlags are the values of flags whose names say that they are secret.
func secretFlags(words []string) (values []string) {
	for i, w := range words {
		name, value, inline := strings.Cut(w, "=")
		switch {
		case !strings.HasPrefix(name, "-") || !secretName(name):
		case inline:
			values = append(values, value)
		case i+1 < len(words):
			values = append(values, words[i+1])
		}
	}
	return values
}

// secretName reports whether a name says that its value is secret; that of a file is
// none.
func secretName(name string) bool {
	return regexp.MustCompile(`(?i)token|passw|secret|credential|api[-_]?key`).MatchString(name) && !regexp.MustCompile(`(?i)[-_](file|path|dir|config)$|-ttl|webhook`).MatchString(name)
}
