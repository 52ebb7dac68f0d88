// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package node

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLostFlagsTrees verifies that no line of a valid node is reported as having no effect.
func TestLostFlagsTrees(t *testing.T) {
	for file, archive := range loadNodeTrees(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		if strings.HasPrefix(name, "bad-") {
			continue
		}
		for _, f := range (Node{Root: createNode(t, archive)}).NewReader().LostFlags(t.Context()) {
			if name == "k3s-kubelet-arg" || name == "k3s-agent" && strings.Contains(f.Message, "/not/read.yaml") {
				continue // these trees have such lines on purpose
			}
			t.Errorf("%s: %s:%d: %s", name, f.File, f.Line, f.Message)
		}
	}
}

// TestSettings verifies the lines that set the provider flags on nodes of different distributions.
// The last line wins.
func TestSettings(t *testing.T) {
	trees := loadNodeTrees(t)
	for name, want := range map[string][]string{
		"kubeadm-ours": {
			"--image-credential-provider-config = /var/lib/regcred/x.yaml",
			"  /etc/systemd/system/kubelet.service.d/90-regcred.conf:3  /var/lib/regcred/x.yaml true",
			"--image-credential-provider-bin-dir = /var/lib/regcred/bin",
			"  /etc/systemd/system/kubelet.service.d/90-regcred.conf:3  /var/lib/regcred/bin true",
			"--config = /var/lib/kubelet/config.yaml",
			"  /usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf:3 KUBELET_CONFIG_ARGS /var/lib/kubelet/config.yaml true",
		},
		"eks-al2023": {
			"--image-credential-provider-config = /etc/eks/image-credential-provider/config.json",
			"  /etc/eks/kubelet/environment:1 NODEADM_KUBELET_ARGS /etc/eks/image-credential-provider/config.json true",
			"--image-credential-provider-bin-dir = /etc/eks/image-credential-provider",
			"  /etc/eks/kubelet/environment:1 NODEADM_KUBELET_ARGS /etc/eks/image-credential-provider true",
			"--config = /etc/kubernetes/kubelet/config.json",
			"  /etc/eks/kubelet/environment:1 NODEADM_KUBELET_ARGS /etc/kubernetes/kubelet/config.json true",
		},
		"k3s-kubelet-arg": {
			"--image-credential-provider-config = /c.yaml",
			"  /etc/k.yaml:1 kubelet-arg /b.yaml false: /etc/k.yaml.d/50.yaml:1 sets kubelet-arg again",
			"  /etc/systemd/system/k3s.service:16  /a.yaml false: /etc/k.yaml.d/50.yaml:1 is read later",
			"  /etc/k.yaml.d/50.yaml:1 kubelet-arg /c.yaml true",
			"--image-credential-provider-bin-dir = /var/lib/rancher/credentialprovider/bin",
			"  /etc/k.yaml:1 kubelet-arg /b false: /etc/k.yaml.d/50.yaml:1 sets kubelet-arg again",
			"--config =",
		},
		"rke2-server": {
			"--image-credential-provider-config = /var/lib/rancher/credentialprovider/config.yaml rke2's default",
			"--image-credential-provider-bin-dir = /var/lib/rancher/credentialprovider/bin rke2's default",
			"--config =",
		},
		"microk8s": {"--image-credential-provider-config =", "--image-credential-provider-bin-dir =", "--config ="},
	} {
		t.Run(name, func(t *testing.T) {
			archive := trees["testdata/nodes/"+name+".txtar"]
			root := createNode(t, archive)
			var got []string
			for _, s := range (Node{Root: root}).NewReader().Settings(t.Context()) {
				if !slices.Contains([]string{"--" + configFlag, "--" + binDirFlag, "--config"}, s.Name) {
					continue
				}
				got = append(got, strings.TrimSpace(fmt.Sprintf("%s = %s %s", s.Name, s.Value, s.Note)))
				for _, p := range s.Places {
					text := fmt.Sprintf("  %v %s %s %v", strings.TrimPrefix(p.String(), root), p.By, p.Value, p.Used)
					if p.Why != "" {
						text += ": " + p.Why
					}
					got = append(got, text)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
