// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugins

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// eksConfig is the configuration of EKS nodes, with common additions.
const eksConfig = `{
  "apiVersion": "kubelet.config.k8s.io/v1",
  "kind": "CredentialProviderConfig",
  "providers": [
    {
      "name": "ecr-credential-provider",
      "matchImages": [
        "*.dkr.ecr.*.amazonaws.com",
        "*.dkr-ecr.*.on.aws",
        "*.dkr.ecr.*.amazonaws.com.cn",
        "*.dkr-ecr.*.on.amazonwebservices.com.cn",
        "*.dkr.ecr-fips.*.amazonaws.com",
        "*.dkr-ecr-fips.*.on.aws",
        "*.dkr.ecr.*.c2s.ic.gov",
        "*.dkr.ecr.*.sc2s.sgov.gov",
        "*.dkr.ecr.*.cloud.adc-e.uk",
        "*.dkr.ecr.*.amazonaws.eu",
        "public.ecr.aws",
        "registry.corp.example"
      ],
      "tokenAttributes": {
        "serviceAccountTokenAudience": "sts.amazonaws.com", "cacheType": "ServiceAccount", "requireServiceAccount": false,
        "optionalServiceAccountAnnotationKeys": ["eks.amazonaws.com/ecr-role-arn"]
      },
      "defaultCacheDuration": "12h",
      "apiVersion": "credentialprovider.kubelet.k8s.io/v1"
    }
  ]
}
`

// gkeConfig and aksConfig are the configurations of GKE and AKS nodes. The AKS cluster has no
// outbound access. AZURE is replaced with the path of azure.json.
const (
	gkeConfig = `kind: CredentialProviderConfig
apiVersion: kubelet.config.k8s.io/v1
providers:
  - name: auth-provider-gcp
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    matchImages:
    - "container.cloud.google.com"
    - "gcr.io"
    - "*.gcr.io"
    - "*.pkg.dev"
    args:
    - get-credentials
    - --v=3
    defaultCacheDuration: 1m
`
	aksConfig = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
  - name: acr-credential-provider
    matchImages:
      - "*.azurecr.io"
      - "*.azurecr.cn"
      - "*.azurecr.de"
      - "*.azurecr.us"
      - "*.*.geo.azurecr.io"
      - mcr.microsoft.com
      - registry.corp.example
    defaultCacheDuration: "10m"
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    args:
      - AZURE
      - --registry-mirror=mcr.microsoft.com:team.azurecr.io
`
)

func buildPlugins(t *testing.T, dir, name string) string {
	t.Helper()
	return must.Get(Build(dir, name))(t)
}

// migrateProvider applies the changes that "regcred plugin migrate" suggests to a configuration, and
// returns the configuration's provider.
func migrateProvider(t *testing.T, regcred, text string) *config.Provider {
	t.Helper()
	if _, err := exec.LookPath("patch"); err != nil {
		t.Skip("patch is not installed, by which an operator applies the diff; test.sh installs it on Debian")
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	var said strings.Builder
	cmd := exec.Command(regcred, "plugin", "migrate", path)
	cmd.Env, cmd.Stderr = []string{}, &said
	diff, err := cmd.Output()
	if err != nil {
		t.Fatalf("migrate: %v\n%s", err, &said)
	}
	t.Logf("%s%s", diff, &said)
	patch := exec.Command("patch", "--silent", path)
	patch.Stdin = strings.NewReader(string(diff))
	if out, err := patch.CombinedOutput(); len(diff) > 0 && err != nil {
		t.Fatalf("patch: %v\n%s", err, out)
	}
	cfg := must.Get(config.Load(path))(t)
	must.Do(t, cfg.Validate())
	return &cfg.Providers[0]
}

// TestMigrateEKS compares regcred's plugin, with the migrated configuration of an EKS node, with
// AWS's plugin. For each image, they must return the same response and send the same requests, with
// the node's identity and with a service account's.
func TestMigrateEKS(t *testing.T) {
	dir := t.TempDir()
	theirs := must.Get(BuildUpstreamECR(dir))(t)
	ours, regcred := buildPlugins(t, dir, ECR), buildPlugins(t, dir, "regcred")
	args := migrateProvider(t, regcred, eksConfig).Arguments()
	var all []scenario
	for _, host := range []string{
		"111122223333.dkr.ecr.eu-west-3.amazonaws.com", "111122223333.dkr-ecr.us-east-2.on.aws",
		"111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn", "111122223333.dkr-ecr.cn-north-1.on.amazonwebservices.com.cn",
		"111122223333.dkr.ecr-fips.us-west-2.amazonaws.com", "111122223333.dkr-ecr-fips.us-gov-east-1.on.aws",
		"111122223333.dkr.ecr.us-iso-east-1.c2s.ic.gov", "111122223333.dkr.ecr.us-isob-east-1.sc2s.sgov.gov",
		"111122223333.dkr.ecr.eu-isoe-west-1.cloud.adc-e.uk", "111122223333.dkr.ecr.eusc-de-east-1.amazonaws.eu",
		"public.ecr.aws", "registry.corp.example",
	} {
		s := scenario{name: "EKS: " + host, image: host + "/team/app", env: regionEnv}
		all = append(all, s)
		s.name, s.token, s.annotations = s.name+", service account", canary.TokenSecret, map[string]string{roleAnnotation: roleARN}
		all = append(all, s)
	}
	upstream := observeAll(t, theirs, all, func(scenario) []string { return nil })
	own := observeAll(t, ours, all, func(scenario) []string { return args })
	for i, s := range all {
		if a := upstream[i].Answer; a == nil || len(a.Auth) == 0 {
			t.Errorf("%s: there are no credentials even from upstream's plugin: %q", s.name, upstream[i].Requests)
		}
		if diff := cmp.Diff(upstream[i], own[i], cmp.Comparer(roughlyEqual)); diff != "" {
			t.Errorf("%s (-upstream +regcred):\n%s", s.name, diff)
		}
	}
}

// runPlugin runs a plugin with these arguments and returns the keys and user names in its response.
func runPlugin(t *testing.T, c *Cloud, path string, args []string, image string) (list []string) {
	t.Helper()
	cmd := plugin.Command{Path: path, Args: plugin.NewSecrets(args...), Environ: c.Environ, APIVersion: plugin.V1}
	resp, err := cmd.GetCredentials(t.Context(), &plugin.Request{Image: image})
	if err != nil {
		t.Errorf("%s: %v", image, err)
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(resp.Auth)) {
		list = append(list, key+" "+resp.Auth[key].Username)
	}
	return list
}

// TestMigrateGKE verifies regcred's plugin with the migrated configuration of a GKE node. For an
// image of each pattern, its response must have the same keys as upstream's response.
func TestMigrateGKE(t *testing.T) {
	dir := t.TempDir()
	path, regcred := buildPlugins(t, dir, GCR), buildPlugins(t, dir, "regcred")
	cloud := must.Get(NewGoogle())(t)
	defer cloud.Close()
	args := migrateProvider(t, regcred, gkeConfig).Arguments()
	fixed := []string{"*.gcr.io _token", "*.pkg.dev _token", "container.cloud.google.com _token", "gcr.io _token"}
	for image, own := range map[string]string{
		"gcr.io/project/app": "", "eu.gcr.io/project/app": "eu.gcr.io _token", "container.cloud.google.com/app": "",
		"europe-docker.pkg.dev/project/team/app": "europe-docker.pkg.dev _token",
	} {
		want := slices.Clone(fixed)
		if own != "" {
			want = append(want, own)
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, runPlugin(t, cloud, path, args, image)); diff != "" {
			t.Errorf("%s (-upstream +regcred):\n%s", image, diff)
		}
	}
}

// TestMigrateAKS verifies regcred's plugin with the migrated configuration of an AKS node. Its
// responses must have the same keys as upstream's responses, with a managed identity and with a
// service principal.
func TestMigrateAKS(t *testing.T) {
	dir := t.TempDir()
	path, regcred := buildPlugins(t, dir, ACR), buildPlugins(t, dir, "regcred")
	const user = "00000000-0000-0000-0000-000000000000"
	for name, tt := range map[string]struct {
		file string // content of azure.json
		want map[string][]string
	}{
		"managed identity": {azureConfigJSON, map[string][]string{
			"team.azurecr.io/app":            {"*.azurecr.* ", "team.azurecr.io " + user},
			"team.eastus.geo.azurecr.io/app": {"*.azurecr.* ", "team.eastus.geo.azurecr.io " + user},
			"mcr.microsoft.com/oss/app":      {"*.azurecr.* ", "mcr.microsoft.com " + user, "team.azurecr.io " + user},
			"registry.corp.example/app":      nil,
		}},
		"service principal": {`{"cloud": "AzurePublicCloud", "tenantId": "t", "aadClientId": "id", "aadClientSecret": "` + canary.PasswordSecret + `"}`, map[string][]string{
			"team.azurecr.io/app":       {"*.azurecr.* ", "*.azurecr.cn id", "*.azurecr.de id", "*.azurecr.io id", "*.azurecr.us id"},
			"registry.corp.example/app": nil,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := must.Get(NewAzure())(t)
			defer cloud.Close()
			must.Do(t, os.WriteFile(cloud.Args[0], []byte(tt.file), 0o600))
			args := migrateProvider(t, regcred, strings.Replace(aksConfig, "AZURE", cloud.Args[0], 1)).Arguments()
			for image, want := range tt.want {
				if diff := cmp.Diff(want, runPlugin(t, cloud, path, args, image)); diff != "" {
					t.Errorf("%s (-upstream +regcred):\n%s", image, diff)
				}
			}
		})
	}
}
