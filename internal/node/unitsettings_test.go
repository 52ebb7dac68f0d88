// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package node

import (
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestUnitSettings verifies settings of the kubelet's unit that affect its flags: the working directory, removed variables,
// another root directory, and directories without executables.
func TestUnitSettings(t *testing.T) {
	const flags = "ExecStart=/usr/bin/kubelet --image-credential-provider-config=cp.yaml --image-credential-provider-bin-dir=bin\n"
	for _, tt := range []struct{ unit, config, binDir, problem, fixed string }{
		{unit: flags, config: "/cp.yaml", binDir: "/bin"},
		{unit: "WorkingDirectory=/opt/k\n" + flags, config: "/opt/k/cp.yaml", binDir: "/opt/k/bin"},
		{unit: "WorkingDirectory=/opt/k\nWorkingDirectory=-/opt/%p\n" + flags, config: "/opt/kubelet/cp.yaml", binDir: "/opt/kubelet/bin"},
		{unit: "WorkingDirectory=/opt/k\nWorkingDirectory=\n" + flags, config: "/cp.yaml", binDir: "/bin"},
		{unit: "WorkingDirectory=~\n" + flags, config: "/root/cp.yaml", binDir: "/root/bin"},
		{unit: "Environment=A=--image-credential-provider-config=/a\nUnsetEnvironment=A\nExecStart=/usr/bin/kubelet $A\n"},
		{unit: "Environment=A=--image-credential-provider-config=/a\nUnsetEnvironment=A=other B\nExecStart=/usr/bin/kubelet $A\n", config: "/a"},
		{unit: "RootDirectory=/chroot\n" + flags, config: "/cp.yaml", binDir: "/bin", problem: "kubelet.service:2 gives the kubelet another root directory"},
		{unit: "NoExecPaths=/\n" + flags, config: "/cp.yaml", binDir: "/bin", fixed: "kubelet.service:2 does not allow kubelet.service to execute files below /"},
		{unit: "NoExecPaths=/\nExecPaths=/usr /bin\n" + flags, config: "/cp.yaml", binDir: "/bin"},
		{unit: "ExecPaths=/\nInaccessiblePaths=-/bin\n" + flags, config: "/cp.yaml", binDir: "/bin", fixed: "files below /bin"},
		{unit: "NoExecPaths=/bi\n" + flags, config: "/cp.yaml", binDir: "/bin"},
	} {
		root := newRoot(t, map[string]string{"usr/lib/systemd/system/kubelet.service": "[Service]\n" + tt.unit, "usr/bin/kubelet": ""})
		s := must.Get(Node{Root: root}.NewReader().Setup(t.Context()))(t)
		if s.Config.Path != tt.config || s.BinDir.Path != tt.binDir || !strings.Contains(s.Unit.Problem, tt.problem) || !strings.Contains(s.BinDir.Fixed, tt.fixed) || tt.fixed == "" && s.BinDir.Fixed != "" {
			t.Errorf("%s: configuration %q, plugins %q, problem %q, %q", tt.unit, s.Config.Path, s.BinDir.Path, s.Unit.Problem, s.BinDir.Fixed)
		}
	}
}

// TestDropInReachedTwice verifies that regcred's drop-in is recognized if a symlink leads to its directory.
func TestDropInReachedTwice(t *testing.T) {
	root := newRoot(t, map[string]string{
		"usr/lib/systemd/system/kubelet.service":                   "[Service]\nExecStart=/usr/bin/kubelet\n",
		"usr/lib/systemd/system/kubelet.service.d/90-regcred.conf": "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet --image-credential-provider-config=/c --image-credential-provider-bin-dir=/b\n",
		"etc/systemd/system/none":                                  "",
	})
	must.Do(t, createFile(root+"/etc/systemd/system/kubelet.service.d", "link", []byte("/usr/lib/systemd/system/kubelet.service.d")))
	s := must.Get(Node{Root: root}.NewReader().Setup(t.Context()))(t)
	if s.Config.Path != "/c" || s.Vendor.Config.IsSet() || s.Unit.Ours == nil || s.Unit.Exec.Text != "/usr/bin/kubelet" {
		t.Errorf("configuration %q, without regcred %q, command %q", s.Config.Path, s.Vendor.Config.Path, s.Unit.Exec.Text)
	}
}
