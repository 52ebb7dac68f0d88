// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package install installs credential providers on a node, rolls back and uninstalls.
// Each install creates a numbered generation (package generation), whose manifest lists
// all files outside of the state directory too. So an install, a rollback and an undo are
// the same operation: to bring the node to the state of a generation.
//
//	in := install.Installer{Store: store, Setup: setup, Service: kubelet}
//	desired := install.Desired{Config: "providers.yaml", Plugins: files, Dispatcher: dispatcher}
//	plan, err := in.Plan(ctx, desired) // what would be done
//	…
//	plan, err = in.Install(ctx, desired, install.Options{Restart: true})
//
// Each file is replaced by one rename, in an order in which a kubelet can start at any
// time. A journal describes the change in progress: after a crash, the next change
// finishes or undoes it. A lock prevents concurrent changes.
package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/service"
)

// Installer changes one node. It must not be used concurrently.
type Installer struct {
	Store generation.Store
	Setup *node.Setup // state of the node before the change

	// ReadSetup reads Setup again while the node is locked. If ReadSetup is nil, Setup is
	// kept.
	ReadSetup func(ctx context.Context) (*node.Setup, error)

	// Service is the kubelet's unit. Without a Manager nothing is restarted.
	Service  service.Service
	Criteria service.HealthCriteria

	// Probe, if not nil, is a test pull after a change. It has the same timeout as the
	// kubelet's health check.
	Probe func(ctx context.Context) error

	// Progress, if not nil, is called with progress messages.
	Progress func(text string)

	// Now returns the time since boot. If nil, [BootTime] is used.
	Now func() (generation.BootTime, error)

	Version string // version of this program, for manifests
	Keep    int    // number of generations to keep; 5 if 0
}

func (in *Installer) fs() inroot.FS { return in.Store.FS }

func (in *Installer) progressf(format string, args ...any) {
	if in.Progress != nil {
		in.Progress(fmt.Sprintf(format, args...))
	}
}

func (in *Installer) timeSinceBoot() (generation.BootTime, error) {
	if in.Now != nil {
		return in.Now()
	}
	return BootTime()
}

// withHint adds a hint to an error.
func withHint(hint, format string, args ...any) error {
	return &node.HintError{Err: fmt.Errorf(format, args...), Hint: hint}
}

func (in *Installer) rereadSetup(ctx context.Context) error {
	if in.ReadSetup == nil {
		return nil
	}
	s, err := in.ReadSetup(ctx)
	if err == nil {
		in.Setup = s
	}
	return err
}

// missingDirs lists which of a directory and its parents do not exist, the outermost
// first.
func (in *Installer) missingDirs(dir string) (missing []string, err error) {
	for d := path.Clean(dir); ; d = path.Dir(d) {
		info, err := in.fs().Stat(d)
		switch {
		case err == nil && info.IsDir():
			return missing, nil
		case err == nil:
			return nil, fmt.Errorf("%s is not a directory", in.fs().HostPath(d))
		case !errors.Is(err, fs.ErrNotExist) || d == "/":
			return nil, err
		case in.fs().Exists(d):
			return nil, fmt.Errorf("%s: dangling symlink", in.fs().HostPath(d))
		}
		missing = append([]string{d}, missing...)
	}
}

// currentManifest returns the manifest of the current generation, or nil.
func (in *Installer) currentManifest(ctx context.Context) (*generation.Manifest, error) {
	number, err := in.Store.Current()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := in.Store.Manifest(ctx, number)
	if isUnreadable(err) {
		return nil, err
	}
	if err != nil {
		return nil, withHint("regcred rollback N switches to another generation; regcred status lists the generations", "the current generation is damaged: %w", err)
	}
	return m, nil
}

// isUnreadable reports whether this process cannot read a generation because it lacks
// permission or is too old. The generation itself may be intact.
func isUnreadable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, generation.ErrNewerVersion)
}

// generationNumber returns a generation's number, or 0 for nil.
func generationNumber(m *generation.Manifest) int {
	if m == nil {
		return 0
	}
	return m.Number
}

// timestamp returns the time for manifests and the journal.
func timestamp() time.Time { return time.Now().UTC().Truncate(time.Second) }
