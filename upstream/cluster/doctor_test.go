// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/upstream/node"
)

// brokenConfig and the following constants are paths on the machine.
const (
	brokenConfig    = "/etc/kubernetes/credential-providers.yaml"
	brokenExtraArgs = "/etc/default/kubelet"
	brokenBinary    = "/usr/local/bin/regcred"
)

// brokenKubelet is a machine with a kubelet that the test breaks.
type brokenKubelet struct {
	*node.Machine
	config string // original content of brokenConfig
}

// finding is a finding in the output of "regcred doctor -o json".
type finding struct {
	Check, Severity, Message, Fix string
	Log                           []string
}

// runDoctor runs "regcred doctor" on the machine. It returns the finding of the kubelet check, and all
// findings.
func (m *brokenKubelet) runDoctor(t *testing.T, args ...string) (kubelet finding, all []finding) {
	t.Helper()
	started := time.Now()
	said, err := m.Command(t.Context(), append([]string{brokenBinary, "doctor", "-o", "json"}, args...)...).Output()
	took := time.Since(started)
	var r struct{ Checks []finding }
	if jsonErr := json.Unmarshal(said, &r); jsonErr != nil {
		t.Fatalf("%v, %v: %s", err, jsonErr, said)
	}
	canary.AssertAbsent(t, "what doctor says", string(said))
	for _, c := range r.Checks {
		if c.Check == "kubelet" {
			kubelet = c
			t.Logf("after %s: %s: %s\nfix: %s\nlog: %s", took.Round(time.Millisecond), c.Severity, c.Message, c.Fix, strings.Join(c.Log, "\n     "))
		}
	}
	return kubelet, r.Checks
}

// checkCrashLoop waits until the kubelet is in a crash loop: systemd has restarted it and is about
// to restart it again.
func (m *brokenKubelet) checkCrashLoop(t *testing.T) {
	t.Helper()
	node.Eventually(t, restartTimeout, func(ctx context.Context) error {
		said, err := m.Command(ctx, "systemctl", "show", "--property=NRestarts,SubState", "kubelet").Output()
		if err != nil || !strings.Contains(string(said), "auto-restart") || strings.Contains(string(said), "NRestarts=0\n") {
			return fmt.Errorf("%w: %s", errors.Join(err, errors.New("it is not about to be started again")), said)
		}
		return nil
	})
}

// repair restores the kubelet.
func (m *brokenKubelet) repair(t *testing.T) {
	t.Helper()
	m.restore(t)
	m.Restart(t, "kubelet")
	node.Eventually(t, restartTimeout, m.CheckHealthy)
}

// restore restores the files with which the kubelet starts.
func (m *brokenKubelet) restore(t *testing.T) {
	t.Helper()
	m.WriteFile(t, brokenConfig, m.config, 0o644)
	m.WriteFile(t, brokenExtraArgs, "KUBELET_EXTRA_ARGS=\n", 0o644)
	m.Run(t, "systemctl", "start", "containerd")
	m.Run(t, "systemctl", "reset-failed", "kubelet")
}

// testAllCrashLoops selects all crash loops. By default the tests cover one of each kind: flags, files,
// programs, other processes, and unknown causes.
var testAllCrashLoops = flag.Bool("loops", false, "try every crash loop of a kubelet that doctor knows")

// TestDoctorKubelet verifies that doctor finds why a real kubelet under a real systemd does not
// start. doctor must also detect a kubelet that runs with a configuration other than the checked
// one.
func TestDoctorKubelet(t *testing.T) {
	node.SkipUnlessSupported(t)
	net := node.NewFakeNetwork(t)
	node.StartRegistry(t, net, "registry.example", testregistry.Options{})
	programs := must.Get(buildReleases())(t)
	m := &brokenKubelet{Machine: startMachine(t, net, "registry.example")}
	m.CopyProgram(t, filepath.Join(programs, v1, "regcred"), brokenBinary)
	m.WriteFile(t, "/etc/systemd/system/kubelet.service.d/80-soon.conf", "[Service]\nRestartSec=3s\n", 0o644)
	m.Run(t, "systemctl", "daemon-reload")
	m.config = m.Run(t, "cat", brokenConfig)
	t.Run("healthy", m.testHealthy)
	t.Run("crash loops", m.testCrashLoops)
	t.Run("not the same", m.testOtherFindings)
	t.Run("not started", m.testStopped)
}

func (m *brokenKubelet) testHealthy(t *testing.T) {
	m.runDoctor(t) // warms up the page cache
	started := time.Now()
	got, all := m.runDoctor(t)
	t.Logf("doctor took %s", time.Since(started))
	if got.Severity != "ok" || !strings.Contains(got.Message, "runs with this configuration") {
		t.Errorf("got %+v of %+v", got, all)
	}
}

func (m *brokenKubelet) testCrashLoops(t *testing.T) {
	replace := func(from, to string) string { return strings.Replace(m.config, from, to, 1) }
	version := strings.TrimPrefix(node.KubeletVersion(), "v")
	validate := "regcred validate --kubelet-version " + version + " " + brokenConfig
	for name, tt := range map[string]struct {
		config, extra string // "" means unchanged
		do            []string
		says, fix     string
		alike         bool // similar to another case: only with -loops
	}{
		"unknown flag":      {extra: "--no-such-flag=1", says: "the kubelet has no flag --no-such-flag (kubelet " + version + "); it is set in " + brokenExtraArgs + ":1 (KUBELET_EXTRA_ARGS)", fix: "remove --no-such-flag; then systemctl restart kubelet"},
		"unknown field":     {config: replace("matchImages", "matchImage"), says: brokenConfig + ":", fix: validate},
		"broken rule":       {config: replace("defaultCacheDuration: ", "defaultCacheDuration: -"), says: "must not be negative", fix: validate, alike: true},
		"no executable":     {config: replace("name: ", "name: no-"), says: "/usr/local/bin/plugins/no-", fix: "put the executable there"},
		"no bin dir":        {extra: "--image-credential-provider-bin-dir=/absent", says: "--image-credential-provider-bin-dir is /absent, which does not exist", fix: "put the plugins there", alike: true},
		"no configuration":  {extra: "--image-credential-provider-config=/absent.yaml", says: "--image-credential-provider-config is /absent.yaml, which cannot be read: no such file or directory", fix: "create the file", alike: true},
		"feature gate":      {extra: "--feature-gates=NoSuchGate=true", says: "the kubelet has no feature gate NoSuchGate", fix: "--feature-gates", alike: true},
		"no runtime":        {do: []string{"systemctl", "stop", "containerd"}, says: "the container runtime does not respond at /run/containerd/containerd.sock: ", fix: "systemctl status containerd"},
		"kubelet's own":     {extra: "--config=/absent.yaml", says: "the kubelet's configuration /absent.yaml does not exist", fix: "kubeadm", alike: true},
		"bootstrap":         {extra: "--bootstrap-kubeconfig=/absent.conf --kubeconfig=/absent-too.conf", says: "the bootstrap kubeconfig /absent.conf does not exist", fix: "kubeadm join", alike: true},
		"what nobody knows": {extra: "--root-dir=/proc/absent", says: "last lines of its log:", fix: "journalctl -u kubelet.service"},
	} {
		if tt.alike && !*testAllCrashLoops {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if tt.config != "" {
				m.WriteFile(t, brokenConfig, tt.config, 0o644)
			}
			if tt.extra != "" {
				m.WriteFile(t, brokenExtraArgs, "KUBELET_EXTRA_ARGS="+tt.extra+"\n", 0o644)
			}
			if tt.do != nil {
				m.Run(t, tt.do...)
			}
			m.Run(t, "systemctl", "restart", "kubelet")
			m.checkCrashLoop(t)
			got, all := m.runDoctor(t)
			if got.Severity != "error" || !strings.Contains(got.Message, "does not stay up") || !strings.Contains(got.Message, tt.says) || !strings.Contains(got.Fix, tt.fix) || len(got.Log) == 0 {
				t.Errorf("got %+v of %+v, want %q and %q", got, all, tt.says, tt.fix)
			}
			m.restore(t)
		})
	}
}

// testOtherFindings verifies the findings if the running kubelet uses a configuration or flags that have
// changed since.
func (m *brokenKubelet) testOtherFindings(t *testing.T) {
	m.repair(t)
	time.Sleep(startupTime) // a kubelet that has just started may not have read its files yet
	m.WriteFile(t, brokenConfig, m.config+"\n", 0o644)
	if got, _ := m.runDoctor(t); got.Severity != "warning" || !strings.Contains(got.Message, brokenConfig+" was changed at ") || got.Fix != "systemctl restart kubelet" {
		t.Errorf("a configuration that has changed: %+v", got)
	}
	m.repair(t)
	m.WriteFile(t, "/etc/other.yaml", m.config, 0o644)
	m.WriteFile(t, brokenExtraArgs, "KUBELET_EXTRA_ARGS=--image-credential-provider-config=/etc/other.yaml\n", 0o644)
	if got, _ := m.runDoctor(t); got.Severity != "warning" || !strings.Contains(got.Message, brokenExtraArgs+":1") || !strings.Contains(got.Message, "; now ") {
		t.Errorf("flags that have changed: %+v", got)
	}
	if got, all := m.runDoctor(t, "--as-kubelet"); got.Severity != "warning" || !strings.Contains(got.Message, "the kubelet still uses the checked configuration, but only until it is restarted") {
		t.Errorf("the same, seen from the kubelet: %+v of %+v", got, all)
	}
	m.repair(t)
}

// startupTime is the longest time between a kubelet's start and the moment it reads its configuration.
const startupTime = 3 * time.Second

// testStopped verifies the findings for a unit that is stopped, disabled, masked, or without its program.
func (m *brokenKubelet) testStopped(t *testing.T) {
	m.Run(t, "systemctl", "stop", "kubelet")
	if got, _ := m.runDoctor(t); got.Severity != "error" || got.Message != "kubelet.service is stopped" || got.Fix != "systemctl start kubelet" {
		t.Errorf("stopped: %+v", got)
	}
	// doctor still finds the flags and the environment with which the kubelet would start.
	if _, all := m.runDoctor(t, "--as-kubelet"); all[0].Check != "config" || all[0].Severity != "ok" {
		t.Errorf("as the next kubelet: %+v", all)
	}
	m.Run(t, "systemctl", "disable", "kubelet")
	if got, _ := m.runDoctor(t); got.Severity != "error" || !strings.Contains(got.Message, "is stopped and disabled") || got.Fix != "systemctl enable --now kubelet" {
		t.Errorf("disabled: %+v", got)
	}
	m.Run(t, "systemctl", "mask", "--runtime", "kubelet")
	if got, _ := m.runDoctor(t); got.Severity != "error" || !strings.Contains(got.Message, "masked") || got.Fix != "systemctl unmask kubelet.service" {
		t.Errorf("masked: %+v", got)
	}
	m.Run(t, "systemctl", "unmask", "--runtime", "kubelet")
	m.WriteFile(t, "/etc/systemd/system/kubelet.service.d/90-exec.conf", "[Service]\nExecStart=\nExecStart=/absent/kubelet\n", 0o644)
	m.Run(t, "systemctl", "daemon-reload")
	m.Run(t, "systemctl", "start", "kubelet")
	m.checkCrashLoop(t)
	if got, _ := m.runDoctor(t); got.Severity != "error" || !strings.Contains(got.Message, "203/EXEC") {
		t.Errorf("without its program: %+v", got)
	}
}
