// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/upstream/node"
)

// TestLife: a node's life with regcred, from a kubelet that has no flags to one
// that has none again.
func TestLife(t *testing.T) {
	node.Require(t)
	l := startLife(t, node.MachineOptions{})
	before := l.tree(t)
	t.Run("the kubelet does not come back from the first install", func(t *testing.T) {
		l.testBroken(t)
		l.checkTree(t, before)
		l.regcred(t, v1, 3, "status")
	})
	l.live(t, func(*testing.T) {}, func(*testing.T) {})
}

// TestLifeBesideOthers: the same where the kubelet has both flags already, and
// a provider of somebody else, which works throughout.
func TestLifeBesideOthers(t *testing.T) {
	node.Require(t)
	const config, binDir = "/etc/kubernetes/credential-providers.yaml", "/usr/local/bin/plugins"
	l := startLife(t, node.MachineOptions{
		Flags:    []string{"--image-credential-provider-config=" + config, "--image-credential-provider-bin-dir=" + binDir},
		Files:    map[string]string{config: "# Somebody else's.\n" + providersOf(t, foreign)},
		Programs: map[string]string{binDir + "/" + providerOf(foreign): filepath.Join(node.BinDir(), "static-credential-provider")},
	})
	l.live(t, func(t *testing.T) { l.pulls(t, foreign) }, func(t *testing.T) {
		l.testBroken(t)
		l.pulls(t, first)
	})
}

// live is the life, with something in the middle. After each step others are
// asked how they are.
func (l *life) live(t *testing.T, others, middle func(*testing.T)) {
	step := func(name string, f func(*testing.T)) {
		if t.Failed() {
			return // what follows would tell nothing
		}
		t.Run(name, func(t *testing.T) {
			f(t)
			others(t)
		})
	}
	before := l.tree(t)
	step("before", func(t *testing.T) { l.refuses(t, first) })
	step("a restart is not allowed", func(t *testing.T) {
		l.unchanged(t, func() { l.kept(t, func() { l.says(t, l.install(t, 1, "first.yaml"), "--restart") }) })
	})
	step("installed", func(t *testing.T) {
		l.restarted(t, func() { l.install(t, 0, "first.yaml", "--reserve", later, "--restart", "--stable=2s") })
		l.pulls(t, first)
	})
	step("added", func(t *testing.T) {
		l.refuses(t, later)
		l.kept(t, func() { l.install(t, 0, "both.yaml") })
		l.pulls(t, first)
		l.pulls(t, later)
	})
	step("removed", func(t *testing.T) {
		l.kept(t, func() { l.install(t, 0, "first.yaml") })
		l.refuses(t, later)
		l.pulls(t, first)
	})
	step("wrong", func(t *testing.T) {
		l.unchanged(t, func() {
			l.kept(t, func() { l.says(t, l.install(t, 1, "wrong.yaml", "--restart", "--stable=2s"), "matchImage") })
		})
	})
	step("in the middle", middle)
	step("upgraded", func(t *testing.T) {
		l.kept(t, func() { l.regcred(t, v2, 0, "install", "--plugin", release(v2, providerOf(first))) })
		l.runs(t, v2)
		l.pulls(t, first)
	})
	step("downgraded", func(t *testing.T) {
		l.kept(t, func() { l.regcred(t, v1, 0, "rollback") })
		l.runs(t, v1)
		l.pulls(t, first)
	})
	step("uninstalled", func(t *testing.T) {
		l.restarted(t, func() { l.regcred(t, v2, 0, "uninstall", "--restart", "--stable=2s") })
		l.checkTree(t, before)
		l.refuses(t, first)
	})
}

// says checks for a text.
func (l *life) says(t *testing.T, said, text string) {
	t.Helper()
	if !strings.Contains(said, text) {
		t.Errorf("there is no %q in:\n%s", text, said)
	}
}

// stubborn is a kubelet that is given a flag which it does not know as soon as
// it has to serve a host.
const stubborn = `#!/bin/sh
for arg; do
	case $arg in
	--image-credential-provider-config=*)
		grep -rq ` + broken + ` "${arg#*=}" && set -- "$@" --no-such-flag
		;;
	esac
done
exec /opt/real/kubelet "$@"
`

// testBroken: a kubelet that does not start with what it is given gets back
// what it had.
func (l *life) testBroken(t *testing.T) {
	l.m.Run(t, "mkdir", "/opt/real")
	l.m.Run(t, "mv", "/usr/bin/kubelet", "/opt/real/kubelet")
	l.m.WriteFile(t, "/usr/bin/kubelet", stubborn, 0o755)
	l.unchanged(t, func() {
		l.restarted(t, func() {
			said := l.install(t, 1, "broken.yaml", "--restart", "--stable=2s")
			l.says(t, said, "unknown flag: --no-such-flag")
			l.says(t, said, "the change was rolled back")
		})
	})
	l.m.Run(t, "mv", "/opt/real/kubelet", "/usr/bin/kubelet")
	l.m.Run(t, "rmdir", "/opt/real")
}

// runs: what a pull runs is of a release.
func (l *life) runs(t *testing.T, version string) {
	t.Helper()
	for path, program := range map[string]string{
		lifeState + "/regcred-credential-provider":      "regcred-credential-provider",
		lifeState + "/current/bin/" + providerOf(first): providerOf(first),
	} {
		l.m.Run(t, "cmp", path, release(version, program))
	}
}
