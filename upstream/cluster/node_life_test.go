// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/upstream/node"
)

// TestNodeLifecycle verifies the life cycle of regcred on a node. It begins with a kubelet without
// credential provider flags. After the uninstall, the kubelet must be in the same state.
func TestNodeLifecycle(t *testing.T) {
	node.SkipUnlessSupported(t)
	l := startLifecycleMachine(t, node.MachineOptions{})
	before := l.describeFiles(t)
	t.Run("the kubelet does not come back from the first install", func(t *testing.T) {
		l.testBrokenConfig(t)
		l.checkTree(t, before)
		l.runRegcred(t, v1, 3, "status")
	})
	l.runSteps(t, func(*testing.T) {}, func(*testing.T) {})
}

// TestLifecycleWithThirdParty verifies the life cycle for a kubelet that already has both flags and
// a third-party provider. That provider must work at every step.
func TestLifecycleWithThirdParty(t *testing.T) {
	node.SkipUnlessSupported(t)
	const config, binDir = "/etc/kubernetes/credential-providers.yaml", "/usr/local/bin/plugins"
	l := startLifecycleMachine(t, node.MachineOptions{
		Flags:    []string{"--image-credential-provider-config=" + config, "--image-credential-provider-bin-dir=" + binDir},
		Files:    map[string]string{config: "# Somebody else's.\n" + providersForHosts(t, thirdPartyHost)},
		Programs: map[string]string{binDir + "/" + providerForHost(thirdPartyHost): filepath.Join(node.BinDir(), "static-credential-provider")},
	})
	l.runSteps(t, func(t *testing.T) { l.checkPull(t, thirdPartyHost) }, func(t *testing.T) {
		l.testBrokenConfig(t)
		l.checkPull(t, firstHost)
	})
}

// runSteps runs the steps of the life cycle. After each step it calls others, which checks the
// third-party provider. It calls middle halfway.
func (l *lifecycleMachine) runSteps(t *testing.T, others, middle func(*testing.T)) {
	step := func(name string, f func(*testing.T)) {
		if t.Failed() {
			return // later steps depend on this one
		}
		t.Run(name, func(t *testing.T) {
			f(t)
			others(t)
		})
	}
	before := l.describeFiles(t)
	step("before", func(t *testing.T) { l.checkPullRefused(t, firstHost) })
	step("a restart is not allowed", func(t *testing.T) {
		l.checkUnchanged(t, func() { l.checkNoRestart(t, func() { l.checkText(t, l.install(t, 1, "first.yaml"), "--restart") }) })
	})
	step("installed", func(t *testing.T) {
		l.checkRestart(t, func() { l.install(t, 0, "first.yaml", "--reserve", laterHost, "--restart", "--stable=2s") })
		l.checkPull(t, firstHost)
	})
	step("added", func(t *testing.T) {
		l.checkPullRefused(t, laterHost)
		l.checkNoRestart(t, func() { l.install(t, 0, "both.yaml") })
		l.checkPull(t, firstHost)
		l.checkPull(t, laterHost)
	})
	step("removed", func(t *testing.T) {
		l.checkNoRestart(t, func() { l.install(t, 0, "first.yaml") })
		l.checkPullRefused(t, laterHost)
		l.checkPull(t, firstHost)
	})
	step("wrong", func(t *testing.T) {
		l.checkUnchanged(t, func() {
			l.checkNoRestart(t, func() { l.checkText(t, l.install(t, 1, "wrong.yaml", "--restart", "--stable=2s"), "matchImage") })
		})
	})
	step("in the middle", middle)
	step("upgraded", func(t *testing.T) {
		l.checkNoRestart(t, func() { l.runRegcred(t, v2, 0, "install", "--plugin", releasePath(v2, providerForHost(firstHost))) })
		l.checkRelease(t, v2)
		l.checkPull(t, firstHost)
	})
	step("downgraded", func(t *testing.T) {
		l.checkNoRestart(t, func() { l.runRegcred(t, v1, 0, "rollback") })
		l.checkRelease(t, v1)
		l.checkPull(t, firstHost)
	})
	step("uninstalled", func(t *testing.T) {
		l.checkRestart(t, func() { l.runRegcred(t, v2, 0, "uninstall", "--restart", "--stable=2s") })
		l.checkTree(t, before)
		l.checkPullRefused(t, firstHost)
	})
}

// checkText checks that said contains text.
func (l *lifecycleMachine) checkText(t *testing.T, said, text string) {
	t.Helper()
	if !strings.Contains(said, text) {
		t.Errorf("there is no %q in:\n%s", text, said)
	}
}

// failingKubeletScript is a script that starts the kubelet. If the kubelet's configuration covers the host
// broken, it adds an unknown flag.
const failingKubeletScript = `#!/bin/sh
for arg; do
	case $arg in
	--image-credential-provider-config=*)
		grep -rq ` + brokenHost + ` "${arg#*=}" && set -- "$@" --no-such-flag
		;;
	esac
done
exec /opt/real/kubelet "$@"
`

// testBrokenConfig verifies that install rolls back a configuration with which the kubelet does not
// start.
func (l *lifecycleMachine) testBrokenConfig(t *testing.T) {
	l.m.Run(t, "mkdir", "/opt/real")
	l.m.Run(t, "mv", "/usr/bin/kubelet", "/opt/real/kubelet")
	l.m.WriteFile(t, "/usr/bin/kubelet", failingKubeletScript, 0o755)
	l.checkUnchanged(t, func() {
		l.checkRestart(t, func() {
			said := l.install(t, 1, "broken.yaml", "--restart", "--stable=2s")
			l.checkText(t, said, "unknown flag: --no-such-flag")
			l.checkText(t, said, "the change was rolled back")
		})
	})
	l.m.Run(t, "mv", "/opt/real/kubelet", "/usr/bin/kubelet")
	l.m.Run(t, "rmdir", "/opt/real")
}

// checkRelease checks that the installed dispatcher and plugin are from this release.
func (l *lifecycleMachine) checkRelease(t *testing.T, version string) {
	t.Helper()
	for path, program := range map[string]string{
		stateDir + "/regcred-credential-provider":          "regcred-credential-provider",
		stateDir + "/current/bin/" + providerForHost(firstHost): providerForHost(firstHost),
	} {
		l.m.Run(t, "cmp", path, releasePath(version, program))
	}
}
