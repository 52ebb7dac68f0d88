// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package install_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/node"
)

// layout describes a node before regcred is installed.
type layout struct {
	name    string
	version string            // kubelet version
	files   map[string]string // contents by path
	spoil   func(*node.Setup) // changes to the Setup that files cannot cause, such as read-only mounts
	tree    *txtar.Archive    // node tree with the files, instead of files
}

const (
	unitFile   = "usr/lib/systemd/system/kubelet.service"
	kubeadmTen = "usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf"
	kubeadmEnv = "var/lib/kubelet/kubeadm-flags.env"

	plainUnit   = "[Service]\nExecStart=/usr/bin/kubelet\nRestart=always\n"
	kubeadmUnit = "[Service]\nEnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env\nExecStart=\nExecStart=/usr/bin/kubelet $KUBELET_KUBEADM_ARGS\n"

	foreignJSON = `{
  "apiVersion": "kubelet.config.k8s.io/v1",
  "kind": "CredentialProviderConfig",
  "providers": [
    {"name": "foreign", "matchImages": ["foreign.example"], "defaultCacheDuration": "1m", "apiVersion": "credentialprovider.kubelet.k8s.io/v1"}
  ]
}`
	foreignYAML = `# Who may pull here.
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
# The team's own.
- name: foreign   # do not touch
  matchImages:
  - "foreign.example"
  defaultCacheDuration: 1m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
# The end.
`
)

func kubeadmFiles(args string) map[string]string {
	return map[string]string{
		"usr/bin/kubelet": "", unitFile: plainUnit, kubeadmTen: kubeadmUnit,
		kubeadmEnv: "KUBELET_KUBEADM_ARGS=\"--a=b" + args + "\"\n", "opt/plugins/foreign": "#!/bin/sh\n", "opt/plugins/another": "#!/bin/sh\n", "etc/kubernetes/kubelet.conf": "x",
	}
}

func withFiles(files map[string]string, more map[string]string) map[string]string {
	for name, text := range more {
		files[name] = text
	}
	return files
}

func flagsFor(config string) string {
	return " --image-credential-provider-config=" + config + " --image-credential-provider-bin-dir=/opt/plugins"
}

func layouts() []layout {
	return []layout{
		{name: "kubeadm", version: "1.34.1", files: kubeadmFiles("")},
		{name: "json", version: "1.34.1", files: withFiles(kubeadmFiles(flagsFor("/etc/kubernetes/cred.json")), map[string]string{"etc/kubernetes/cred.json": foreignJSON})},
		{name: "yaml", version: "1.34.1", files: withFiles(kubeadmFiles(flagsFor("/etc/kubernetes/cred.yaml")), map[string]string{"etc/kubernetes/cred.yaml": foreignYAML})},
		{name: "directory", version: "1.34.1", files: withFiles(kubeadmFiles(flagsFor("/etc/kubernetes/cred.d")), map[string]string{"etc/kubernetes/cred.d/10-foreign.yaml": foreignYAML})},
		{name: "k3s", version: "1.34.1", files: map[string]string{
			"usr/local/bin/k3s":                "",
			"etc/systemd/system/k3s.service":   "[Service]\nType=notify\nExecStart=/usr/local/bin/k3s \\\n    server \\\n\n",
			"var/lib/rancher/k3s/server/token": "x",
		}},
		{name: "eks", version: "1.34.1", files: map[string]string{
			"usr/bin/kubelet": "", "etc/systemd/system/kubelet.service": "[Service]\nEnvironmentFile=/etc/eks/kubelet/environment\nExecStart=/usr/bin/kubelet $NODEADM_KUBELET_ARGS\n",
			"etc/systemd/system/nodeadm-run.service":        "[Service]\nExecStart=/usr/bin/nodeadm init --skip config --config-source imds://user-data --config-source file:///etc/eks/nodeadm.d\n",
			"etc/eks/kubelet/environment":                   "NODEADM_KUBELET_ARGS=\"" + flagsFor("/etc/eks/image-credential-provider/config.json") + "\"\n",
			"etc/eks/image-credential-provider/config.json": foreignJSON, "opt/plugins/foreign": "#!/bin/sh\n",
		}},
		{name: "read-only bin dir", version: "1.34.1", files: withFiles(kubeadmFiles(flagsFor("/etc/kubernetes/cred.json")), map[string]string{"etc/kubernetes/cred.json": foreignJSON}),
			spoil: func(s *node.Setup) {
				s.Vendor.BinDir.Fixed, s.Way = "/opt is mounted read-only", node.MethodDropIn
			}},
		{name: "all read-only, old kubelet", version: "1.33.4", files: withFiles(kubeadmFiles(flagsFor("/opt/plugins/cred.json")), map[string]string{"opt/plugins/cred.json": foreignJSON}),
			spoil: func(s *node.Setup) {
				s.Vendor.BinDir.Fixed, s.Vendor.Config.Fixed, s.Way = "/opt is mounted read-only", "/opt is mounted read-only", node.MethodDropIn
			}},
	}
}

func findLayout(t testing.TB, name string) layout {
	t.Helper()
	for _, l := range layouts() {
		if l.name == name {
			return l
		}
	}
	t.Fatalf("no layout %q", name)
	return layout{}
}

// writeFiles writes the files of a layout below root.
func (l layout) writeFiles(t testing.TB, root string) {
	t.Helper()
	for _, dir := range []string{"etc/systemd/system", "var/lib"} {
		must.Do(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	for name, text := range l.files {
		name = filepath.Join(root, name)
		mode := os.FileMode(0o644)
		if filepath.Ext(name) == "" {
			mode = 0o755
		}
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), mode)))
	}
}
