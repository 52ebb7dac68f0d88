// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/plugin"
)

// command returns the command for a provider's plugin. All subcommands use it.
func (a *app) command(cfg *config.Config, provider int, o *node.Origin) plugin.Command {
	c := cfg.Command(provider, o.BinDir)
	c.Environ, c.Dir, c.Timeout = o.Environ, o.Dir, a.timeout
	return c
}

// selectAnnotations returns the annotations that the configuration lists.
func (a *app) selectAnnotations(t *config.TokenAttributes, token plugin.Secret, given map[string]string) map[string]string {
	selected := map[string]string{}
	required := t.RequiredServiceAccountAnnotationKeys
	for i, key := range slices.Concat(required, t.OptionalServiceAccountAnnotationKeys) {
		if value, ok := given[key]; ok {
			selected[key] = value
		} else if i < len(required) && !token.IsZero() {
			a.Note("the kubelet would not run this provider without the annotation %s: use --annotation %s=…", key, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if _, ok := selected[key]; !ok {
			a.Note("annotation %s is not sent to the plugin, because the configuration does not list it", key)
		}
	}
	return selected
}

// hostOf returns the name of the program that runs a provider's plugin.
func hostOf(p *config.Provider) string {
	if p.APIVersion == plugin.OutOfTree {
		return "regcred"
	}
	return "the kubelet"
}

func hidden(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprintf("%d (values not shown)", n)
}
