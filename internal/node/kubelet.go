// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// kubelet is what /proc tells of a running kubelet, or, where none runs, what the
// files of its service tell of the next.
type kubelet struct {
	pid     int    // 0 if it does not run
	unit    string // the service, if it does not run
	root    string // where the paths of its flags begin, if that is not "/"
	files   []string
	flags   map[string]string
	environ []string
	dir     string
}

// String names it in messages.
func (k *kubelet) String() string {
	if k.pid == 0 {
		return "the kubelet of " + k.unit
	}
	return fmt.Sprintf("kubelet process %d", k.pid)
}

// path returns the path in a flag, resolved against the kubelet's working
// directory; "" if the flag is not set.
func (k *kubelet) path(flag string) string {
	p := k.flags[flag]
	switch {
	case p == "":
		return ""
	case !filepath.IsAbs(p):
		p = filepath.Join(k.dir, p)
	}
	return filepath.Join(k.root, p)
}

const proc = "/proc"

// KubeconfigFlag is the kubelet's name of the flag; without it, a kubelet
// knows no API server.
const KubeconfigFlag = "kubeconfig"

var errNoKubelet = errors.New("--as-kubelet: no process named kubelet is running as root or as this user")

// findKubelet reads the kubelet that --as-kubelet names: by its process id, or
// "auto".
func (n Node) findKubelet(which string) (*kubelet, error) {
	if runtime.GOOS != "linux" {
		return nil, usageError("give --config and --bin-dir", "--as-kubelet works only on Linux, because it reads /proc")
	}
	if which != "auto" {
		pid, err := strconv.Atoi(which)
		if err != nil || pid <= 0 {
			return nil, usageError("", "--as-kubelet=%s: not a process ID", which)
		}
		return n.readKubelet(pid)
	}
	pids, err := n.kubeletPIDs()
	if err != nil {
		return nil, err
	}
	switch len(pids) {
	case 0:
		return nil, withHint(errNoKubelet,
			"k3s runs the kubelet inside its own process, which does not have these flags: set --config and --bin-dir")
	case 1:
		return n.findKubelet(pids[0])
	}
	return nil, usageError("choose one: --as-kubelet="+pids[0], "--as-kubelet: %d kubelets are running: processes %s", len(pids), strings.Join(pids, ", "))
}

// kubeletPIDs lists the kubelets that run, of root or of the caller. Those in
// containers, such as nodes of kind, are of interest only where there is no other.
func (n Node) kubeletPIDs() (pids []string, err error) {
	entries, err := os.ReadDir(n.host(proc))
	if err != nil {
		return nil, fmt.Errorf("--as-kubelet: %w", err)
	}
	var elsewhere []string
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// A process that is gone, or that we may not look at, is not a kubelet to us.
		switch is, here := n.isKubelet(pid); {
		case is && here:
			pids = append(pids, e.Name())
		case is:
			elsewhere = append(elsewhere, e.Name())
		}
	}
	if len(pids) == 0 {
		return elsewhere, nil
	}
	return pids, nil
}

// isKubelet reports whether a process is a kubelet of root or of the caller, and
// whether its root directory is ours.
func (n Node) isKubelet(pid int) (is, here bool) {
	p, err := n.openProcess(pid)
	if err != nil {
		return false, false
	}
	defer p.Close()
	comm, err := read(p.at("comm"))
	if err != nil || strings.TrimSpace(string(comm)) != "kubelet" || p.checkOwner(os.Geteuid()) != nil {
		return false, false
	}
	return true, p.checkRoot() == nil
}

// readKubelet reads a process that root would run plugins for: in its
// environment, from where it says. It is looked at before and after, since it
// may become another meanwhile.
func (n Node) readKubelet(pid int) (*kubelet, error) {
	p, err := n.openProcess(pid)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	euid := os.Geteuid()
	if err := p.checkOwner(euid); err != nil {
		return nil, err
	}
	k, err := p.kubelet()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(p.checkRoot(), p.checkOwner(euid)); err != nil {
		return nil, err
	}
	for _, path := range []string{k.dir, k.path(configFlag), k.path(binDirFlag)} {
		if err := p.checkPath(path); err != nil {
			return nil, err
		}
	}
	again, err := p.kubelet()
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(k, again) {
		return nil, fmt.Errorf("--as-kubelet: process %d was replaced by another program while it was being read; try again", pid)
	}
	return k, nil
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
		return withHint(cause, "root lacks CAP_SYS_PTRACE here: run regcred on the node itself, not in a container")
	case errors.Is(err, fs.ErrPermission):
		return withHint(cause, "only root and the kubelet's own user can read the kubelet's environment: use sudo")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
		return withHint(cause, "no such process; omit =PID to find the kubelet automatically")
	}
	return cause
}
