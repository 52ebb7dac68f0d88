// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/regcred/regcred/internal/agent"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/runstats"
)

// treeHost runs the real regcred on a node's file tree. No process of the node is running, so
// regcred cannot restart anything.
type treeHost struct {
	regcred string
	root    string
	work    string
	stderr  bytes.Buffer
	args    []string // arguments of each run, without paths
}

func (h *treeHost) Path(name string) string { return filepath.Join(h.work, "host", name) }

func (h *treeHost) Run(ctx context.Context, args ...string) ([]byte, int, error) {
	h.args = append(h.args, args[0])
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--restart" })
	cmd := exec.CommandContext(ctx, h.regcred, append(args, "--root", h.root)...)
	cmd.Env = []string{"GORACE=" + noRaceSleep}
	cmd.Stderr = &h.stderr
	out, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return out, e.ExitCode(), nil
	}
	return out, 0, err
}

// nodeTree writes a node's file tree from the test data of package node, and returns its root.
func nodeTree(t *testing.T, name string) (root string) {
	t.Helper()
	archive := must.Get(txtar.ParseFile("../../internal/node/testdata/nodes/" + name + ".txtar"))(t)
	root = t.TempDir()
	for _, dir := range []string{"etc/systemd/system", "var/lib"} {
		must.Do(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	for _, f := range archive.Files {
		if strings.HasPrefix(f.Name, "/") {
			mode := os.FileMode(0o644)
			if filepath.Ext(f.Name) == "" {
				mode = 0o755
			}
			writeFile(t, filepath.Join(root, f.Name), string(f.Data), mode)
		}
	}
	return root
}

// fileTree returns the content of all files below root.
func fileTree(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text += " " + string(data)
		case info.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			text += " " + target
		}
		found[strings.TrimPrefix(name, root)] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// testAgent is an agent for a node's file tree.
type testAgent struct {
	*agent.Agent
	host     *treeHost
	dir      string
	mu       sync.Mutex
	lines    []agent.Status // guarded by mu
	messages []string
}

const agentConfig = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: good
  matchImages: [registry.example]
  defaultCacheDuration: 1m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: [--token=` + canary.ArgSecret + `]
  env: [{name: SOME_PASSWORD, value: ` + canary.EnvSecret + `}]
`

func newTestAgent(t *testing.T, name string) *testAgent {
	t.Helper()
	regcred := must.Get(exec.LookPath("regcred"))(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	a := &testAgent{dir: dir, host: &treeHost{regcred: regcred, root: nodeTree(t, name), work: in("work")}}
	// The kubelet mounts a ConfigMap with these symlinks.
	writeFile(t, in("config/..2026/providers.yaml"), agentConfig, 0o600)
	for link, target := range map[string]string{"config/..data": "..2026", "config/providers.yaml": "..data/providers.yaml"} {
		must.Do(t, os.Symlink(target, in(link)))
	}
	writeFile(t, in("state/state"), "present", 0o600)
	must.Do(t, linkPlugins(in("plugins")))
	a.Agent = &agent.Agent{
		Options: agent.Options{
			Node: "n1", Owner: "ns/rel", Revision: "rel-1", Config: in("config"), StateFile: in("state/state"), Plugins: in("none"), ImagePlugins: in("plugins"),
			WorkDir: in("work"), RegcredPath: regcred, DispatcherPath: in("plugins/good"), Install: agent.InstallFlags{Restart: true},
		},
		Host: a.host,
		PrintStatus: func(line []byte) error {
			canary.AssertAbsent(t, "a line", string(line))
			a.mu.Lock()
			defer a.mu.Unlock()
			a.lines = append(a.lines, agent.Status{})
			return json.Unmarshal(line, &a.lines[len(a.lines)-1])
		},
		Log: func(text string) { a.messages = append(a.messages, text) },
	}
	return a
}

// runFor runs the agent in fake time. It calls each function and then waits for one minute of fake
// time.
func (a *testAgent) runFor(t *testing.T, each ...func()) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		time.Sleep(time.Second)
		for _, f := range each {
			f()
			time.Sleep(time.Minute)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	canary.AssertAbsent(t, "the log", strings.Join(a.messages, "\n")+a.host.stderr.String())
}

func (a *testAgent) lastStatus() agent.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lines[len(a.lines)-1]
}

// TestAgentOnTrees checks how the agent handles the real regcred's output on each kind
// of node.
func TestAgentOnTrees(t *testing.T) {
	for name, want := range map[string]struct {
		phase  agent.Phase
		reason string
	}{
		"kubeadm-deb":  {agent.PhaseInstalled, ""},
		"k3s-agent":    {agent.PhaseInstalled, ""},
		"talos":        {agent.PhaseUnsupported, "cannot install on this node (talos): "},
		"bottlerocket": {agent.PhaseUnsupported, "cannot install on this node (bottlerocket): "},
		"gke":          {agent.PhaseUnsupported, "cannot install on this node (gke): "},
		"k0s":          {agent.PhaseUnsupported, "cannot install on this node (k0s): "},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTestAgent(t, name)
			before := fileTree(t, a.host.root)
			a.runFor(t)
			s := a.lastStatus()
			if s.Phase != want.phase || !strings.HasPrefix(s.Reason, want.reason) || s.Kind == "" || (s.Phase == agent.PhaseInstalled) != (s.Generation == 1) {
				t.Fatalf("%+v\n%v\n%s", s, a.messages, a.host.stderr.String())
			}
			if told := strings.Contains(strings.Join(a.messages, "\n"), "(hidden)") || slices.Contains([]string{"kubeadm-deb", "k3s-agent", "gke"}, name); !told {
				t.Errorf("the manual step is missing: %q", a.messages)
			}
			if want.phase != agent.PhaseInstalled {
				if diff := cmp.Diff(before, fileTree(t, a.host.root)); diff != "" {
					t.Errorf("the node was changed: %s", diff)
				}
			}
		})
	}
}

// TestAgentsLife checks that the agent installs, repairs a damaged installation, and
// restores every byte on removal.
func TestAgentsLife(t *testing.T) {
	a := newTestAgent(t, "kubeadm-deb")
	before := fileTree(t, a.host.root)
	dispatcher := filepath.Join(a.host.root, "var/lib/regcred/regcred-credential-provider")
	check := func(phase agent.Phase, applies, mended int) {
		t.Helper()
		if s := a.lastStatus(); s.Phase != phase || s.Applies != applies || s.Repairs != mended || s.Failures != 0 {
			t.Fatalf("%+v, %+v\n%v\n%s", s, s.LastError, a.messages, a.host.stderr.String())
		}
	}
	a.runFor(t,
		func() { check(agent.PhaseInstalled, 1, 0) },
		func() {
			if err := os.Remove(dispatcher); err != nil {
				t.Error(err)
			}
		},
		func() {
			check(agent.PhaseInstalled, 2, 1)
			if _, err := os.Stat(dispatcher); err != nil {
				t.Error(err)
			}
		},
		func() { writeFile(t, a.StateFile, "absent", 0o600) },
		func() { check(agent.PhaseRemoved, 2, 1) },
	)
	if diff := cmp.Diff(before, fileTree(t, a.host.root)); diff != "" {
		t.Errorf("the node is not as before: %s", diff)
	}
	want := "install status status status install status status uninstall"
	if got := strings.Join(a.host.args, " "); got != want {
		t.Errorf("it ran %s, want %s", got, want)
	}
}

// TestDamagedCountersAreHealthy checks that damaged counters do not make a node unhealthy.
func TestDamagedCountersAreHealthy(t *testing.T) {
	a := newTestAgent(t, "kubeadm-deb")
	writeFile(t, filepath.Join(a.host.root, runstats.DefaultDir, "providers.json"), "{", 0o600)
	a.runFor(t)
	if s := a.lastStatus(); s.Phase != agent.PhaseInstalled {
		t.Errorf("%+v", s)
	}
	cmd := exec.Command(a.host.regcred, "status", "--root", a.host.root)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if _, err := cmd.Output(); err != nil || !strings.Contains(stderr.String(), "providers.json: not in regcred's format; the next provider run starts a new file") {
		t.Errorf("status: %v: %s", err, stderr.String())
	}
}

// TestOtherOwner checks that the error for another owner's node explains in one line
// what to do.
func TestOtherOwner(t *testing.T) {
	a := newTestAgent(t, "kubeadm-deb")
	a.runFor(t)
	b := newTestAgent(t, "kubeadm-deb")
	b.host.root, b.Owner = a.host.root, "ns/other"
	b.runFor(t)
	want := "nothing was changed: generation 1 on this node belongs to release ns/rel, but this run is for release ns/other (remove one of the two releases (helm uninstall rel -n ns), or separate them with node selectors)"
	if s := b.lastStatus(); s.Phase != agent.PhaseFailed || s.Reason != want {
		t.Errorf("%+v", s)
	}
	writeFile(t, b.StateFile, "absent", 0o600)
	b.runFor(t)
	if s := b.lastStatus(); s.Phase != agent.PhaseRemoved || !strings.HasSuffix(s.Reason, "(helm uninstall rel -n ns removes it)") {
		t.Errorf("%+v", s)
	}
}

// TestAgentsFailures checks that the agent reports regcred's own error messages.
func TestAgentsFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(t *testing.T, a *testAgent)
		phase  agent.Phase
		reason string
	}{
		"dry run": {func(_ *testing.T, a *testAgent) { a.Install.DryRun = true }, agent.PhasePlanned, "would change: "},
		"a pattern": {func(t *testing.T, a *testAgent) {
			writeFile(t, filepath.Join(a.dir, "config/..2026/providers.yaml"), strings.ReplaceAll(agentConfig, "registry.example", `"https://x:y/z"`), 0o600)
		}, agent.PhaseFailed, "/config/providers.yaml:5:17: providers[0].matchImages[0]: "},
		"a broken generation": {func(t *testing.T, a *testAgent) {
			writeFile(t, filepath.Join(a.host.root, "var/lib/regcred/generations/1/manifest.json"), "{", 0o644)
		}, agent.PhaseFailed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTestAgent(t, "kubeadm-deb")
			tt.change(t, a)
			before := fileTree(t, a.host.root)
			a.runFor(t)
			s := a.lastStatus()
			if s.Phase != tt.phase || !strings.Contains(s.Reason, tt.reason) || s.Reason == "" {
				t.Errorf("%+v\n%v\n%s", s, a.messages, a.host.stderr.String())
			}
			if strings.Contains(s.Reason, a.host.work) {
				t.Errorf("it names a path that the chart's user does not know: %s", s.Reason)
			}
			if diff := cmp.Diff(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(fileTree(t, a.host.root)))); diff != "" {
				t.Errorf("the node was changed: %s", diff)
			}
		})
	}
}
