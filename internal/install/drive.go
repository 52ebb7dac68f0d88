// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"context"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/service"
)

// drive makes another generation, or none, current, including its files on the host. The
// kubelet can start after each step.
func (c *change) drive(ctx context.Context) error {
	if c.to == nil {
		return c.removeAll(ctx)
	}
	before, err := c.state(ctx)
	if err != nil {
		return err
	}
	later := c.to.Number > numberOf(c.from)
	if later {
		if err := c.Store.UseDispatcher(c.to.Number); err != nil {
			return err
		}
	}
	if err := c.putStage(ctx, generation.BeforeFlip); err != nil {
		return err
	}
	if err := c.Store.Flip(c.to.Number); err != nil {
		return err
	}
	if err := c.recordEntries(ctx, c.to); err != nil {
		return err
	}
	for _, stage := range []generation.Stage{generation.AfterFlip, generation.Last} {
		if err := c.putStage(ctx, stage); err != nil {
			return err
		}
	}
	for _, stage := range []generation.Stage{generation.Last, generation.AfterFlip} {
		if err := c.removeStage(ctx, stage); err != nil {
			return err
		}
	}
	if !later {
		if err := c.Store.UseDispatcher(c.to.Number); err != nil {
			return err
		}
	}
	return c.restartIfNeeded(ctx, before)
}

// removeAll removes everything from the host: first what points the kubelet to regcred,
// last the links that a running kubelet may still use.
func (c *change) removeAll(ctx context.Context) error {
	before, err := c.state(ctx)
	if err != nil {
		return err
	}
	if err := c.removeStage(ctx, generation.Last); err != nil {
		return err
	}
	if err := c.removeNodeadmFlags(ctx, c.from.Layout); err != nil {
		return err
	}
	if err := c.recordEntries(ctx, nil); err != nil {
		return err
	}
	if err := c.removeStage(ctx, generation.AfterFlip); err != nil {
		return err
	}
	if err := c.restartIfNeeded(ctx, before); err != nil {
		return err
	}
	if err := c.removeStrays(ctx, c.from.Layout.BinDir, nil); err != nil {
		return err
	}
	if err := c.removeStage(ctx, generation.BeforeFlip); err != nil {
		return err
	}
	return c.Store.Unflip()
}

// putStage writes the new generation's host files of a stage.
func (c *change) putStage(ctx context.Context, stage generation.Stage) error {
	for _, h := range c.to.Host {
		if h.Stage != stage {
			continue
		}
		changed, err := c.putOne(ctx, c.to, h)
		if err == nil {
			err = c.reloadUnits(ctx, c.to, h, changed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeStage removes the old generation's host files of a stage that the new one does
// not have.
func (c *change) removeStage(ctx context.Context, stage generation.Stage) error {
	if c.from == nil {
		return nil
	}
	for i := len(c.from.Host) - 1; i >= 0; i-- {
		h := c.from.Host[i]
		if h.Stage != stage || has(c.to, h) {
			continue
		}
		changed, err := c.removeOne(ctx, h)
		if err == nil {
			err = c.reloadUnits(ctx, c.from, h, changed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reloadUnits makes systemd reload its units after the drop-in has changed: if the kubelet
// exits, systemd restarts it as loaded, with paths that must exist.
func (c *change) reloadUnits(ctx context.Context, m *generation.Manifest, h generation.HostFile, changed bool) error {
	if h.Path != m.Layout.DropIn || !changed && !c.again || c.Service.Manager == nil {
		return nil
	}
	return c.Service.Reload(ctx)
}

// state returns the kubelet's state before a restart.
func (c *change) state(ctx context.Context) (service.State, error) {
	if !c.restart || c.Service.Manager == nil {
		return service.State{}, nil
	}
	return c.Service.State(ctx)
}

// restartIfNeeded restarts the kubelet if the change needs it.
func (c *change) restartIfNeeded(ctx context.Context, before service.State) error {
	if !c.restart {
		return nil
	}
	if c.Service.Manager == nil {
		return withHint("restart it by hand", "regcred found no service manager that can restart the kubelet")
	}
	c.restarted = true
	return c.restartKubelet(ctx, before)
}

// cleanUp cleans up after a change. Only the journal, which is removed last, matters.
func (c *change) cleanUp(ctx context.Context) error {
	if c.to == nil {
		return c.clear()
	}
	if err := c.forget(ctx); err != nil {
		c.say("old records of loaded kubelet entries remain: %v", err)
	}
	if err := c.removeStrays(ctx, c.to.Layout.BinDir, c.to); err != nil {
		c.say("a stale link remains: %v", err)
	}
	if err := c.sweep(ctx); err != nil {
		c.say("old generations remain: %v", err)
	}
	return c.end()
}

// sweep removes old generations.
func (c *change) sweep(ctx context.Context) error {
	if c.action != installing {
		return c.Store.Clean()
	}
	return c.Store.Sweep(ctx, c.keep())
}
