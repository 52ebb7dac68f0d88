// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/service"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/upstream/node"
)

// unitClient controls a unit by running command unit on the machine.
type unitClient struct {
	machine *node.Machine
	name    string
}

// unitResult is the output of command unit.
type unitResult struct {
	State       service.State
	Lines       []string
	Error, Hint string
	Took        time.Duration
}

func (u unitClient) callUnit(ctx context.Context, what string, before service.State, want service.HealthCriteria) (c unitResult, err error) {
	request, err := json.Marshal(map[string]any{"Before": before, "Want": want})
	if err != nil {
		return c, err
	}
	said, err := u.machine.Command(ctx, unitProgram, u.name, what, string(request)).Output()
	if err != nil {
		return c, fmt.Errorf("%s: %w", what, err)
	}
	return c, json.Unmarshal(said, &c)
}

func (u unitClient) requireCall(t *testing.T, what string, before service.State, want service.HealthCriteria) unitResult {
	t.Helper()
	return must.Get(u.callUnit(t.Context(), what, before, want))(t)
}

// unitState returns the unit's state.
func (u unitClient) unitState(t *testing.T) service.State {
	t.Helper()
	c := u.requireCall(t, "state", service.State{}, service.HealthCriteria{})
	if c.Error != "" {
		t.Fatal(c.Error)
	}
	return c.State
}

const unitProgram = "/usr/local/bin/unit"

// units maps unit names to settings. Most of the units fail, each in a different way.
var units = map[string]string{
	"exits":     "ExecStart=/bin/sh -c 'echo bye; exit 0'\nRestart=on-failure",
	"loops":     "ExecStart=/bin/sh -c 'echo \"E1 x err=\\\\\"unknown flag: --x\\\\\"\"; exit 1'\nRestart=always\nRestartSec=100ms\n[Unit]\nStartLimitIntervalSec=0",
	"limited":   "ExecStart=/bin/sh -c '[ -e /run/well ] && exec sleep 1000; exit 1'\nRestart=always\nRestartSec=1ms",
	"mute":      "Type=notify\nExecStart=/bin/sleep 1000\nTimeoutStartSec=1s",
	"requires":  "ExecStart=/bin/sleep 1000\n[Unit]\nRequires=fails.service\nAfter=fails.service",
	"fails":     "Type=oneshot\nExecStart=/bin/false",
	"condition": "ExecStart=/bin/sleep 1000\n[Unit]\nConditionPathExists=/absent",
	"slow":      "Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'until [ -e /run/go ]; do sleep 0.1; done'",
	"relative":  "ExecStart=./sleep 1000",
	"sleeps":    "ExecStart=/bin/sleep 1000",
}

// TestService verifies how package service restarts a real kubelet and failing units, with a real
// systemd.
func TestService(t *testing.T) {
	net := must.Get(testcloud.NewFakeNetwork())(t)
	t.Cleanup(net.Close)
	files := map[string]string{"/etc/systemd/system/kubelet.service.d/80-soon.conf": "[Service]\nRestartSec=1s\n"}
	keep := "[Unit]\nAfter=" // systemd forgets inactive units without references
	for name, unit := range units {
		head, rest, _ := strings.Cut(unit, "[Unit]\n")
		files["/etc/systemd/system/"+name+".service"] = "[Unit]\n" + rest + "\n[Service]\n" + head + "\n"
		keep += name + ".service "
	}
	files["/etc/systemd/system/kubelet.service.d/81-keep.conf"] = keep + "\n"
	program := filepath.Join(t.TempDir(), "unit")
	build := exec.Command("go", "build", "-o", program, "./unit")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	m := node.StartMachine(t, node.MachineOptions{Net: net, Files: files, Programs: map[string]string{unitProgram: program}})
	t.Run("kubelet", func(t *testing.T) { restartKubelet(t, m) })
	t.Run("units", func(t *testing.T) { restartUnits(t, m) })
}

// restartKubelet restarts the machine's kubelet several times. Two of the restarts must fail.
func restartKubelet(t *testing.T, m *node.Machine) {
	u := unitClient{m, "kubelet.service"}
	want := service.HealthCriteria{Health: "http://127.0.0.1:10248/healthz", MinHealthy: 3 * time.Second}
	restart := func() (before service.State, c unitResult) {
		t.Helper()
		before = u.unitState(t)
		for _, what := range []string{"reload", "restart"} {
			if c := u.requireCall(t, what, before, want); c.Error != "" {
				t.Fatal(c.Error)
			}
		}
		return before, u.requireCall(t, "wait", before, want)
	}

	before, c := restart()
	if c.Error != "" || c.State.HasSameProcess(before) || c.State.Invocation == before.Invocation || c.State.MainPID != m.MainPID(t, "kubelet") {
		t.Errorf("from %+v to %+v", before, c)
	}
	t.Logf("healthy for %s after %s", want.MinHealthy, c.Took)
	if c := u.requireCall(t, "log", c.State, want); c.Error != "" || len(c.Lines) != 20 {
		t.Errorf("got %+v", c)
	}

	const dropIn = "/etc/systemd/system/kubelet.service.d/90-regcred.conf"
	const line = "[Service]\nExecStart=\nExecStart=%s $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS %s\n"
	for flags, says := range map[string]string{
		"--no-such-flag": "unknown flag: --no-such-flag",
		"--image-credential-provider-config=/etc/hosts --image-credential-provider-bin-dir=/absent": "plugin binary directory /absent did not exist",
	} {
		m.WriteFile(t, dropIn, fmt.Sprintf(line, "/usr/bin/kubelet", flags), 0o644)
		_, c := restart()
		t.Logf("after %s: %s", c.Took, c.Error)
		if !strings.Contains(c.Error, "it keeps exiting: restarted 3 times") || len(c.Lines) == 0 || !strings.Contains(c.Lines[0], says) {
			t.Errorf("%s: %+v", flags, c)
		}
	}

	m.WriteFile(t, dropIn, "[Service]\nExecStart=\nExecStart=./kubelet\n", 0o644)
	if c := u.requireCall(t, "reload", before, want); !strings.Contains(c.Error, "(bad-setting)") || c.Hint == "" {
		t.Errorf("a bad unit: %+v", c)
	} else {
		t.Log(c.Error)
	}

	m.Run(t, "rm", dropIn)
	before, c = restart()
	t.Logf("put right: healthy for %s after %s", want.MinHealthy, c.Took)
	if c.Error != "" || c.State.HasSameProcess(before) {
		t.Errorf("put right: from %+v to %+v", before, c)
	}
}

// checkError checks that an error contains the text want. If want is empty, there must be no error.
func checkError(t *testing.T, what, got, want string) {
	t.Helper()
	t.Logf("%s: %s", what, got)
	if (got == "") != (want == "") || !strings.Contains(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// restartUnits restarts units that fail, and then a unit that works.
func restartUnits(t *testing.T, m *node.Machine) {
	want := service.HealthCriteria{MinHealthy: 500 * time.Millisecond, Timeout: time.Minute, Restarts: 8} // more restarts than systemd makes for "limited"
	for _, tt := range []struct{ name, restart, wait string }{
		{"sleeps", "", ""},
		{"exits", "", "it exited and was not restarted; the unit is inactive (dead); its log: bye"},
		{"loops", "", `it keeps exiting`},
		{"limited", "", "it exited and was not restarted; the unit is failed (failed), "},
		{"mute", `its job ended with "failed"`, "no healthy new kubelet"},
		{"requires", `its job ended with "dependency"`, "it was not started; the unit is inactive (dead)"},
		{"condition", "", "a Condition in the unit is not met"},
		{"relative", "(BadUnitSetting)", "(bad-setting)"},
		{"nowhere", "(NoSuchUnit)", "no such unit: Unit nowhere.service not found. (not-found)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := unitClient{m, tt.name + ".service"}
			before := u.unitState(t)
			checkError(t, "restart", u.requireCall(t, "restart", before, want).Error, tt.restart)
			checkError(t, "wait", u.requireCall(t, "wait", before, want).Error, tt.wait)
		})
	}
	t.Run("limited, put right", func(t *testing.T) {
		u := unitClient{m, "limited.service"}
		before := u.unitState(t)
		if before.Active != "failed" {
			t.Fatalf("got %s", before)
		}
		m.Run(t, "touch", "/run/well")
		checkError(t, "restart", u.requireCall(t, "restart", before, want).Error, "")
		checkError(t, "wait", u.requireCall(t, "wait", before, want).Error, "")
	})
	for _, tt := range []struct {
		want      string
		meanwhile []string
	}{
		{`"canceled"`, []string{"systemctl", "stop", "slow"}},
		{"", []string{"sh", "-c", "systemctl daemon-reexec && touch /run/go"}},
	} {
		t.Run("slow"+tt.want, func(t *testing.T) {
			u := unitClient{m, "slow.service"}
			ended := make(chan unitResult, 1)
			go func() {
				c, err := u.callUnit(t.Context(), "restart", service.State{}, want)
				if err != nil {
					c.Error = err.Error()
				}
				ended <- c
			}()
			node.Eventually(t, time.Minute, func(ctx context.Context) error {
				c, err := u.callUnit(ctx, "state", service.State{}, want)
				if err == nil && c.State.Job == 0 {
					err = errors.New("it has no job")
				}
				return err
			})
			m.Run(t, tt.meanwhile...)
			checkError(t, "restart", (<-ended).Error, tt.want)
		})
	}
	t.Run("without rights", func(t *testing.T) {
		u := unitClient{m, "sleeps.service"}
		for want, without := range map[string][]string{
			"": {"--bounding-set=-sys_admin", "--inh-caps=-sys_admin"}, // root's user ID is sufficient
			"/run/systemd/private (permission denied)": {"--reuid=65534", "--clear-groups"},
		} {
			var c unitResult
			said, err := m.Command(t.Context(), slices.Concat([]string{"setpriv"}, without, []string{unitProgram, u.name, "restart", "{}"})...).Output()
			if err != nil || json.Unmarshal(said, &c) != nil {
				t.Fatalf("%v: %s", err, said)
			}
			checkError(t, fmt.Sprint(without), c.Error, want)
		}
	})
}
