// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/upstream/node"
	"github.com/regcred/regcred/upstream/plugins"
)

// withVersion returns the site's provider with a version of the exec protocol.
func (s providerSite) withVersion(version string) provider {
	s.version = version
	return s.provider
}

// providerConfigFiles lists ways to configure all plugins. write writes into a directory and returns the
// path for the kubelet's flag.
var providerConfigFiles = []struct {
	name  string
	write func(t *testing.T, dir string, all []providerSite) (path string)
	needs []node.KubeletFeature
}{
	{"file in v1", writeConfigFile("v1"), nil},
	{"file in v1beta1", writeConfigFile("v1beta1"), nil},
	{"file in v1alpha1", writeConfigFile("v1alpha1"), nil},
	{"directory", writeConfigDirectory, []node.KubeletFeature{node.FeatureConfigDirectory}},
}

// writeConfigFile returns a function that writes one file. The file and its providers use the same version.
// The plugin that needs service accounts requires v1.
func writeConfigFile(version string) func(*testing.T, string, []providerSite) string {
	return func(t *testing.T, dir string, all []providerSite) string {
		var list []provider
		if version == "v1" {
			list = append(list, tokenAttributesProvider())
		}
		for _, s := range all {
			list = append(list, s.withVersion(version))
		}
		return writeProviders(t, filepath.Join(dir, "config.yaml"), version, list...)
	}
}

// writeConfigDirectory writes a file for each plugin. The files have different versions of the configuration
// and of the protocol.
func writeConfigDirectory(t *testing.T, dir string, all []providerSite) string {
	files, protocols := []string{"v1alpha1", "v1", "v1beta1"}, []string{"v1", "v1beta1", "v1alpha1", "v1"}
	for i, s := range all {
		writeProviders(t, filepath.Join(dir, "conf", fmt.Sprintf("%d0-%s%s", i, s.name, []string{".yaml", ".yml"}[i%2])),
			files[i%len(files)], s.withVersion(protocols[i%len(protocols)]))
	}
	writeProviders(t, filepath.Join(dir, "conf", "90-token.json"), "v1", tokenAttributesProvider())
	writeFile(t, filepath.Join(dir, "conf", "README"), "which is not read")
	return filepath.Join(dir, "conf")
}

// tokenAttributesProvider returns a provider that has credentials only for service accounts. For a
// static pod its plugin runs and returns no credentials.
func tokenAttributesProvider() provider {
	const host = "registry.example"
	return provider{
		name: plugins.Token, version: "v1", images: []string{host}, args: []string{"--registry", host, "--audience", host, "--optional"},
		tokenAttributes: map[string]any{"serviceAccountTokenAudience": host, "cacheType": "Token", "requireServiceAccount": false},
	}
}

// TestPlugins verifies that a kubelet without an API server pulls private images through each
// plugin of this repository, for static pods.
func TestPlugins(t *testing.T) {
	node.SkipUnlessSupported(t)
	net := node.NewFakeNetwork(t)
	all := newProviderSites(t, net)
	t.Run("configuration", func(t *testing.T) {
		for i, c := range providerConfigFiles {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				for _, a := range c.needs {
					a.SkipUnlessSupported(t)
				}
				testPlugins(t, net, all, fmt.Sprintf("team/app%d", i), c.write(t, t.TempDir(), all))
			})
		}
	})
	if strays := net.UnknownHosts(); len(strays) > 0 {
		t.Errorf("another host was called: %q", strays)
	}
}

func testPlugins(t *testing.T, net *testcloud.FakeNetwork, all []providerSite, repo, config string) {
	var pods []*corev1.Pod
	for _, s := range all {
		pods = append(pods, node.NewPod("default", s.name, s.registry.PushApp(t, repo, "v1")))
	}
	kubelet := node.StartKubelet(t, node.KubeletOptions{
		Runtime: node.StartContainerd(t, net), ProviderConfig: config, BinDir: node.BinDir(), Config: node.FeatureServiceAccounts.EnablingConfig(t),
	})
	for _, pod := range pods {
		kubelet.AddStaticPod(t, pod)
	}
	for i, s := range all {
		t.Run(s.name, func(t *testing.T) {
			kubelet.WaitStaticPodRunning(t, pods[i])
			s.checkPull(t, repo)
		})
	}
	checkKubelet(t, kubelet, config)
	canary.AssertAbsent(t, "the kubelet's log", strings.Join(kubelet.LogRecords(t), "\n"))
}

// checkPull checks that the registry accepted the plugin's user and rejected only anonymous
// requests.
func (s providerSite) checkPull(t *testing.T, repo string) {
	t.Helper()
	if r, ok := s.registry.(*node.DockerRegistry); ok {
		if len(r.LogLines(t, "/v2/"+repo+"/manifests/", "HEAD", "auth.user.name="+s.user)) == 0 {
			t.Errorf("the registry was not called by %q for %s", s.user, repo)
		}
		return
	}
	got := registryResponses(s.registry.(*node.Registry).ManifestRequests(repo))
	if want := []string{`"" 401`, fmt.Sprintf("%q 200", s.user)}; !slices.Equal(got, want) {
		t.Errorf("the registry answered %q, want %q", got, want)
	}
}

// registryResponses returns the distinct pairs of user and response. The number of requests depends on the
// runtime.
func registryResponses(requests []testregistry.Request) (list []string) {
	for _, r := range requests {
		list = append(list, fmt.Sprintf("%q %d", r.User, r.Status))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// checkKubelet checks that the kubelet has run each plugin once, and that its configuration has the
// same hash as in regcred.
func checkKubelet(t *testing.T, k *node.Kubelet, path string) {
	t.Helper()
	cfg := must.Get(config.Load(path))(t)
	want := map[string]node.PluginCounts{}
	for _, p := range cfg.Providers {
		want[p.Name] = node.PluginCounts{Runs: 1}
	}
	if diff := cmp.Diff(want, k.PluginCounts(t)); diff != "" {
		t.Errorf("the kubelet's plugin runs (-want +got):\n%s", diff)
	}
	if _, has := k.Metrics(t)["kubelet_credential_provider_config_info"]; has != node.FeatureConfigHash.IsEnabled() {
		t.Errorf("its metrics have the hash of its configuration: %v", has)
	} else if has && cfg.Hash() != k.ConfigHash(t) {
		t.Errorf("the hash of the configuration is %s, the kubelet's is %s", cfg.Hash(), k.ConfigHash(t))
	}
}
