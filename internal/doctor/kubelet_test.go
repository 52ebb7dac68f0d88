// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/service"
)

// newKubeadmNode returns a node whose kubelet has both credential provider flags. The unit
// and the provider configuration contain secrets.
func newKubeadmNode(t *testing.T) *Kubelet {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"/usr/lib/systemd/system/kubelet.service": "[Service]\nEnvironment=NODE_PASSWORD=" + canary.EnvSecret + "\nEnvironmentFile=/etc/default/kubelet\nExecStart=/usr/bin/kubelet --token=" + canary.TokenSecret + " $KUBELET_EXTRA_ARGS\n",
		"/etc/default/kubelet":                    "# ours\nKUBELET_EXTRA_ARGS=\"--image-credential-provider-config=/etc/c.yaml --image-credential-provider-bin-dir=/opt/bin --cgroup-driver=x\"\n",
		"/etc/c.yaml": "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: absent\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n" +
			"  matchImages: [registry.example]\n  defaultCacheDuration: 1m\n  env: [{name: PASSWORD, value: " + canary.PasswordSecret + "}]\n",
		"/opt/bin/other": "",
	} {
		file := filepath.Join(root, name)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)))
	}
	k := &Kubelet{Node: node.Node{Root: root}.NewReader()}
	var err error
	if k.Setup, err = k.Node.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if k.Config, err = config.Load(filepath.Join(root, "/etc/c.yaml")); err != nil {
		t.Fatal(err)
	}
	k.Setup.Version.Kubelet = "1.25.3"
	return k
}

// loadConfig returns the configuration of k as Run sets it.
func loadConfig(t *testing.T, k *Kubelet) *config.Config {
	t.Helper()
	w := &Input{Kubelet: *k}
	w.loadConfig(t.Context())
	return w.Config
}

// TestKubeletVersion verifies that checkVersion reports a field that a feature gate disables,
// and suggests a command with that gate.
func TestKubeletVersion(t *testing.T) {
	const gate = "KubeletServiceAccountTokenForCredentialProviders"
	k := newKubeadmNode(t)
	path, _ := k.Config.Path()
	data := append(k.Config.Files()[0].Data(), "  tokenAttributes: {serviceAccountTokenAudience: a, requireServiceAccount: true}\n"...)
	err := os.WriteFile(path, data, 0o600)
	if err == nil {
		k.Config, err = config.Load(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	entries.SetDefaultCacheType(k.Config.Providers) // as node.Reader.ValidateConfig does
	k.Setup.Version.Kubelet = "1.33.4"
	for on, want := range map[bool]string{true: "", false: ": for all errors, run regcred validate --kubelet-version 1.33.4 --feature-gates " + gate + "=false " + path} {
		k.Setup.Gates = map[string]bool{gate: on, "Other": true}
		r, fix := checkResults{}, ""
		k.checkVersion(&r)
		for _, c := range r.list {
			fix += c.Message + ": " + c.Fix
		}
		if !strings.HasSuffix(fix, want) || on && fix != "" {
			t.Errorf("gate %t: got %q, want %q", on, fix, want)
		}
	}
}

// TestConfigJudge verifies that checkConfig validates for the version of the node's kubelet,
// or for the newest version if it is unknown.
func TestConfigJudge(t *testing.T) {
	k := newKubeadmNode(t)
	path, _ := k.Config.Path()
	data := append(k.Config.Files()[0].Data(), "  tokenAttributes: {serviceAccountTokenAudience: a, requireServiceAccount: true}\n"...)
	must.Do(t, os.WriteFile(path, data, 0o600))
	k.Origin = &node.Origin{Config: path, From: "here", Unit: "kubelet.service"}
	k.Setup.Gates = map[string]bool{"AllAlpha": true}
	for _, tt := range []struct {
		version node.Version
		want    finding.Finding
	}{
		{node.Version{Kubelet: "1.33.4"}, finding.Finding{Severity: finding.SeverityOK, Message: path + " (here): 1 provider, accepted by kubelet 1.33.4"}},
		{node.Version{Why: "it hangs"}, finding.Finding{Severity: finding.SeverityError, Fix: "the kubelet does not start with this (assuming kubelet version " + config.NewestKubelet +
			", because this node's kubelet version is unknown: it hangs); fix it and run: regcred validate " + path}},
	} {
		k.Setup.Version = tt.version
		r, w := checkResults{}, &Input{Kubelet: *k}
		w.loadConfig(t.Context())
		checkConfig(t.Context(), w, &r)
		got := r.list[0]
		if tt.want.Message != "" && got.Message != tt.want.Message || got.Fix != tt.want.Fix || got.Severity != tt.want.Severity {
			t.Errorf("%+v: got %+v", tt.version, got)
		}
	}
}

// TestNoRestartHintIfStartFails verifies that the fix is not only a restart if the kubelet
// would not start with its current files. The kubelet may be too old, or every kubelet may
// reject the files.
func TestNoRestartHintIfStartFails(t *testing.T) {
	const holds, none = "the checked configuration takes effect when the kubelet next starts", "the kubelet calls no provider until it is restarted"
	for name, tt := range map[string]struct {
		version, more string
		runs          node.RunningFlags
		result        finding.Severity
		so            string
		refused       int
		unread        []string
	}{
		"new enough":          {version: "1.34.1", runs: node.RunningFlags{Config: "/etc/old.yaml", BinDir: "/opt/bin"}, result: finding.SeverityWarning, so: holds},
		"not known":           {runs: node.RunningFlags{Config: "/etc/old.yaml", BinDir: "/opt/bin"}, result: finding.SeverityWarning, so: holds},
		"too old":             {version: "1.33.4", runs: node.RunningFlags{Config: "/etc/old.yaml", BinDir: "/opt/bin"}, result: finding.SeverityError, so: wouldFailToStart, refused: 2},
		"perhaps too old":     {version: "1.33.4", runs: node.RunningFlags{Config: "/etc/old.yaml", BinDir: "/opt/bin"}, result: finding.SeverityWarning, so: holds, refused: 2, unread: []string{"/d/1.conf"}},
		"too old, none":       {version: "1.33.4", result: finding.SeverityError, so: wouldFailToStart, refused: 2},
		"new enough, none":    {version: "1.34.1", result: finding.SeverityError, so: none},
		"invalid":             {version: "1.34.1", more: "  args: 1\n", runs: node.RunningFlags{Config: "/etc/old.yaml", BinDir: "/opt/bin"}, result: finding.SeverityError, so: wouldFailToStart},
		"changed, too old":    {version: "1.33.4", runs: node.RunningFlags{Config: "/etc/c.yaml", BinDir: "/opt/bin"}, result: finding.SeverityError, so: wouldFailToStart, refused: 2},
		"changed, new enough": {version: "1.34.1", runs: node.RunningFlags{Config: "/etc/c.yaml", BinDir: "/opt/bin"}, result: finding.SeverityWarning, so: "the kubelet keeps using the previous version of the file until it is restarted"},
	} {
		k, r := newKubeadmNode(t), checkResults{check: "kubelet"}
		path, _ := k.Config.Path()
		data := append(k.Config.Files()[0].Data(), "  tokenAttributes: {serviceAccountTokenAudience: a, requireServiceAccount: true, cacheType: Token}\n"+tt.more...)
		uptime := k.Node.HostPath("/proc/uptime") // the machine has run for a day
		if err := errors.Join(os.WriteFile(path, data, 0o600), os.MkdirAll(filepath.Dir(uptime), 0o755), os.WriteFile(uptime, []byte("86400.00 1.00\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
		k.Origin = &node.Origin{Config: path, BinDir: k.Node.HostPath("/opt/bin"), Unit: "kubelet.service"}
		k.Setup.Version.Kubelet, k.Setup.Running = tt.version, &node.RunningProcess{PID: 7, Flags: &tt.runs}
		k.Config = loadConfig(t, k)
		k.Setup.Unread = tt.unread
		k.compareRunningFlags(&r)
		if fix, doubt := r.list[len(r.list)-1].Fix, "is 1.33.4 (the check might be incomplete, because this user cannot read /d/1.conf): "; strings.Contains(fix, doubt) != (tt.unread != nil) {
			t.Errorf("%s: the fix is %q", name, fix)
		}
		c := r.list[0]
		if c.Severity != tt.result || !strings.HasSuffix(c.Message, tt.so) || len(r.list) != 1+tt.refused {
			t.Errorf("%s: got %+v", name, r.list)
		}
		if first := strings.HasPrefix(c.Fix, fixConfigFirst); first != (tt.so == wouldFailToStart) || !strings.HasSuffix(c.Fix, "systemctl restart kubelet") {
			t.Errorf("%s: the fix is %q", name, c.Fix)
		}
	}
}

// TestCheckedFileForNodesKubelet verifies that the version of the node's kubelet determines
// whether the kubelet would start with the checked file, even though the file itself is
// validated for the newest kubelet. No kubelet starts with the out-of-tree proposal's
// version, which regcred accepts.
func TestCheckedFileForNodesKubelet(t *testing.T) {
	const returns = "the checked configuration takes effect when the kubelet next starts"
	const tokens = "  tokenAttributes: {serviceAccountTokenAudience: a, requireServiceAccount: true}\n"
	predecessor := func(string) string {
		return "kind: RegistryCredentialConfig\napiVersion: v1alpha1\nproviders:\n- name: absent\n  imageMatchers: [registry.example]\n"
	}
	for name, tt := range map[string]struct {
		version string
		write   func(string) string
		so      string
	}{
		"its own takes it": {"1.33.4", func(text string) string { return text + tokens }, returns},
		"nor does its own": {"1.34.1", func(text string) string { return text + tokens }, wouldFailToStart},
		"not known":        {"", func(text string) string { return text + tokens }, wouldFailToStart},
		"no configuration": {"1.33.4", func(text string) string { return text + tokens + "  args: 1\n" }, wouldFailToStart},
		"whatever is set":  {"1.34.1", func(text string) string { return text + "- {name: q}\n" }, wouldFailToStart},
		"predecessor":      {"1.33.4", predecessor, wouldFailToStart},
		"of whichever":     {"", predecessor, wouldFailToStart},
	} {
		for _, runs := range []node.RunningFlags{{Config: "/etc/old.yaml", BinDir: "/opt/bin"}, {Config: "/etc/c.yaml", BinDir: "/opt/bin"}} {
			k, r := newKubeadmNode(t), checkResults{check: "kubelet"}
			path, _ := k.Config.Path()
			uptime := k.Node.HostPath("/proc/uptime")
			if err := errors.Join(os.WriteFile(path, []byte(tt.write(string(k.Config.Files()[0].Data()))), 0o600), os.MkdirAll(filepath.Dir(uptime), 0o755), os.WriteFile(uptime, []byte("86400.00 1.00\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
			k.Origin = &node.Origin{Config: path, BinDir: k.Node.HostPath("/opt/bin")}
			k.Setup.Version.Kubelet, k.Setup.Running = tt.version, &node.RunningProcess{PID: 7, Flags: &runs}
			k.Setup.Gates = map[string]bool{"AllAlpha": true}
			if name == "whatever is set" {
				k.Setup.Unread = []string{"/d/1.conf"}
			}
			k.Config = loadConfig(t, k)
			k.compareRunningFlags(&r)
			if c := r.list[0]; strings.HasSuffix(c.Message, wouldFailToStart) != (tt.so == wouldFailToStart) || (c.Severity == finding.SeverityError) != (tt.so == wouldFailToStart) {
				t.Errorf("%s, %s: got %+v", name, runs.Config, c)
			}
		}
	}
}

// TestNextStartFilesAreChecked verifies that the files that the kubelet will use after a
// restart are checked, even if another configuration or none was checked.
func TestNextStartFilesAreChecked(t *testing.T) {
	const tokens = "  tokenAttributes: {serviceAccountTokenAudience: a, requireServiceAccount: true, cacheType: Token}\n"
	for name, tt := range map[string]struct {
		version, more, so, fix string
		without, nothing       bool
	}{
		"taken":          {"1.34.1", tokens, "the kubelet still uses the checked configuration, but only until it is restarted", "", false, false},
		"without any":    {"1.34.1", tokens, "the kubelet still uses the checked configuration, but only until it is restarted", "", false, true},
		"too old":        {"1.33.4", tokens, wouldFailToStart, "this node's kubelet is 1.33.4: for all errors, run regcred validate --kubelet-version 1.33.4 ", false, false},
		"too old, none":  {"1.33.4", tokens, wouldFailToStart, "this node's kubelet is 1.33.4: for all errors, run regcred validate --kubelet-version 1.33.4 ", true, false},
		"version hidden": {"", "  args: 1\n", wouldFailToStart, "the kubelet does not start with this (assuming kubelet version " + config.NewestKubelet + ", because this node's kubelet version is unknown: it hangs): for all errors, run regcred validate ", false, false},
	} {
		k, r := newKubeadmNode(t), checkResults{check: "kubelet"}
		next, _ := k.Config.Path()
		old := k.Node.HostPath("/etc/old.yaml")
		good := k.Config.Files()[0].Data()
		must.Do(t, errors.Join(os.WriteFile(old, good, 0o600), os.WriteFile(next, append(good, tt.more...), 0o600)))
		runs := node.RunningFlags{Config: "/etc/old.yaml", BinDir: "/opt/bin"}
		k.Origin = &node.Origin{Config: old, BinDir: k.Node.HostPath("/opt/bin"), Unit: "kubelet.service"}
		if tt.without {
			runs, k.Origin = node.RunningFlags{}, &node.Origin{NoProviders: &node.NoProviders{}}
		}
		k.Setup.Version, k.Setup.Running = node.Version{Kubelet: tt.version}, &node.RunningProcess{PID: 7, Flags: &runs}
		if tt.version == "" {
			k.Setup.Version.Why = "it hangs"
		}
		if tt.nothing {
			k.Setup.Flags = node.Flags{}
		}
		if k.Config = (&config.Config{}); !tt.without {
			k.Config = loadConfig(t, k)
		}
		k.compareRunningFlags(&r)
		if c := r.list[0]; !strings.HasSuffix(c.Message, tt.so) || (c.Severity == finding.SeverityError) != (tt.so == wouldFailToStart) || strings.HasPrefix(c.Fix, fixConfigFirst) != (tt.so == wouldFailToStart) {
			t.Errorf("%s: got %+v", name, c)
		}
		if all := r.list[1:]; (tt.fix == "") != (len(all) == 0) || slices.ContainsFunc(all, func(c Finding) bool { return c.Severity != finding.SeverityError || c.Fix != tt.fix+next }) {
			t.Errorf("%s: got %+v", name, all)
		}
	}
}

// fakeManager is a service manager with a fixed state and log. It stores the start of the
// requested log in since.
type fakeManager struct {
	service.Manager
	state service.State
	err   error
	lines []string
	since *time.Time
}

func (m fakeManager) State(context.Context, string) (service.State, error) { return m.state, m.err }

func (m fakeManager) Log(_ context.Context, _ string, since time.Time, _ int) ([]string, error) {
	if m.since != nil {
		*m.since = since
	}
	return m.lines, m.err
}

// restartingUnit returns the state of a unit between two starts.
func restartingUnit() service.State {
	return service.State{Load: "loaded", Active: "activating", Sub: "auto-restart", Restarts: 7, Result: "exit-code", ExitStatus: 1, Started: time.Now().Add(-3 * time.Second)}
}

// TestKubeletCauses verifies which cause is found for a log line of a kubelet that failed to
// start. Logs of current kubelets are tested in upstream/cluster.
func TestKubeletCauses(t *testing.T) {
	const command, register = `E1123 00:00:00.000002       1 run.go:72] "command failed" err="`, `E1123 00:00:00.000001       1 kuberuntime_manager.go:315] "Failed to register CRI auth plugins" err="`
	for line, want := range map[string][2]string{
		register + `unable to read external registry credential provider configuration from \"/etc/c.yaml\": read /etc/c.yaml: is a directory"`:                                         {"/etc/c.yaml is a directory, which kubelets before 1.34 do not read (kubelet 1.25.3)", "one file"},
		register + `error decoding config \"/etc/c.yaml\": no kind \"CredentialProviderConfig\" is registered for version \"kubelet.config.k8s.io/v1\" in scheme \"pkg/scheme.go:30\""`: {"c.yaml:1:13: apiVersion: kubelet 1.25 does not support this version of the file (added in 1.26)", "regcred validate --kubelet-version 1.25.3 "},
		register + `plugin binary executable  did not exist"`:                                                                                                                                               {"/opt/bin/absent does not exist", "with the provider's name"},
		register + `error inspecting binary executable : exec: \"/opt/bin/other\": permission denied"`:                                                                                                      {"/opt/bin/absent does not exist", "mode 0755"},
		register + `duplicate provider name \"absent\" found in configuration file(s)"`:                                                                                                                     {"apiVersion", "rename one of them"},
		register + `something of tomorrow"`:                                                                                                                                                                 {"its credential providers: something of tomorrow", "regcred validate"},
		command + `failed to run Kubelet: running with swap on is not supported, please disable swap or set --fail-swap-on flag to false"`:                                                                  {"swap is enabled on this machine", "swapoff -a"},
		command + `failed to run Kubelet: misconfiguration: kubelet cgroup driver: \"systemd\" is different from docker cgroup driver: \"cgroupfs\""`:                                                       {"the kubelet uses the cgroup driver systemd, but the runtime uses cgroupfs", "cgroupDriver"},
		command + `failed to run Kubelet: validate service connection: CRI v1 runtime API is not implemented for endpoint \"unix:///c.sock\": rpc error: desc = unknown service runtime.v1.RuntimeService"`: {"does not support CRI v1", "disabled_plugins"},
		`E1123 00:00:00.000002       1 bootstrap.go:266] part of the existing bootstrap client certificate in /etc/kubernetes/kubelet.conf is expired: 2026-01-01 00:00:00 +0000 UTC`:                       {"has expired, or the clock is wrong: /etc/kubernetes/kubelet.conf", "kubeadm certs"},
		command + `failed to set feature gates from initial flags-based config: cannot set feature gate A to false, feature is locked to true"`:                                                             {"feature gate A is locked to true and cannot be set to false", "featureGates"},
		command + `failed to parse kubelet flag: flag needs an argument: --cgroup-driver"`:                                                                                                                  {"the flag --cgroup-driver has no value; it is set in ", "set a value"},
		command + `failed to parse kubelet flag: unknown flag: --cgroup-driver"`:                                                                                                                            {"/etc/default/kubelet:2 (KUBELET_EXTRA_ARGS)", "remove --cgroup-driver"},
		`E1123 00:00:00.000002       1 server.go:1] "Failed to listen" err="listen tcp 127.0.0.1:10248: bind: address already in use"`:                                                                      {"address 127.0.0.1:10248 is already in use", "ss -ltnp"},
		command + `failed to run Kubelet: inotify_init: too many open files"`:                                                                                                                               {"the machine has run out of inotify instances", "sysctl"},
		`time="2026-11-23T00:00:00Z" level=error msg="kubelet exited: failed to run Kubelet: running with swap on is not supported, please disable swap or set --fail-swap-on flag to false"`:               {"swap is enabled on this machine", "swapoff"},
	} {
		k, r := newKubeadmNode(t), checkResults{check: "kubelet"}
		k.Service = &service.Service{Name: "kubelet.service", Manager: fakeManager{state: restartingUnit(), lines: []string{`I1123 00:00:00.000000       1 server.go:1] "Starting"`, line, "bye"}}}
		checkKubelet(t.Context(), &Input{Kubelet: *k}, &r)
		if len(r.list) == 0 {
			t.Fatal("no check")
		}
		c := r.list[0]
		if c.Check != "kubelet" || c.Severity != finding.SeverityError || !strings.HasPrefix(c.Message, "kubelet.service does not stay up: activating (auto-restart), exit-code, exit code 1, restarted 7 times: ") ||
			!strings.Contains(c.Message, want[0]) || !strings.Contains(c.Fix, want[1]) || len(c.Log) != 1 || c.Log[0] != line {
			t.Errorf("%s:\ngot  %s\nfix  %s\nlog  %q\nwant %q", line, c.Message, c.Fix, c.Log, want)
		}
	}
}

// TestKubeletCauseUnknown verifies that an unknown path is shown as a placeholder.
func TestKubeletCauseUnknown(t *testing.T) {
	k := newKubeadmNode(t)
	k.Setup.Config, k.Setup.BinDir = node.Flag{}, node.Flag{}
	got := k.expandCause("CONFIG and BINDIR", "VALIDATE", nil)
	if want := "CONFIG and DIR"; got.message != want || got.fix != "regcred validate --kubelet-version 1.25.3 CONFIG" {
		t.Errorf("got %+v", got)
	}
}

// TestKubeletStates verifies the finding for each state that the service manager reports.
func TestKubeletStates(t *testing.T) {
	with := func(change func(*service.State)) service.State {
		s := restartingUnit()
		change(&s)
		return s
	}
	for name, tt := range map[string]struct {
		told    fakeManager
		result  finding.Severity
		says    string
		fix     string
		logged  int
		running bool
	}{
		"unknown":                   {told: fakeManager{state: restartingUnit(), lines: []string{"a", `I1123 00:00:00.000001 1 x.go:1] "b"`, "c", "d", "e", "f", "g"}}, result: finding.SeverityError, says: "; last lines of its log:", fix: "journalctl -u kubelet.service", logged: unknownCauseLines},
		"nothing but information":   {told: fakeManager{state: restartingUnit(), lines: []string{`I1123 00:00:00.000001 1 x.go:1] "b"`}}, result: finding.SeverityError, says: "; last lines of its log:", fix: "journalctl -u kubelet.service", logged: 1},
		"secrets":                   {told: fakeManager{state: restartingUnit(), lines: []string{"got " + canary.PasswordSecret + " and " + canary.TokenSecret}}, result: finding.SeverityError, says: "; last lines of its log:", fix: "journalctl", logged: 1},
		"secret in the environment": {told: fakeManager{state: restartingUnit(), lines: []string{"got " + canary.EnvSecret + " and " + canary.TokenSecret[:12] + "…"}}, result: finding.SeverityError, says: "; last lines of its log:", fix: "journalctl", logged: 1},
		"stopped":                   {told: fakeManager{state: service.State{Load: "loaded", Active: "inactive", Sub: "dead"}}, result: finding.SeverityError, says: "kubelet.service is stopped", fix: "systemctl start kubelet"},
		"disabled":                  {told: fakeManager{state: service.State{Load: "loaded", Active: "inactive", Sub: "dead", Enabled: "disabled"}}, result: finding.SeverityError, says: "is stopped and disabled, so it does not start at boot", fix: "systemctl enable --now kubelet"},
		"condition":                 {told: fakeManager{state: service.State{Load: "loaded", Active: "inactive", Sub: "dead", ConditionsFailed: true}}, result: finding.SeverityError, says: "one of the unit's conditions was not met", fix: "systemctl status kubelet"},
		"masked":                    {told: fakeManager{state: service.State{Load: "masked", Active: "inactive"}}, result: finding.SeverityError, says: "cannot be started: the unit is masked", fix: "systemctl unmask kubelet.service"},
		"no rights":                 {told: fakeManager{err: &service.Error{Err: errors.New("permission denied"), Hint: "run this command as root (sudo)"}}, result: finding.SeveritySkipped, says: "permission denied", fix: "run this command as root (sudo)"},
		"crashed, under OpenRC":     {told: fakeManager{state: service.State{Load: "loaded", Active: "failed", Sub: "failed"}, lines: []string{"x"}}, result: finding.SeverityError, says: "kubelet.service is failed (failed); last lines of its log:", fix: "journalctl", logged: 1},
		"up, as what nobody sees":   {told: fakeManager{state: service.State{Load: "loaded", Active: "active", Sub: "running", MainPID: 7, Started: time.Now().Add(-time.Hour)}}, result: finding.SeverityOK, says: "kubelet.service runs"},
		"killed":                    {told: fakeManager{state: with(func(s *service.State) { s.Result = "oom-kill" })}, result: finding.SeverityError, says: "the kernel's OOM killer killed the process", fix: "memory"},
		"no program":                {told: fakeManager{state: with(func(s *service.State) { s.ExitStatus = 203 })}, result: finding.SeverityError, says: "systemd cannot run /usr/bin/kubelet (203/EXEC)", fix: "ls -l /usr/bin/kubelet"},
		"just up again": {told: fakeManager{state: with(func(s *service.State) {
			s.Active, s.Sub, s.MainPID, s.Started = "active", "running", 7, time.Now().Add(-10*time.Second)
		}), lines: []string{"x"}},
			running: true, result: finding.SeverityWarning, says: "does not stay up: active (running), process 7", fix: "journalctl", logged: 1},
		"up": {told: fakeManager{state: service.State{Load: "loaded", Active: "active", Sub: "running", MainPID: 7, Started: time.Now().Add(-time.Hour), Restarts: 3, Enabled: "disabled"}}, running: true, result: finding.SeverityOK, says: "kubelet process 7 (1.25.3) runs, with --image-credential-provider-config="},
	} {
		t.Run(name, func(t *testing.T) {
			k, r := newKubeadmNode(t), checkResults{check: "kubelet"}
			if tt.running {
				k.Setup.Running = &node.RunningProcess{PID: 7, Flags: &node.RunningFlags{Config: "/etc/c.yaml", BinDir: "/opt/bin"}}
			}
			k.Service = &service.Service{Name: "kubelet.service", Manager: tt.told}
			checkKubelet(t.Context(), &Input{Kubelet: *k}, &r)
			if len(r.list) == 0 {
				t.Fatal("no check")
			}
			c := r.list[0]
			if c.Severity != tt.result || !strings.Contains(c.Message, tt.says) || !strings.Contains(c.Fix, tt.fix) || len(c.Log) != tt.logged {
				t.Errorf("got %+v", c)
			}
			canary.AssertAbsent(t, "a check", c.Message+strings.Join(c.Log, "\n"))
		})
	}
}

// TestKubeletBadConfigSecrets verifies that values of an invalid configuration are redacted
// in the kubelet's log.
func TestKubeletBadConfigSecrets(t *testing.T) {
	for name, text := range map[string]string{
		"rules":  "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: a\n  env: [{name: A, value: " + canary.PasswordSecret + "}]\n",
		"fields": "apiVersion: kubelet.config.k8s.io/v1\nkind: X\nunknown: 1\nproviders:\n- args: [" + canary.PasswordSecret + "]\n",
	} {
		k, r := newKubeadmNode(t), checkResults{check: "kubelet"}
		k.Config = nil
		file := k.Node.HostPath("/etc/c.yaml")
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		k.Origin = &node.Origin{Config: file}
		k.Service = &service.Service{Name: "kubelet.service", Manager: fakeManager{state: restartingUnit(), lines: []string{"cannot use " + canary.PasswordSecret + " here"}}}
		checkKubelet(t.Context(), &Input{Kubelet: *k}, &r)
		if len(r.list) == 0 || len(r.list[0].Log) != 1 || !strings.Contains(r.list[0].Log[0], "cannot use [redacted] here") {
			t.Errorf("%s: %+v", name, r.list)
		}
	}
}

// TestKubeletLogSince verifies that only the log since the last start is read. If a new
// process is running, the log must include the end of the previous process.
func TestKubeletLogSince(t *testing.T) {
	for _, pid := range []int{0, 7} {
		var since time.Time
		state := restartingUnit()
		state.MainPID = pid
		k := newKubeadmNode(t)
		k.Service = &service.Service{Name: "kubelet.service", Manager: fakeManager{state: state, since: &since}}
		checkKubelet(t.Context(), &Input{Kubelet: *k}, &checkResults{})
		if since.Equal(state.Started) != (pid == 0) || since.IsZero() {
			t.Errorf("process %d, started %v: the log since %v", pid, state.Started, since)
		}
	}
}

// TestKubeletClockSetBack verifies that the log is read even if the process's start time is
// in the future.
func TestKubeletClockSetBack(t *testing.T) {
	var since time.Time
	state := restartingUnit()
	state.Started = time.Now().Add(time.Hour)
	k := newKubeadmNode(t)
	k.Service = &service.Service{Name: "kubelet.service", Manager: fakeManager{state: state, since: &since}}
	checkKubelet(t.Context(), &Input{Kubelet: *k}, &checkResults{})
	if since.IsZero() || since.After(time.Now()) {
		t.Errorf("the log since %v", since)
	}
	n, r := node.Node{}.NewReader(), checkResults{} // a real process, whose start time does not depend on the clock
	state = service.State{Load: "loaded", Active: "active", Sub: "running", MainPID: 1, Restarts: 1, Started: time.Now().Add(time.Hour)}
	setup := &node.Setup{Kind: node.OtherSystemd, Init: node.InitSystemd, Service: "kubelet.service", Running: &node.RunningProcess{PID: 1, Flags: &node.RunningFlags{}}}
	checkKubelet(t.Context(), &Input{Kubelet: Kubelet{Node: n, Setup: setup, Service: &service.Service{Name: "kubelet.service", Manager: fakeManager{state: state}}}}, &r)
	if len(r.list) != 1 || r.list[0].Severity != finding.SeverityOK {
		t.Errorf("got %+v", r.list)
	}
}

// hangingManager is a manager that returns only after its context is canceled.
type hangingManager struct{ service.Manager }

func (hangingManager) State(ctx context.Context, _ string) (service.State, error) {
	<-ctx.Done()
	return service.State{}, context.Cause(ctx)
}

// TestKubeletManagerHangs verifies that doctor returns when its context is canceled.
func TestKubeletManagerHangs(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k, r := newKubeadmNode(t), checkResults{check: "kubelet"}
	k.Service = &service.Service{Name: "kubelet.service", Manager: hangingManager{}}
	checkKubelet(ctx, &Input{Kubelet: *k}, &r)
	if len(r.list) == 0 || r.list[0].Severity != finding.SeveritySkipped {
		t.Errorf("got %+v", r.list)
	}
}

// TestKubeletWithoutService verifies the findings for a kubelet that no service starts.
// Only its process is known.
func TestKubeletWithoutService(t *testing.T) {
	n, r := node.Node{Root: t.TempDir()}.NewReader(), checkResults{check: "kubelet"}
	setup := &node.Setup{Kind: node.NoKubelet, Init: node.InitSystemd, Running: &node.RunningProcess{PID: 7, Flags: &node.RunningFlags{Config: "/c", BinDir: "/b"}}}
	checkKubelet(t.Context(), &Input{Kubelet: Kubelet{Node: n, Setup: setup, Origin: &node.Origin{Config: n.HostPath("/c"), BinDir: n.HostPath("/b")}}}, &r)
	if len(r.list) != 1 || r.list[0].Severity != finding.SeverityOK || r.list[0].Message != "kubelet process 7 runs with this configuration" {
		t.Errorf("got %+v", r.list)
	}
}

// TestNoKubelet verifies that there are no findings on a machine that is not a node.
func TestNoKubelet(t *testing.T) {
	n, r := node.Node{Root: t.TempDir()}.NewReader(), checkResults{check: "kubelet"}
	setup := must.Get(n.Setup(t.Context()))(t)
	checkKubelet(t.Context(), &Input{Kubelet: Kubelet{Node: n, Setup: setup}}, &r)
	if len(r.list) != 0 {
		t.Errorf("got %+v", r.list)
	}
}

// TestKnownKubeletFaults verifies that doctor reports faults of the kubelet's release that its settings
// trigger, and flags that the release no longer has.
func TestKnownKubeletFaults(t *testing.T) {
	for _, tt := range []struct {
		version, config, flags string
		want                   []string // the errors
	}{
		{"1.36.3", "maxParallelImagePulls: 64\nserializeImagePulls: false\n", "", []string{"kubelet 1.36.3 has a known fault (kubernetes#138935, fixed in 1.37.0): maxParallelImagePulls is greater than 31"}},
		{"1.36.3", "maxParallelImagePulls: 64\nfeatureGates: {KubeletEnsureSecretPulledImages: false}\n", "", nil},
		{"1.36.3", "maxParallelImagePulls: 5\n", "", nil},
		{"1.37.0", "maxParallelImagePulls: 64\n", "", nil},
		{"1.33.4", "{}", "--azure-container-registry-config=/etc/kubernetes/azure.json", []string{"kubelet 1.33 has no flag --azure-container-registry-config (removed in 1.30)"}},
		{"1.29.9", "{}", "--azure-container-registry-config=/etc/kubernetes/azure.json", nil},
	} {
		root := t.TempDir()
		for name, text := range map[string]string{
			"/usr/lib/systemd/system/kubelet.service": "[Service]\nEnvironmentFile=/etc/default/kubelet\nExecStart=/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml $KUBELET_EXTRA_ARGS\n",
			"/etc/default/kubelet":                    "KUBELET_EXTRA_ARGS=\"" + tt.flags + "\"\n",
			"/var/lib/kubelet/config.yaml":            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + strings.TrimPrefix(tt.config, "{}"),
		} {
			file := filepath.Join(root, name)
			must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)))
		}
		k, r := Kubelet{Node: node.Node{Root: root}.NewReader()}, checkResults{check: "kubelet"}
		k.Setup = must.Get(k.Node.Setup(t.Context()))(t)
		k.Setup.Version.Kubelet = tt.version
		k.checkKnownFaults(t.Context(), &r)
		var got []Finding
		for _, f := range r.list {
			if f.Severity == finding.SeverityError {
				got = append(got, f)
			}
		}
		if len(got) != len(tt.want) {
			t.Errorf("%s, %s %s: got %+v", tt.version, tt.config, tt.flags, got)
			continue
		}
		for i, want := range tt.want {
			if !strings.HasPrefix(got[i].Message, want) || !strings.HasPrefix(got[i].File, root) || got[i].Fix == "" {
				t.Errorf("got %+v, want %s", got[i], want)
			}
		}
	}
}
