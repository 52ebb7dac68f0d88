// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/generation"
)

// Options specifies what a change may do.
type Options struct {
	Restart bool // allows restarting the kubelet
	Force   bool // allows Uninstall even if the kubelet would not start afterwards

	// Owner is the Helm release NAMESPACE/RELEASE that runs Uninstall. Uninstall then fails if
	// the installation belongs to another owner. If Owner is "", this is not checked.
	Owner string
}

// checkRestartAllowed returns an error if the kubelet must be restarted but o.Restart is false.
// why lists the reasons for a restart.
func checkRestartAllowed(why []string, o Options) error {
	if len(why) == 0 || o.Restart {
		return nil
	}
	return withHint("--restart allows the restart; running containers are not stopped", "nothing was changed: the kubelet must be restarted: %s", strings.Join(why, "; "))
}

// generationChange changes the node from one generation to another. It rolls back on failure.
type generationChange struct {
	*Installer
	action   changeAction
	from, to *generation.Manifest    // nil means no generation
	files    []generation.SourceFile // files of the new generation, for an install
	restart  bool                    // the change must restart the kubelet
	check    func(dir string) error  // tests a new generation that is being created in dir; may be nil

	restarted bool // the kubelet's restart has begun
	resumed   bool // an earlier run was interrupted, so any step may be incomplete
}

// run applies the change. If a step fails or ctx ends, it rolls back. The error states whether
// the rollback succeeded.
func (c *generationChange) run(ctx context.Context) error {
	if err := c.prepareChange(ctx); err != nil {
		return errors.Join(err, c.removeNewGeneration(ctx))
	}
	err := c.applyChange(ctx)
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

// prepareChange runs all steps before the first change to the host: it checks the host files, writes
// the journal and, for an install, creates the generation.
func (c *generationChange) prepareChange(ctx context.Context) error {
	if err := c.preflight(ctx, c.from, c.to); err != nil {
		return err
	}
	if c.action != actionInstall {
		c.releaseReserve()
	} else if err := c.createReserve(); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	err := c.writeJSON(journalFile, journal{c.action, generationNumber(c.from), generationNumber(c.to), timestamp()})
	switch {
	case c.action != actionInstall && isFull(err):
		return nil // each step can be repeated without the journal
	case err == nil && c.action == actionInstall:
		return c.Store.Create(ctx, c.to, c.files, c.check)
	}
	return err
}

// RestartedError reports that a change failed after it restarted the kubelet. A retry would
// restart the kubelet again.
type RestartedError struct{ Err error }

func (e *RestartedError) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e *RestartedError) Unwrap() error { return e.Err }

// wrapIfRestarted wraps err in a [*RestartedError] if the change has restarted the kubelet.
func (c *generationChange) wrapIfRestarted(err error) error {
	if err == nil || !c.restarted {
		return err
	}
	return &RestartedError{err}
}

// rollbackTimeout is the maximum duration of a rollback.
const rollbackTimeout = 10 * time.Minute

// finishChange cleans up after a successful change. Its error states that the change succeeded.
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

// rollBack returns the node to the previous generation. It fails if that generation is damaged.
func (c *generationChange) rollBack(ctx context.Context) error {
	if c.action == actionRollback && c.from == nil || c.from != nil && c.from.Number == 0 {
		return errors.New("the previous generation is damaged")
	}
	c.releaseReserve()
	back := &generationChange{Installer: c.Installer, action: c.action, from: c.to, to: c.from, restart: c.restarted, resumed: true}
	if err := back.applyChange(ctx); err != nil {
		return err
	}
	return c.removeNewGeneration(ctx)
}

// removeNewGeneration cleans up after a change was rolled back. After an install, it removes
// the new generation.
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
