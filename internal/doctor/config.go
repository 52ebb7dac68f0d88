// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"slices"

	"github.com/regcred/regcred/config"
)

// Names lists the providers of a configuration, which are the names of their
// executables too.
func Names(cfg *config.Config) []string {
	var list []string
	for _, p := range cfg.Providers {
		list = append(list, p.Name)
	}
	return list
}

// Audiences lists the audience of each provider with tokenAttributes once, in
// the order of the configuration.
func Audiences(cfg *config.Config) []string {
	var list []string
	for _, p := range cfg.Providers {
		if t := p.TokenAttributes; t != nil && !slices.Contains(list, t.ServiceAccountTokenAudience) {
			list = append(list, t.ServiceAccountTokenAudience)
		}
	}
	return list
}
