// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registry_test

import (
	"testing"

	"github.com/regcred/regcred/internal/registry"
)

func TestCloudOfPlugin(t *testing.T) {
	for name, want := range map[string]string{
		"ecr-credential-provider": registry.Amazon, "ecr-credential-provider-2": registry.Amazon, "ecr-credential-provider.exe": registry.Amazon,
		"auth-provider-gcp": registry.Google, "gcr-credential-provider": registry.Google,
		"acr-credential-provider": registry.Azure, "azure-acr-credential-provider": registry.Azure,
		"ecr-credential-providers": "", "my-ecr-credential-provider": "", "token-credential-provider": "", "": "",
	} {
		got := ""
		if p := registry.CloudOfPlugin(name); p != nil {
			got = p.Name
		}
		if got != want {
			t.Errorf("%q is the plugin of %q, want %q", name, got, want)
		}
	}
}

func TestPatternScope(t *testing.T) {
	for plugin, patterns := range map[string]map[string]registry.PatternScope{
		"ecr-credential-provider": {
			"*.dkr.ecr.*.amazonaws.com": registry.ScopeOwn, "111122223333.dkr.ecr.us-*.amazonaws.com/team": registry.ScopeOwn,
			"*.dkr-ecr-fips.*.on.aws": registry.ScopeOwn, "public.ecr.aws": registry.ScopeOwn, "PUBLIC.ecr.aws": registry.ScopeOwn,
			"111122223333.dkr.ecr.eu-west-1.amazonaws.com:443": registry.ScopeOwn,
			"registry.corp.example":                            registry.ScopeForeign, "*.corp.example": registry.ScopeForeign, "registry.corp.example:5000": registry.ScopeForeign,
			"[fd00::1]:5000": registry.ScopeForeign, "[fd00::1]:5000/team": registry.ScopeForeign, "[fd00::1]": registry.ScopeMixed,
			"served.example": registry.ScopeOwn, "*.*.ecr.*.amazonaws.com": registry.ScopeMixed, "*.dkr*.ecr.*.amazonaws.com": registry.ScopeMixed,
			"*": registry.ScopeMixed, "*.*": registry.ScopeMixed, "*.com": registry.ScopeMixed, "*.*.*": registry.ScopeMixed, "": registry.ScopeMixed,
		},
		"auth-provider-gcp": {
			"*.pkg.dev": registry.ScopeOwn, "europe-docker.pkg.dev": registry.ScopeOwn, "docker.europe-west1.rep.pkg.dev": registry.ScopeOwn,
			"gcr.io": registry.ScopeOwn, "eu.gcr.io": registry.ScopeOwn, "gcr.io.example": registry.ScopeForeign, "docker.io": registry.ScopeForeign,
		},
		"acr-credential-provider": {
			"*.azurecr.io": registry.ScopeOwn, "team.eastus.geo.azurecr.io": registry.ScopeOwn, "*.azurecr.*": registry.ScopeMixed,
			"mcr.microsoft.com": registry.ScopeForeign,
		},
	} {
		for pattern, want := range patterns {
			if got := registry.CloudOfPlugin(plugin).ClassifyPattern(pattern, "served.example"); got != want {
				t.Errorf("%s: %q reaches %d, want %d", plugin, pattern, got, want)
			}
		}
	}
}
