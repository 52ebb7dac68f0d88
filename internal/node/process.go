// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/regcred/regcred/internal/regularfile"
)

const procDir = "/proc"

// process reads a process's files in /proc. It keeps the process's directory open, so that it
// never reads a later process with the same ID.
type process struct {
	pid  int
	name string // path of the directory, for error messages
	dir  *os.File
}

// openProcess opens a process's directory in /proc. The caller must call Close.
func (n Node) openProcess(pid int) (*process, error) {
	name := filepath.Join(n.HostPath(procDir), strconv.Itoa(pid))
	dir, err := os.Open(name)
	if err != nil {
		return nil, procError(pid, err, os.Geteuid())
	}
	return &process{pid, name, dir}, nil
}

// findProcess calls found for each process on the node until found returns true. It skips
// processes that have ended or cannot be opened.
func (n Node) findProcess(found func(*process) bool) error {
	entries, err := os.ReadDir(n.HostPath(procDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, err := n.openProcess(pid)
		if err != nil {
			continue
		}
		stop := found(p)
		p.Close()
		if stop {
			break
		}
	}
	return nil
}

// StartTime returns when a process on this machine started. The precision is a hundredth of a
// second. StartTime returns zero if the time is unknown.
func (n Node) StartTime(r *RunningProcess) time.Time {
	now := time.Now()
	data, err := readFile(n.HostPath(procDir + "/uptime"))
	up, _, _ := strings.Cut(string(data), " ")
	seconds, parseErr := strconv.ParseFloat(up, 64)
	if err != nil || parseErr != nil || seconds > math.MaxInt32 {
		return time.Time{}
	}
	const hertz = 100 // USER_HZ is 100 on every architecture that Go supports
	age := time.Duration(seconds*float64(time.Second)) - time.Duration(r.Start)*(time.Second/hertz)
	return now.Add(-age)
}

// Close closes the process's directory.
func (p *process) Close() { _ = p.dir.Close() } // no data can be lost, because the directory was opened only for reading

// procPath returns a path under which this process can read a file of p.
func (p *process) procPath(name string) string {
	return fmt.Sprintf("%s/self/fd/%d/%s", procDir, p.dir.Fd(), name)
}

// fileError returns an error that names a file of the process.
func (p *process) fileError(name string, err error) error {
	return procError(p.pid, &fs.PathError{Op: "read", Path: filepath.Join(p.name, name), Err: regularfile.BareError(err)}, os.Geteuid())
}

func procError(pid int, err error, euid int) error {
	var cause error = fmt.Errorf("--as-kubelet: read process %d: %w", pid, err)
	switch {
	case errors.Is(err, fs.ErrPermission) && euid == 0:
		return withHint(cause, "root lacks CAP_SYS_PTRACE here: run regcred on the node itself, not in a container")
	case errors.Is(err, fs.ErrPermission):
		return withHint(cause, "only root and the kubelet's own user can read the kubelet's environment: use sudo")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
		return withHint(cause, "no such process; omit =PID to find the kubelet automatically")
	}
	return cause
}

// readProcFile reads a file of the process.
func (p *process) readProcFile(name string) (string, error) {
	data, err := readFile(p.procPath(name))
	if err != nil {
		return "", p.fileError(name, err)
	}
	return string(data), nil
}

// readStrings reads a file of NUL-terminated strings, such as cmdline and environ.
func (p *process) readStrings(name string) ([]string, error) {
	text, err := p.readProcFile(name)
	if err != nil {
		return nil, err
	}
	return splitNUL(text), nil
}

func splitNUL(s string) []string {
	s = strings.TrimSuffix(s, "\x00")
	if s == "" {
		return []string{} // not nil, because a nil environment would mean this process's environment
	}
	return strings.Split(s, "\x00")
}

// commandName returns the process's name, which the kernel truncates to 15 bytes.
func (p *process) commandName() string {
	text, _ := p.readProcFile("comm")
	return strings.TrimSpace(text)
}

// isMainOf reports whether the process is the main process of a unit: systemd is its parent,
// and its control group belongs to the unit.
func (p *process) isMainOf(unit string) bool {
	groups, _ := p.readProcFile("cgroup")
	parent, err := p.statField(1)
	return err == nil && parent == 1 && strings.Contains(groups+"\n", "/"+unit+"\n")
}

// statField returns a number from /proc/PID/stat. Index 0 is field 3 of proc(5). Fields 1 and 2
// are skipped, because field 2 can contain spaces.
func (p *process) statField(field int) (uint64, error) {
	stat, err := p.readProcFile("stat")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= field {
		return 0, p.fileError("stat", errors.New("too few fields"))
	}
	return strconv.ParseUint(fields[field], 10, 64)
}

// checkOwner rejects a process of a user other than root and euid. Any user can start a process
// named kubelet and choose its flags and environment, and root would then run the user's
// plugins.
func (p *process) checkOwner(euid int) error {
	status, err := p.readProcFile("status")
	if err != nil {
		return err
	}
	_, line, _ := strings.Cut(status, "\nUid:")
	line, _, _ = strings.Cut(line, "\n")
	ids := strings.Fields(line) // real, effective, saved, file system
	if len(ids) != 4 {
		return p.fileError("status", errors.New("no valid Uid line"))
	}
	for _, id := range ids {
		if uid, err := strconv.Atoi(id); err != nil || uid != 0 && uid != euid {
			return withHint(fmt.Errorf("--as-kubelet: process %d belongs to user %s, who controls its flags and environment", p.pid, id),
				"run regcred as that user, or set --config and --bin-dir")
		}
	}
	// A set-user-ID program such as sudo can have root's IDs, but another user's
	// flags and environment.
	exe, err := os.Stat(p.procPath("exe"))
	if err != nil {
		return p.fileError("exe", err)
	}
	if exe.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		return withHint(fmt.Errorf("--as-kubelet: process %d runs a set-user-ID program, not a kubelet; any user could have chosen its flags and environment", p.pid),
			"specify the kubelet's process ID, or set --config and --bin-dir")
	}
	return nil
}

// hasRoot reports whether dir is the process's root directory.
func (p *process) hasRoot(dir string) (bool, error) {
	theirs, err := os.Stat(p.procPath("root"))
	if err != nil {
		return false, p.fileError("root", err)
	}
	ours, err := os.Stat(dir)
	return err == nil && os.SameFile(theirs, ours), err
}

// checkRoot rejects a process in a container or chroot.
func (p *process) checkRoot() error {
	if here, err := p.hasRoot("/"); err != nil || here {
		return err
	}
	return p.withContainerHint(fmt.Errorf("--as-kubelet: process %d has a different root directory, so its paths refer to other files", p.pid))
}

// checkPath returns an error if the process has a different file at path than regcred, for
// example because of the process's own mounts.
func (p *process) checkPath(path string) error {
	if path == "" {
		return nil
	}
	theirs, theirErr := os.Stat(p.procPath("root") + path)
	if errors.Is(theirErr, fs.ErrPermission) {
		return p.fileError("root"+path, theirErr)
	}
	ours, err := os.Stat(path)
	if err != nil && theirErr != nil || err == nil && theirErr == nil && os.SameFile(ours, theirs) {
		return nil // other code reports missing files
	}
	return p.withContainerHint(fmt.Errorf("--as-kubelet: process %d sees different content at %s than this process does, because their mounts differ", p.pid, path))
}

// withContainerHint adds a hint to run regcred in the kubelet's container, such as a kind node.
func (p *process) withContainerHint(err error) error {
	return withHint(err, fmt.Sprintf("run regcred where the kubelet runs: copy it into the container (the kind, k3d or minikube node), or use nsenter --target %d --mount regcred …", p.pid))
}
