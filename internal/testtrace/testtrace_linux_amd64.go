// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package testtrace runs a program under ptrace(2) and stops it before each system call that
// changes files or processes. A test can then kill the program, or make the call fail.
//
// The kernel stops the program only at these calls (seccomp(2), SECCOMP_RET_TRACE), so that a
// run takes little longer than without tracing. The test binary installs the filter before it
// executes the program. So TestMain must call [Launch] first.
package testtrace

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Call is a system call that has not yet been executed.
type Call struct {
	Number int    // number of the call in this run, starting with 1
	Name   string // name of the system call
	Nth    int    // number of the call among the calls with this name
	Path   string // file of the call; "" if unknown
}

func (c Call) String() string { return fmt.Sprintf("call %d, %s %s", c.Number, c.Name, c.Path) }

// Action is what happens at a system call.
type Action int

// The actions.
const (
	Continue   Action = iota
	KillBefore        // kill the program; the call is not executed
	KillAfter         // kill the program after the call
	FillDisk          // the call is not executed and returns ENOSPC
)

// Program describes a program to run.
type Program struct {
	Args  []string // path of an executable, and its arguments
	Env   []string
	Dir   string
	Stdin *os.File // nil means /dev/null

	// At is called at each system call of the program, but not of its child processes. It is called
	// in one goroutine.
	At func(Call) Action

	// Ended is called when the program has ended, but its child processes may still run. It may be
	// nil.
	Ended func()
}

// Result is the result of a program.
type Result struct {
	ExitCode int // -1 if the program was killed
	Output   string
	Calls    int
}

// Killed reports whether a signal killed the program.
func (r Result) Killed() bool { return r.ExitCode < 0 }

const launchEnv = "REGCRED_TEST_TRACE"

// Launch installs the filter and executes the program, if this process was started by
// [Program.Run]. Otherwise it does nothing.
func Launch() {
	data := os.Getenv(launchEnv)
	if data == "" {
		return
	}
	var args []string
	err := json.Unmarshal([]byte(data), &args)
	if err == nil {
		runtime.LockOSThread()
		err = installFilter()
	}
	if err == nil {
		os.Unsetenv(launchEnv)
		err = unix.Exec(args[0], args, os.Environ())
	}
	fmt.Fprintln(os.Stderr, "start a traced program:", err)
	os.Exit(1)
}

// kind describes which argument of a system call refers to the file.
type kind struct {
	nr   uint32
	name string
	fd   int // index of the file descriptor; -1 means none
	path int // index of the path; -1 means none
}

// kinds lists the system calls that change files or processes. An openat is included only if its
// flags permit writing.
var kinds = []kind{
	{unix.SYS_OPENAT, "openat", -1, 1}, {unix.SYS_OPEN, "open", -1, 0}, {unix.SYS_CREAT, "creat", -1, 0},
	{unix.SYS_WRITE, "write", 0, -1}, {unix.SYS_PWRITE64, "pwrite64", 0, -1}, {unix.SYS_WRITEV, "writev", 0, -1},
	{unix.SYS_PWRITEV, "pwritev", 0, -1}, {unix.SYS_PWRITEV2, "pwritev2", 0, -1},
	{unix.SYS_COPY_FILE_RANGE, "copy_file_range", 2, -1}, {unix.SYS_SENDFILE, "sendfile", 0, -1}, {unix.SYS_SPLICE, "splice", 2, -1},
	{unix.SYS_RENAME, "rename", -1, 1}, {unix.SYS_RENAMEAT, "renameat", -1, 3}, {unix.SYS_RENAMEAT2, "renameat2", -1, 3},
	{unix.SYS_LINK, "link", -1, 1}, {unix.SYS_LINKAT, "linkat", -1, 3}, {unix.SYS_SYMLINK, "symlink", -1, 1}, {unix.SYS_SYMLINKAT, "symlinkat", -1, 2},
	{unix.SYS_UNLINK, "unlink", -1, 0}, {unix.SYS_UNLINKAT, "unlinkat", -1, 1}, {unix.SYS_RMDIR, "rmdir", -1, 0},
	{unix.SYS_MKDIR, "mkdir", -1, 0}, {unix.SYS_MKDIRAT, "mkdirat", -1, 1}, {unix.SYS_MKNOD, "mknod", -1, 0}, {unix.SYS_MKNODAT, "mknodat", -1, 1},
	{unix.SYS_CHMOD, "chmod", -1, 0}, {unix.SYS_FCHMOD, "fchmod", 0, -1}, {unix.SYS_FCHMODAT, "fchmodat", -1, 1}, {unix.SYS_FCHMODAT2, "fchmodat2", -1, 1},
	{unix.SYS_CHOWN, "chown", -1, 0}, {unix.SYS_FCHOWN, "fchown", 0, -1}, {unix.SYS_LCHOWN, "lchown", -1, 0}, {unix.SYS_FCHOWNAT, "fchownat", -1, 1},
	{unix.SYS_SETXATTR, "setxattr", -1, 0}, {unix.SYS_LSETXATTR, "lsetxattr", -1, 0}, {unix.SYS_FSETXATTR, "fsetxattr", 0, -1},
	{unix.SYS_REMOVEXATTR, "removexattr", -1, 0}, {unix.SYS_LREMOVEXATTR, "lremovexattr", -1, 0}, {unix.SYS_FREMOVEXATTR, "fremovexattr", 0, -1},
	{unix.SYS_TRUNCATE, "truncate", -1, 0}, {unix.SYS_FTRUNCATE, "ftruncate", 0, -1}, {unix.SYS_FALLOCATE, "fallocate", 0, -1},
	{unix.SYS_FSYNC, "fsync", 0, -1}, {unix.SYS_FDATASYNC, "fdatasync", 0, -1}, {unix.SYS_FLOCK, "flock", 0, -1},
	{unix.SYS_UTIMENSAT, "utimensat", -1, 1}, {unix.SYS_MOUNT, "mount", -1, 1}, {unix.SYS_UMOUNT2, "umount2", -1, 0},
	{unix.SYS_CLONE, "clone", -1, -1}, {unix.SYS_CLONE3, "clone3", -1, -1}, {unix.SYS_FORK, "fork", -1, -1}, {unix.SYS_VFORK, "vfork", -1, -1},
	{unix.SYS_WAIT4, "wait4", -1, -1}, {unix.SYS_WAITID, "waitid", -1, -1}, {unix.SYS_EXIT_GROUP, "exit_group", -1, -1},
}

// useSpace lists the system calls that can fail because a disk is full.
var useSpace = []string{
	"openat", "open", "creat", "write", "pwrite64", "writev", "pwritev", "pwritev2", "copy_file_range", "sendfile", "splice",
	"rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "mkdir", "mkdirat", "mknod", "mknodat",
	"unlink", "unlinkat", "rmdir", // on file systems that copy on write
	"chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat",
	"setxattr", "lsetxattr", "fsetxattr", "truncate", "ftruncate", "fallocate", "fsync", "fdatasync",
}

// UsesSpace reports whether the call can fail because a disk is full.
func (c Call) UsesSpace() bool {
	isDevice := strings.HasPrefix(c.Path, "/dev/") && !strings.HasPrefix(c.Path, "/dev/shm/")
	return slices.Contains(useSpace, c.Name) && !isDevice
}

// installFilter makes the kernel stop this thread, and the programs that it executes, at the system
// calls of kinds.
func installFilter() error {
	const (
		load        = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal       = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		anyBit      = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		ret         = unix.BPF_RET | unix.BPF_K
		third       = 16 + 2*8 // offset of the third argument in struct seccomp_data
		write       = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC
		retTrace    = 0x7ff00000
		retAllow    = 0x7fff0000
		openatSkips = 4
	)
	filter := []unix.SockFilter{
		{Code: load},
		{Code: equal, K: unix.SYS_OPENAT, Jf: openatSkips},
		{Code: load, K: third},
		{Code: anyBit, K: write, Jf: 1},
		{Code: ret, K: retTrace},
		{Code: ret, K: retAllow},
	}
	for _, k := range kinds {
		if k.nr != unix.SYS_OPENAT {
			filter = append(filter, unix.SockFilter{Code: equal, K: k.nr, Jf: 1}, unix.SockFilter{Code: ret, K: retTrace})
		}
	}
	filter = append(filter, unix.SockFilter{Code: ret, K: retAllow})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0)
}

// tracer traces a program and its child processes.
type tracer struct {
	*Program
	pid    int
	number int
	byName map[string]int
	seen   map[int]bool // threads that have stopped before
	after  map[int]bool // threads whose next stop is the end of a system call, where the program is killed
	status unix.WaitStatus
}

// Run runs the program and waits for it and its child processes. Different goroutines can run
// different programs at the same time.
func (p *Program) Run() (r Result, err error) {
	onOwnThread(func() { r, err = p.run() })
	return r, err
}

// onOwnThread runs f in a thread that has no child processes yet, because only the thread that
// started a program can trace it, and the tracer waits for all child processes of its thread. The
// thread then ends, so that no traced process outlives f.
func onOwnThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		children, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", unix.Gettid()))
		if len(children) == 0 {
			f()
			return
		}
		onOwnThread(f) // in another thread, because this one is locked
		runtime.UnlockOSThread()
	}()
	<-done
}

func (p *Program) run() (r Result, err error) {
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	args, err := json.Marshal(p.Args)
	if err != nil {
		return r, err
	}
	from, out, err := os.Pipe()
	if err != nil {
		return r, err
	}
	defer from.Close()
	defer out.Close()
	stdin := p.Stdin
	if stdin == nil {
		if stdin, err = os.Open(os.DevNull); err != nil {
			return r, err
		}
		defer stdin.Close()
	}
	env := (&exec.Cmd{Env: append(slices.Clip(p.Env), launchEnv+"="+string(args))}).Environ() // without duplicates
	started, err := os.StartProcess(self, []string{self}, &os.ProcAttr{
		Dir: p.Dir, Env: env,
		Files: []*os.File{stdin, out, out}, Sys: &unix.SysProcAttr{Ptrace: true},
	})
	if err != nil {
		return r, err
	}
	t := &tracer{Program: p, pid: started.Pid, byName: map[string]int{}, seen: map[int]bool{}, after: map[int]bool{}}
	_ = started.Release()
	out.Close()
	output := make(chan []byte)
	go func() {
		data, _ := io.ReadAll(from)
		output <- data
	}()
	if err := t.trace(); err != nil {
		_ = unix.Kill(t.pid, unix.SIGKILL)
		return r, err
	}
	r.Calls, r.ExitCode = t.number, -1
	if t.status.Exited() {
		r.ExitCode = t.status.ExitStatus()
	}
	r.Output = string(bytes.TrimSpace(<-output))
	return r, nil
}

// trace handles the stops of all threads until every process has ended.
func (t *tracer) trace() error {
	const options = unix.PTRACE_O_EXITKILL | unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_TRACESYSGOOD |
		unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK
	var status unix.WaitStatus
	if _, err := unix.Wait4(t.pid, &status, unix.WALL, nil); err != nil {
		return fmt.Errorf("wait for the program's start: %w", err)
	}
	if err := unix.PtraceSetOptions(t.pid, options); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	t.seen[t.pid] = true
	_ = unix.PtraceCont(t.pid, 0)
	for {
		tid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD):
			return nil
		case err != nil:
			return fmt.Errorf("wait for the traced threads: %w", err)
		case status.Stopped():
			t.stopped(tid, status)
		case tid == t.pid:
			t.status = status
			if t.Ended != nil {
				t.Ended()
			}
		}
	}
}

// stopped handles the stop of a thread. Errors of ptrace mean that the thread was killed meanwhile.
func (t *tracer) stopped(tid int, status unix.WaitStatus) {
	first := !t.seen[tid]
	t.seen[tid] = true
	switch sig := status.StopSignal(); {
	case sig == unix.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_SECCOMP:
		t.atCall(tid)
	case sig == unix.SIGTRAP|0x80: // the end of a system call
		_ = unix.Kill(t.pid, unix.SIGKILL)
		_ = unix.PtraceCont(tid, 0)
	case sig == unix.SIGTRAP, first && sig == unix.SIGSTOP:
		t.resume(tid, 0)
	default:
		t.resume(tid, int(sig))
	}
}

// resume continues a thread, and delivers a signal to it.
func (t *tracer) resume(tid, sig int) {
	if t.after[tid] {
		_ = unix.PtraceSyscall(tid, sig)
	} else {
		_ = unix.PtraceCont(tid, sig)
	}
}

// atCall handles a stop before a system call.
func (t *tracer) atCall(tid int) {
	var regs unix.PtraceRegs
	call, ok := Call{}, false
	if t.isMain(tid) && unix.PtraceGetRegs(tid, &regs) == nil {
		call, ok = t.call(tid, &regs)
	}
	if !ok {
		_ = unix.PtraceCont(tid, 0)
		return
	}
	t.number++
	t.byName[call.Name]++
	call.Number, call.Nth = t.number, t.byName[call.Name]
	switch t.At(call) {
	case KillBefore:
		_ = unix.Kill(t.pid, unix.SIGKILL)
	case KillAfter:
		t.after[tid] = true
	case FillDisk:
		regs.Orig_rax, regs.Rax = ^uint64(0), ^uint64(unix.ENOSPC)+1
		_ = unix.PtraceSetRegs(tid, &regs)
	}
	t.resume(tid, 0)
}

// isMain reports whether a thread belongs to the program, and not to a child process.
func (t *tracer) isMain(tid int) bool {
	return tid == t.pid || unix.Access(fmt.Sprintf("/proc/%d/task/%d", t.pid, tid), 0) == nil
}

// call describes a system call. ok is false if it changes neither files nor processes: if it
// creates a thread, or writes to a pipe or an event counter.
func (t *tracer) call(tid int, regs *unix.PtraceRegs) (c Call, ok bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return uint64(k.nr) == regs.Orig_rax })
	if i < 0 {
		return c, false
	}
	k, args := kinds[i], []uint64{regs.Rdi, regs.Rsi, regs.Rdx, regs.R10, regs.R8, regs.R9}
	c.Name = k.name
	switch {
	case k.name == "clone" && args[0]&unix.CLONE_THREAD != 0, k.name == "clone3" && readWord(tid, args[0])&unix.CLONE_THREAD != 0:
		return c, false
	case k.fd >= 0:
		c.Path, _ = os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, int32(args[k.fd])))
		return c, filepath.IsAbs(c.Path)
	case k.path >= 0:
		c.Path = t.resolve(readString(tid, args[k.path]))
	}
	return c, true
}

// resolve replaces /proc/self/fd/N at the beginning of a path.
func (t *tracer) resolve(path string) string {
	rest, ok := strings.CutPrefix(path, "/proc/self/fd/")
	if !ok {
		return path
	}
	fd, rest, _ := strings.Cut(rest, "/")
	dir, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", t.pid, fd))
	if err != nil {
		return path
	}
	return filepath.Join(dir, rest)
}

// readString reads a path from the memory of a thread.
func readString(tid int, at uint64) string {
	buf := make([]byte, 256)
	n, _ := unix.PtracePeekData(tid, uintptr(at), buf)
	if i := bytes.IndexByte(buf[:n], 0); i >= 0 {
		n = i
	}
	return string(buf[:n])
}

// readWord reads a number from the memory of a thread, or returns 0.
func readWord(tid int, at uint64) uint64 {
	var buf [8]byte
	_, _ = unix.PtracePeekData(tid, uintptr(at), buf[:])
	return binary.NativeEndian.Uint64(buf[:])
}
