// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cloudplugin_test

import (
	"testing"

	"github.com/regcred/regcred/internal/cloudplugin"
)

func TestNamed(t *testing.T) {
	for name, want := range map[string]string{
		"ecr-credential-provider": cloudplugin.Amazon, "ecr-credential-provider-2": cloudplugin.Amazon, "ecr-credential-provider.exe": cloudplugin.Amazon,
		"auth-provider-gcp": cloudplugin.Google, "gcr-credential-provider": cloudplugin.Google,
		"acr-credential-provider": cloudplugin.Azure, "azure-acr-credential-provider": cloudplugin.Azure,
		"ecr-credential-providers": "", "my-ecr-credential-provider": "", "token-credential-provider": "", "": "",
	} {
		got := ""
		if p := cloudplugin.Named(name); p != nil {
			got = p.Cloud
		}
		if got != want {
			t.Errorf("%q is the plugin of %q, want %q", name, got, want)
		}
	}
}

func TestReach(t *testing.T) {
	for plugin, patterns := range map[string]map[string]cloudplugin.Reach{
		"ecr-credential-provider": {
			"*.dkr.ecr.*.amazonaws.com": cloudplugin.Own, "111122223333.dkr.ecr.us-*.amazonaws.com/team": cloudplugin.Own,
			"*.dkr-ecr-fips.*.on.aws": cloudplugin.Own, "public.ecr.aws": cloudplugin.Own, "PUBLIC.ecr.aws": cloudplugin.Own,
			"111122223333.dkr.ecr.eu-west-1.amazonaws.com:443": cloudplugin.Own,
			"registry.corp.example":                            cloudplugin.Foreign, "*.corp.example": cloudplugin.Foreign, "registry.corp.example:5000": cloudplugin.Foreign,
			"[fd00::1]:5000": cloudplugin.Foreign, "[fd00::1]:5000/team": cloudplugin.Foreign, "[fd00::1]": cloudplugin.Wide,
			"served.example": cloudplugin.Own, "*.*.ecr.*.amazonaws.com": cloudplugin.Wide, "*.dkr*.ecr.*.amazonaws.com": cloudplugin.Wide,
			"*": cloudplugin.Wide, "*.*": cloudplugin.Wide, "*.com": cloudplugin.Wide, "*.*.*": cloudplugin.Wide, "": cloudplugin.Wide,
		},
		"auth-provider-gcp": {
			"*.pkg.dev": cloudplugin.Own, "europe-docker.pkg.dev": cloudplugin.Own, "docker.europe-west1.rep.pkg.dev": cloudplugin.Own,
			"gcr.io": cloudplugin.Own, "eu.gcr.io": cloudplugin.Own, "gcr.io.example": cloudplugin.Foreign, "docker.io": cloudplugin.Foreign,
		},
		"acr-credential-provider": {
			"*.azurecr.io": cloudplugin.Own, "team.eastus.geo.azurecr.io": cloudplugin.Own, "*.azurecr.*": cloudplugin.Wide,
			"mcr.microsoft.com": cloudplugin.Foreign,
		},
	} {
		for pattern, want := range patterns {
			if got := cloudplugin.Named(plugin).Reach(pattern, "served.example"); got != want {
				t.Errorf("%s: %q reaches %d, want %d", plugin, pattern, got, want)
			}
		}
	}
}
