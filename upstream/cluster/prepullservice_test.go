// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/upstream/node"
	"github.com/regcred/regcred/upstream/plugins"
)

const (
	prepullService = "regcred-prepull.service"
	prepullList    = "/etc/regcred/prepull.list"
	prepullSecret  = "/etc/regcred/registry-password"
)

// startPrepullMachine returns a machine with the prepull service of deploy/. Its pause image requires a
// credential. It has no list of images yet.
func startPrepullMachine(t *testing.T) (m *node.Machine, registry *node.Registry, pause string) {
	t.Helper()
	net, dir := node.NewFakeNetwork(t), t.TempDir()
	registry = node.StartRegistry(t, net, "", testregistry.Options{Auth: testregistry.AuthBasic, Users: map[string]string{"ci": canary.PasswordSecret}})
	pause = registry.PushApp(t, "infra/pause", "3")
	unit := must.Get(os.ReadFile("../../deploy/systemd/" + prepullService))(t)
	config := must.Get(os.ReadFile(writeProviders(t, filepath.Join(dir, "config.yaml"), "v1", provider{
		name: plugins.Static, version: "v1", images: []string{registry.Host},
		args: []string{"--host", registry.Host, "--username", "ci", "--password-file", prepullSecret},
	})))(t)
	m = node.StartMachine(t, node.MachineOptions{
		Net: net,
		Files: map[string]string{
			"/etc/systemd/system/" + prepullService:                       string(unit),
			"/etc/systemd/system/kubelet.service.wants/" + prepullService: "-> ../" + prepullService,
			"/var/lib/regcred/current":                                    "-> generations/1",
			"/var/lib/regcred/generations/1/config/node.yaml":             string(config),
			"/etc/containerd/config.toml": fmt.Sprintf("version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nrestrict_oom_score_adj = true\nsandbox_image = %q\n"+
				"[plugins.\"io.containerd.grpc.v1.cri\".containerd]\nsnapshotter = \"native\"\n", pause),
		},
		Programs: map[string]string{
			"/usr/local/bin/regcred":                               node.RegcredPath(),
			"/var/lib/regcred/generations/1/bin/" + plugins.Static: filepath.Join(node.BinDir(), plugins.Static),
		},
	})
	return m, registry, pause
}

// TestPrepullService verifies that the pause image is pulled at boot with the node's credentials,
// before the kubelet starts. If the service fails or hangs, the kubelet must start nevertheless,
// and later starts must not be delayed again.
func TestPrepullService(t *testing.T) {
	node.SkipUnlessSupported(t)
	m, registry, pause := startPrepullMachine(t)
	if got := unitState(t, m, prepullService); got != "inactive" || m.Containerd.HasImage(t, pause) {
		t.Errorf("without a list it is %s", got)
	}

	m.WriteFile(t, prepullList, "# none\n", 0o644)
	m.WriteFile(t, prepullSecret, canary.PasswordSecret, 0o600)
	m.Reboot(t)
	if got := unitState(t, m, prepullService); got != "active" {
		t.Errorf("it is %s:\n%s", got, m.UnitLog(t, prepullService))
	}
	if pulls := registry.ManifestRequests("infra/pause"); !m.Containerd.HasImage(t, pause) || len(pulls) == 0 || pulls[len(pulls)-1].User != "ci" {
		t.Errorf("pulled %+v:\n%s", pulls, m.UnitLog(t, prepullService))
	}
	pulled, started := unitProperty(t, m, prepullService, "ActiveEnterTimestampMonotonic"), unitProperty(t, m, "kubelet", "ExecMainStartTimestampMonotonic")
	if fmt.Sprintf("%20s", pulled) >= fmt.Sprintf("%20s", started) {
		t.Errorf("it was done after %s µs, and the kubelet started after %s", pulled, started)
	}
	pod := node.NewPod("default", "app", registry.PushApp(t, "team/none", "v1"))
	m.Kubelet.AddStaticPod(t, pod)
	m.Kubelet.WaitStaticPodWaiting(t, pod, "team/none:v1") // the pod waits only for its own image: its sandbox is running

	m.WriteFile(t, prepullList, registry.Host+"/team/missing:v1\n", 0o644)
	m.Run(t, "systemctl", "stop", prepullService)
	restartWithBrokenService(t, m, "Failed with result 'exit-code'")
	said := m.UnitLog(t, prepullService)
	canary.AssertAbsent(t, "the service's journal", said)
	if !strings.Contains(said, "the pause image is "+pause) || !strings.Contains(said, "team/missing:v1: ") {
		t.Errorf("it said:\n%s", said)
	}
	// systemd refuses the third start within an hour.
	restartWithBrokenService(t, m, "Start request repeated too quickly")

	registry.Inject(testregistry.Fault{Kind: testregistry.FaultSlow, Endpoint: testregistry.EndpointBlobs, Delay: time.Minute, Times: testregistry.Forever})
	m.WriteFile(t, prepullList, registry.PushApp(t, "team/slow", "v1")+"\n", 0o644)
	m.WriteFile(t, "/etc/systemd/system/"+prepullService+".d/soon.conf", "[Service]\nTimeoutStartSec=1s\n", 0o644)
	m.Run(t, "systemctl", "daemon-reload")
	m.Run(t, "systemctl", "reset-failed", prepullService)
	restartWithBrokenService(t, m, "Failed with result 'timeout'")
}

// restartWithBrokenService restarts the kubelet and checks that it becomes healthy although the
// service fails. The service's journal must contain why.
func restartWithBrokenService(t *testing.T, m *node.Machine, why string) {
	t.Helper()
	kubelet, said := m.MainPID(t, "kubelet"), m.UnitLog(t, prepullService)
	m.Restart(t, "kubelet")
	node.Eventually(t, restartTimeout, m.CheckHealthy)
	state, says := unitState(t, m, prepullService), m.UnitLog(t, prepullService)[len(said):]
	if state != "failed" || !strings.Contains(says, why) || m.MainPID(t, "kubelet") == kubelet {
		t.Errorf("the service is %s, want it failed with %q in:\n%s", state, why, says)
	}
}

func unitState(t *testing.T, m *node.Machine, unit string) string {
	t.Helper()
	return unitProperty(t, m, unit, "ActiveState")
}

func unitProperty(t *testing.T, m *node.Machine, unit, name string) string {
	t.Helper()
	return strings.TrimSpace(m.Run(t, "systemctl", "show", "--property="+name, "--value", unit))
}
