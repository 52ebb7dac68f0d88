// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// kubelet is what /proc tells of a running kubelet.
type kubelet struct {
	pid     int
	flags   map[string]string
	environ []string
	dir     string
}

// path returns the path in a flag, resolved against the kubelet's working
// directory; "" if the flag is not set.
func (k *kubelet) path(flag string) string {
	p := k.flags[flag]
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(k.dir, p)
}

const proc = "/proc"

// KubeconfigFlag is the kubelet's name of the flag; without it, a kubelet
// knows no API server.
const KubeconfigFlag = "kubeconfig"

// findKubelet reads the kubelet that --as-kubelet names: by its process id, or
// "auto".
func (n Node) findKubelet(which string) (*kubelet, error) {
	if runtime.GOOS != "linux" {
		return nil, usageError("give --config and --bin-dir", "--as-kubelet works on Linux only: it reads /proc")
	}
	if which != "auto" {
		pid, err := strconv.Atoi(which)
		if err != nil || pid <= 0 {
			return nil, usageError("", "--as-kubelet=%s: not a process id", which)
		}
		return n.readKubelet(pid)
	}
	pids, err := n.kubeletPIDs()
	if err != nil {
		return nil, err
	}
	switch len(pids) {
	case 0:
		return nil, withHint(errors.New("--as-kubelet: no process named kubelet is running, of root or of the caller"),
			"k3s runs the kubelet inside its own process, which has no such flags: give --config and --bin-dir")
	case 1:
		return n.findKubelet(pids[0])
	}
	return nil, usageError("say which: --as-kubelet="+pids[0], "--as-kubelet: %d kubelets are running: processes %s", len(pids), strings.Join(pids, ", "))
}

func (n Node) kubeletPIDs() (pids []string, err error) {
	entries, err := os.ReadDir(n.host(proc))
	if err != nil {
		return nil, fmt.Errorf("--as-kubelet: %w", err)
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && n.isKubelet(pid) {
			pids = append(pids, e.Name())
		}
	}
	return pids, nil
}

// isKubelet reports whether a process is a kubelet of root or of the caller.
// Somebody else may call a process kubelet too, and root would then run the
// plugins that it names.
func (n Node) isKubelet(pid int) bool {
	// A process that is gone, or that we may not look at, is not a kubelet to us.
	info, err := os.Stat(n.procPath(pid, "."))
	if err != nil || foreign(info, os.Geteuid()) {
		return false
	}
	comm, err := read(n.procPath(pid, "comm"))
	return err == nil && strings.TrimSpace(string(comm)) == "kubelet"
}

func (n Node) procPath(pid int, name string) string {
	return filepath.Join(n.host(proc), strconv.Itoa(pid), name)
}

// readProc reads a list that the kernel has of a process.
func (n Node) readProc(pid int, name string) ([]string, error) {
	data, err := read(n.procPath(pid, name))
	if err != nil {
		return nil, procError(pid, err, os.Geteuid())
	}
	return nulSeparated(string(data)), nil
}

func (n Node) readKubelet(pid int) (*kubelet, error) {
	args, err := n.readProc(pid, "cmdline")
	if err != nil {
		return nil, err
	}
	k := &kubelet{pid: pid, flags: kubeletFlags(args, KubeconfigFlag)}
	if k.environ, err = n.readProc(pid, "environ"); err != nil {
		return nil, err
	}
	if k.dir, err = os.Readlink(n.procPath(pid, "cwd")); err != nil {
		return nil, procError(pid, err, os.Geteuid())
	}
	return k, n.sameRoot(pid)
}

// sameRoot refuses a kubelet in a container or chroot: its paths mean nothing here.
func (n Node) sameRoot(pid int) error {
	theirs, err := os.Stat(n.procPath(pid, "root"))
	if err != nil {
		return nil // the links that matter could be read, so this is no want of permission
	}
	ours, err := os.Stat("/")
	if err != nil || os.SameFile(theirs, ours) {
		return err
	}
	return withHint(fmt.Errorf("--as-kubelet: process %d has another root directory, so its paths are not ours", pid),
		fmt.Sprintf("run regcred in it: nsenter --target %d --mount regcred …", pid))
}

func nulSeparated(s string) []string {
	s = strings.TrimSuffix(s, "\x00")
	if s == "" {
		return []string{} // not nil, which would mean our own environment
	}
	return strings.Split(s, "\x00")
}

func procError(pid int, err error, euid int) error {
	var cause error = fmt.Errorf("--as-kubelet: read process %d: %w", pid, err)
	switch {
	case errors.Is(err, fs.ErrPermission) && euid == 0:
		return withHint(cause, "this root lacks the right to trace other processes (CAP_SYS_PTRACE): run regcred on the node itself, not in a container")
	case errors.Is(err, fs.ErrPermission):
		return withHint(cause, "only root, or the kubelet's own user, may read its environment: use sudo")
	case errors.Is(err, fs.ErrNotExist):
		return withHint(cause, "no such process; without =PID the kubelet is searched for")
	}
	return cause
}
