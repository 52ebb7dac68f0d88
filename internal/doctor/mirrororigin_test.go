// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/node"
)

// TestCheckMirrorOrigin verifies that --mirror-origin=none is compared with the runtime's
// mirror configuration. Plugins without this flag are ignored.
func TestCheckMirrorOrigin(t *testing.T) {
	const target = "=111122223333.dkr.ecr.us-west-2.amazonaws.com"
	const closed = "server = \"https://mirror.example\"\n[host.\"https://mirror.example\"]\n"
	for name, tt := range map[string]struct {
		provider, args string
		files          map[string]string
		want           []string
	}{
		"kept": {
			"ecr-credential-provider", "--mirror-origin=none, --mirror=docker.io" + target,
			map[string]string{"docker.io/hosts.toml": closed}, []string{"ok ecr-credential-provider: containerd never queries docker.io itself"},
		},
		"not kept": {
			"ecr-credential-provider", "--mirror-origin, none, --mirror=docker.io" + target + ", --mirror=docker.io/library" + target + ", --mirror=quay.io" + target,
			map[string]string{"docker.io/hosts.toml": closed, "quay.io/hosts.toml": "[host.\"https://mirror.example\"]\n"},
			[]string{"ok ", "error ecr-credential-provider has --mirror-origin=none for quay.io, but containerd (/etc/containerd/config.toml) may send that host the credential: "},
		},
		"unknown": {
			"auth-provider-gcp", "--mirror-origin=none, --mirror=docker.io=europe-docker.pkg.dev/p/r", nil,
			[]string{"warning auth-provider-gcp has --mirror-origin=none for docker.io, but regcred cannot check here whether this is safe: found no containerd configuration for a kubelet (looked for /etc/containerd/config.toml, /var/lib/rancher/k3s/agent/etc/containerd/config.toml, /var/lib/rancher/rke2/agent/etc/containerd/config.toml)"},
		},
		"the cloud's own":  {"ecr-credential-provider", "--mirror-origin=none, --mirror=public.ecr.aws" + target, nil, nil},
		"trusted":          {"ecr-credential-provider", "--mirror-origin=none, --mirror-origin=trusted, --mirror=docker.io" + target, nil, nil},
		"another's plugin": {"my-plugin", "--mirror-origin=none, --mirror=docker.io" + target, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := config.Parse("config.yaml", []byte("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: "+
				tt.provider+"\n  args: ["+tt.args+"]\n  matchImages: [docker.io]\n  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n"))
			if err != nil {
				t.Fatal(err)
			}
			root := t.TempDir()
			if tt.files != nil {
				writeContainerdFile(t, root, "config.toml", "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = \"/etc/containerd/certs.d\"\n")
			}
			for name, text := range tt.files {
				writeContainerdFile(t, root, filepath.Join("certs.d", name), text)
			}
			r := &checkResults{}
			checkMirrorOrigin(t.Context(), &Input{Kubelet: Kubelet{Node: node.Node{Root: root}.NewReader(), Config: cfg}}, r)
			var got []string
			for i, c := range r.list {
				got = append(got, string(c.Severity)+" "+c.Message)
				if i < len(tt.want) && strings.HasPrefix(got[i], tt.want[i]) {
					got[i] = tt.want[i]
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// writeContainerdFile writes a configuration file of containerd.
func writeContainerdFile(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, "etc/containerd", name)
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

// TestFindContainerd verifies that the containerd of k3s and a packaged containerd are both
// found, unless the packaged one serves only Docker. An unreadable file is an error.
func TestFindContainerd(t *testing.T) {
	const of = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = \"/etc/containerd/certs.d\"\n"
	const k3s = "var/lib/rancher/k3s/agent/etc/containerd/config.toml"
	for name, tt := range map[string]struct {
		packaged string
		want     int
		wantErr  string
	}{
		"Docker's": {"disabled_plugins = [\"cri\"]\n", 1, ""},
		"two":      {of, 2, ""},
		"broken":   {"version = ", 0, "line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			writeContainerdFile(t, root, "config.toml", tt.packaged)
			writeContainerdFile(t, root, "../../"+k3s, of)
			got, err := findContainerd(node.Node{Root: root})
			if len(got) != tt.want || (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got %d and %v, want %d and %q", len(got), err, tt.want, tt.wantErr)
			}
		})
	}
}
