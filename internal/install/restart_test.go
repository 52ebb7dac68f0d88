// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package install_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/install"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/service"
)

// testNode is a fake node with an installer.
type testNode struct {
	*fakeNode
	*install.Installer
	configDir string
	health    *atomic.Int64 // HTTP status code of the kubelet's health endpoint
}

// newNodeAfter returns a node on which the given changes have been made.
func newNodeAfter(t *testing.T, l layout, done ...string) *testNode {
	t.Helper()
	c := &testNode{fakeNode: newFakeNode(t, l), configDir: writeConfigs(t), health: &atomic.Int64{}}
	for _, d := range done {
		if err := c.run(c.configDir, d); err != nil {
			t.Fatal(d, err)
		}
	}
	c.Calls = nil
	c.newInstaller(t)
	c.health.Store(http.StatusOK)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(c.health.Load())) }))
	t.Cleanup(server.Close)
	c.Criteria.Health = server.URL
	return c
}

// newInstaller replaces c's installer with a new installer for the same node.
func (c *testNode) newInstaller(t *testing.T) {
	t.Helper()
	in := must.Get(c.installerWithHook(nil))(t)
	c.Installer = in
}

func (c *testNode) makeChange(ctx context.Context, change string) error {
	return makeChange(ctx, c.Installer, c.configDir, change)
}

// checkUnchanged fails the test unless the node's files are the same as before, except for the record
// files.
func (c *testNode) checkUnchanged(t *testing.T, before fileTree) {
	t.Helper()
	if diff := before.withoutPaths(recordFiles()...).differences(readTree(t, c.rootDir()).withoutPaths(recordFiles()...)); diff != "" {
		t.Errorf("the node is not as before: %s", diff)
	}
	if _, err := c.checkKubelets(); err != nil {
		t.Error(err)
	}
}

// TestRollbackIfKubeletDoesNotStart verifies that install rolls back if the kubelet does not
// become healthy, and restarts it with its previous configuration.
func TestRollbackIfKubeletDoesNotStart(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(c *testNode, m *fakeSystemd)
		says   string
		calls  string
	}{
		{"ill", func(_ *testNode, m *fakeSystemd) {
			m.exitsAfterRestart = func() bool { return slices.Index(m.Calls, "restart") == len(m.Calls)-1 }
		}, "it exited and was not restarted", "reload reload restart reload reload restart"},
		{"restart fails", func(_ *testNode, m *fakeSystemd) {
			m.fail = failFirst("restart")
		}, "restart: no", "reload reload restart reload reload restart"},
		{"reload fails", func(_ *testNode, m *fakeSystemd) {
			m.fail = failFirst("reload")
		}, "reload: no", "reload reload"},
		{"probe fails", func(c *testNode, _ *fakeSystemd) {
			c.Probe = func(context.Context) error { return errors.New("no such image") }
		}, "the test pull failed: no such image", "reload reload restart reload reload restart"},
		{"unhealthy", func(c *testNode, m *fakeSystemd) {
			c.Criteria.Timeout = 300 * time.Millisecond
			m.fail = func(call string) error {
				if call == "restart" {
					c.health.Store(http.StatusInternalServerError)
					if slices.Contains(m.Calls[:len(m.Calls)-1], "restart") {
						c.health.Store(http.StatusOK)
					}
				}
				return nil
			}
		}, "HTTP status 500", "reload reload restart reload reload restart"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newNodeAfter(t, findLayout(t, "kubeadm"))
			m := fakeSystemd{fakeNode: c.fakeNode}
			tt.change(c, &m)
			c.Service.Manager = &m
			before := readTree(t, c.rootDir())
			err := c.makeChange(t.Context(), "install a")
			if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.HasSuffix(err.Error(), "; the change was rolled back") {
				t.Errorf("got %v, want %q", err, tt.says)
			}
			if _, restarted := errors.AsType[*install.RestartedError](err); restarted != slices.Contains(c.Calls, "restart") {
				t.Errorf("it says that the kubelet was restarted: %v", restarted)
			}
			c.checkUnchanged(t, before)
			if calls := strings.Join(c.Calls, " "); calls != tt.calls {
				t.Errorf("calls: %s, want %s", calls, tt.calls)
			}
			if c.Running == nil || len(c.Names) != 0 {
				t.Errorf("the kubelet runs: %v, with %v", c.Running, c.Names)
			}
		})
	}
}

// failFirst returns a function for manager.fail that fails the first call with the given name.
func failFirst(name string) func(string) error {
	failed := false
	return func(call string) error {
		if failed || call != name {
			return nil
		}
		failed = true
		return errors.New(name + ": no")
	}
}

// TestProbe verifies that a change is rolled back if the test pull fails, with and without a
// restart of the kubelet. The rollback does not repeat the test pull.
func TestProbe(t *testing.T) {
	for change, calls := range map[string]string{
		"install b": "reload restart reload restart", // adds a provider, so the kubelet must load its entry
		"install c": "",                              // only replaces an executable
	} {
		t.Run(change, func(t *testing.T) {
			c := newNodeAfter(t, findLayout(t, "json"), "install a")
			m := fakeSystemd{fakeNode: c.fakeNode}
			c.Service.Manager = &m
			before, probes := readTree(t, c.rootDir()), 0
			c.Probe = func(context.Context) error { probes++; return errors.New("no such image") }
			err := c.makeChange(t.Context(), change)
			if err == nil || err.Error() != "the test pull failed: no such image; the change was rolled back" || probes != 1 {
				t.Errorf("got %v after %d test pulls", err, probes)
			}
			c.checkUnchanged(t, before)
			if got := strings.Join(c.Calls, " "); got != calls {
				t.Errorf("calls: %s, want %s", got, calls)
			}
			c.newInstaller(t)
			c.Service.Manager = &fakeSystemd{fakeNode: c.fakeNode}
			c.Probe = func(context.Context) error { probes++; return nil }
			if err := c.makeChange(t.Context(), change); err != nil || probes != 2 {
				t.Errorf("%v after %d test pulls", err, probes)
			}
		})
	}
}

// TestProbeHangs verifies that a test pull has the same timeout as the health check.
func TestProbeHangs(t *testing.T) {
	c := newNodeAfter(t, findLayout(t, "json"), "install a")
	c.Criteria.Timeout = 50 * time.Millisecond
	c.Probe = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	if err := c.makeChange(t.Context(), "install c"); err == nil || !strings.Contains(err.Error(), "the test pull failed: timed out after 50ms") {
		t.Errorf("got %v", err)
	}
}

// TestNeverHealthy verifies that the error states that the rollback failed if the kubelet stays
// unhealthy, and that a later uninstall restores the node.
func TestNeverHealthy(t *testing.T) {
	c := newNodeAfter(t, findLayout(t, "kubeadm"))
	c.Service.Manager = fakeSystemd{fakeNode: c.fakeNode, exitsAfterRestart: func() bool { return true }}
	before := readTree(t, c.rootDir())
	err := c.makeChange(t.Context(), "install a")
	if err == nil || !strings.Contains(err.Error(), "the rollback also failed") {
		t.Fatalf("got %v", err)
	}
	if unhealthy, ok := errors.AsType[*service.UnhealthyError](err); !ok || len(unhealthy.Lines) == 0 {
		t.Errorf("no last lines: %v", err)
	}
	if s, err := c.Status(t.Context()); err != nil || s.InterruptedChange == "" {
		t.Errorf("status: %+v, %v", s, err)
	}
	c.newInstaller(t)
	must.Do(t, c.makeChange(t.Context(), "uninstall"))
	c.checkUnchanged(t, before)
}

// TestInterrupted cancels a change at different file system operations and calls to systemd,
// and verifies that the change is rolled back.
func TestInterrupted(t *testing.T) {
	l := findLayout(t, "kubeadm")
	for _, change := range []struct {
		do     string
		before []string
	}{{"install b", []string{"install a"}}, {"uninstall", []string{"install a"}}} {
		base := newNodeAfter(t, l, change.before...)
		before, places := readTree(t, base.rootDir()), 0
		scene := &changeFixture{t: t, layout: l, base: base.dir}
		for place := 1; place == 1 || place <= places; place += base.layout.stepInterval() {
			c := &testNode{fakeNode: scene.copyNode(), configDir: base.configDir, health: base.health}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			seen := 0
			pass := func() error {
				if seen++; seen == place {
					cancel()
				}
				return nil
			}
			in, err := c.installerWithHook(func(string, string) error { return pass() })
			if err != nil {
				t.Fatal(err)
			}
			in.Service.Manager = fakeSystemd{fakeNode: c.fakeNode, fail: func(string) error { return pass() }}
			c.Installer = in
			err = c.makeChange(ctx, change.do)
			places = max(places, seen)
			if err == nil { // canceled after the change was complete
				c.newInstaller(t)
				if s, err := c.Status(t.Context()); err != nil || s.InterruptedChange != "" || len(s.Problems) > 0 {
					t.Errorf("%s, interrupted at %d: %+v, %v", change.do, place, s, err)
				}
				continue
			}
			if strings.Contains(err.Error(), "could be tidied up") {
				continue
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s, interrupted at %d: %v", change.do, place, err)
			}
			c.checkUnchanged(t, before)
		}
		t.Logf("%s: %d places", change.do, places)
	}
}

// TestNoNeedlessRestart verifies that a change that fails before it restarts the kubelet is
// rolled back without a restart.
func TestNoNeedlessRestart(t *testing.T) {
	c := newNodeAfter(t, findLayout(t, "json"))
	flipped := false
	c.Store.FS.BeforeStep = func(step, name string) error {
		if flipped = flipped || name == stateDir+"/current"; flipped && step == "create" {
			c.Store.FS.BeforeStep = nil
			flipped = false
			return errors.New("broken")
		}
		return nil
	}
	if err := c.makeChange(t.Context(), "install a"); err == nil || len(c.Calls) > 0 {
		t.Errorf("got %v, after %v", err, c.Calls)
	}
}

// TestInterruptedChangeFailsAgain verifies that an interrupted change that cannot be repaired
// is reported in one sentence.
func TestInterruptedChangeFailsAgain(t *testing.T) {
	c := newNodeAfter(t, findLayout(t, "json"))
	flipped := false
	c.Store.FS.BeforeStep = func(step, name string) error {
		if flipped = flipped || name == stateDir+"/current"; flipped {
			return errors.New("broken")
		}
		return nil
	}
	if err := c.makeChange(t.Context(), "install a"); err == nil {
		t.Fatal("it is not broken off")
	}
	err := c.makeChange(t.Context(), "install a")
	if want := regexp.MustCompile("^install of generation 1, started at [-0-9]+ [0-9:]+ [^ ]+, was interrupted and cannot be finished: .*broken$"); err == nil || !want.MatchString(err.Error()) {
		t.Errorf("got %v", err)
	}
}
