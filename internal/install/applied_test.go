// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package install_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/install"
	"github.com/regcred/regcred/internal/must"
)

// runWithoutRestart runs a change that is not allowed to restart the kubelet.
func (c *testNode) runWithoutRestart(t *testing.T, change string) (err error) {
	t.Helper()
	c.newInstaller(t)
	switch change {
	case "uninstall":
		return c.Uninstall(t.Context(), install.Options{})
	case "rollback 1":
		_, err = c.Rollback(t.Context(), 1, install.Options{})
	case "rollback 2":
		_, err = c.Rollback(t.Context(), 2, install.Options{})
	default:
		_, err = c.Install(t.Context(), desiredState(c.configDir, change[len("install "):]), install.Options{})
	}
	return err
}

// simulateReboot simulates a reboot of the machine, which resets the ticks.
func (c *testNode) simulateReboot() {
	c.Boot, c.Ticks = c.Boot+"'", 0
	c.Loaded, _ = c.reloadedFlags()
	c.startKubelet()
}

const wantRestartError = "the kubelet must be restarted"

// TestRestartNeeded verifies that a change needs a restart only if the running kubelet has not
// loaded the entries that the change needs.
func TestRestartNeeded(t *testing.T) {
	type step struct {
		do   string // a change without a restart, "restart CHANGE", or an event such as "boot" or "crash"
		says string // part of the error; "" if the step succeeds
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"nothing yet", []step{{"install a", "it runs without --image-credential-provider-config"}}},
		{"not wider", []step{{"restart install a", ""}, {"install c", ""}, {"rollback 1", ""}, {"install b", "tokens.example"}, {"uninstall", "it runs with regcred's entries"}}},
		{"after a boot", []step{{"restart install a", ""}, {"boot", ""}, {"install c", ""}, {"install b", "tokens.example"}}},
		{"narrower and back", []step{{"restart install a", ""}, {"restart install b", ""}, {"rollback 1", ""}, {"rollback 2", ""}, {"rollback 1", ""}}},
		{"narrower, crash, back", []step{{"restart install a", ""}, {"restart install b", ""}, {"rollback 1", ""}, {"crash", ""}, {"rollback 2", "tokens.example"}}},
		{"narrower, boot, back", []step{{"restart install a", ""}, {"restart install b", ""}, {"rollback 1", ""}, {"boot", ""}, {"rollback 2", "tokens.example"}}},
		{"no kubelet", []step{{"stop", ""}, {"install a", ""}, {"install b", ""}, {"rollback 1", ""}, {"uninstall", ""}}},
		{"not up yet", []step{{"stop", ""}, {"install a", ""}, {"crash", ""}, {"install c", ""}, {"uninstall", "it runs with regcred's entries"}}},
		{"unknown", []step{{"restart install a", ""}, {"forgotten", ""}, {"install c", "are unknown"}, {"uninstall", "it runs with regcred's entries"}, {"restart install c", ""}, {"install a", ""}}},
		{"damaged", []step{{"restart install a", ""}, {"damaged", ""}, {"install c", "are unknown"}, {"uninstall", "it runs with regcred's entries"}, {"restart install c", ""}, {"install a", ""}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newNodeAfter(t, findLayout(t, "kubeadm"))
			for i, s := range tt.steps {
				var err error
				switch change, restart := strings.CutPrefix(s.do, "restart "); {
				case restart:
					c.newInstaller(t)
					err = c.makeChange(t.Context(), change)
				case s.do == "boot":
					c.simulateReboot()
				case s.do == "crash":
					c.Loaded, _ = c.reloadedFlags()
					c.startKubelet()
				case s.do == "stop":
					c.Running = nil
				case s.do == "forgotten":
					err = os.Remove(filepath.Join(c.rootDir(), stateDir, "applied.json"))
				case s.do == "damaged":
					err = os.WriteFile(filepath.Join(c.rootDir(), stateDir, "applied.json"), []byte(`[{"boot":`), 0o600)
				default:
					err = c.runWithoutRestart(t, s.do)
				}
				if err == nil && s.says != "" || err != nil && (s.says == "" || !strings.Contains(err.Error(), s.says)) {
					t.Fatalf("step %d, %s: got %v, want %q", i, s.do, err, s.says)
				}
				if _, err := c.checkKubelets(); err != nil {
					t.Fatalf("step %d, %s: %v", i, s.do, err)
				}
			}
		})
	}
}

// TestKubeletReadsConfigLate verifies that regcred considers that a kubelet may read its
// configuration a few seconds after its start.
func TestKubeletReadsConfigLate(t *testing.T) {
	c := newNodeAfter(t, findLayout(t, "json"), "install a", "install b")
	c.Running.Start = c.Ticks + 2000 + 1990 // 100 ms before the second record
	must.Do(t, c.runWithoutRestart(t, "rollback 1"))
	if err := c.runWithoutRestart(t, "rollback 2"); err == nil || !strings.Contains(err.Error(), wantRestartError) {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"regcred-credential-provider", "regcred-credential-provider-2"} {
		if !c.fs().Exists("/opt/plugins/" + name) {
			t.Errorf("%s is gone, and the kubelet may have read its name", name)
		}
	}
}

// TestAppliedLinks verifies that regcred keeps a link to the dispatcher as long as the running
// kubelet may use it, and then removes it.
func TestAppliedLinks(t *testing.T) {
	c := newNodeAfter(t, findLayout(t, "json"), "install a", "install b")
	second := "/opt/plugins/regcred-credential-provider-2"
	if err := c.runWithoutRestart(t, "rollback 1"); err != nil || !c.fs().Exists(second) {
		t.Fatalf("%v; the link is gone, and the kubelet has its name in memory", err)
	}
	c.startKubelet()
	if err := c.runWithoutRestart(t, "install c"); err != nil || c.fs().Exists(second) {
		t.Errorf("%v; the link is left, and the kubelet has been restarted", err)
	}
}
