// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/regcred/regcred/internal/generation"
)

// Options say how far a change may go.
type Options struct {
	Restart bool // the kubelet may be restarted

	// Owner, of an uninstall, is the NAMESPACE/RELEASE whose generation it may take
	// off, and no other's; "" is a person, who may take off what is there.
	Owner string
}

// mayRestart refuses what takes a restart that is not allowed.
func mayRestart(why []string, o Options) error {
	if len(why) == 0 || o.Restart {
		return nil
	}
	return withHint("--restart allows the restart; running containers are not stopped", "nothing was changed: the kubelet must be restarted: %s", strings.Join(why, "; "))
}

// change brings the node from one generation to another, and back if it does
// not work.
type change struct {
	*Installer
	action   action
	from, to *generation.Manifest // nil: none
	restart  bool                 // the kubelet has to be restarted for it

	restarted bool // that was begun
	again     bool // somebody was at it before, so that nothing is known to have been carried through
}

// run makes the change. With an error the node is as it was, or the error says
// what it is. What is broken off by a signal goes back too.
func (c *change) run(ctx context.Context, prepare func() error) error {
	if err := c.preflight(ctx, c.from, c.to); err != nil {
		return c.abort(ctx, err)
	}
	if err := c.begin(c.action, numberOf(c.from), numberOf(c.to)); err != nil && !(c.action == rollingBack && errors.Is(err, syscall.ENOSPC)) {
		return c.abort(ctx, err)
	}
	if err := prepare(); err != nil {
		return c.abort(ctx, err)
	}
	err := c.drive(ctx)
	if err == nil && c.to != nil {
		err = c.probe(ctx) // and not of the way back
	}
	if err == nil {
		return c.finish(ctx)
	}
	// Also when ctx has ended: a node is not left in between.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backWithin)
	defer cancel()
	c.say("rolling back: %v", err)
	if backErr := c.revert(ctx); backErr != nil {
		return c.noteRestart(withHint("fix the cause and run regcred again, which first finishes the interrupted change; regcred status shows the state",
			"%w; the rollback also failed: %w", err, backErr))
	}
	return c.noteRestart(fmt.Errorf("%w; the change was rolled back", err))
}

// RestartedError is the failure of a change for which the kubelet was restarted: to try
// the same again would restart it again.
type RestartedError struct{ Err error }

func (e *RestartedError) Error() string { return e.Err.Error() }

// Unwrap returns the failure.
func (e *RestartedError) Unwrap() error { return e.Err }

// noteRestart makes an error a [*RestartedError] if it is one.
func (c *change) noteRestart(err error) error {
	if err == nil || !c.restarted {
		return err
	}
	return &RestartedError{err}
}

// backWithin bounds how long going back takes.
const backWithin = 10 * time.Minute

// finish ends a change that was made.
func (c *change) finish(ctx context.Context) error {
	text := "regcred is no longer in use"
	if c.to != nil {
		text = fmt.Sprintf("generation %d is current", c.to.Number)
	}
	if err := c.cleanUp(ctx); err != nil {
		return withHint("the next regcred install, rollback or uninstall cleans up", "%s, but the cleanup failed: %w", text, err)
	}
	return nil
}

// abort undoes what was not begun in earnest.
func (c *change) abort(ctx context.Context, cause error) error {
	return errors.Join(cause, c.discard(ctx))
}

// revert undoes what was begun. A generation that is damaged is nothing to go
// back to.
func (c *change) revert(ctx context.Context) error {
	if c.action == rollingBack && c.from == nil {
		return errors.New("the previous generation is damaged")
	}
	back := &change{Installer: c.Installer, action: c.action, from: c.to, to: c.from, restart: c.restarted, again: true}
	if err := back.drive(ctx); err != nil {
		return err
	}
	return c.discard(ctx)
}

// discard removes what a change has made that is undone.
func (c *change) discard(ctx context.Context) error {
	switch {
	case c.action == rollingBack && c.from == nil:
		return c.end() // as damaged as before
	case c.action == installing:
		if err := c.Store.Remove(c.to.Number); err != nil {
			return err
		}
	}
	back := &change{Installer: c.Installer, to: c.from}
	return back.cleanUp(ctx)
}
