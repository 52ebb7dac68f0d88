// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package node is a node as it is found: where its credential provider
// configuration is and who may change it, which kubelet runs with which flags,
// and which container runtime it uses. It reads and never changes anything,
// and prints nothing: what a person should know is in its results and errors.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/regularfile"
)

// Node is a machine that may be a Kubernetes node.
type Node struct {
	Root string // where its paths begin; "" means "/"

	// Foreign says that the kubelet of another Root may be run, to be asked its
	// version: as root, perhaps, though nobody knows whose it is.
	Foreign bool

	// What a person gives the two paths by, as errors and hints name it; ""
	// means the flags of the command.
	ConfigBy, BinDirBy string
}

// by returns what the two paths are given by.
func (n Node) by() (config, binDir string) {
	return cmp.Or(n.ConfigBy, "--config"), cmp.Or(n.BinDirBy, "--bin-dir")
}

// host is where a path of the node is found.
func (n Node) host(p string) string { return filepath.Join(cmp.Or(n.Root, "/"), p) }

// files is where the files of the node are read.
func (n Node) files() inroot.FS { return inroot.FS{Root: n.Root} }

// read reads a file of a node. None of them is large.
func read(path string) ([]byte, error) {
	return regularfile.Read(context.Background(), path, 16<<20)
}

// Error is a failure of which is known what to do about it.
type Error struct {
	Err   error
	Hint  string // "" if there is nothing to say
	Usage bool   // what was asked for cannot be, whatever the node is like
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

func withHint(err error, hint string) error { return &Error{Err: err, Hint: hint} }

func usageError(hint, format string, args ...any) error {
	return &Error{Err: fmt.Errorf(format, args...), Hint: hint, Usage: true}
}

// Denied returns err, with what to do, if it is that this user may not read,
// write or connect, and else nil. Of a configuration that is no verdict of a
// kubelet, which is root.
func Denied(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return nil
	}
	hint := ""
	if os.Geteuid() != 0 {
		hint = "run it as root (sudo)"
	}
	return withHint(err, hint)
}

// Getenv returns the value that a process with this environment sees.
func Getenv(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(environ[i], name+"="); ok {
			return value
		}
	}
	return ""
}
