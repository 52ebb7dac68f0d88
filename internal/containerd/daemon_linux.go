// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/regcred/regcred/internal/regularfile"
)

// maxSaid bounds what a process says of itself in bytes.
const maxSaid = 1 << 20

// daemon is the process that serves a socket. All of it is read through one
// open directory of /proc, which stays that of this process.
type daemon struct {
	pid  int
	proc *os.File
	args []string // of its command line
	file string   // its config.toml
}

// daemonOf finds who listens on a socket, as the kernel noted it then (SO_PEERCRED).
// The caller closes it.
func daemonOf(ctx context.Context, socket string) (*daemon, error) {
	cred, err := peer(ctx, socket)
	if err != nil {
		return nil, err
	}
	switch {
	case cred.Pid == 0:
		return nil, errors.New("the containerd process is not visible, probably because regcred runs in a container: run regcred on the node itself")
	case cred.Uid != 0 && cred.Uid != uint32(os.Geteuid()):
		return nil, fmt.Errorf("process %d belongs to user %d, and regcred does not run programs that belong to other users", cred.Pid, cred.Uid)
	}
	proc, err := os.Open(fmt.Sprintf("/proc/%d", cred.Pid))
	if err != nil {
		return nil, err
	}
	d := &daemon{pid: int(cred.Pid), proc: proc}
	if err := d.read(); err != nil {
		proc.Close()
		return nil, fmt.Errorf("process %d: %w", d.pid, err)
	}
	return d, nil
}

func peer(ctx context.Context, socket string) (cred *unix.Ucred, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return cred, errors.Join(failed, err)
}

// Close ends the use of the process.
func (d *daemon) Close() { _ = d.proc.Close() } // a directory handle: nothing can be lost

// at is where a file of the process is read.
func (d *daemon) at(name string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", d.proc.Fd(), name) }

func (d *daemon) read() error {
	cmdline, err := regularfile.Read(context.Background(), d.at("cmdline"), maxSaid)
	if err != nil {
		return regularfile.Cause(err)
	}
	if d.args = strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00"); d.args[0] == "" {
		return errors.New("the process has exited")
	}
	dir, err := os.Readlink(d.at("cwd"))
	if err != nil {
		return denied(err)
	}
	d.file = configFile(d.args[1:], dir)
	return cmp.Or(d.same("/"), d.same(d.file), d.ownProgram())
}

// same refuses a process that sees something else at a path than we do.
func (d *daemon) same(path string) error {
	theirs, theirErr := os.Stat(d.at("root") + path)
	if errors.Is(theirErr, fs.ErrPermission) {
		return denied(theirErr)
	}
	ours, err := os.Stat(path)
	if err != nil && theirErr != nil || err == nil && theirErr == nil && os.SameFile(ours, theirs) {
		return nil // if there is nothing, the defaults count
	}
	return fmt.Errorf("containerd sees a different file at %s than this process does: run regcred where containerd runs", path)
}

// ownProgram refuses a set-user-ID program, whose owner says nothing of who started it.
func (d *daemon) ownProgram() error {
	exe, err := os.Stat(d.at("exe"))
	if err != nil {
		return denied(err)
	}
	if exe.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		return errors.New("the process runs a set-user-ID program, so it is not containerd")
	}
	return nil
}

// denied says what it takes to look at another process.
func denied(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: root with CAP_SYS_PTRACE is required", regularfile.Cause(err))
	}
	return regularfile.Cause(err)
}

// dump is the whole configuration of the process.
func (d *daemon) dump(ctx context.Context) ([]byte, error) {
	return d.run(ctx, "--config", d.file, "config", "dump")
}

// run runs the program of the process, and returns what it prints. That may have
// passwords: nothing of it is for an error.
func (d *daemon) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, d.at("exe"))
	// Under its own name: that of k3s is many programs.
	cmd.Args = append([]string{d.args[0]}, args...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(out, maxSaid+1))
	if len(text) > maxSaid {
		_ = cmd.Process.Kill() // or it would block on a full pipe
		err = fmt.Errorf("the output is longer than %d bytes", maxSaid)
	}
	if ended := cmd.Wait(); err == nil {
		err = ended
	}
	return text, err
}
