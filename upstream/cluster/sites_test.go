// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/upstream/node"
	"github.com/regcred/regcred/upstream/plugins"
)

// providerSite is a registry and the provider whose plugin has credentials for it.
type providerSite struct {
	provider          // its version is not set
	registry registry // requires credentials
	user     string   // user name in the registry's log
}

// registry is a *node.Registry or a *node.DockerRegistry.
type registry interface {
	PushApp(t testing.TB, repo, tag string) (image string)
}

// newProviderSites returns a site for each plugin that needs no service account.
func newProviderSites(t *testing.T, net *testcloud.FakeNetwork) []providerSite {
	return []providerSite{newECRSite(t, net, plugins.ECR, newAWS(t), "111122223333"), newGCRSite(t, net), newACRSite(t, net), newDockerConfigSite(t), newStaticSite(t, net)}
}

// startRegistry starts a registry with one user.
func startRegistry(t *testing.T, net *testcloud.FakeNetwork, host, user string) *node.Registry {
	t.Helper()
	return node.StartRegistry(t, net, host, testregistry.Options{
		Auth: testregistry.AuthBearer, Users: map[string]string{user: canary.PasswordSecret},
	})
}

func newAWS(t *testing.T) *testcloud.AWS {
	t.Helper()
	cloud := must.Get(testcloud.NewAWS())(t)
	t.Cleanup(cloud.Close)
	cloud.Update(func(s *testcloud.AWSState) { s.Password = canary.PasswordSecret })
	return cloud
}

// newECRSite returns a site with an ECR registry. name is the plugin: this repository's or another
// one.
func newECRSite(t *testing.T, net *testcloud.FakeNetwork, name string, cloud *testcloud.AWS, account string) providerSite {
	host := account + ".dkr.ecr.us-west-2.amazonaws.com"
	return providerSite{
		provider: provider{name: name, images: []string{host}, environ: cloud.Environ()},
		registry: startRegistry(t, net, host, "AWS"), user: "AWS",
	}
}

func newGCRSite(t *testing.T, net *testcloud.FakeNetwork) providerSite {
	t.Helper()
	const host = "europe-docker.pkg.dev"
	cloud := must.Get(testcloud.NewGoogle(net))(t)
	t.Cleanup(cloud.Close)
	cloud.Update(func(s *testcloud.GoogleState) { s.Token = canary.PasswordSecret })
	return providerSite{
		provider: provider{name: plugins.GCR, images: []string{"*.pkg.dev"}, args: []string{"get-credentials", "--v=3"}, environ: cloud.Environ()},
		registry: startRegistry(t, net, host, "_token"), user: "_token",
	}
}

func newACRSite(t *testing.T, net *testcloud.FakeNetwork) providerSite {
	t.Helper()
	const host = "team.azurecr.io"
	registry := startRegistry(t, net, host, testcloud.ACRUser)
	cloud := testcloud.NewAzure()
	t.Cleanup(cloud.Close)
	cloud.Update(func(s *testcloud.AzureState) { s.Registry, s.RefreshToken = registry, canary.PasswordSecret })
	cloud.AddHosts(net)
	net.Handle(host, cloud)
	config := writeFile(t, filepath.Join(t.TempDir(), "azure.json"), `{"cloud": "AzurePublicCloud", "tenantId": "t", "useManagedIdentityExtension": true}`)
	return providerSite{
		provider: provider{name: plugins.ACR, images: []string{"*.azurecr.io"}, args: []string{config}, environ: append(cloud.Environ(), net.Environ()...)},
		registry: registry, user: testcloud.ACRUser,
	}
}

// newDockerConfigSite returns a site with Debian's docker-registry. Its host is an address with a
// port.
func newDockerConfigSite(t *testing.T) providerSite {
	t.Helper()
	registry := node.StartDockerRegistry(t, map[string]string{"ci": canary.PasswordSecret})
	config := writeFile(t, filepath.Join(t.TempDir(), "config.json"),
		fmt.Sprintf(`{"auths": {%q: {"username": "ci", "password": %q}}}`, registry.Host, canary.PasswordSecret))
	return providerSite{
		provider: provider{name: plugins.DockerConfig, images: []string{registry.Host}, args: []string{"--config", config}},
		registry: registry, user: "ci",
	}
}

func newStaticSite(t *testing.T, net *testcloud.FakeNetwork) providerSite {
	t.Helper()
	const host = "registry.example"
	password := writeFile(t, filepath.Join(t.TempDir(), "password"), canary.PasswordSecret+"\n")
	return providerSite{
		provider: provider{name: plugins.Static, images: []string{host}, args: []string{"--host", host, "--username", "ci", "--password-file", password}},
		registry: startRegistry(t, net, host, "ci"), user: "ci",
	}
}
