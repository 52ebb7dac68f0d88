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

// maxProgramOutput is the maximum size of a program's output, in bytes.
const maxProgramOutput = 1 << 20

// daemon is the containerd process that serves a socket. All its data is read through one open
// directory in /proc, so that another process that reuses the PID is never read instead.
type daemon struct {
	pid  int
	proc *os.File
	args []string // command line
	file string   // config.toml
}

// findDaemon finds the process that listens on a socket (SO_PEERCRED). The caller must
// close the result.
func findDaemon(ctx context.Context, socket string) (*daemon, error) {
	cred, err := peerCredentials(ctx, socket)
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
	if err := d.readProcess(); err != nil {
		proc.Close()
		return nil, fmt.Errorf("process %d: %w", d.pid, err)
	}
	return d, nil
}

func peerCredentials(ctx context.Context, socket string) (cred *unix.Ucred, err error) {
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

// Close closes the process's /proc directory.
func (d *daemon) Close() { _ = d.proc.Close() } // read only

// procPath returns the path of a file in the process's /proc directory.
func (d *daemon) procPath(name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.proc.Fd(), name)
}

func (d *daemon) readProcess() error {
	cmdline, err := regularfile.Read(context.Background(), d.procPath("cmdline"), maxProgramOutput)
	if err != nil {
		return regularfile.BareError(err)
	}
	if d.args = strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00"); d.args[0] == "" {
		return errors.New("the process has exited")
	}
	dir, err := os.Readlink(d.procPath("cwd"))
	if err != nil {
		return permissionError(err)
	}
	d.file = configFileFromArgs(d.args[1:], dir)
	return cmp.Or(d.checkSameFile("/"), d.checkSameFile(d.file), d.checkProgram())
}

// checkSameFile returns an error if path leads to different files for containerd and for regcred,
// for example in different mount namespaces.
func (d *daemon) checkSameFile(path string) error {
	theirs, theirErr := os.Stat(d.procPath("root") + path)
	if errors.Is(theirErr, fs.ErrPermission) {
		return permissionError(theirErr)
	}
	ours, err := os.Stat(path)
	if err != nil && theirErr != nil || err == nil && theirErr == nil && os.SameFile(ours, theirs) {
		return nil // the same file, or no file; without a file, containerd uses its defaults
	}
	return fmt.Errorf("containerd sees a different file at %s than this process does: run regcred where containerd runs", path)
}

// checkProgram rejects a set-user-ID program, which any user could have started.
func (d *daemon) checkProgram() error {
	exe, err := os.Stat(d.procPath("exe"))
	if err != nil {
		return permissionError(err)
	}
	if exe.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		return errors.New("the process runs a set-user-ID program, so it is not containerd")
	}
	return nil
}

// permissionError adds the required capability to a permission error.
func permissionError(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: root with CAP_SYS_PTRACE is required", regularfile.BareError(err))
	}
	return regularfile.BareError(err)
}

// runProgram runs the program of the process and returns its output. The output may
// contain passwords, so it must not be included in an error.
func (d *daemon) runProgram(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, d.procPath("exe"))
	// Keep argv[0], because k3s is one executable for several programs.
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
	text, err := io.ReadAll(io.LimitReader(out, maxProgramOutput+1))
	if len(text) > maxProgramOutput {
		_ = cmd.Process.Kill() // otherwise the program would block on a full pipe
		err = fmt.Errorf("the output is longer than %d bytes", maxProgramOutput)
	}
	if ended := cmd.Wait(); err == nil {
		err = ended
	}
	return text, err
}
