// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package migrate_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/migrate"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/secretfile"
)

// Contents of azure.json.
const (
	managedIdentityFile  = `{"cloud": "AzurePublicCloud", "useManagedIdentityExtension": true, "aadClientId": "msi", "aadClientSecret": "msi"}`
	servicePrincipalFile = "aadClientID: id\naadClientSecret: " + canary.PasswordSecret + "\n"
	notConverted                 = `{"useManagedIdentityExtension": true, "aadClientId": "id", "aadClientSecret": "` + canary.PasswordSecret + `"}`
	stackPlugins                = `{"cloud": "AzureStackCloud", "resourceManagerEndpoint": "http://management.example", "useManagedIdentityExtension": true}`
)

// TestPlan verifies the planned changes for configurations that occur on nodes.
func TestPlan(t *testing.T) {
	for name, tt := range map[string]struct {
		provider string
		patterns string
		args     string
		more     string // additional YAML fields of the provider
		file     string // azure.json
		exposed  bool   // other users can read azure.json
		want     []string
		remark   string
	}{
		"EKS without dual-stack": {provider: "ecr-credential-provider", patterns: `"*.dkr.ecr.*.amazonaws.com", "public.ecr.aws"`},
		"EKS":                    {provider: "ecr-credential-provider", patterns: `"*.dkr.ecr.*.amazonaws.com", "*.dkr-ecr.*.on.aws"`, want: []string{"--plain-endpoints"}},
		"EKS with FIPS":          {provider: "ecr-credential-provider", patterns: `"*.dkr.ecr-fips.*.amazonaws.com"`, want: []string{"--plain-endpoints"}},
		"service accounts": {
			provider: "ecr-credential-provider", patterns: `"*.dkr.ecr.*.amazonaws.com"`,
			more: "tokenAttributes: {serviceAccountTokenAudience: sts.amazonaws.com, cacheType: ServiceAccount, requireServiceAccount: false}",
			want: []string{"--session-name=ecr-credential-provider"},
		},
		"aliases": {
			provider: "ecr-credential-provider-2", patterns: `"registry.corp.example/team", "Registry.corp.example", "cache.example:5000", "done.example", "docker.io"`,
			args: "--allow-host, done.example, --mirror=docker.io=111122223333.dkr.ecr.us-west-2.amazonaws.com",
			want: []string{"--allow-host=registry.corp.example", "--allow-host=cache.example:5000"},
		},
		"aliases with regions": {
			provider: "ecr-credential-provider", patterns: "registry.corp.example, Other.corp.example, third.corp.example",
			args: "--allow-host=registry.corp.example=eu-west-1, --allow-host=Other.corp.example", want: []string{"--allow-host=third.corp.example"},
		},
		"several aliases in one": {
			provider: "gcr-credential-provider", patterns: "a.corp.example, b.corp.example", args: "'--allow-host=a.corp.example,b.corp.example'",
		},
		"not any host":       {provider: "ecr-credential-provider", patterns: "a.corp.example", args: "--any-host=false", want: []string{"--allow-host=a.corp.example"}},
		"IPv6":               {provider: "ecr-credential-provider", patterns: `"[fd00::1]:5000/team"`, want: []string{"--allow-host=[fd00::1]:5000"}},
		"a ladder":           {provider: "ecr-credential-provider", patterns: `"*.*", "*.*.*"`, want: []string{"--other-hosts=empty"}, remark: "--any-host"},
		"public suffixes":    {provider: "ecr-credential-provider", patterns: `"*.github.io"`, want: []string{"--other-hosts=empty"}, remark: "--any-host"},
		"a ladder that is":   {provider: "ecr-credential-provider", patterns: `"*.*"`, args: "--other-hosts=empty", remark: "--any-host"},
		"any host":           {provider: "ecr-credential-provider", patterns: `"*.*", "registry.corp.example"`, args: "--any-host"},
		"GKE":                {provider: "auth-provider-gcp", patterns: `container.cloud.google.com, gcr.io, "*.gcr.io", "*.pkg.dev"`, args: "get-credentials, --v=3", remark: "exits with status 1"},
		"Google's elsewhere": {provider: "gcr-credential-provider", patterns: `"*.pkg.dev", mirror.corp.example`, want: []string{"--allow-host=mirror.corp.example"}},
		"AKS":                {provider: "acr-credential-provider", patterns: `"*.azurecr.io", "*.*.geo.azurecr.us"`, args: "/etc/kubernetes/azure.json", file: managedIdentityFile},
		"AKS without a way out": {
			provider: "acr-credential-provider", patterns: `"*.azurecr.io", mcr.microsoft.com`, file: managedIdentityFile,
			args: "/etc/kubernetes/azure.json, --registry-mirror=mcr.microsoft.com:boot.azurecr.io",
		},
		"another's mirror": {
			provider: "acr-credential-provider", patterns: `"*.azurecr.io", docker.io`, file: managedIdentityFile,
			args: "-r, 'docker.io:boot.azurecr.io,quay.io:boot.azurecr.io', /etc/kubernetes/azure.json", want: []string{"--mirror-origin=trusted"},
		},
		"a service principal": {provider: "azure-acr-credential-provider", patterns: `"*.azurecr.io"`, args: "/etc/kubernetes/azure.json", file: servicePrincipalFile, want: []string{"--static-client-secret"}},
		"a secret that others may read, as of Cluster API": {
			provider: "acr-credential-provider", patterns: `"*.azurecr.io"`, args: "/etc/kubernetes/azure.json", file: servicePrincipalFile, exposed: true,
			want: []string{"--static-client-secret"}, remark: `does not check: "/etc/kubernetes/azure.json": other users can read or change it; run chmod 600`,
		},
		"no secret that others may read": {
			provider: "acr-credential-provider", patterns: `"*.azurecr.io"`, args: "/etc/kubernetes/azure.json", file: managedIdentityFile, exposed: true, remark: "[]",
		},
		"migrated before": {
			provider: "acr-credential-provider", patterns: `"*.azurecr.io"`, args: "--static-client-secret, /etc/kubernetes/azure.json", file: stackPlugins,
			remark: "its own registry names",
		},
		"a letter's value": {
			provider: "acr-credential-provider", patterns: `"*.azurecr.io", docker.io`, file: managedIdentityFile,
			args: "'-rdocker.io:boot.azurecr.io', /etc/kubernetes/azure.json", want: []string{"--mirror-origin=trusted"}, remark: "[]",
		},
		"hosts of others":      {provider: "acr-credential-provider", patterns: `"*.azurecr.io", registry.corp.example`, args: "/etc/kubernetes/azure.json", file: managedIdentityFile, want: []string{"--other-hosts=empty"}},
		"a cloud of its own":   {provider: "acr-credential-provider", patterns: `"*.azurecr.example"`, args: "--v=2, /etc/kubernetes/azure.json", file: stackPlugins, remark: "resourceManagerEndpoint uses http, so an attacker on the network can redirect the secret to another host; regcred's plugin requires https"},
		"no file":              {provider: "acr-credential-provider", patterns: `"*.azurecr.io"`, args: "/etc/kubernetes/azure.json", remark: "cannot read the cloud configuration; if it has a service principal, add --static-client-secret to return the principal's secret, as the upstream plugin does"},
		"no plugin of a cloud": {provider: "token-credential-provider", patterns: `"*.*"`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := must.Get(config.Parse("config.yaml", fmt.Appendf(nil, `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: %s
  matchImages: [%s]
  args: [%s]
  defaultCacheDuration: 1h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  %s
`, tt.provider, tt.patterns, tt.args, tt.more)))(t)
			plan := migrate.NewPlan(cfg, func(path string) (secretfile.File, error) {
				if path != "/etc/kubernetes/azure.json" || tt.file == "" {
					return secretfile.File{}, errors.New("the file does not exist")
				}
				return secretfile.File{Path: "/root" + path, Data: []byte(tt.file), Exposed: tt.exposed}, nil
			})
			if got := plan.Args()[0]; !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if said := fmt.Sprint(plan.Remarks); !strings.Contains(said, tt.remark) || tt.remark == "" && strings.Contains(said, "chmod") {
				t.Errorf("the remarks are %q, want %q in them", said, tt.remark)
			}
			canary.AssertAbsent(t, "the plan", fmt.Sprintf("%+v", plan))
		})
	}
}
