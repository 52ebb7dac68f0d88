// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/regcred/regcred/internal/regularfile"
)

// process is a process as /proc has it. All is read through one open
// directory, which stays that of this process: once it has ended nothing more
// can be read, also if its id has been given to another.
type process struct {
	pid  int
	name string // its directory, for people
	dir  *os.File
}

func (n Node) procPath(pid int) string {
	return filepath.Join(n.host(proc), strconv.Itoa(pid))
}

// openProcess opens a process. The caller closes it.
func (n Node) openProcess(pid int) (*process, error) {
	name := n.procPath(pid)
	dir, err := os.Open(name)
	if err != nil {
		return nil, procError(pid, err, os.Geteuid())
	}
	return &process{pid, name, dir}, nil
}

// Close ends the use of the process.
func (p *process) Close() { _ = p.dir.Close() } // a directory handle: nothing can be lost

// at is where a file of the process is read.
func (p *process) at(name string) string {
	return fmt.Sprintf("%s/self/fd/%d/%s", proc, p.dir.Fd(), name)
}

// fail describes an error of reading a file of the process.
func (p *process) fail(name string, err error) error {
	return procError(p.pid, &fs.PathError{Op: "read", Path: filepath.Join(p.name, name), Err: regularfile.Cause(err)}, os.Geteuid())
}

// list reads a list that the kernel has of the process.
func (p *process) list(name string) ([]string, error) {
	data, err := read(p.at(name))
	if err != nil {
		return nil, p.fail(name, err)
	}
	return nulSeparated(string(data)), nil
}

// kubelet reads what matters here of a kubelet.
func (p *process) kubelet() (*kubelet, error) {
	args, err := p.list("cmdline")
	if err != nil {
		return nil, err
	}
	k := &kubelet{pid: p.pid, flags: kubeletFlags(args, KubeconfigFlag)}
	if k.environ, err = p.list("environ"); err != nil {
		return nil, err
	}
	if k.dir, err = os.Readlink(p.at("cwd")); err != nil {
		return nil, p.fail("cwd", err)
	}
	return k, nil
}

// checkOwner refuses a process that others than root and user euid have
// started: anybody may call a process kubelet, give it flags and an
// environment, and root would run the plugins that it names.
func (p *process) checkOwner(euid int) error {
	status, err := read(p.at("status"))
	if err != nil {
		return p.fail("status", err)
	}
	_, line, _ := strings.Cut(string(status), "\nUid:")
	line, _, _ = strings.Cut(line, "\n")
	ids := strings.Fields(line) // real, effective, saved, of file systems
	if len(ids) != 4 {
		return p.fail("status", errors.New("no valid Uid line"))
	}
	for _, id := range ids {
		if uid, err := strconv.Atoi(id); err != nil || uid != 0 && uid != euid {
			return withHint(fmt.Errorf("--as-kubelet: process %d belongs to user %s, who controls its flags and environment", p.pid, id),
				"run regcred as that user, or set --config and --bin-dir")
		}
	}
	// A program that is root's whoever starts it may have all ids of root, and
	// flags and environment of somebody else: sudo that asks for a password.
	exe, err := os.Stat(p.at("exe"))
	if err != nil {
		return p.fail("exe", err)
	}
	if exe.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		return withHint(fmt.Errorf("--as-kubelet: process %d runs a set-user-ID program, not a kubelet; any user could have chosen its flags and environment", p.pid),
			"specify the kubelet's process ID, or set --config and --bin-dir")
	}
	return nil
}

// checkRoot refuses a process in a container or chroot: its paths mean nothing here.
func (p *process) checkRoot() error {
	theirs, err := os.Stat(p.at("root"))
	if err != nil {
		return p.fail("root", err)
	}
	ours, err := os.Stat("/")
	if err != nil || os.SameFile(theirs, ours) {
		return err
	}
	return p.elsewhere(fmt.Errorf("--as-kubelet: process %d has a different root directory, so its paths refer to other files", p.pid))
}

// checkPath refuses a process that sees something else at a path than we do:
// with the same root directory it may have mounts of its own.
func (p *process) checkPath(path string) error {
	if path == "" {
		return nil
	}
	theirs, theirErr := os.Stat(p.at("root") + path)
	if errors.Is(theirErr, fs.ErrPermission) {
		return p.fail("root"+path, theirErr)
	}
	ours, err := os.Stat(path)
	if err != nil && theirErr != nil || err == nil && theirErr == nil && os.SameFile(ours, theirs) {
		return nil // if there is nothing, who reads it will say so
	}
	return p.elsewhere(fmt.Errorf("--as-kubelet: process %d sees different content at %s than this process does, because their mounts differ", p.pid, path))
}

// elsewhere says what to do about a kubelet in a container, such as a node of kind.
func (p *process) elsewhere(err error) error {
	return withHint(err, fmt.Sprintf("run regcred where the kubelet runs: copy it into the container (the kind, k3d or minikube node), or use nsenter --target %d --mount regcred …", p.pid))
}
