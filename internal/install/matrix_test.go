// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package install_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// fullMatrix makes TestMatrix interrupt every step for every layout, which takes minutes.
var fullMatrix = flag.Bool("matrix", false, "break every layout at each step in each way, not two of them at each ninth step, and the others at each sixtieth without a kill")

// withKills reports whether TestMatrix also interrupts changes of this layout by killing the
// process.
func (l layout) withKills() bool {
	return *fullMatrix || l.name == "kubeadm" || l.name == "read-only bin dir"
}

// stepInterval returns the interval between steps that are interrupted. 1 means every step.
func (l layout) stepInterval() int {
	switch {
	case *fullMatrix:
		return 1
	case l.withKills():
		return 9
	}
	return 60
}

// interruptedChanges returns the changes that TestMatrix interrupts, and the changes to run before each.
func interruptedChanges() []struct {
	do     string
	before []string
} {
	return []struct {
		do     string
		before []string
	}{
		{"install a", nil},
		{"install b", []string{"install a"}},
		{"install c", []string{"install a"}},
		{"install a", []string{"install a", "install b"}}, // activate generation 1 again
		{"rollback 1", []string{"install a", "install b"}},
		{"uninstall", []string{"install a", "install b"}},
	}
}

// changeFixture holds a node before a change, and the results of the change without an interruption.
type changeFixture struct {
	t         testing.TB
	layout    layout
	change    string
	configDir string
	pristine  fileTree // the node before the first install
	base      string
	before    fileTree
	after     fileTree
	old, new  []string // names of the kubelet's providers before and after the change
	steps     int
}

// newFakeNode returns a node with the given layout and a running kubelet.
func newFakeNode(t testing.TB, l layout) *fakeNode {
	t.Helper()
	w := &fakeNode{dir: t.TempDir(), layout: l, Boot: "boot", PID: 100}
	l.writeFiles(t, w.rootDir())
	f := must.Get(w.reloadedFlags())(t)
	w.Loaded = f
	w.startKubelet()
	if w.Running == nil {
		t.Fatalf("%s: the kubelet does not start: %v", l.name, w.Calls)
	}
	must.Do(t, w.saveState())
	return w
}

// run runs a change without interruption.
func (w *fakeNode) run(wishes, change string) error { return w.runWith(wishes, change, nil) }

func (w *fakeNode) runWith(wishes, change string, before func(step, name string) error) error {
	if err := w.loadState(); err != nil {
		return err
	}
	in, err := w.installerWithHook(before)
	if err != nil {
		return err
	}
	return makeChange(context.Background(), in, wishes, change)
}

func newChangeFixture(t testing.TB, l layout, change string, before []string, wishes string) *changeFixture {
	t.Helper()
	w := newFakeNode(t, l)
	s := &changeFixture{t: t, layout: l, change: change, configDir: wishes, base: w.dir, pristine: readTree(t, w.rootDir())}
	for _, c := range before {
		if err := w.run(wishes, c); err != nil {
			t.Fatalf("%s: %s: %v", l.name, c, err)
		}
	}
	s.before = readTree(t, w.rootDir())
	s.old = s.providerNames(w)
	w = s.copyNode()
	if err := w.runWith(wishes, change, func(string, string) error { s.steps++; return nil }); err != nil {
		t.Fatalf("%s: %s: %v", l.name, change, err)
	}
	s.after, s.new = readTree(t, w.rootDir()), s.providerNames(w)
	return s
}

func (s *changeFixture) providerNames(w *fakeNode) []string {
	s.t.Helper()
	names, err := w.checkKubelets()
	if err != nil {
		s.t.Fatalf("%s: %s: %v", s.layout.name, s.change, err)
	}
	return names
}

// copyNode returns a copy of the node before the change.
func (s *changeFixture) copyNode() *fakeNode {
	s.t.Helper()
	dir := must.Get(os.MkdirTemp(s.t.TempDir(), ""))(s.t)
	copyTree(s.t, s.base, dir)
	w := &fakeNode{dir: dir, layout: s.layout}
	must.Do(s.t, w.loadState())
	return w
}

// interruption describes a way to interrupt a change at a step.
type interruption struct {
	how  string
	make func(w *fakeNode, step int) error
}

// stepErrors lists the errors with which steps fail.
var stepErrors = []error{syscall.EIO, syscall.ENOSPC, syscall.EROFS}

// withFailingSteps returns a function that runs the change with failing steps. fails selects the steps.
func (s *changeFixture) withFailingSteps(fails func(step, at int) bool) func(w *fakeNode, at int) error {
	return func(w *fakeNode, at int) error {
		step := 0
		return w.runWith(s.configDir, s.change, func(string, string) error {
			if step++; fails(step, at) {
				return stepErrors[at%len(stepErrors)]
			}
			return nil
		})
	}
}

// interruptions returns the ways to interrupt a change of this layout.
func interruptions(s *changeFixture) []interruption {
	list := []interruption{
		{"fails once", s.withFailingSteps(func(step, at int) bool { return step == at })},
		{"fails from then on", s.withFailingSteps(func(step, at int) bool { return step >= at })},
	}
	if s.layout.withKills() {
		list = append(list, interruption{"killed", s.runKilled})
	}
	return list
}

// killAtStep holds the arguments of a child process that kills itself at a step of a change.
type killAtStep struct {
	Dir, Layout, Wishes, Change string
	Step                        int
}

const killEnv = "REGCRED_TEST_KILL"

func (s *changeFixture) runKilled(w *fakeNode, step int) error {
	data, err := json.Marshal(killAtStep{w.dir, s.layout.name, s.configDir, s.change, step})
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killEnv+"="+string(data))
	out, err := cmd.CombinedOutput()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return errKilled
	}
	return fmt.Errorf("%w: %s", err, out)
}

var errKilled = errors.New("killed")

// TestMain runs the tests or, as a child process, a change that is killed at a step.
func TestMain(m *testing.M) {
	if data := os.Getenv(killEnv); data != "" {
		fmt.Println(runUntilKill([]byte(data)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func runUntilKill(data []byte) error {
	var k killAtStep
	if err := json.Unmarshal(data, &k); err != nil {
		return err
	}
	w := &fakeNode{dir: k.Dir}
	for _, l := range layouts() {
		if l.name == k.Layout {
			w.layout = l
		}
	}
	step := 0
	return w.runWith(k.Wishes, k.Change, func(string, string) error {
		if step++; step == k.Step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	})
}

// TestMatrix interrupts each change at each step for every layout. After an interruption, a
// kubelet must find either the old or the new state. The next regcred process must report the
// interruption and repair the node.
func TestMatrix(t *testing.T) {
	wishes := writeConfigs(t)
	var cases atomic.Int64
	t.Run("all", func(t *testing.T) {
		for _, l := range layouts() {
			for _, c := range interruptedChanges() {
				t.Run(l.name+", "+c.do, func(t *testing.T) {
					t.Parallel()
					s := newChangeFixture(t, l, c.do, c.before, wishes)
					for _, b := range interruptions(s) {
						for step := 1; step <= s.steps; step++ {
							if (step+len(c.do))%l.stepInterval() == 0 {
								cases.Add(1)
								s.interruptAtStep(b, step)
							}
						}
					}
				})
			}
		}
	})
	t.Logf("%d cases, all old or new", cases.Load())
}

// interruptAtStep interrupts the change at a step and checks the node.
func (s *changeFixture) interruptAtStep(b interruption, step int) {
	w := s.copyNode()
	defer os.RemoveAll(w.dir)
	err := b.make(w, step)
	must.Do(s.t, w.loadState())
	fail := func(format string, args ...any) {
		s.t.Helper()
		s.t.Errorf("step %d %s (%v): "+format, append([]any{step, b.how, err}, args...)...)
	}
	names, checkErr := w.checkKubelets()
	switch {
	case checkErr != nil:
		fail("%v", checkErr)
		return
	case !slices.Equal(names, s.old) && !slices.Equal(names, s.new):
		fail("entries %v, neither %v nor %v", names, s.old, s.new)
		return
	}
	now := readTree(s.t, w.rootDir()).withoutPaths(recordFiles()...)
	asBefore, asAfter := now.differences(s.before.withoutPaths(recordFiles()...)), now.differences(s.after.withoutPaths(recordFiles()...))
	hostAfter := now.withoutPaths(stateDir).differences(s.after.withoutPaths(stateDir))
	done := err == nil || strings.Contains(err.Error(), "but the cleanup failed")
	switch {
	case done && hostAfter != "":
		fail("it is not as it says: %s", hostAfter)
		return
	case b.how == "fails once" && !done && asBefore != "":
		fail("left something behind: %s", asBefore)
		return
	}
	if asBefore != "" && hostAfter != "" || err != nil && asBefore != "" && asAfter != "" {
		if said := s.statusProblems(w); said == "" {
			fail("status says nothing of it: %s", asBefore)
			return
		}
	}
	s.finishInterrupted(w, fail, step)
}

// recordFiles returns the files that record loaded entries and original contents, and the reserved
// space. They differ after a change that was rolled back.
func recordFiles() []string {
	return []string{stateDir + "/applied.json", stateDir + "/originals.json", stateDir + "/reserve"}
}

// statusProblems returns the problems that status reports for a node, or "" if there are none.
func (s *changeFixture) statusProblems(w *fakeNode) string {
	in, err := w.installerWithHook(nil)
	if err != nil {
		return err.Error()
	}
	status, err := in.Status(context.Background())
	if err != nil {
		return err.Error()
	}
	return status.InterruptedChange + strings.Join(status.Problems, "; ")
}

// finishInterrupted runs regcred again and verifies that the interruption has left nothing behind.
func (s *changeFixture) finishInterrupted(w *fakeNode, fail func(string, ...any), step int) {
	if step%2 == 0 {
		if err := w.run(s.configDir, s.change); err != nil {
			fail("again: %v", err)
			return
		}
		if diff := readTree(s.t, w.rootDir()).withoutPaths(stateDir).differences(s.after.withoutPaths(stateDir)); diff != "" {
			fail("again: %s", diff)
		}
		if names, err := w.checkKubelets(); err != nil || !slices.Equal(names, s.new) {
			fail("again: entries %v, want %v; %v", names, s.new, err)
			return
		}
		if said := s.statusProblems(w); said != "" {
			fail("again: %s", said)
		}
	}
	if err := w.run(s.configDir, "uninstall"); err != nil {
		fail("uninstall: %v", err)
		return
	}
	if diff := readTree(s.t, w.rootDir()).differences(s.pristine); diff != "" {
		fail("uninstall: %s", diff)
	}
	if _, err := w.checkKubelets(); err != nil {
		fail("uninstall: %v", err)
	}
}
