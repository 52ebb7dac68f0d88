// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package node reads a Kubernetes node: which service starts the kubelet and
// with which flags, configuration and version, where the credential provider
// configuration is and who can change it, and which container runtime is used.
//
//	setup, err := node.Node{}.NewReader().Setup(ctx)
//
// The package changes and prints nothing: results and errors contain all
// information for the user. To support another distribution, add a row to the table in
// kinds.go and a template to manual/.
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
	Root string // root directory of the node; "" means "/"

	// Foreign allows running the kubelet below a different Root to get its version.
	Foreign bool

	// ConfigBy and BinDirBy are the names of the settings for the two paths in errors
	// and hints; "" means --config and --bin-dir.
	ConfigBy, BinDirBy string
}

// settingNames returns the names of the settings for the two paths.
func (n Node) settingNames() (config, binDir string) {
	return cmp.Or(n.ConfigBy, "--config"), cmp.Or(n.BinDirBy, "--bin-dir")
}

// HostPath returns the path on this machine of a path on the node.
func (n Node) HostPath(p string) string { return filepath.Join(cmp.Or(n.Root, "/"), p) }

// IsHost reports whether the node is this machine, so that its service manager
// can be queried.
func (n Node) IsHost() bool { return filepath.Clean(n.HostPath("/")) == "/" }

func (n Node) fs() inroot.FS { return inroot.FS{Root: n.Root} }

// hasAbsolutePaths reports whether the well-known paths are absolute on this machine.
// On Windows they are not: they are relative to the current drive, where any user can
// create them.
func (n Node) hasAbsolutePaths() bool { return filepath.IsAbs(n.HostPath("/")) }

// readFile reads a file of this machine.
func readFile(path string) ([]byte, error) {
	return regularfile.Read(context.Background(), path, 16<<20)
}

// HintError is an error with a hint.
type HintError struct {
	Err   error
	Hint  string // may be ""
	Usage bool   // the command line is invalid on every node
}

func (e *HintError) Error() string { return e.Err.Error() }
func (e *HintError) Unwrap() error { return e.Err }

func withHint(err error, hint string) error { return &HintError{Err: err, Hint: hint} }

func usageError(hint, format string, args ...any) error {
	return &HintError{Err: fmt.Errorf(format, args...), Hint: hint, Usage: true}
}

// PermissionError returns err with a hint if this user lacks a permission, and nil
// otherwise. The kubelet runs as root, so such an error says nothing about how the
// kubelet treats a configuration.
func PermissionError(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return nil
	}
	hint := ""
	if os.Geteuid() != 0 {
		hint = "run it as root (sudo)"
	}
	return withHint(err, hint)
}

// Getenv returns the value of a variable as a process with this environment sees it.
func Getenv(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(environ[i], name+"="); ok {
			return value
		}
	}
	return ""
}
