// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/upstream/node"
	"github.com/regcred/regcred/upstream/plugins"
)

// TestMachine verifies that a machine with systemd runs a kubelet whose pods survive its restart, and start again after
// a reboot.
func TestMachine(t *testing.T) {
	node.SkipUnlessSupported(t)
	net := node.NewFakeNetwork(t)
	registry := node.StartRegistry(t, net, "registry.example", testregistry.Options{
		Auth: testregistry.AuthBasic, Users: map[string]string{"ci": canary.PasswordSecret},
	})
	image := registry.PushApp(t, "team/app", "v1")
	m := startMachine(t, net, "registry.example")
	checkMounts(t, m)
	if got := m.Run(t, "pwd"); got != "/\n" {
		t.Errorf("programs run in %q", got)
	}
	pod := node.NewPod("default", "app", image)
	m.Kubelet.AddStaticPod(t, pod)
	m.Kubelet.WaitStaticPodRunning(t, pod)
	if pulls := registry.ManifestRequests("team/app"); pulls[len(pulls)-1].User != "ci" {
		t.Errorf("pulled as %q, want ci", pulls[len(pulls)-1].User)
	}

	before, pid, boot := m.RunningContainerIDs(t), m.MainPID(t, "kubelet"), m.Run(t, "cat", "/proc/sys/kernel/random/boot_id")
	m.Restart(t, "kubelet")
	node.Eventually(t, restartTimeout, m.CheckHealthy)
	if now := m.MainPID(t, "kubelet"); now == pid {
		t.Errorf("the kubelet is still process %d", pid)
	}
	if diff := cmp.Diff(before, m.RunningContainerIDs(t)); diff != "" || len(before) != 1 {
		t.Errorf("containers are others (-before +after):\n%s", diff)
	}
	m.Reboot(t)
	m.Kubelet.WaitStaticPodRunning(t, pod)
	if after := m.RunningContainerIDs(t); slices.Equal(before, after) {
		t.Error("a container has outlived the machine")
	}
	if now := m.Run(t, "cat", "/proc/sys/kernel/random/boot_id"); now == boot {
		t.Error("the boot id is the same after a boot")
	}
	canary.AssertAbsent(t, "the kubelet's journal", m.UnitLog(t, "kubelet"))
}

// checkMounts checks that the machine has no persistent file system. It uses only the
// host's /usr, as the lower layer of an overlay, and devices.
func checkMounts(t *testing.T, m *node.Machine) {
	t.Helper()
	fleeting := strings.Fields("tmpfs overlay proc sysfs cgroup cgroup2 devpts mqueue")
	for line := range strings.Lines(m.Run(t, "findmnt", "--raw", "--noheadings", "--output", "FSTYPE,TARGET")) {
		kind, target, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !slices.Contains(fleeting, kind) && !strings.HasPrefix(target, "/dev/") {
			t.Errorf("%s is mounted, of type %s", target, kind)
		}
	}
}

// restartTimeout is the timeout for a kubelet's restart on a busy machine.
const restartTimeout = 90 * time.Second

// startMachine starts a machine whose kubelet has a plugin for one registry.
func startMachine(t *testing.T, net *testcloud.FakeNetwork, host string) *node.Machine {
	t.Helper()
	const config, binDir, password = "/etc/kubernetes/credential-providers.yaml", "/usr/local/bin/plugins", "/etc/kubernetes/password"
	providers := writeProviders(t, filepath.Join(t.TempDir(), "providers.yaml"), "v1", provider{
		name: plugins.Static, version: "v1", images: []string{host},
		args: []string{"--host", host, "--username", "ci", "--password-file", password},
	})
	text := must.Get(os.ReadFile(providers))(t)
	m := node.StartMachine(t, node.MachineOptions{
		Net:      net,
		Flags:    []string{"--image-credential-provider-config=" + config, "--image-credential-provider-bin-dir=" + binDir},
		Files:    map[string]string{config: string(text)},
		Programs: map[string]string{binDir + "/" + plugins.Static: filepath.Join(node.BinDir(), plugins.Static)},
	})
	m.WriteFile(t, password, canary.PasswordSecret, 0o600)
	return m
}
