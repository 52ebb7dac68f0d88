// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/route"
)

// TestMirrors verifies the findings about how the runtime's files affect the providers'
// credentials. Each finding has the position in the file.
func TestMirrors(t *testing.T) {
	const cache = "111122223333.dkr.ecr.us-west-2.amazonaws.com"
	const containerd = "/etc/containerd/certs.d/"
	const conf = "/etc/containers/registries.conf"
	const table = "[host.'https://" + cache + "/v2/hub']\noverride_path = true\n"
	for name, tt := range map[string]struct {
		runtime, provider, patterns, args string
		files                             map[string]string
		want                              []string // findings of the first check; none if nil
	}{
		"nothing said": {"containerd", "ecr-credential-provider", "docker.io", "", nil, nil},
		"fallback": {"containerd", "ecr-credential-provider", "docker.io", "--mirror=docker.io=" + cache + "/hub", map[string]string{containerd + "docker.io/hosts.toml": table},
			[]string{"warning", "docker.io/hosts.toml:1: if " + cache + " fails, docker.io is queried and gets the credential for Amazon ECR", "[mirror-fallback]", "put server = \"https://" + cache + "/v2/hub\", and override_path = true below it,"}},
		"nobody tells the plugin": {"containerd", "ecr-credential-provider", "docker.io", "", map[string]string{containerd + "docker.io/hosts.toml": table},
			[]string{"warning", "docker.io/hosts.toml:1: images in docker.io are pulled from " + cache, "ecr-credential-provider has no --mirror for this host", "[mirror-untold]", "add --mirror=docker.io=" + cache + "/hub to the provider's args"}},
		"Azure's is not told": {"containerd", "acr-credential-provider", "mcr.microsoft.com", "/etc/kubernetes/azure.json", map[string]string{containerd + "mcr.microsoft.com/hosts.toml": "[host.'https://my.azurecr.io']\n"},
			[]string{"warning", "[mirror-untold]", "--registry-mirror=mcr.microsoft.com:my.azurecr.io"}},
		"no fallback": {"containerd", "ecr-credential-provider", "docker.io", "--mirror=docker.io=" + cache + "/hub", map[string]string{containerd + "docker.io/hosts.toml": "server = 'https://" + cache + "/v2/hub'\noverride_path = true\n" + table},
			[]string{"ok", "containerd tries " + cache + "/v2/hub"}},
		"a word about the fallback": {"containerd", "ecr-credential-provider", "docker.io", "--mirror=docker.io=" + cache + "/hub" + ", --mirror-origin=trusted", map[string]string{containerd + "docker.io/hosts.toml": table}, []string{"ok"}},
		"another's mirror":          {"containerd", "my-plugin", "docker.io", "", map[string]string{containerd + "docker.io/hosts.toml": "[host.'https://cache.example']\n"}, []string{"ok", "cache.example, then docker.io itself"}},
		"not matched": {"containerd", "ecr-credential-provider", "'*.dkr.ecr.*.amazonaws.com'", "", map[string]string{containerd + "docker.io/hosts.toml": table},
			[]string{"warning", "the kubelet matches the image's original name", "[mirror-unserved]", `add "docker.io" to the provider's matchImages`}},
		"plain http": {"containerd", "my-plugin", "quay.io", "", map[string]string{containerd + "quay.io/hosts.toml": "\n[host.'http://cache.example']\n"},
			[]string{"warning", "quay.io/hosts.toml:2: cache.example is queried without TLS", "credential returned by my-plugin"}},
		"plain http, open":    {"containerd", "my-plugin", "ghcr.io", "", map[string]string{containerd + "quay.io/hosts.toml": "[host.'http://cache.example']\n"}, []string{"ok"}},
		"nobody is asked":     {"containerd", "my-plugin", "quay.io", "", map[string]string{containerd + "quay.io/hosts.toml/x": ""}, []string{"error", "quay.io/hosts.toml"}},
		"a default":           {"containerd", "my-plugin", "quay.io", "", map[string]string{containerd + "_default/hosts.toml": "[host.'https://cache.example']\n"}, []string{"warning", "_default/hosts.toml:1: cache.example", "here, it receives the credentials from 1 provider"}},
		"broken":              {"containerd", "my-plugin", "quay.io", "", map[string]string{containerd + "quay.io/hosts.toml": "[host.'https://cache.example']\ncapabilities = ['fetch']\n"}, []string{"error", "quay.io/hosts.toml:2:", `capability "fetch"`}},
		"CRI-O":               {"CRI-O", "my-plugin", "quay.io", "", map[string]string{conf: "[[registry]]\nlocation = 'quay.io'\n[[registry.mirror]]\nlocation = 'cache.example'\n"}, []string{"ok", "cache.example gets no credential"}},
		"CRI-O, not matched":  {"CRI-O", "my-plugin", "cache.example", "", map[string]string{conf: "[[registry]]\nlocation = 'quay.io'\n[[registry.mirror]]\nlocation = 'cache.example'\n"}, []string{"warning", conf + ":3: images in quay.io are pulled from cache.example", "CRI-O does not send the kubelet's credentials to mirrors"}},
		"CRI-O, a map":        {"CRI-O", "ecr-credential-provider", "docker.io", "--mirror=docker.io=" + cache, map[string]string{conf: "[[registry]]\nlocation = 'docker.io'\n"}, []string{"warning", "never to a mirror [mirror-lost]"}},
		"CRI-O, a load error": {"CRI-O", "my-plugin", "quay.io", "", map[string]string{conf: "[[registry]]\nlocation = 'https://quay.io'\n"}, []string{"error", conf + ":2: location has a scheme"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			files := map[string]string{}
			if tt.runtime == "containerd" && tt.files != nil {
				files["/etc/containerd/config.toml"] = "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.registry]\nconfig_path = '/etc/containerd/certs.d'\n"
			}
			for name, text := range tt.files {
				files[name] = text
			}
			for name, text := range files {
				path := filepath.Join(root, name)
				must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
				must.Do(t, os.WriteFile(path, []byte(text), 0o600))
			}
			cfg, err := config.Parse("config.yaml", []byte("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: "+
				tt.provider+"\n  args: ["+tt.args+"]\n  matchImages: ["+tt.patterns+"]\n  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n"))
			if err != nil {
				t.Fatal(err)
			}
			r := &checkResults{}
			checkMirrors(t.Context(), &Input{Kubelet: Kubelet{Config: cfg}, runtime: &Runtime{node: node.Node{Root: root}, found: &node.Runtime{Name: tt.runtime}}}, r)
			if (len(r.list) == 0) != (tt.want == nil) {
				t.Fatalf("got %+v, want %q", r.list, tt.want)
			}
			if tt.want == nil {
				return
			}
			got := string(r.list[0].Severity) + " " + r.list[0].String() + " " + r.list[0].Fix
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("got %s\nwant %q in it", got, want)
				}
			}
			rest := slices.DeleteFunc(r.list[1:], func(f Finding) bool { return f.Rule == "mirror-version" })
			if len(rest) > 0 {
				t.Errorf("more than one: %+v", rest)
			}
		})
	}
}

// TestConfiguredRoute verifies that the result is nil if no file configures the image's
// registry.
func TestConfiguredRoute(t *testing.T) {
	root := t.TempDir()
	writeContainerdFile(t, root, "config.toml", "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.registry]\nconfig_path = '/etc/containerd/certs.d'\n")
	writeContainerdFile(t, root, "certs.d/quay.io/hosts.toml", "[host.'https://cache.example']\n")
	r := &Runtime{node: node.Node{Root: root}}
	if way := r.ConfiguredRoute("ghcr.io/a/b"); way != nil {
		t.Errorf("of another host: %s", way)
	}
	if way := r.ConfiguredRoute(""); way != nil {
		t.Errorf("of no image: %s", way)
	}
	way := r.ConfiguredRoute("quay.io/a/b:1")
	if way == nil || len(way.Hops) != 2 || way.Hops[0].Credential != route.CredentialKubelet || way.Hops[0].Line != 1 {
		t.Errorf("got %+v", way)
	}
}
