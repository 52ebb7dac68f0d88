// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registry_test

import (
	"testing"

	"github.com/regcred/regcred/internal/registry"
)

func TestPluginCloud(t *testing.T) {
	for name, want := range map[string]string{
		"ecr-credential-provider": registry.Amazon, "ecr-credential-provider-2": registry.Amazon, "ecr-credential-provider.exe": registry.Amazon,
		"auth-provider-gcp": registry.Google, "gcr-credential-provider": registry.Google,
		"acr-credential-provider": registry.Azure, "azure-acr-credential-provider": registry.Azure,
		"ecr-credential-providers": "", "my-ecr-credential-provider": "", "token-credential-provider": "", "": "",
	} {
		got := ""
		if p := registry.PluginCloud(name); p != nil {
			got = p.Name
		}
		if got != want {
			t.Errorf("%q is the plugin of %q, want %q", name, got, want)
		}
	}
}

func TestReach(t *testing.T) {
	for plugin, patterns := range map[string]map[string]registry.Reach{
		"ecr-credential-provider": {
			"*.dkr.ecr.*.amazonaws.com": registry.Own, "111122223333.dkr.ecr.us-*.amazonaws.com/team": registry.Own,
			"*.dkr-ecr-fips.*.on.aws": registry.Own, "public.ecr.aws": registry.Own, "PUBLIC.ecr.aws": registry.Own,
			"111122223333.dkr.ecr.eu-west-1.amazonaws.com:443": registry.Own,
			"registry.corp.example":                            registry.Foreign, "*.corp.example": registry.Foreign, "registry.corp.example:5000": registry.Foreign,
			"[fd00::1]:5000": registry.Foreign, "[fd00::1]:5000/team": registry.Foreign, "[fd00::1]": registry.Mixed,
			"served.example": registry.Own, "*.*.ecr.*.amazonaws.com": registry.Mixed, "*.dkr*.ecr.*.amazonaws.com": registry.Mixed,
			"*": registry.Mixed, "*.*": registry.Mixed, "*.com": registry.Mixed, "*.*.*": registry.Mixed, "": registry.Mixed,
		},
		"auth-provider-gcp": {
			"*.pkg.dev": registry.Own, "europe-docker.pkg.dev": registry.Own, "docker.europe-west1.rep.pkg.dev": registry.Own,
			"gcr.io": registry.Own, "eu.gcr.io": registry.Own, "gcr.io.example": registry.Foreign, "docker.io": registry.Foreign,
		},
		"acr-credential-provider": {
			"*.azurecr.io": registry.Own, "team.eastus.geo.azurecr.io": registry.Own, "*.azurecr.*": registry.Mixed,
			"mcr.microsoft.com": registry.Foreign,
		},
	} {
		for pattern, want := range patterns {
			if got := registry.PluginCloud(plugin).Reach(pattern, "served.example"); got != want {
				t.Errorf("%s: %q reaches %d, want %d", plugin, pattern, got, want)
			}
		}
	}
}
