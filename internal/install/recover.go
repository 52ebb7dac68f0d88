// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/regcred/regcred/internal/generation"
)

// checkInterrupted returns an error if an earlier change was interrupted and not yet finished.
func (in *Installer) checkInterrupted(ctx context.Context) error {
	j, err := in.readJournal(ctx)
	if err != nil || j.Action == "" {
		return err
	}
	return withHint("the next regcred install, rollback or uninstall finishes or undoes the change", "%s was interrupted", j)
}

// lockNode prevents other regcred processes from changing the node. It then reads the node's setup
// again, because another process may have changed it. Finally it completes or undoes an
// interrupted change.
func (in *Installer) lockNode(ctx context.Context) (unlock func(), err error) {
	unlock, err = in.lockOnly(ctx)
	if err == nil {
		if err = in.recoverInterrupted(ctx); err != nil {
			unlock()
		}
	}
	return unlock, err
}

// lockOnly is like lock, but leaves an interrupted change as it is.
func (in *Installer) lockOnly(ctx context.Context) (unlock func(), err error) {
	if _, err := in.missingDirs(in.Store.Dir); err != nil {
		return nil, err
	}
	unlock, err = in.Store.Lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock the node against other regcred processes: %w", err)
	}
	if err = in.rereadSetup(ctx); err == nil {
		err = in.fs().RemoveAllTempFiles(in.Store.Dir)
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// recoverInterrupted completes or undoes an interrupted change: it applies the generation to
// which the link "current" points.
func (in *Installer) recoverInterrupted(ctx context.Context) error {
	j, err := in.readJournal(ctx)
	if err != nil || j.Action == "" {
		return err
	}
	in.releaseReserve()
	number, err := in.Store.Current()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c := &generationChange{Installer: in, action: j.Action, resumed: true}
	if c.from, c.to, err = in.recoveryTarget(ctx, j, number); err != nil {
		in.progressf("%s was interrupted: %v", j, err) // a rollback or an uninstall can still repair the damage
		return nil
	}
	for _, m := range []*generation.Manifest{c.from, c.to} {
		if err := in.removeGenerationTempFiles(m); err != nil {
			return err
		}
	}
	if c.from != nil || c.to != nil {
		err := error(nil)
		if c.to != nil {
			err = c.checkNextStart(ctx)
		}
		if refused, ok := errors.AsType[*NextStartError](err); ok {
			in.progressf("%s was interrupted and is not finished, because the kubelet then %s", j, refused.Effect)
		} else if err = c.applyChange(ctx); err != nil {
			return fmt.Errorf("%s was interrupted and cannot be finished: %w", j, err)
		}
	}
	return c.reportRecovery(ctx, j)
}

// reportRecovery reports the result of an interrupted change that has been completed or undone,
// and cleans up.
func (c *generationChange) reportRecovery(ctx context.Context, j journal) error {
	if c.to == nil {
		c.progressf("%s was interrupted: everything was removed", j)
		return c.removeState()
	}
	c.progressf("%s was interrupted: generation %d is current and complete", j, c.to.Number)
	if j.Action == actionInstall && j.To != c.to.Number {
		if err := c.Store.Remove(j.To); err != nil {
			return err
		}
	}
	return c.cleanUp(ctx)
}

// recoveryTarget returns the generations between which an interrupted change must be applied.
// number is the current generation, and usually the number of to. from or to is nil if that
// generation does not exist.
func (in *Installer) recoveryTarget(ctx context.Context, j journal, number int) (from, to *generation.Manifest, err error) {
	other := j.From
	switch {
	case number != 0:
		if to, err = in.Store.Manifest(ctx, number); err != nil {
			return nil, nil, err
		}
	case j.Action == actionRollback && j.From != 0: // the node had no current generation before the change
		number = j.To
		if to, err = in.Store.Manifest(ctx, number); err != nil {
			return nil, nil, err
		}
	case j.Action == actionRollback:
		return nil, nil, errors.New("no generation is current")
	}
	if other == number {
		other = j.To
	}
	if other != 0 && other != number {
		if from, err = in.Store.Manifest(ctx, other); errors.Is(err, fs.ErrNotExist) {
			err = nil // the generation was already removed, or never created
		}
	}
	if err == nil && j.Action == actionRollback && number == j.To {
		to, err = in.withCurrentCopies(ctx, from, to)
	}
	return from, to, err
}
