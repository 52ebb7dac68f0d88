// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/node"
	"github.com/regcred/regcred/upstream/plugins"
)

// eksDir is the directory of the kubelet's providers and their configuration on EKS.
const eksDir = "/etc/eks/image-credential-provider"

// eksLayout configures a kubelet as EKS does on Amazon Linux 2023 (awslabs/amazon-eks-ami:
// templates/al2023, nodeadm). The kubelet's unit is not enabled. At each boot, nodeadm-run writes
// the unit's files and starts it.
func eksLayout(providers string) node.LayoutFunc {
	return func(config string, flags []string) map[string]string {
		flags = append(flags, "--config=/etc/kubernetes/kubelet/config.json",
			"--image-credential-provider-config="+eksDir+"/config.json", "--image-credential-provider-bin-dir="+eksDir)
		return map[string]string{
			"/etc/systemd/system/kubelet.service": "[Unit]\nAfter=containerd.service\n[Service]\nEnvironmentFile=/etc/eks/kubelet/environment\n" +
				"ExecStart=/usr/bin/kubelet $NODEADM_KUBELET_ARGS\nRestart=on-failure\nRestartForceExitStatus=SIGPIPE\nRestartSec=5\nKillMode=process\n",
			"/etc/systemd/system/nodeadm-run.service": "[Unit]\nAfter=containerd.service\n[Service]\nType=oneshot\nRemainAfterExit=yes\n" +
				"ExecStart=/usr/bin/nodeadm init --config-source imds://user-data --config-source file:///etc/eks/nodeadm.d\n",
			"/etc/systemd/system/multi-user.target.wants/nodeadm-run.service": "-> ../nodeadm-run.service",
			"/etc/kubernetes/kubelet/config.json":                             config,
			"/etc/eks/kubelet/environment":                                    "",
			"/etc/eks/nodeadm.d/.keep":                                        "",
			"/usr/share/nodeadm/flags":                                        strings.Join(flags, " "),
			"/usr/share/nodeadm/config.json":                                  providers,
			"/etc/os-release":                                                 "ID=amzn\nVERSION_ID=2023\n",
		}
	}
}

// TestLifeOnEKS verifies that an installation survives a boot, at which nodeadm rewrites the kubelet's files.
func TestLifeOnEKS(t *testing.T) {
	node.SkipUnlessSupported(t)
	nodeadm := must.Get(plugins.BuildInRepository(t.TempDir(), "node/nodeadm"))(t)
	l := startLifecycleMachine(t, node.MachineOptions{
		Layout: eksLayout(providersForHosts(t, thirdPartyHost)),
		Programs: map[string]string{
			"/usr/bin/nodeadm":                        nodeadm,
			eksDir + "/" + providerForHost(thirdPartyHost): filepath.Join(node.BinDir(), plugins.Static),
		},
	})
	before := l.describeFiles(t)
	l.checkPull(t, thirdPartyHost)
	l.checkPullRefused(t, firstHost)
	l.checkRestart(t, func() { l.install(t, 0, "first.yaml", "--restart", "--stable=2s") })
	works := func(when string) {
		t.Log(when)
		l.checkPull(t, firstHost)
		l.checkPull(t, thirdPartyHost)
		l.runRegcred(t, v1, 0, "status")
	}
	works("installed")
	// At the next boot, nodeadm overwrites any change to its files.
	l.m.WriteFile(t, "/etc/eks/kubelet/environment", "NODEADM_KUBELET_ARGS=--no-such-flag\n", 0o644)
	l.m.WriteFile(t, eksDir+"/config.json", "{}", 0o644)
	l.m.Reboot(t)
	works("booted")
	l.checkRestart(t, func() { l.runRegcred(t, v1, 0, "uninstall", "--restart", "--stable=2s") })
	for _, again := range []func(){
		func() {},
		// A kubelet that starts after the uninstall needs no file of regcred.
		func() {
			l.checkRestart(t, func() { l.m.Restart(t, "kubelet"); node.Eventually(t, restartTimeout, l.m.CheckHealthy) })
		},
		func() { l.m.Reboot(t) },
	} {
		again()
		l.checkTree(t, before)
		l.checkPull(t, thirdPartyHost)
		l.checkPullRefused(t, firstHost)
	}
}
