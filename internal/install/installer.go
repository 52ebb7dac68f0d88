// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package install puts credential providers on a node and takes them off again.
// What it puts there is a numbered generation (package generation); what it
// changes of the kubelet's is that generation's too, so that to install, to roll
// back and to undo are one thing: to drive the node to what a generation says.
//
//	in := install.Installer{Store: store, Setup: setup, Service: kubelet}
//	desired := install.Desired{Config: "providers.yaml", Plugins: files, Dispatcher: dispatcher}
//	plan, err := in.Plan(ctx, desired) // what would be done
//	…
//	plan, err = in.Install(ctx, desired, install.Options{Restart: true})
//
// Each thing is changed by one rename, in an order in which a kubelet that starts
// in between finds what works. A journal says what is under way: whoever comes
// after a kill finishes or undoes it ([Installer.Recover]). No two change a node
// at once.
package install

import (
	"cmp"
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

// Installer changes one node. It is used for one thing at a time.
type Installer struct {
	Store generation.Store
	Setup *node.Setup // as the node is before

	// Look reads the node again, for Setup, once nobody else changes it any more;
	// nil if it stays as it is.
	Look func(ctx context.Context) (*node.Setup, error)

	// Service is the kubelet's. Without a Manager nothing is restarted.
	Service service.Service
	Want    service.Want

	// Probe, if not nil, is a pull with which a node has to show, after a change,
	// that it works. It has as long as a kubelet has to become healthy.
	Probe func(ctx context.Context) error

	// Say is told what is being done, in a few words; nil if nobody listens.
	Say func(text string)

	// Now is the time since boot; [BootTime] if nil.
	Now func() (generation.Moment, error)

	Version string // of this program, for manifests
	Keep    int    // how many generations stay; 5 if 0
}

func (in *Installer) fs() inroot.FS { return in.Store.FS }

func (in *Installer) say(format string, args ...any) {
	if in.Say != nil {
		in.Say(fmt.Sprintf(format, args...))
	}
}

func (in *Installer) now() (generation.Moment, error) {
	if in.Now != nil {
		return in.Now()
	}
	return BootTime()
}

func (in *Installer) keep() int { return cmp.Or(in.Keep, 5) }

// withHint is a failure of which is known what to do about it.
func withHint(hint, format string, args ...any) error {
	return &node.Error{Err: fmt.Errorf(format, args...), Hint: hint}
}

// lock keeps all others from changing the node, and looks at it anew: whoever
// had the lock before may have changed it.
func (in *Installer) lock(ctx context.Context) (unlock func(), err error) {
	if _, err := in.missingDirs(in.Store.Dir); err != nil {
		return nil, err
	}
	unlock, err = in.Store.Lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for another regcred process on this node: %w", err)
	}
	if err := in.look(ctx); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

func (in *Installer) look(ctx context.Context) error {
	if in.Look == nil {
		return nil
	}
	s, err := in.Look(ctx)
	if err == nil {
		in.Setup = s
	}
	return err
}

// missingDirs lists what of a directory and those above it is not there, the
// outermost first.
func (in *Installer) missingDirs(dir string) (missing []string, err error) {
	for d := path.Clean(dir); ; d = path.Dir(d) {
		info, err := in.fs().Stat(d)
		switch {
		case err == nil && info.IsDir():
			return missing, nil
		case err == nil:
			return nil, fmt.Errorf("%s is not a directory", in.fs().Host(d))
		case !errors.Is(err, fs.ErrNotExist) || d == "/":
			return nil, err
		case in.fs().Exists(d):
			return nil, fmt.Errorf("%s: dangling symlink", in.fs().Host(d))
		}
		missing = append([]string{d}, missing...)
	}
}

// current is the manifest of the current generation; nil if there is none.
func (in *Installer) current(ctx context.Context) (*generation.Manifest, error) {
	number, err := in.Store.Current()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := in.Store.Manifest(ctx, number)
	if unreadable(err) {
		return nil, err
	}
	if err != nil {
		return nil, withHint("regcred rollback N switches to another generation; regcred status lists the generations", "the current generation is damaged: %w", err)
	}
	return m, nil
}

// unreadable reports whether an error is that of who may not read a generation, or
// of a program that is too old for it. The generation may well be whole then.
func unreadable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, generation.ErrLater)
}

// numberOf is 0 for no generation.
func numberOf(m *generation.Manifest) int {
	if m == nil {
		return 0
	}
	return m.Number
}

// stamp is a time for manifests and the journal.
func stamp() time.Time { return time.Now().UTC().Truncate(time.Second) }
