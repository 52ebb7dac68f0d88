// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/internal/agent"
	"github.com/regcred/regcred/internal/hostrun"
	"github.com/regcred/regcred/internal/must"
)

const (
	uninstallFailed     = `{"schemaVersion":1,"outcome":"failed","error":"the disk is full"}`
	uninstallRolledBack = `{"schemaVersion":1,"outcome":"failed","restarted":true,"error":"kubelet.service: no new kubelet that works; the change was rolled back"}`
	changeNotTried            = "this pod will not retry, to avoid further kubelet restarts: "
	noKubelet           = "kubelet.service: no new kubelet that works; the change was rolled back"
)

func init() { exitCodes[uninstallFailed], exitCodes[uninstallRolledBack] = 1, 1 }

// killedDuringCommand returns the next container of a pod whose first container ended while the
// command was running on the node. answer is the result that the command has saved.
func killedDuringCommand(t *testing.T, command, answer string) *testPod {
	t.Helper()
	p := newPod(t, commandResponses{command: {"hangs"}, "status": {notInstalled}})
	if command == "uninstall" {
		p.writeFile(t, "state/state", "absent")
	}
	synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Second) })
	if got := p.node.runCommands(); got != command {
		t.Fatalf("it ran %s", got)
	}
	p.writeFile(t, "work/answer.json", answer)
	p.restartAgent()
	p.node.calls = nil
	p.node.responses = commandResponses{"status": {notInstalled}} // all other commands fail
	return p
}

// TestContainerEndsDuringChange verifies that a new container waits for the change that the
// previous container started, and uses its result. A failed change that restarted the kubelet
// is not repeated.
func TestContainerEndsDuringChange(t *testing.T) {
	for name, tt := range map[string]struct {
		command, answer string
		then            commandResponses // responses to the new container
		commands        string
		phases          string
		reason          string
		failures        int
	}{
		"an install that went back": {
			"install", installRolledBack, commandResponses{}, "status, status, status", "starting applying failed", changeNotTried + noKubelet, 1,
		},
		"an install that worked": {
			"install", installed, commandResponses{"status": {clean}}, "status, status, status", "starting applying installed", "", 0,
		},
		"an install that failed without a restart is tried again": {
			"install", broken, commandResponses{"install": {installed}, "status": {notInstalled, notInstalled, clean}}, "status, status, install, status, status", "starting applying failed applying installed", "", 1,
		},
		"an install that was never begun": {
			"install", "", commandResponses{"install": {installed}, "status": {notInstalled, clean}}, "status, install, status, status", "starting applying installed", "", 0,
		},
		"an install whose answer is cut off": {
			"install", installRolledBack[:50], commandResponses{"install": {installed}, "status": {notInstalled, clean}}, "status, install, status, status", "starting applying installed", "", 0,
		},
		"a node that cannot be asked what became of it": {
			"install", installRolledBack, commandResponses{"status": {statusFailed, statusFailed, notInstalled}}, "status, status, status, status, status", "starting applying failed applying failed", changeNotTried + noKubelet, 2,
		},
		"an uninstall that went back": {
			"uninstall", uninstallRolledBack, commandResponses{}, "status", "starting applying not-removed", changeNotTried + noKubelet, 1,
		},
		"an uninstall that worked": {
			"uninstall", uninst, commandResponses{}, "status", "starting applying removed", "", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := killedDuringCommand(t, tt.command, tt.answer)
			for command, list := range tt.then {
				p.node.responses[command] = list
			}
			synctest.Test(t, func(t *testing.T) {
				p.node.t = t
				p.runFor(t, time.Minute+30*time.Second)
			})
			if got := p.node.runCommands(); got != tt.commands {
				t.Errorf("it ran %s\nwant     %s", got, tt.commands)
			}
			if got := p.printedPhases(); got != tt.phases {
				t.Errorf("phases %s\nwant   %s", got, tt.phases)
			}
			if s := p.lastStatus(t); s.Reason != tt.reason || s.Failures != tt.failures {
				t.Errorf("got %+v, want the reason %q and %d failures", s, tt.reason, tt.failures)
			}
		})
	}
}

// TestKilledBeforehand verifies that the saved result of an earlier change is not used if the
// container was killed before the new change started.
func TestKilledBeforehand(t *testing.T) {
	p := newPod(t, commandResponses{"uninstall": {"hangs"}})
	p.writeFile(t, "state/state", "absent")
	p.writeFile(t, "work/answer.json", unchanged) // result of an earlier install
	synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Second) })
	p.restartAgent()
	p.node.calls, p.node.responses = nil, commandResponses{"status": {clean}, "uninstall": {uninst}}
	synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Minute) })
	if s := p.lastStatus(t); p.node.runCommands() != "status, uninstall" || s.Phase != agent.PhaseRemoved {
		t.Errorf("it ran %s; %+v", p.node.runCommands(), s)
	}
}

// TestUnreadableResponseFile verifies that an unreadable result file is ignored and replaced.
func TestUnreadableResponseFile(t *testing.T) {
	for name, spoil := range map[string]func(file string) error{
		"a link to itself": func(file string) error { return os.Symlink(file, file) },
		"a directory":      func(file string) error { return os.Mkdir(file, 0o700) },
		"huge": func(file string) error {
			return errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 1<<30))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := killedDuringCommand(t, "install", "")
			file := filepath.Join(p.dir, "work/answer.json")
			must.Do(t, errors.Join(os.Remove(file), spoil(file)))
			p.node.responses = commandResponses{"install": {installed}, "status": {notInstalled, clean}}
			synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Minute) })
			if s := p.lastStatus(t); strings.Count(p.node.runCommands(), "install") != 1 || s.Phase != agent.PhaseInstalled {
				t.Errorf("it ran %s; %+v", p.node.runCommands(), s)
			}
		})
	}
}

// TestKilledAgainAndAgain verifies that an install is made only once, even if the container
// is killed repeatedly.
func TestKilledAgainAndAgain(t *testing.T) {
	p := killedDuringCommand(t, "install", installRolledBack)
	p.node.responses["status"] = []string{"hangs"}
	for range 5 { // killed while it waits for the change
		synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Second) })
		p.restartAgent()
	}
	p.node.responses["status"] = []string{notInstalled}
	for range 5 { // killed after the change has ended
		synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Second) })
		p.restartAgent()
	}
	if n := strings.Count(p.node.runCommands(), "install"); n != 0 {
		t.Errorf("it was made %d times more", n)
	}
}

// TestRepeatedlyKilledChange verifies that a change is started at most three times if systemd
// or a reboot always kills it.
func TestRepeatedlyKilledChange(t *testing.T) {
	for command, want := range map[string]agent.Phase{"install": agent.PhaseFailed, "uninstall": agent.PhaseNotRemoved} {
		t.Run(command, func(t *testing.T) {
			p := newPod(t, commandResponses{"status": {notInstalled}})
			if command == "uninstall" {
				p.writeFile(t, "state/state", "absent")
			}
			p.node.fail = func(c string) error {
				if c == command {
					return &hostrun.KilledError{Path: "/regcred", Reason: "it ran longer than 23m0s"}
				}
				return nil
			}
			synctest.Test(t, func(t *testing.T) { p.runFor(t, 3*time.Hour) })
			n := 0
			for _, c := range p.node.calls {
				if strings.HasPrefix(c, command) {
					n++
				}
			}
			s := p.lastStatus(t)
			if n != 3 || s.Phase != want || !strings.Contains(s.Reason, "regcred "+command+" was started 3 times on") {
				t.Errorf("%d times; %+v", n, s)
			}
		})
	}
}

// TestNoAnswer verifies that a change is started at most three times if it never returns a
// readable result, because each attempt may have restarted the kubelet.
func TestNoAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		answer string
		fail   error
		times  int
	}{
		"nothing":             {"", nil, 3},
		"cut off":             {installRolledBack[:50], nil, 3},
		"systemd away":        {"", &hostrun.UnknownResultError{Unit: "u", Err: errors.New("no response for 25s")}, 3},
		"it was kept for us":  {installRolledBack, &hostrun.UnknownResultError{Unit: "u", Err: errors.New("no response for 25s")}, 1},
		"an answer that does": {installRolledBack, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t, commandResponses{"install": {tt.answer}, "status": {notInstalled}})
			p.node.fail = func(c string) error {
				if c != "install" {
					return nil
				}
				p.writeFile(t, "work/answer.json", tt.answer)
				return tt.fail
			}
			synctest.Test(t, func(t *testing.T) { p.runFor(t, 20*time.Minute) })
			n := strings.Count(p.node.runCommands(), "install")
			if s := p.lastStatus(t); n != tt.times || s.Phase != agent.PhaseFailed || !strings.HasPrefix(s.Reason, changeNotTried) {
				t.Errorf("%d times; %+v", n, s)
			}
		})
	}
}

// TestUnstartedChangeIsRetried verifies that a change that could not be started is retried
// without a limit.
func TestUnstartedChangeIsRetried(t *testing.T) {
	p := newPod(t, commandResponses{"install": {installed}, "status": {clean}})
	left := 6
	p.node.fail = func(string) error {
		if left--; left >= 0 {
			return &hostrun.NotStartedError{Path: "/regcred", Status: 203}
		}
		return nil
	}
	synctest.Test(t, func(t *testing.T) { p.runFor(t, 2*time.Hour) })
	if s := p.lastStatus(t); s.Phase != agent.PhaseInstalled {
		t.Errorf("%+v", s)
	}
}

// TestFailedUninstallRunsOnce verifies that an uninstall that restarted the kubelet and was
// rolled back is not repeated until the user requests it again. An uninstall that failed
// without a restart is retried.
func TestFailedUninstallRunsOnce(t *testing.T) {
	p := newPod(t, commandResponses{"uninstall": {uninstallRolledBack}, "install": {installed}, "status": {clean}})
	p.writeFile(t, "state/state", "absent")
	synctest.Test(t, func(t *testing.T) { p.runFor(t, 3*time.Hour) })
	p.restartAgent()
	synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Hour) })
	if s := p.lastStatus(t); p.node.runCommands() != "uninstall" || s.Phase != agent.PhaseNotRemoved || s.Reason != changeNotTried+noKubelet || s.Failures != 1 {
		t.Errorf("it ran %s; %+v", p.node.runCommands(), s)
	}
	p.restartAgent()
	p.node.calls, p.node.responses["uninstall"] = nil, []string{uninstallFailed, uninst}
	synctest.Test(t, func(t *testing.T) {
		p.runFor(t, 2*time.Minute, func() { p.writeFile(t, "state/state", "present") }, func() { p.writeFile(t, "state/state", "absent") })
	})
	if s := p.lastStatus(t); strings.Count(p.node.runCommands(), "uninstall") != 2 || s.Phase != agent.PhaseRemoved {
		t.Errorf("it ran %s; %+v", p.node.runCommands(), s)
	}
}
