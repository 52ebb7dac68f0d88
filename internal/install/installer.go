// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package install installs credential providers on a node, rolls back to earlier installs and
// uninstalls. Each install creates a numbered generation (see package generation). A
// generation's manifest also lists the files on the host that are outside of its directory.
// Install, rollback and the undoing of a failed change are therefore the same operation: they
// bring the node to the state of a generation.
//
//	in := install.Installer{Store: store, Setup: setup, Service: kubelet}
//	desired := install.DesiredState{Config: "providers.yaml", Plugins: files, Dispatcher: dispatcher}
//	plan, err := in.Plan(ctx, desired) // what would be done
//	…
//	plan, err = in.Install(ctx, desired, install.Options{Restart: true})
//
// Each file is replaced with a rename. The files are changed in an order that allows the
// kubelet to start at any time. A journal describes the change in progress. After a crash, the
// next change first finishes or undoes the interrupted change. A lock prevents concurrent
// changes.
package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/service"
	"github.com/regcred/regcred/internal/textfmt"
)

// Installer installs, rolls back and uninstalls on one node. It is not safe for concurrent use.
type Installer struct {
	Store generation.Store
	Setup *node.Setup // how the node is set up before the change

	// ReadSetup reads the node's Setup again while the lock is held. If ReadSetup is nil, Setup
	// is not updated.
	ReadSetup func(ctx context.Context) (*node.Setup, error)

	// Service is the kubelet's service. If it has no Manager, regcred cannot restart the
	// kubelet.
	Service  service.Service
	Criteria service.HealthCriteria

	// Probe runs a test pull after a change. It may be nil. It has the same timeout as the
	// kubelet's health check.
	Probe func(ctx context.Context) error

	// Progress is called with progress messages. It may be nil.
	Progress func(text string)

	// Now returns the time since boot. The default is [BootTime].
	Now func() (generation.BootTime, error)

	Version string // regcred's version, for manifests
	Keep    int    // number of generations to keep; 0 means 5

	Warnings []string // problems of the node that a rollback or an uninstall has not fixed

	Left []string // files and directories that Uninstall has left in place

	salvaging bool // regcred's files are recognized by their names, because no manifest lists them
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

// withHint returns a formatted error with a hint.
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

// missingDirs returns the missing directories among dir and its parents, outermost first.
func (in *Installer) missingDirs(dir string) (missing []string, err error) {
	for d := path.Clean(dir); ; d = path.Dir(d) {
		info, err := in.fs().Stat(d)
		switch {
		case err == nil && info.IsDir():
			return missing, nil
		case err == nil:
			return nil, in.notDirectoryError(d)
		case !inroot.IsMissing(err) || d == "/":
			return nil, err
		case in.fs().Exists(d):
			return nil, fmt.Errorf("%s: dangling symlink", in.fs().HostPath(d))
		}
		missing = append([]string{d}, missing...)
	}
}

// notDirectoryError returns the error for a path that must be a directory.
func (in *Installer) notDirectoryError(name string) error {
	return withHint(in.moveHint(name), "%s is not a directory", in.fs().HostPath(name))
}

// moveHint names the command that moves a file out of the way.
func (in *Installer) moveHint(name string) string {
	name = in.fs().HostPath(name)
	return "run mv " + textfmt.QuoteShellWord(name) + " " + textfmt.QuoteShellWord(name+".old") + ", and then the same command again"
}

// currentManifest returns the manifest of the current generation, or nil if there is none.
func (in *Installer) currentManifest(ctx context.Context) (*generation.Manifest, error) {
	number, err := in.Store.Current()
	if inroot.IsMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, withHint(in.repairHint(ctx), "%w", err)
	}
	m, err := in.Store.Manifest(ctx, number)
	if isUnreadable(err) {
		return nil, err
	}
	if err != nil {
		return nil, withHint(in.repairHint(ctx), "the current generation is damaged: %w", err)
	}
	return m, nil
}

// repairHint names the command that works although the current generation is damaged: a rollback
// to an intact generation, or an uninstall, which needs none.
func (in *Installer) repairHint(ctx context.Context) string {
	numbers, _ := in.Store.ListNumbers()
	for _, n := range slices.Backward(numbers) {
		if m, err := in.Store.Manifest(ctx, n); err == nil && len(in.Store.ModifiedFiles(ctx, m)) == 0 {
			return fmt.Sprintf("regcred rollback %d switches to an intact generation", n)
		}
	}
	return "regcred uninstall removes regcred, also without an intact generation; then run regcred install CONFIG"
}

// isUnreadable reports whether this process cannot read a generation because it lacks
// permission, or because a newer version of regcred wrote the generation. The generation itself
// may be intact.
func isUnreadable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, generation.ErrNewerVersion)
}

// generationNumber returns the number of a generation, or 0 if m is nil.
func generationNumber(m *generation.Manifest) int {
	if m == nil {
		return 0
	}
	return m.Number
}

// timestamp returns the current time for manifests and the journal.
func timestamp() time.Time { return time.Now().UTC().Truncate(time.Second) }
