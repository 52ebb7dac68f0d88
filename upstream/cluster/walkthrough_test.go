// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/upstream/node"
	"github.com/regcred/regcred/upstream/transcript"
)

// TestWalkThrough runs the commands in docs/service-accounts.md on a new node and compares their
// output.
func TestWalkThrough(t *testing.T) {
	node.SkipUnlessSupported(t)
	node.FeatureCacheType.SkipUnlessSupported(t) // required by the documentation's configuration
	transcript.Replay(t, "../../docs/service-accounts.md", "## Walkthrough\n", func(section string) func(*testing.T, string) string {
		return startWalkthrough(t, section).runCommand
	})
}

// walkthrough is a node for the walk-through.
type walkthrough struct {
	dir     string
	environ []string

	shown, real *strings.Replacer // replace real paths and addresses with the documented ones, and the reverse
}

// startWalkthrough creates the walk-through's initial state: a registry that trusts the cluster, and a
// node with the documented configuration.
func startWalkthrough(t *testing.T, section string) *walkthrough {
	t.Helper()
	w := &walkthrough{dir: t.TempDir()}
	for name, content := range transcript.ExampleFiles(section) {
		writeFile(t, filepath.Join(w.dir, name), content)
	}
	net := node.NewFakeNetwork(t)
	control := node.StartControlPlane(t)
	guard := startTokenRegistry(t, net, control, testregistry.Options{
		Rules: []testregistry.Rule{{User: "team.puller", Prefix: "team", Pull: true}},
	})
	guard.PushApp(t, "team/app", "v1")
	node.StartKubelet(t, node.KubeletOptions{
		Runtime: node.StartContainerd(t, net), ControlPlane: control,
		ProviderConfig: filepath.Join(w.dir, "providers.yaml"), BinDir: node.BinDir(),
		Config: node.FeaturePullRecords.EnablingConfig(t), // otherwise the second pod would need no credentials
	})
	home := t.TempDir()
	w.environ = []string{
		"PATH=" + filepath.Dir(node.RegcredPath()) + ":" + os.Getenv("PATH"), "HOME=" + home,
		"KUBECONFIG=" + control.WriteKubeconfig(t, "admin", "system:masters"),
	}
	w.shown = strings.NewReplacer(w.dir, "/etc/kubernetes", node.BinDir(), "/opt/plugins", control.URL, "https://10.0.0.1:6443")
	w.real = strings.NewReplacer("/etc/kubernetes", w.dir, "/opt/plugins", node.BinDir())
	return w
}

// pluginErrorSuffix matches the text that a kubelet appends to events if it reports plugin errors
// to pods.
var pluginErrorSuffix = regexp.MustCompile(`; image credential providers: .*`)

// tokenRequestDenied matches the API server's message since 1.37. The documentation quotes the
// earlier message.
var tokenRequestDenied = regexp.MustCompile(`(system:node:\S+) is not authorized to request tokens for audience "([^"]+)"`)

var kubeletConfigFlagPattern = regexp.MustCompile(`[^ (]*/kubeconfig\d+/kubeconfig`)

// runCommand runs a command line with a shell and returns its output.
func (w *walkthrough) runCommand(t *testing.T, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", w.real.Replace(command))
	cmd.Dir, cmd.Env = w.dir, w.environ
	out, _ := cmd.CombinedOutput() // some are expected to fail
	if node.FeatureReportsToPods.IsEnabled() {
		out = pluginErrorSuffix.ReplaceAll(out, nil)
	}
	out = tokenRequestDenied.ReplaceAll(out, []byte(`audience "$2" not found in pod spec volume, $1 is not authorized to request tokens for this audience`))
	return kubeletConfigFlagPattern.ReplaceAllString(w.shown.Replace(string(out)), "/etc/kubernetes/kubelet.conf")
}
