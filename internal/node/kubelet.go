// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// kubelet describes a running kubelet. If no kubelet is running, it describes the kubelet that
// a service would start.
type kubelet struct {
	pid     int    // 0 if the kubelet is not running
	unit    string // name of the service, if the kubelet is not running
	root    string // root directory of the paths in flags; "" means "/"
	files   []string
	flags   map[string]string
	environ []string
	dir     string
}

// String describes the kubelet in messages.
func (k *kubelet) String() string {
	if k.pid == 0 {
		return "the kubelet of " + k.unit
	}
	return fmt.Sprintf("kubelet process %d", k.pid)
}

// flagPath returns the path in a flag, or "" if the flag is not set. It resolves relative paths
// against the kubelet's working directory.
func (k *kubelet) flagPath(flag string) string {
	p := k.flags[flag]
	switch {
	case p == "":
		return ""
	case !filepath.IsAbs(p):
		p = filepath.Join(k.dir, p)
	}
	return filepath.Join(k.root, p)
}

var errKubeletNotRunning = errors.New("--as-kubelet: no process named kubelet is running as root or as this user")

// findKubelet returns the running kubelet that --as-kubelet selects. which is a process ID or
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
	pids, _, err := n.kubeletPIDs()
	if err != nil {
		return nil, fmt.Errorf("--as-kubelet: %w", err)
	}
	switch len(pids) {
	case 0:
		return nil, withHint(errKubeletNotRunning,
			"k3s runs the kubelet inside its own process, which does not have these flags: set --config and --bin-dir")
	case 1:
		return n.readKubelet(pids[0])
	}
	list := strings.ReplaceAll(strings.Trim(fmt.Sprint(pids), "[]"), " ", ", ")
	return nil, usageError(fmt.Sprintf("choose one: --as-kubelet=%d", pids[0]), "--as-kubelet: %d kubelets are running: processes %s", len(pids), list)
}

// readKubelet reads the flags and environment of a kubelet process. It rejects processes whose
// environment root must not use for plugins. It reads the process twice, because the process
// may execute another program in the meantime.
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
	k, err := p.readKubelet()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(p.checkRoot(), p.checkOwner(euid)); err != nil {
		return nil, err
	}
	for _, path := range []string{k.dir, k.flagPath(configFlag), k.flagPath(binDirFlag)} {
		if err := p.checkPath(path); err != nil {
			return nil, err
		}
	}
	again, err := p.readKubelet()
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(k, again) {
		return nil, fmt.Errorf("--as-kubelet: process %d was replaced by another program while it was being read; try again", pid)
	}
	return k, nil
}

// nextKubelet returns the kubelet that this node's service starts. It is used if no process is
// named kubelet: the kubelet may be failing, and k3s runs the kubelet in its own process. If
// there is no service, nextKubelet returns the error none.
func (r *Reader) nextKubelet(ctx context.Context, none error) (*kubelet, error) {
	rd := r.newReader(ctx)
	s := r.kubeletService(rd)
	if s.kind == NoKubelet || s.name == "" {
		return nil, none
	}
	// The default PATH is documented in systemd.exec(5).
	k := &kubelet{unit: s.name, root: cmp.Or(r.Root, "/"), flags: rd.serviceFlags(s), dir: rd.absolutePath("."), environ: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}
	if len(rd.unreadablePaths) > 0 {
		return nil, withHint(fmt.Errorf("--as-kubelet: no kubelet is running, and this user cannot read %s, which %s uses", strings.Join(rd.unreadablePaths, ", "), s.name), "run it as root (sudo)")
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	k.files = rd.usedFiles()
	for _, name := range slices.Sorted(maps.Keys(s.vars)) {
		k.environ = append(k.environ, name+"="+s.vars[name].value)
	}
	run := rd.findKubeletProcess(s)
	if run == nil {
		return k, nil
	}
	// Use the environment of a running program, such as k3s, that contains the kubelet.
	p, err := r.openProcess(run.PID)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	outer, err := p.readKubelet()
	if err == nil {
		err = p.checkOwner(os.Geteuid())
	}
	if err != nil {
		return nil, err
	}
	k.pid, k.environ, k.dir = run.PID, outer.environ, outer.dir
	return k, nil
}

// findKubeletProcess returns the process of the kubelet, or of the program that contains the
// kubelet. If no process has a known name, it looks for the main process of the service's unit,
// because the executable may have any name.
func (r *fileReader) findKubeletProcess(s kubeletService) *RunningProcess {
	names := s.kind.kindSpec().processes
	found := r.findRunning(func(p *process) bool { return slices.Contains(names, p.commandName()) })
	if found == nil && s.unit != nil {
		found = r.findRunning(func(p *process) bool { return p.isMainOf(s.unit.name) })
	}
	return found
}

// findRunning returns the first process on this node for which match returns true, or nil.
func (r *fileReader) findRunning(match func(*process) bool) (found *RunningProcess) {
	_ = r.findProcess(func(p *process) bool {
		if match(p) {
			found = r.describeProcess(p)
		}
		return found != nil
	})
	return found
}

// describeProcess describes a process on this node. It returns nil if the process is in a
// container, belongs to a user other than root and the caller, or has ended.
func (r *fileReader) describeProcess(p *process) *RunningProcess {
	if here, err := p.hasRoot(r.HostPath("/")); err != nil || !here {
		r.recordUnreadable(procDir+"/"+strconv.Itoa(p.pid)+"/root", err)
		return nil
	}
	start, err := p.statField(19) // start time: field 22 of proc(5)
	args, argErr := p.readStrings("cmdline")
	if errors.Join(err, argErr, p.checkOwner(os.Geteuid())) != nil {
		return nil
	}
	found := &RunningProcess{PID: p.pid, Start: start}
	// A script that starts the kubelet has its own arguments.
	if flags := effectiveFlags(args); p.commandName() == "kubelet" || len(flags) > 0 {
		found.Flags = &RunningFlags{flags[configFlag], flags[binDirFlag]}
	}
	return found
}

// kubeletPIDs returns the process IDs of kubelets that run directly on this node, as root or
// this user. here is then true. If there are none, kubeletPIDs returns kubelets in containers,
// such as kind nodes.
func (n Node) kubeletPIDs() (pids []int, here bool, err error) {
	var contained []int
	err = n.findProcess(func(p *process) bool {
		switch {
		case p.commandName() != "kubelet" || p.checkOwner(os.Geteuid()) != nil:
		case p.checkRoot() == nil:
			pids = append(pids, p.pid)
		default:
			contained = append(contained, p.pid)
		}
		return false
	})
	if len(pids) == 0 {
		return contained, false, err
	}
	return pids, true, err
}

// readKubelet reads a kubelet's flags and environment.
func (p *process) readKubelet() (*kubelet, error) {
	args, err := p.readStrings("cmdline")
	if err != nil {
		return nil, err
	}
	k := &kubelet{pid: p.pid, flags: effectiveFlags(args, KubeconfigFlag)}
	if k.environ, err = p.readStrings("environ"); err != nil {
		return nil, err
	}
	if k.dir, err = os.Readlink(p.procPath("cwd")); err != nil {
		return nil, p.fileError("cwd", err)
	}
	return k, nil
}
