// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/agent"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/hostrun"
	"github.com/regcred/regcred/internal/must"
)

// configuration has secrets in env and args that must not be printed.
const configuration = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: theirs
  matchImages: [r.example]
  defaultCacheDuration: 1m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: [--password=` + canary.ArgSecret + `]
  env: [{name: TOKEN, value: ` + canary.EnvSecret + `}]
- name: ours
  matchImages: [s.example]
  defaultCacheDuration: 1m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
`

// These constants are outputs of regcred on the node.
const (
	installed         = `{"schemaVersion":1,"outcome":"installed","generation":1,"restart":[],"warnings":[],"changes":[]}`
	unchanged         = `{"schemaVersion":1,"outcome":"unchanged","generation":1,"restart":[],"warnings":[],"changes":[]}`
	noRestart         = `{"schemaVersion":1,"outcome":"failed","restart":["new patterns"],"warnings":[],"changes":[],"error":"nothing was changed: the kubelet must be restarted: new patterns"}`
	installRolledBack = `{"schemaVersion":1,"outcome":"failed","restart":["new patterns"],"restarted":true,"warnings":[],"changes":[],"error":"kubelet.service: no new kubelet that works; the change was rolled back"}`
	broken            = `{"schemaVersion":1,"outcome":"failed","restart":[],"warnings":[],"changes":[],"error":"theirs: it is no executable"}`
	refused           = `{"schemaVersion":1,"outcome":"refused","restart":[],"warnings":[],"changes":[],"instead":"do so: (hidden)","error":"cannot install on this node (talos): Talos has no services"}`
	ownedByOther      = `{"schemaVersion":1,"outcome":"owned","owner":"ns/other","restart":[],"warnings":[],"changes":[],"error":"nothing was changed: generation 1 of this node belongs to release ns/other"}`
	planned           = `{"schemaVersion":1,"outcome":"planned","generation":1,"restart":["no entries yet"],"warnings":[],"changes":[{"name":"/etc/a.conf","diff":"+x"}]}`
	clean             = `{"schemaVersion":1,"node":{"kind":"kubeadm","kubelet":"1.36.3"},"current":1,"owner":"ns/rel","generations":[],"kubeletHas":1,"problems":[],"restart":[]}`
	drifted           = `{"schemaVersion":1,"node":{"kind":"kubeadm","kubelet":"1.36.3"},"current":1,"owner":"ns/rel","generations":[],"problems":["/etc/a.conf: it is gone"],"restart":[]}`
	notInstalled      = `{"schemaVersion":1,"node":{"kind":"kubeadm"},"current":0,"generations":[],"problems":[],"restart":[]}`
	uninst            = `{"schemaVersion":1,"outcome":"uninstalled"}`
	statusFailed      = `{"schemaVersion":1,"errors":[{"message":"the disk is full"}]}`
)

// exitCodes maps each output that does not mean success to its exit code.
var exitCodes = map[string]int{noRestart: 1, installRolledBack: 1, broken: 1, refused: 1, ownedByOther: 1, drifted: 1, notInstalled: 3, statusFailed: 1}

// fakeNode fakes a node with scripted responses. Each response to a command is used once, and the
// last response is repeated.
type fakeNode struct {
	t         *testing.T
	responses map[string][]string // by command: "install", "status", "uninstall", "install --dry-run"
	calls     []string            // "install", "status", …, with their times
	args      [][]string
	begun     time.Time
	fail      func(command string) error
}

func (n *fakeNode) Path(name string) string { return "/node/pod/host/" + name }

func (n *fakeNode) Run(ctx context.Context, args ...string) ([]byte, int, error) {
	command := args[0]
	if slices.Contains(args, "--dry-run") {
		command += " --dry-run"
	}
	n.calls = append(n.calls, command+" "+time.Since(n.begun).Truncate(time.Second).String())
	n.args = append(n.args, args)
	if n.fail != nil {
		if err := n.fail(command); err != nil {
			return nil, 0, err
		}
	}
	list := n.responses[command]
	if len(list) == 0 {
		n.t.Errorf("nobody expected regcred %s", command)
		return nil, 0, errors.New("unexpected")
	}
	if len(list) > 1 {
		n.responses[command] = list[1:]
	}
	if list[0] == "hangs" {
		<-ctx.Done()
		return nil, 0, context.Cause(ctx)
	}
	return []byte(list[0]), exitCodes[list[0]], nil
}

// runCommands returns the commands that were run, without times.
func (n *fakeNode) runCommands() string {
	var list []string
	for _, c := range n.calls {
		list = append(list, c[:strings.LastIndexByte(c, ' ')])
	}
	return strings.Join(list, ", ")
}

// testPod is an agent and its output.
type testPod struct {
	*agent.Agent
	node     *fakeNode
	dir      string
	statuses []agent.Status
	raw      []string
	messages []string
}

func newPod(t *testing.T, answers map[string][]string) *testPod {
	t.Helper()
	dir := t.TempDir()
	p := &testPod{dir: dir, node: &fakeNode{t: t, responses: answers}}
	for name, content := range map[string]string{
		"config/providers.yaml": configuration, "state/state": "present\n", "plugins/theirs": "#!theirs", "image/ours": "#!ours", "image/theirs": "#!not this one",
		"bin/regcred": "#!regcred", "bin/regcred-credential-provider": "#!dispatcher", "work/": "",
	} {
		p.writeFile(t, name, content)
	}
	p.restartAgent()
	return p
}

// restartAgent replaces the agent with a new one, like the next container of the same pod.
func (p *testPod) restartAgent() {
	in := func(name string) string { return filepath.Join(p.dir, name) }
	p.statuses, p.raw, p.messages = nil, nil, nil
	p.Agent = &agent.Agent{
		Options: agent.Options{
			Node: "n1", Owner: "ns/rel", Revision: "rel-1a2b", Config: in("config"), StateFile: in("state/state"), Plugins: in("plugins"), ImagePlugins: in("image"),
			WorkDir: in("work"), RegcredPath: in("bin/regcred"), DispatcherPath: in("bin/regcred-credential-provider"), Install: agent.InstallFlags{Restart: true},
		},
		Host: p.node,
		PrintStatus: func(line []byte) error {
			var s agent.Status
			if err := json.Unmarshal(line, &s); err != nil || !strings.HasSuffix(string(line), "}\n") {
				p.node.t.Errorf("%q: %v", line, err)
			}
			p.statuses, p.raw = append(p.statuses, s), append(p.raw, string(line))
			return nil
		},
		Log: func(text string) { p.messages = append(p.messages, text) },
	}
}

func (p *testPod) writeFile(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(p.dir, name)
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	if strings.HasSuffix(name, "/") {
		return
	}
	must.Do(t, os.WriteFile(path, []byte(content), 0o755))
}

// runFor runs the agent. It waits for a duration before each call of meanwhile, and again
// before it stops the agent.
func (p *testPod) runFor(t *testing.T, d time.Duration, meanwhile ...func()) {
	t.Helper()
	p.node.begun = time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	for _, f := range meanwhile {
		time.Sleep(d)
		f()
	}
	time.Sleep(d)
	synctest.Wait()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("it ended: %v", err)
	}
	for _, text := range append(slices.Clone(p.raw), p.messages...) {
		canary.AssertAbsent(t, "what is printed", text)
	}
}

func (p *testPod) lastStatus(t *testing.T) agent.Status {
	t.Helper()
	if len(p.statuses) == 0 {
		t.Fatal("nothing was printed")
	}
	return p.statuses[len(p.statuses)-1]
}

// printedPhases returns the printed phases in order.
func (p *testPod) printedPhases() string {
	var list []string
	for _, s := range p.statuses {
		if len(list) == 0 || list[len(list)-1] != string(s.Phase) {
			list = append(list, string(s.Phase))
		}
	}
	return strings.Join(list, " ")
}

type commandResponses = map[string][]string

// TestAgentActions verifies the commands, phases and counters of an agent over several
// minutes.
func TestAgentActions(t *testing.T) {
	gone := func(string) error { return errors.New("no answer of the node's systemd") }
	none := func(string) error {
		return &hostrun.NoSystemdError{Socket: "/run/systemd/private", Err: fs.ErrNotExist}
	}
	for name, tt := range map[string]struct {
		answers  commandResponses
		prepare  func(p *testPod)
		minutes  int
		commands string
		phases   string
		reason   string // part of the reason
		ready    bool
		applies  int
		failures int
		mended   int
	}{
		"installs and looks": {
			answers: commandResponses{"install": {installed}, "status": {clean}}, minutes: 3,
			commands: "install, status, status, status, status", phases: "starting applying installed", ready: true, applies: 1,
		},
		"has it already": {
			answers: commandResponses{"install": {unchanged}, "status": {clean}}, minutes: 1,
			commands: "install, status, status", phases: "starting applying installed", ready: true,
		},
		"restart not allowed": {
			answers: commandResponses{"install": {noRestart}, "status": {notInstalled}}, minutes: 2,
			commands: "install, status, install, status, install, status", phases: "starting applying failed applying failed applying failed",
			reason: "nothing was changed: the kubelet must be restarted: new patterns", failures: 3,
		},
		"restarted and went back": {
			answers: commandResponses{"install": {installRolledBack}, "status": {notInstalled}}, minutes: 5,
			commands: "install, status, status, status, status, status, status", phases: "starting applying failed",
			reason: "this pod will not retry, to avoid further kubelet restarts: kubelet.service: no new kubelet that works; the change was rolled back", failures: 1,
		},
		"fails, then works": {
			answers: commandResponses{"install": {broken, installed}, "status": {notInstalled, clean}}, minutes: 1,
			commands: "install, status, install, status", phases: "starting applying failed applying installed", ready: true, applies: 1, failures: 1,
		},
		"is another chart's": {
			answers: commandResponses{"install": {ownedByOther}, "status": {clean}}, minutes: 0,
			commands: "install, status", phases: "starting applying failed", reason: "belongs to release ns/other", failures: 1,
		},
		"is refused": {
			answers: commandResponses{"install": {refused}, "status": {notInstalled}}, minutes: 1,
			commands: "install, status, install, status", phases: "starting applying unsupported applying unsupported",
			reason: "cannot install on this node (talos): Talos has no services", ready: true,
		},
		"drift is mended": {
			answers: commandResponses{"install": {installed}, "status": {clean, drifted, clean}}, minutes: 2,
			commands: "install, status, status, install, status, status", phases: "starting applying installed applying installed", ready: true, applies: 2, mended: 1,
		},
		"drift comes again and again": {
			answers: commandResponses{"install": {installed}, "status": {clean, drifted, clean, drifted, clean, drifted, clean, drifted}}, minutes: 4,
			commands: "install, status, status, install, status, status, install, status, status, install, status, status",
			phases:   "starting applying installed applying installed applying installed applying installed drifted",
			reason:   "the node was repaired but differs from the installed state again, because another process keeps changing it; the next repair is at ", applies: 4, mended: 3,
		},
		"drift that stays": {
			answers: commandResponses{"install": {unchanged}, "status": {clean, drifted}}, minutes: 1,
			commands: "install, status, status, install, status", phases: "starting applying installed applying drifted",
			reason: "differences remain after the install: /etc/a.conf: it is gone", failures: 1,
		},
		"drift that cannot be mended": {
			answers: commandResponses{"install": {installed, installRolledBack}, "status": {clean, drifted}}, minutes: 5,
			commands: "install, status, status, install, status, status, status, status", phases: "starting applying installed applying drifted",
			reason: "this pod will not retry", applies: 1, failures: 1,
		},
		"taken off by hand": {
			answers: commandResponses{"install": {installed}, "status": {clean, notInstalled, clean}}, minutes: 1,
			commands: "install, status, status, install, status", phases: "starting applying installed applying installed", ready: true, applies: 2, mended: 1,
		},
		"systemd is away for a moment": {
			answers: commandResponses{"install": {installed}, "status": {clean, "", "", clean}}, minutes: 3,
			commands: "install, status, status, status, status", phases: "starting applying installed", ready: true, applies: 1,
		},
		"cannot be looked at any more": {
			answers: commandResponses{"install": {installed}, "status": {clean, statusFailed}}, minutes: 3,
			commands: "install, status, status, status, status", phases: "starting applying installed failed",
			reason: "the node's state is unknown: the disk is full", applies: 1,
		},
		"no answer of systemd": {
			prepare: func(p *testPod) { p.node.fail = gone }, minutes: 0,
			commands: "install, status", phases: "starting applying failed", reason: "no answer of the node's systemd", failures: 1,
		},
		"no systemd": {
			prepare: func(p *testPod) { p.node.fail = none }, minutes: 0,
			commands: "install, status", phases: "starting applying unsupported", reason: "this node does not run systemd", ready: true,
		},
		"dry run": {
			answers: commandResponses{"install --dry-run": {planned}, "status": {notInstalled}}, prepare: func(p *testPod) { p.Install.DryRun = true }, minutes: 2,
			commands: "status, install --dry-run, status, status", phases: "starting planned",
			reason: "would change: /etc/a.conf; the kubelet would be restarted: no entries yet", ready: true,
		},
		"dry run of what does not work": {
			answers: commandResponses{"install --dry-run": {broken}, "status": {notInstalled}}, prepare: func(p *testPod) { p.Install.DryRun = true }, minutes: 0,
			commands: "status, install --dry-run", phases: "starting failed", reason: "theirs: it is no executable", failures: 1,
		},
		"no state": {
			prepare: func(p *testPod) { os.Remove(p.StateFile) }, minutes: 2,
			phases: "starting failed", reason: "nothing was changed: ",
		},
		"another state": {
			prepare: func(p *testPod) { p.writeFile(p.node.t, "state/state", "Absent") }, minutes: 2,
			phases: "starting failed", reason: `contains "Absent", but must contain present or absent`,
		},
		"absent": {
			answers: commandResponses{"uninstall": {uninst}, "status": {clean}}, prepare: func(p *testPod) { p.writeFile(p.node.t, "state/state", "absent") }, minutes: 5,
			commands: "uninstall", phases: "starting applying removed", ready: true,
		},
		"absent, and cannot": {
			answers: commandResponses{"uninstall": {statusFailed, uninst}, "status": {clean}}, prepare: func(p *testPod) { p.writeFile(p.node.t, "state/state", "absent") }, minutes: 1,
			commands: "uninstall, uninstall", phases: "starting applying not-removed applying removed", ready: true, failures: 1,
		},
		"absent, with a configuration that is none": {
			answers: commandResponses{"uninstall": {uninst}, "status": {clean}},
			prepare: func(p *testPod) {
				p.writeFile(p.node.t, "state/state", "absent")
				p.writeFile(p.node.t, "config/providers.yaml", "x: y")
			}, minutes: 1,
			commands: "uninstall", phases: "starting applying removed", ready: true,
		},
		"absent, of another chart": {
			answers: commandResponses{"uninstall": {ownedByOther}}, prepare: func(p *testPod) { p.writeFile(p.node.t, "state/state", "absent") }, minutes: 2,
			commands: "uninstall", phases: "starting applying removed", reason: "this chart has not installed anything on the node; the existing installation is kept: nothing was changed: generation 1 of this node belongs to release ns/other", ready: true,
		},
		"absent, dry run": {
			answers: commandResponses{"status": {clean}}, prepare: func(p *testPod) { p.Install.DryRun = true; p.writeFile(p.node.t, "state/state", "absent") }, minutes: 0,
			commands: "status", phases: "starting not-removed", reason: "dry run: the existing installation would be removed",
		},
		"absent, no systemd": {
			prepare: func(p *testPod) { p.node.fail = none; p.writeFile(p.node.t, "state/state", "absent") }, minutes: 10,
			commands: "uninstall, uninstall, uninstall, uninstall", phases: "starting applying not-removed applying not-removed applying not-removed applying removed", reason: "nothing was installed: this node does not run systemd", ready: true,
		},
		"a configuration that is none": {
			prepare: func(p *testPod) { p.writeFile(p.node.t, "config/providers.yaml", "kind: Other") }, minutes: 1,
			phases: "starting failed", reason: "configuration in ConfigMap rel-1a2b: ",
		},
		"a plugin that nobody has": {
			prepare: func(p *testPod) { os.Remove(filepath.Join(p.dir, "image/ours")) }, answers: commandResponses{"status": {notInstalled}}, minutes: 0,
			commands: "status", phases: "starting failed", reason: `provider "ours" (ConfigMap rel-1a2b) has no executable: none of the images listed in the chart's plugins.images contains the executable (in `, failures: 1,
		},
		"an answer of another program": {
			answers: commandResponses{"install": {`{"schemaVersion":2,"outcome":"installed"}`}, "status": {notInstalled}}, minutes: 0,
			commands: "install, status", phases: "starting applying failed", reason: "schemaVersion 2, not 1", failures: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t, tt.answers)
			if tt.prepare != nil {
				tt.prepare(p)
			}
			synctest.Test(t, func(t *testing.T) {
				p.node.t = t
				p.runFor(t, time.Duration(tt.minutes)*time.Minute+time.Second)
			})
			if got := p.node.runCommands(); got != tt.commands {
				t.Errorf("it ran %s\nwant     %s\n%v", got, tt.commands, p.node.calls)
			}
			if got := p.printedPhases(); got != tt.phases {
				t.Errorf("phases %s\nwant   %s", got, tt.phases)
			}
			s := p.lastStatus(t)
			if !strings.Contains(s.Reason, tt.reason) || tt.reason == "" && s.Reason != "" {
				t.Errorf("reason %q, want %q", s.Reason, tt.reason)
			}
			if s.Phase.IsDone() != tt.ready || s.Applies != tt.applies || s.Failures != tt.failures || s.Repairs != tt.mended {
				t.Errorf("got %+v; want ready %v, %d applies, %d failures, %d mended", s, tt.ready, tt.applies, tt.failures, tt.mended)
			}
			if (s.Phase == agent.PhaseDrifted) != (len(s.Drift) > 0) {
				t.Errorf("%s with %q", s.Phase, s.Drift)
			}
		})
	}
}

// TestFilesAndFlags verifies the files and flags that the agent passes to the node.
func TestFilesAndFlags(t *testing.T) {
	p := newPod(t, commandResponses{"install": {installed}, "status": {clean}})
	p.writeFile(t, "work/host/bin/of-before", "x")
	p.writeFile(t, "work/host/config/.providers.yaml-ABCDEFGH.regcred-new", "half")
	p.Install = agent.InstallFlags{Restart: true, Probe: "r.example/app", Reserve: []string{"*.example"}, Timeout: time.Minute, MaxStale: time.Hour, Keep: 2}
	synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Second) })
	want := map[string]string{
		"regcred": "-rwxr-xr-x #!regcred", "regcred-credential-provider": "-rwxr-xr-x #!dispatcher",
		"bin/theirs": "-rwxr-xr-x #!theirs", "bin/ours": "-rwxr-xr-x #!ours", "config/providers.yaml": "-rw------- " + configuration,
	}
	if diff := cmp.Diff(want, readTree(t, filepath.Join(p.dir, "work/host"))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	args := "install /node/pod/host/config --bin-dir /node/pod/host/bin --dispatcher /node/pod/host/regcred-credential-provider --owner ns/rel --hide-values -o json" +
		" --timeout=1m0s --any-image=false --reserve=*.example --restart --probe=r.example/app --max-stale=1h0m0s --keep=2"
	if got := strings.Join(p.node.args[0], " "); got != args {
		t.Errorf("regcred %s\nwant    %s", got, args)
	}
}

func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		found[filepath.ToSlash(rel)] = info.Mode().String() + " " + string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestManualStep verifies that the steps for a manual install are logged once, without
// secrets, if the node's operating system reverts changes.
func TestManualStep(t *testing.T) {
	p := newPod(t, commandResponses{"install": {strings.Replace(refused, "(hidden)", canary.EnvSecret, 1)}, "status": {notInstalled}})
	exitCodes[p.node.responses["install"][0]] = 1
	synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Hour) })
	want := "regcred cannot install on this node's operating system; make the following change instead:\ndo so: [redacted: env TOKEN of provider theirs]"
	if got := strings.Join(p.messages, "\n"); got != want {
		t.Errorf("the log has %s\nwant %s", got, want)
	}
}

// TestContainerRestarts verifies that the agent's state survives a restart of its container.
func TestContainerRestarts(t *testing.T) {
	p := newPod(t, commandResponses{"install": {installRolledBack}, "status": {notInstalled}})
	synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Second) })
	p.restartAgent()
	p.node.calls = nil
	synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Minute+time.Second) })
	if got := p.node.runCommands(); got != "status, status" {
		t.Errorf("after a restart of the container it ran %s", got)
	}
	if s := p.lastStatus(t); s.Phase != agent.PhaseFailed || s.Failures != 1 || s.LastError == nil {
		t.Errorf("got %+v", s)
	}
	// Another configuration or an explicit request starts another install.
	for name, change := range map[string]func(){
		"configuration": func() {
			p.writeFile(t, "config/providers.yaml", strings.ReplaceAll(configuration, "s.example", "t.example"))
		},
		"state": func() { p.writeFile(t, "state/state", "absent") },
	} {
		p.restartAgent()
		p.node.responses = commandResponses{"install": {installed}, "status": {clean}, "uninstall": {uninst}}
		synctest.Test(t, func(t *testing.T) {
			p.runFor(t, 2*time.Minute+time.Second, change, func() { p.writeFile(t, "state/state", "present") })
		})
		if s := p.lastStatus(t); s.Phase != agent.PhaseInstalled {
			t.Errorf("%s: %+v", name, s)
		}
		p.writeFile(t, "work/agent.json", "{") // an unreadable file is ignored
	}
}

// TestBackOff verifies that a failed change is tried again after 30 s, and then at growing intervals.
func TestBackOff(t *testing.T) {
	p := newPod(t, commandResponses{"install": {broken}, "status": {notInstalled}})
	synctest.Test(t, func(t *testing.T) { p.runFor(t, 2*time.Hour) })
	var gaps []time.Duration
	last := time.Duration(0)
	for _, c := range p.node.calls {
		at, isInstall := strings.CutPrefix(c, "install ")
		if d, err := time.ParseDuration(at); isInstall && err == nil {
			gaps, last = append(gaps, d-last), d
		}
	}
	if len(gaps) < 15 || len(gaps) > 25 {
		t.Fatalf("tried %d times in two hours: %v", len(gaps), gaps)
	}
	for i, want := range []time.Duration{0, 30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute, 10 * time.Minute} {
		if gaps[i] > want+time.Minute || gaps[i] < want*3/4-time.Second {
			t.Errorf("try %d came after %v, want %v less a quarter at most", i, gaps[i], want)
		}
	}
}

// TestAgentStops verifies that an agent stops when its context is canceled, during each
// operation.
func TestAgentStops(t *testing.T) {
	for name, a := range map[string]commandResponses{
		"install":   {"install": {"hangs"}},
		"status":    {"install": {installed}, "status": {clean, "hangs"}},
		"uninstall": {"uninstall": {"hangs"}, "status": {clean}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t, a)
			if name == "uninstall" {
				p.writeFile(t, "state/state", "absent")
			}
			synctest.Test(t, func(t *testing.T) {
				p.runFor(t, time.Minute+time.Second)
				if since := time.Since(p.node.begun); since != time.Minute+time.Second {
					t.Errorf("it ended after %v", since)
				}
			})
			if s := p.lastStatus(t); s.Phase == agent.PhaseFailed || s.LastError != nil {
				t.Errorf("it said %+v", s)
			}
		})
	}
}

// TestChangedStateIsAppliedAtOnce verifies that a changed desired state is applied before the next
// check of the node.
func TestChangedStateIsAppliedAtOnce(t *testing.T) {
	p := newPod(t, commandResponses{"install": {installed}, "status": {clean}, "uninstall": {uninst}})
	synctest.Test(t, func(t *testing.T) {
		p.runFor(t, 5*time.Second, func() { p.writeFile(t, "state/state", "absent") })
	})
	if got, want := p.printedPhases(), "starting applying installed applying removed"; got != want {
		t.Errorf("phases %s\nwant   %s", got, want)
	}
}

// TestChangeTimeout verifies that a change that hangs is abandoned after a timeout.
func TestChangeTimeout(t *testing.T) {
	p := newPod(t, commandResponses{"install": {"hangs", installed}, "status": {notInstalled, clean}})
	synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Hour) })
	if s := p.lastStatus(t); s.Phase != agent.PhaseInstalled || s.Failures != 1 || !strings.Contains(s.LastError.Message, "is still running on the node after 47m0s") {
		t.Errorf("got %+v, %+v", s, s.LastError)
	}
}

// TestLastLine verifies that the last line of the log is a status at most ten minutes old.
func TestLastLine(t *testing.T) {
	p := newPod(t, commandResponses{"install": {installed}, "status": {clean}})
	synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Hour+time.Second) })
	var times []string
	for _, s := range p.statuses {
		times = append(times, s.Time.Format("15:04"))
	}
	want := "00:00 00:00 00:00 00:10 00:20 00:30 00:40 00:50 01:00"
	if got := strings.Join(times, " "); got != want {
		t.Errorf("lines at %s, want %s", got, want)
	}
	if s := p.lastStatus(t); s.Node != "n1" || s.Owner != "ns/rel" || s.Revision != "rel-1a2b" || s.Kind != "kubeadm" || s.Kubelet != "1.36.3" || s.Generation != 1 || s.KubeletHas != 1 || s.LastApply.IsZero() {
		t.Errorf("got %+v", s)
	}
}

// TestSecretsInReasons verifies that secrets in messages from the node are redacted.
func TestSecretsInReasons(t *testing.T) {
	said := `{"schemaVersion":1,"errors":[{"message":"theirs said ` + canary.EnvSecret + ` of ` + canary.ArgSecret + ` in /node/pod/host/config/providers.yaml:3\u001b[31m\n"}]}`
	exitCodes[said] = 1
	p := newPod(t, commandResponses{"install": {said}, "status": {notInstalled}})
	synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Second) })
	want := "theirs said [redacted: env TOKEN of provider theirs] of [redacted: args[0] of provider theirs] in " + p.Config + `/providers.yaml:3\x1b[31m\n`
	if s := p.lastStatus(t); s.Reason != want {
		t.Errorf("got  %s\nwant %s", s.Reason, want)
	}
}
