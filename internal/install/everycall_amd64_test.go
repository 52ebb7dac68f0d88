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
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/testtrace"
)

// everyCall makes TestEveryCall interrupt regcred at every system call, which takes many minutes.
var everyCall = flag.Bool("everycall", false, "interrupt regcred at every system call, on tmpfs and ext4, not one layout at each fortieth on one file system")

// TestEveryCall runs the program regcred, and kills it at each system call that changes a file:
// before the call and after the call. It also makes each call fail because the disk is full. After
// each interruption:
//   - the kubelet starts, and runs the vendor's providers and either the old or the new entries,
//   - "regcred status" reports an incomplete change,
//   - the same command succeeds,
//   - "regcred uninstall" restores the node and leaves nothing.
func TestEveryCall(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program regcred, which takes too long for -short")
	}
	fileSystems := map[string]string{"": t.TempDir()}
	if *everyCall {
		if !ownMounts(t, "-everycall") {
			return
		}
		fileSystems = mountFileSystems(t, "size=1g", "1G")
	}
	e := &callTest{regcred: filepath.Join(buildPrograms(t, "regcred"), "regcred"), configDir: writeConfigs(t), count: map[string]int{}}
	t.Run("all", func(t *testing.T) {
		for fileSystem, dir := range fileSystems {
			for _, name := range everyCallLayouts() {
				for _, c := range interruptedChanges() {
					t.Run(fmt.Sprintf("%s %s, %s", fileSystem, name, c.do), func(t *testing.T) {
						t.Parallel()
						f := e.newFixture(t, fileSystem, dir, name, c.do, c.before)
						t.Logf("%d calls", f.calls)
						f.interrupt("killed before", testtrace.KillBefore)
						f.interrupt("killed after", testtrace.KillAfter)
						if fileSystem != "ext4" { // the kernel is not involved
							f.interrupt("disk full", testtrace.FillDisk)
						}
					})
				}
			}
		}
	})
	for _, name := range slices.Sorted(maps.Keys(e.count)) {
		t.Logf("%6d %s", e.count[name], name)
	}
}

func everyCallLayouts() []string {
	if *everyCall {
		return []string{"kubeadm", "json", "eks", "k3s"}
	}
	return []string{"json"}
}

// mountFileSystems mounts an empty tmpfs and ext4, and returns their directories.
func mountFileSystems(t *testing.T, tmpfsOptions, ext4Size string, ext4Options ...string) map[string]string {
	t.Helper()
	run := func(args ...string) error {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%v: %w %s", args, err, out)
		}
		return nil
	}
	dirs := map[string]string{"tmpfs": t.TempDir(), "ext4": t.TempDir()}
	image := filepath.Join(t.TempDir(), "ext4")
	must.Do(t, run("mount", "-t", "tmpfs", "-o", "mode=755,"+tmpfsOptions, "none", dirs["tmpfs"]))
	must.Do(t, run("truncate", "-s", ext4Size, image))
	must.Do(t, run(append(append([]string{"mkfs.ext4", "-q", "-m", "0"}, ext4Options...), image)...))
	if err := run("mount", "-o", "loop", image, dirs["ext4"]); err != nil {
		t.Logf("not on ext4: %v", err)
		delete(dirs, "ext4")
	} else {
		must.Do(t, os.RemoveAll(filepath.Join(dirs["ext4"], "lost+found")))
	}
	for _, dir := range dirs {
		t.Cleanup(func() { must.Do(t, run("umount", dir)) })
	}
	return dirs
}

// lockFile is left if regcred is killed while it holds the lock.
const lockFile = "/.regcred.lock"

// callTest runs regcred on nodes.
type callTest struct {
	regcred   string
	configDir string

	mu    sync.Mutex
	count map[string]int
}

func (e *callTest) counted(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count[name]++
}

// args returns the command line of a change.
func (e *callTest) args(w *fakeNode, change string) []string {
	args := append([]string{e.regcred}, strings.Fields(change)...)
	if name, ok := strings.CutPrefix(change, "install "); ok {
		args = []string{e.regcred, "install", filepath.Join(e.configDir, name+".yaml"), "--kubelet-version", w.layout.version,
			"--bin-dir", filepath.Join(e.configDir, name), "--dispatcher", filepath.Join(e.configDir, name, generation.DispatcherName)}
	}
	return append(args, "--root", w.rootDir())
}

// run runs a change to its end.
func (e *callTest) run(w *fakeNode, change string) error {
	args := e.args(w, change)
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", change, err, out)
	}
	return nil
}

// reported returns what "regcred status" reports as incomplete or damaged, or "".
func (e *callTest) reported(w *fakeNode) string {
	cmd := exec.Command(e.regcred, "status", "-o", "json", "--root", w.rootDir())
	out, err := cmd.Output()
	var s report.Status
	if jsonErr := json.Unmarshal(out, &s); jsonErr != nil {
		return fmt.Sprintf("%v: %v: %s", err, jsonErr, out)
	}
	return s.InterruptedChange + strings.Join(s.Problems, "; ")
}

// nextStart returns the providers of the kubelet's next start. It returns an error if the kubelet
// would not start.
func (w *fakeNode) nextStart() ([]string, error) {
	s, err := w.readSetup(context.Background())
	if err != nil {
		return nil, err
	}
	n, err := node.Node{Root: w.rootDir()}.NewReader().NextStart(context.Background(), s.Target())
	if err != nil {
		return nil, err
	}
	if len(n.Failures) > 0 {
		return nil, fmt.Errorf("the kubelet does not start: %s", node.FailuresText(n.Failures))
	}
	names := []string{}
	for _, p := range n.Providers {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names, nil
}

// callFixture holds a node before a change, and the result of the change.
type callFixture struct {
	*callTest
	*changeFixture
	fileSystem string
	dir        string // directory for nodes on the file system
	vendor     []string
	calls      int
}

func (e *callTest) newFixture(t *testing.T, fileSystem, dir, layout, change string, before []string) *callFixture {
	w := newFakeNode(t, findLayout(t, layout))
	f := &callFixture{e, &changeFixture{t: t, layout: w.layout, change: change, base: w.dir, pristine: readTree(t, w.rootDir())}, fileSystem, dir, nil, 0}
	f.vendor = must.Get(w.nextStart())(t)
	for _, c := range before {
		must.Do(t, e.run(w, c))
	}
	f.before, f.old = readTree(t, w.rootDir()), must.Get(w.nextStart())(t)
	w = f.copy()
	defer os.RemoveAll(w.dir)
	r := must.Get(f.traced(w, func(testtrace.Call) testtrace.Action { return testtrace.Continue }))(t)
	if r.ExitCode != 0 {
		t.Fatalf("exit code %d: %s", r.ExitCode, r.Output)
	}
	f.calls, f.after, f.new = r.Calls, readTree(t, w.rootDir()), must.Get(w.nextStart())(t)
	return f
}

// copy returns a copy of the node on the file system.
func (f *callFixture) copy() *fakeNode {
	f.t.Helper()
	dir := must.Get(os.MkdirTemp(f.dir, "node"))(f.t)
	copyTree(f.t, f.base, dir)
	return &fakeNode{dir: dir, layout: f.layout}
}

func (f *callFixture) traced(w *fakeNode, at func(testtrace.Call) testtrace.Action) (testtrace.Result, error) {
	p := testtrace.Program{Args: f.args(w, f.change), Env: append(os.Environ(), "GOMAXPROCS=1", "GOGC=off"), At: at} // fewer other system calls
	return p.Run()
}

// interrupt runs the change once for each system call, and interrupts it there.
func (f *callFixture) interrupt(how string, action testtrace.Action) {
	interval := 1
	if !*everyCall {
		interval = 40
	}
	for number := 1; number <= f.calls; number++ {
		if (number+len(f.t.Name())+int(action)*interval/3)%interval == 0 {
			f.try(how, action, number)
		}
	}
}

// try interrupts the change at a system call, and checks the node.
func (f *callFixture) try(how string, action testtrace.Action, number int) {
	w := f.copy()
	defer os.RemoveAll(w.dir)
	var at testtrace.Call
	r := must.Get(f.traced(w, func(c testtrace.Call) testtrace.Action {
		if c.Number != number || action == testtrace.FillDisk && !c.UsesSpace() {
			return testtrace.Continue
		}
		at = c
		return action
	}))(f.t)
	if at.Number == 0 && action == testtrace.FillDisk {
		return // this call does not use space
	}
	failed := false
	fail := func(format string, args ...any) {
		f.t.Helper()
		failed = true
		f.t.Errorf("%s %v (exit code %d): %s\n%s", how, at, r.ExitCode, fmt.Sprintf(format, args...), r.Output)
	}
	if at.Number == 0 {
		fail("the run has only %d calls, not %d", r.Calls, f.calls)
		return
	}
	if action != testtrace.FillDisk && !r.Killed() && at.Name != "exit_group" {
		fail("regcred was not killed")
	}
	f.counted(strings.TrimSpace(f.fileSystem + " " + strings.Fields(f.change)[0] + " " + how))
	f.checkInterrupted(w, r, fail)
	if failed {
		return
	}
	if action != testtrace.KillAfter { // the states are those before the next call
		f.checkAgain(w, fail)
	}
	f.checkUninstall(w, fail)
}

// checkInterrupted verifies that the node works after an interruption.
func (f *callFixture) checkInterrupted(w *fakeNode, r testtrace.Result, fail func(string, ...any)) {
	f.t.Helper()
	names, err := w.nextStart()
	if err != nil {
		fail("next start: %v", err)
		return
	}
	if _, err := w.checkKubelets(); err != nil {
		fail("next start: %v", err)
	}
	if !slices.Equal(names, f.old) && !slices.Equal(names, f.new) {
		fail("the kubelet has the providers %v, neither %v nor %v", names, f.old, f.new)
	}
	for _, name := range f.vendor {
		if !slices.Contains(names, name) {
			fail("the kubelet has the providers %v, without the vendor's %s", names, name)
		}
	}
	now := readTree(f.t, w.rootDir()).withoutPaths(recordFiles()...).withoutPaths(lockFile)
	asBefore, asAfter := now.differences(f.before.withoutPaths(recordFiles()...)), now.withoutPaths(stateDir).differences(f.after.withoutPaths(stateDir))
	said := f.reported(w)
	switch cleanupFailed := strings.Contains(r.Output, "but the cleanup failed"); {
	case r.Killed() && asBefore != "" && asAfter != "" && said == "":
		fail("status does not report the interruption: %s", asBefore)
	case r.ExitCode == 0 && strings.Contains(r.Output, "note: ") && strings.Contains(r.Output, "remain"):
		// the cleanup failed, which the command reports
	case r.ExitCode == 0 && asAfter != "":
		fail("the command succeeded, but: %s", asAfter)
	case r.ExitCode == 0 && said != "":
		fail("the command succeeded, but status reports %s", said)
	case r.ExitCode > 0 && !cleanupFailed && asBefore != "" && said == "":
		fail("the command failed, but changed the node, and status does not report it: %s", asBefore)
	}
}

// checkAgain verifies that the same command then succeeds.
func (f *callFixture) checkAgain(w *fakeNode, fail func(string, ...any)) {
	f.t.Helper()
	if err := f.run(w, f.change); err != nil {
		fail("again: %v", err)
		return
	}
	if diff := readTree(f.t, w.rootDir()).withoutPaths(stateDir).differences(f.after.withoutPaths(stateDir)); diff != "" {
		fail("again: %s", diff)
	}
	if names, err := w.nextStart(); err != nil || !slices.Equal(names, f.new) {
		fail("again: the kubelet has the providers %v, want %v; %v", names, f.new, err)
	}
	if w.fs().Exists(stateDir + "/journal.json") {
		fail("again: the journal is left")
	}
}

// checkUninstall verifies that an uninstall then restores the node.
func (f *callFixture) checkUninstall(w *fakeNode, fail func(string, ...any)) {
	f.t.Helper()
	if err := f.run(w, "uninstall"); err != nil {
		fail("next start: %v", err)
		return
	}
	if diff := readTree(f.t, w.rootDir()).differences(f.pristine); diff != "" {
		fail("uninstall: %s", diff)
	}
	if names, err := w.nextStart(); err != nil || !slices.Equal(names, f.vendor) {
		fail("uninstall: the kubelet has the providers %v, want %v; %v", names, f.vendor, err)
	}
}

// TestFullFileSystem runs the program regcred on a tmpfs and an ext4 with little space or few
// inodes left. A rollback and an uninstall must succeed without free space. An install must fail
// without effect, or succeed.
func TestFullFileSystem(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program regcred, which takes too long for -short")
	}
	args, interval := []string{}, 20
	if *everyCall {
		args, interval = []string{"-everycall"}, 2
	}
	if !ownMounts(t, args...) {
		return
	}
	e := &callTest{regcred: filepath.Join(buildPrograms(t, "regcred"), "regcred"), configDir: writeConfigs(t), count: map[string]int{}}
	for fileSystem, dir := range mountFileSystems(t, "size=8m,nr_inodes=400", "8M", "-N", "400") {
		for _, name := range everyCallLayouts() {
			for _, c := range interruptedChanges() {
				f := e.newFixture(t, fileSystem, dir, name, c.do, c.before)
				for _, free := range []int{0, 100, 4000, 4500} { // an install requires 4 MiB
					f.tryFull("KiB", free)
				}
				for free := 0; f.tryFull("inodes", free); free += interval {
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.count)) {
		t.Logf("%6d %s", e.count[name], name)
	}
}

// tryFull runs the change on a file system with the given free space or number of inodes, and
// checks the node. It reports whether the change failed.
func (f *callFixture) tryFull(resource string, free int) bool {
	f.t.Helper()
	w := f.copy()
	defer os.RemoveAll(w.dir)
	full := must.Get(os.MkdirTemp(f.dir, "full"))(f.t)
	must.Do(f.t, fillExcept(full, resource, free))
	args := f.args(w, f.change)
	cmd := exec.Command(args[0], args[1:]...)
	out, err := cmd.CombinedOutput()
	fail := func(format string, args ...any) {
		f.t.Helper()
		f.t.Errorf("%s, %s, %s: %d %s free (%v): %s\n%s", f.fileSystem, f.layout.name, f.change, free, resource, err, fmt.Sprintf(format, args...), out)
	}
	f.counted(fmt.Sprintf("%s %s few %s, failed: %t", f.fileSystem, strings.Fields(f.change)[0], resource, err != nil))
	if err != nil && !strings.HasPrefix(f.change, "install") {
		fail("needs space")
	}
	must.Do(f.t, os.RemoveAll(full))
	f.checkInterrupted(w, testtrace.Result{ExitCode: cmd.ProcessState.ExitCode(), Output: string(out)}, fail)
	f.checkAgain(w, fail)
	f.checkUninstall(w, fail)
	return err != nil
}

// fillExcept uses all space or inodes of a file system except the given KiB or number.
func fillExcept(dir, resource string, free int) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return err
	}
	if resource == "inodes" {
		for i := range int(s.Ffree) - free {
			if err := os.Symlink("x", filepath.Join(dir, fmt.Sprint(i))); err != nil {
				return err
			}
		}
		return nil
	}
	file, err := os.Create(filepath.Join(dir, "blocks"))
	if err != nil {
		return err
	}
	defer file.Close()
	size := max(int64(s.Bavail)*s.Bsize-int64(free)<<10, s.Bsize)
	for end := int64(0); end < size; end += s.Bsize {
		if err := unix.Fallocate(int(file.Fd()), 0, end, s.Bsize); errors.Is(err, unix.ENOSPC) {
			return nil // the file's own metadata has used the last blocks
		} else if err != nil {
			return err
		}
	}
	return nil
}
