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

// Options limits what a change may do.
type Options struct {
	Restart bool // the kubelet may be restarted

	// Owner is the Helm release NAMESPACE/RELEASE for which Uninstall runs. Uninstall
	// then removes only that release's generations. If Owner is "", it may remove all
	// generations.
	Owner string
}

// checkRestartAllowed returns an error if a restart is needed but not allowed.
func checkRestartAllowed(why []string, o Options) error {
	if len(why) == 0 || o.Restart {
		return nil
	}
	return withHint("--restart allows the restart; running containers are not stopped", "nothing was changed: the kubelet must be restarted: %s", strings.Join(why, "; "))
}

// generationChange moves the node from one generation to another. It rolls back on
// failure.
type generationChange struct {
	*Installer
	action   changeKind
	from, to *generation.Manifest // nil: none
	files    []generation.NewFile // of an install
	restart  bool                 // the kubelet must be restarted

	restarted bool // the restart has begun
	resumed   bool // the change was started before, so any step may be incomplete
}

// run makes the change. It rolls back on an error, and when ctx ends. If the rollback
// fails, the error states so.
func (c *generationChange) run(ctx context.Context) error {
	if err := c.prepare(ctx); err != nil {
		return errors.Join(err, c.removeNewGeneration(ctx))
	}
	err := c.apply(ctx)
	if err == nil && c.to != nil {
		err = c.probePull(ctx)
	}
	if err == nil {
		return c.finishChange(ctx)
	}
	// Roll back even if ctx has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	c.progressf("rolling back: %v", err)
	if backErr := c.rollBack(ctx); backErr != nil {
		return c.wrapIfRestarted(withHint("fix the cause and run regcred again, which first finishes the interrupted change; regcred status shows the state",
			"%w; the rollback also failed: %w", err, backErr))
	}
	return c.wrapIfRestarted(fmt.Errorf("%w; the change was rolled back", err))
}

// prepare does everything that does not change the host yet.
func (c *generationChange) prepare(ctx context.Context) error {
	if err := c.preflight(ctx, c.from, c.to); err != nil {
		return err
	}
	err := c.writeJSON(journalFile, journal{c.action, generationNumber(c.from), generationNumber(c.to), timestamp()})
	switch {
	case c.action == actionRollback && errors.Is(err, syscall.ENOSPC):
		return nil
	case err == nil && c.action == actionInstall:
		return c.Store.Create(ctx, c.to, c.files)
	}
	return err
}

// RestartedError is returned if a change failed after the kubelet was restarted for it.
// A retry would restart the kubelet again.
type RestartedError struct{ Err error }

func (e *RestartedError) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e *RestartedError) Unwrap() error { return e.Err }

// wrapIfRestarted wraps an error in a [*RestartedError] if the kubelet was restarted.
func (c *generationChange) wrapIfRestarted(err error) error {
	if err == nil || !c.restarted {
		return err
	}
	return &RestartedError{err}
}

// rollbackTimeout is the timeout of a rollback.
const rollbackTimeout = 10 * time.Minute

// finishChange cleans up after a successful change.
func (c *generationChange) finishChange(ctx context.Context) error {
	text := "regcred is no longer in use"
	if c.to != nil {
		text = fmt.Sprintf("generation %d is current", c.to.Number)
	}
	if err := c.cleanUp(ctx); err != nil {
		return withHint("the next regcred install, rollback or uninstall cleans up", "%s, but the cleanup failed: %w", text, err)
	}
	return nil
}

// rollBack rolls the node back, unless the previous generation is damaged.
func (c *generationChange) rollBack(ctx context.Context) error {
	if c.action == actionRollback && c.from == nil {
		return errors.New("the previous generation is damaged")
	}
	back := &generationChange{Installer: c.Installer, action: c.action, from: c.to, to: c.from, restart: c.restarted, resumed: true}
	if err := back.apply(ctx); err != nil {
		return err
	}
	return c.removeNewGeneration(ctx)
}

// removeNewGeneration removes the new generation of a change that has been undone.
func (c *generationChange) removeNewGeneration(ctx context.Context) error {
	switch {
	case c.action == actionRollback && c.from == nil:
		return c.removeJournal()
	case c.action == actionInstall:
		if err := c.Store.Remove(c.to.Number); err != nil {
			return err
		}
	}
	back := &generationChange{Installer: c.Installer, to: c.from}
	return back.cleanUp(ctx)
}
