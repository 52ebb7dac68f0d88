// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"context"
	"errors"
)

// Install brings a node to the desired state. It returns the plan that it followed. If a
// generation with the desired content exists, Install activates that generation as
// [Installer.Rollback] does. If Install fails, the node is unchanged unless the error states
// otherwise.
func (in *Installer) Install(ctx context.Context, d DesiredState, o Options) (*Plan, error) {
	if err := in.checkSupported(d); err != nil && !in.HasState() {
		return nil, err
	}
	unlock, err := in.lockNode(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	d.testCopies = true
	p, err := in.Plan(ctx, d)
	if err != nil {
		return p, err
	}
	if p.UpToDate && len(p.Restart) == 0 {
		return p, in.Store.RemoveLeftovers()
	}
	if err := checkRestartAllowed(p.Restart, o); err != nil {
		return p, err
	}
	if p.UpToDate {
		return p, in.restartOnly(ctx, p)
	}
	if err := in.createStateDir(); err != nil {
		return p, err
	}
	c := in.plannedChange(p)
	c.check = func(dir string) error { return in.testCopies(ctx, d, p, dir) }
	if !p.Reactivate {
		p.To.Number, err = in.Store.NextNumber(p.To.Previous)
	}
	if err != nil {
		return p, err
	}
	return p, c.run(ctx)
}

// restartOnly restarts the kubelet of a node whose files are up to date.
func (in *Installer) restartOnly(ctx context.Context, p *Plan) error {
	c := &generationChange{Installer: in, to: p.From, restart: true}
	before, err := c.kubeletState(ctx)
	if err != nil {
		return err
	}
	if err := in.recordEntries(ctx, p.From); err != nil { // the file of records may have been deleted
		return err
	}
	if err = c.restartIfNeeded(ctx, before); err == nil {
		err = c.probePull(ctx)
	}
	if err != nil {
		return c.wrapIfRestarted(withHint("regcred rollback returns to an earlier generation; regcred uninstall removes regcred",
			"generation %d is still current: %w", p.From.Number, err))
	}
	return errors.Join(in.dropOldRecords(ctx), in.removeStrayLinks(ctx, p.From.Layout.BinDir, p.From))
}
