// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package mirrors

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/containerd"
	"github.com/regcred/regcred/internal/must"
)

// TestHealthy verifies that the default configurations of containerd and other projects have no
// warnings. They are checked with a valid hosts.toml and without one.
func TestHealthy(t *testing.T) {
	isolatedTests.SkipUnlessAvailable(t)
	configs := map[string]string{
		"Debian": "version = 2\n[plugins]\n  [plugins.\"io.containerd.grpc.v1.cri\"]\n    [plugins.\"io.containerd.grpc.v1.cri\".cni]\n      bin_dir = \"/usr/lib/cni\"\n" +
			"      conf_dir = \"/etc/cni/net.d\"\n  [plugins.\"io.containerd.internal.v1.opt\"]\n    path = \"/var/lib/containerd\"\n",
		"EKS": "version = 2\nroot = \"/var/lib/containerd\"\nstate = \"/run/containerd\"\n[grpc]\naddress = \"/run/containerd/containerd.sock\"\n" +
			"[plugins.\"io.containerd.grpc.v1.cri\".containerd]\ndefault_runtime_name = \"runc\"\ndiscard_unpacked_layers = true\n" +
			"[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"localhost/kubernetes/pause\"\nenable_cdi = true\n" +
			"[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = \"/etc/containerd/certs.d:/etc/docker/certs.d\"\n" +
			"[plugins.\"io.containerd.grpc.v1.cri\".cni]\nbin_dir = \"/opt/cni/bin\"\nconf_dir = \"/etc/cni/net.d\"\n",
		"kind": "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  tolerate_missing_hugetlb_controller = true\n  restrict_oom_score_adj = false\n" +
			"[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n  discard_unpacked_layers = true\n[plugins.\"io.containerd.grpc.v1.cri\".registry]\n  config_path = \"/etc/containerd/certs.d\"\n",
	}
	for version, program := range buildPrograms() {
		text := must.Get(exec.Command(program, "config", "default").Output())(t)
		configs[version+" config default"] = string(text)
		// Change only the registry's setting.
		path := regexp.MustCompile(`(registry\]\n\s*config_path = )["'][^"']*["']`)
		with := path.ReplaceAllString(string(text), `$1"/etc/containerd/certs.d"`)
		if with == string(text) {
			t.Fatalf("config default of %s has no config_path:\n%s", version, text)
		}
		configs[version+" config default, with a config_path"] = with
	}
	sound := map[string]string{
		"docker.io":           "server = \"https://registry-1.docker.io\"\n\n[host.\"https://mirror.gcr.io\"]\n  capabilities = [\"pull\", \"resolve\"]\n",
		"localhost_5001_":     "[host.\"http://kind-registry:5000\"]\n",
		"harbor.example":      "server = \"https://harbor.example\"\n[host.\"https://harbor.example\"]\n  skip_verify = true\n",
		"registry.k8s.io":     "server = \"https://harbor.example/v2/k8s\"\noverride_path = true\n[host.\"https://harbor.example/v2/k8s\"]\n  override_path = true\n",
		"quay.example_8443_":  "[host.\"https://quay.example:8443\"]\n  capabilities = [\"pull\", \"resolve\", \"push\"]\n",
		"192.168.0.10_5000_":  "server = \"http://192.168.0.10:5000\"\n[host.\"http://192.168.0.10:5000\"]\n  capabilities = [\"pull\"]\n",
		"another.example:443": "[host]\n",
	}
	for name, text := range configs {
		for _, files := range []map[string]string{nil, sound} {
			root := t.TempDir()
			writeFile(t, filepath.Join(root, containerd.DefaultFile), text)
			for host, text := range files {
				writeFile(t, filepath.Join(root, "etc/containerd/certs.d", host, "hosts.toml"), text)
			}
			r, err := containerd.Read(root, containerd.DefaultFile, containerd.Version{})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for _, f := range r.Check() {
				if f.Rule == "mirror-unset" && files != nil && !strings.Contains(text, "config_path = \"/") {
					continue // containerd does not read these files
				}
				if f.Severity != finding.SeverityInfo {
					t.Errorf("%s: %+v", name, f)
				}
			}
		}
	}
}
