// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package node reads how a Kubernetes node is set up: the service that starts the kubelet, the
// kubelet's flags, configuration and version, the credential provider configuration and who can
// change it, and the container runtime.
//
//	setup, err := node.Node{}.NewReader().Setup(ctx)
//
// The package does not change or print anything. Results and errors contain all information for
// the user. To support another distribution, add a row to the table in kinds.go and a template
// to manual/.
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

// Node identifies a machine that may be a Kubernetes node.
type Node struct {
	Root string // root directory of the node's files; "" means "/"

	// Foreign allows running the kubelet's executable below Root to get its version, even if
	// Root is not "/".
	Foreign bool

	// ConfigSetting and BinDirSetting name the settings for the configuration and the plugin directory in
	// errors and hints. The defaults are --config and --bin-dir.
	ConfigSetting, BinDirSetting string

	// Overlay, if not nil, holds planned changes to the node's files. The node is then read
	// as it would be after these changes.
	Overlay *inroot.Overlay
}

// settingNames returns the names of the settings for the configuration and the plugin
// directory.
func (n Node) settingNames() (config, binDir string) {
	return cmp.Or(n.ConfigSetting, "--config"), cmp.Or(n.BinDirSetting, "--bin-dir")
}

// HostPath converts a path on the node to a path on this machine.
func (n Node) HostPath(p string) string { return filepath.Join(cmp.Or(n.Root, "/"), p) }

// IsHost reports whether the node is this machine. Only then can its service manager be
// queried.
func (n Node) IsHost() bool { return filepath.Clean(n.HostPath("/")) == "/" }

func (n Node) fs() inroot.FS { return inroot.FS{Root: n.Root, Overlay: n.Overlay} }

// hasAbsolutePaths reports whether the well-known paths are absolute on this machine. On
// Windows, they are relative to the current drive, where any user can create them.
func (n Node) hasAbsolutePaths() bool { return filepath.IsAbs(n.HostPath("/")) }

// readFile reads a regular file of at most 16 MiB from this machine.
func readFile(path string) ([]byte, error) {
	return regularfile.Read(context.Background(), path, 16<<20)
}

// HintError is an error with a hint how to fix it.
type HintError struct {
	Err   error
	Hint  string // suggestion for the user; may be ""
	Usage bool   // the command line is invalid on any node
}

func (e *HintError) Error() string { return e.Err.Error() }
func (e *HintError) Unwrap() error { return e.Err }

func withHint(err error, hint string) error { return &HintError{Err: err, Hint: hint} }

func usageError(hint, format string, args ...any) error {
	return &HintError{Err: fmt.Errorf(format, args...), Hint: hint, Usage: true}
}

// UncheckedError returns err, possibly with a hint, if it only means that regcred cannot check a
// configuration, and nil otherwise. The kubelet runs as root and does not have regcred's limits, so
// it could accept the configuration.
func UncheckedError(err error) error {
	if errors.Is(err, regularfile.ErrLimit) {
		return withHint(err, "this is a limit of regcred, not of the kubelet")
	}
	if !errors.Is(err, fs.ErrPermission) {
		return nil
	}
	hint := ""
	if os.Geteuid() != 0 {
		hint = "run it as root (sudo)"
	}
	return withHint(err, hint)
}

// Getenv returns the value of an environment variable. If the variable is set several times,
// the last value wins.
func Getenv(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(environ[i], name+"="); ok {
			return value
		}
	}
	return ""
}
