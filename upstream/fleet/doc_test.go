// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/node"
	"github.com/regcred/regcred/upstream/plugins"
	"github.com/regcred/regcred/upstream/transcript"
)

// testWalkthrough runs the commands in docs/fleet-walkthrough.md and compares their output.
func (f *clusterFleet) testWalkthrough(t *testing.T) {
	before := f.describeAllNodeFiles(t)
	transcript.Replay(t, "../../docs/fleet-walkthrough.md", "## Walkthrough\n", func(section string) func(*testing.T, string) string {
		f.addNamespace(t, "regcred")
		f.registry[firstHost].PushApp(t, "team/probe", "v1")
		dir := t.TempDir()
		root := must.Get(plugins.RepositoryRoot())(t)
		must.Do(t, os.Symlink(filepath.Join(root, "deploy"), filepath.Join(dir, "deploy")))
		for name, content := range transcript.ExampleFiles(section) {
			must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		}
		shown := strings.NewReplacer(f.kubeconfig, "/root/.kube/config", f.URL, "https://192.0.2.1:6443")
		environ := append(f.helm.Environ(), "PATH="+filepath.Dir(f.helm.Path())+":"+filepath.Dir(node.RegcredPath())+":"+os.Getenv("PATH"))
		return func(t *testing.T, command string) string {
			t.Helper()
			cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
			cmd.Dir, cmd.Env = dir, environ
			out, _ := cmd.CombinedOutput() // some commands are expected to fail
			canary.AssertAbsent(t, command, string(out))
			return shown.Replace(f.swapNodeNames(t, string(out)))
		}
	})
	f.checkNodeFiles(t, before)
}

// swapNodeNames swaps the names of the two nodes in a command's output if the second node failed.
// It is random which node is updated first.
func (f *clusterFleet) swapNodeNames(t *testing.T, said string) string {
	t.Helper()
	r := &release{f, "regcred", "regcred"}
	if err := r.statusError(context.WithoutCancel(t.Context()), nodeB, `"phase":"failed"`); err != nil {
		return said
	}
	lines := strings.Split(strings.NewReplacer(nodeA, nodeB, nodeB, nodeA).Replace(said), "\n")
	for i := 1; i < len(lines); i++ {
		if strings.HasPrefix(lines[i-1], nodeB) && strings.HasPrefix(lines[i], nodeA) {
			lines[i-1], lines[i] = lines[i], lines[i-1]
		}
	}
	return strings.Join(lines, "\n")
}
