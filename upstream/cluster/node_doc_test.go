// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/upstream/node"
	"github.com/regcred/regcred/upstream/transcript"
)

// TestNodeDoc runs the commands in docs/node-walkthrough.md and compares their output.
func TestNodeDoc(t *testing.T) {
	node.SkipUnlessSupported(t)
	node.RequireDefaultKubelet(t, "docs/node-walkthrough.md shows its version")
	transcript.Replay(t, "../../docs/node-walkthrough.md", "## Walkthrough\n", func(section string) func(*testing.T, string) string {
		l := startLifecycleMachine(t, node.MachineOptions{})
		for _, host := range []string{firstHost, laterHost} {
			l.registry[host].PushApp(t, "team/app", "v1")
			l.registry[host].PushApp(t, "team/app", "v2")
		}
		for name, content := range transcript.ExampleFiles(section) {
			l.m.WriteFile(t, operatorDir+"/"+name, content, 0o600)
		}
		return l.runShell
	})
}

// runShell runs a command line with the first release in PATH, and returns its output. It ignores the
// exit code because some commands are expected to fail.
func (l *lifecycleMachine) runShell(t *testing.T, command string) string {
	t.Helper()
	cmd := l.m.Command(t.Context(), "sh", "-c", "cd "+operatorDir+" && PATH=/opt/regcred-"+v1+":$PATH\n"+command)
	said, _ := cmd.CombinedOutput()
	canary.AssertAbsent(t, command, string(said))
	return string(said)
}
