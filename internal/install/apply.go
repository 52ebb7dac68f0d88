// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/service"
)

// applyChange makes the generation c.to current and updates the host files. If c.to is nil, it
// removes everything. The kubelet may start after any step.
func (c *generationChange) applyChange(ctx context.Context) error {
	if c.to == nil {
		return c.removeAll(ctx)
	}
	before, err := c.kubeletState(ctx)
	if err != nil {
		return err
	}
	number := c.to.Number
	useDispatcher := func() error { return c.Store.InstallDispatcher(number) }
	first, last := useDispatcher, func() error { return nil }
	if number <= generationNumber(c.from) {
		first, last = last, first
	}
	return inOrder(
		first,
		func() error { return c.putStage(ctx, generation.StageBeforeActivation) },
		func() error { return c.Store.Activate(number) },
		func() error { return c.recordEntries(ctx, c.to) },
		func() error { return c.putStage(ctx, generation.StageAfterActivation) },
		func() error { return c.putStage(ctx, generation.StageLast) },
		func() error { return c.removeStageFiles(ctx, generation.StageLast) },
		func() error { return c.removeStageFiles(ctx, generation.StageAfterActivation) },
		last,
		func() error { return c.restartIfNeeded(ctx, before) },
	)
}

// inOrder runs steps until one fails.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// removeAll removes everything from the host. It first removes the settings that make the
// kubelet use regcred. It removes the links to the dispatcher last, because a running kubelet
// may still use them.
func (c *generationChange) removeAll(ctx context.Context) error {
	before, err := c.kubeletState(ctx)
	if err != nil {
		return err
	}
	return inOrder(
		func() error { return c.removeStageFiles(ctx, generation.StageLast) },
		func() error { return c.removeNodeadmFlags(ctx, c.from.Layout) },
		func() error { return c.recordRemoval(ctx) },
		func() error { return c.removeStageFiles(ctx, generation.StageAfterActivation) },
		func() error { return c.restartIfNeeded(ctx, before) },
		func() error { return c.removeStrayLinks(ctx, c.from.Layout.BinDir, nil) },
		func() error { return c.removeStageFiles(ctx, generation.StageBeforeActivation) },
		c.Store.Deactivate,
	)
}

// stageOf returns the stage of a change in which a generation's host file is written or removed.
// A link to the node's own configuration file is part of the kubelet's configuration. Manifests
// do not state a stage for links.
func stageOf(m *generation.Manifest, h generation.HostFile) generation.InstallStage {
	if h.Kind == generation.HostKindLink && path.Dir(h.Path) != path.Clean(m.Layout.BinDir) {
		return generation.StageAfterActivation
	}
	return h.Stage
}

// putStage writes the host files of c.to that belong to the given stage.
func (c *generationChange) putStage(ctx context.Context, stage generation.InstallStage) error {
	for _, h := range c.to.Host {
		if stageOf(c.to, h) != stage {
			continue
		}
		changed, err := c.putHostFile(ctx, c.to, h)
		if err == nil {
			err = c.reloadUnits(ctx, c.to, h, changed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeStageFiles removes the host files of c.from that belong to the given stage, except files
// that c.to also has.
func (c *generationChange) removeStageFiles(ctx context.Context, stage generation.InstallStage) error {
	if c.from == nil {
		return nil
	}
	for i := len(c.from.Host) - 1; i >= 0; i-- {
		h := c.from.Host[i]
		if stageOf(c.from, h) != stage || hasHostFile(c.to, h) {
			continue
		}
		changed, err := c.removeHostFile(ctx, h)
		if err == nil {
			err = c.reloadUnits(ctx, c.from, h, changed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reloadUnits makes systemd reload its units if h is the drop-in and has changed. If the
// kubelet exits, systemd restarts it with the loaded unit, so the paths in that unit must
// exist.
func (c *generationChange) reloadUnits(ctx context.Context, m *generation.Manifest, h generation.HostFile, changed bool) error {
	if h.Path != m.Layout.DropIn || !changed && !c.resumed || c.Service.Manager == nil {
		return nil
	}
	return c.Service.Reload(ctx)
}

// kubeletState returns the kubelet's state before the restart. It returns the zero value if the
// change does not restart the kubelet.
func (c *generationChange) kubeletState(ctx context.Context) (service.State, error) {
	if !c.restart || c.Service.Manager == nil {
		return service.State{}, nil
	}
	return c.Service.State(ctx)
}

// restartIfNeeded restarts the kubelet if the change requires it, and waits until it is
// healthy.
func (c *generationChange) restartIfNeeded(ctx context.Context, before service.State) error {
	if !c.restart {
		return nil
	}
	if c.Service.Manager == nil {
		return withHint("restart it by hand", "regcred found no service manager that can restart the kubelet")
	}
	c.restarted = true
	c.progressf("restarting %s", c.Service.Name)
	if err := c.Service.Reload(ctx); err != nil {
		return err
	}
	if err := c.Service.Restart(ctx); err != nil {
		return err
	}
	c.progressf("waiting for the kubelet to become healthy")
	_, err := c.Service.WaitHealthy(ctx, before, c.Criteria)
	return err
}

// cleanUp removes leftovers of a change, and finally the journal. It returns an error only if
// it cannot remove the journal. It reports other errors as progress.
func (c *generationChange) cleanUp(ctx context.Context) error {
	if c.to == nil {
		return c.removeState()
	}
	if err := c.dropOldRecords(ctx); err != nil {
		c.progressf("old records of loaded kubelet entries remain: %v", err)
	}
	if err := errors.Join(c.removeStrayLinks(ctx, c.to.Layout.BinDir, c.to), c.removeFormerBinDir(ctx)); err != nil {
		c.progressf("a stale link remains: %v", err)
	}
	remove := c.Store.RemoveLeftovers
	if c.action == actionInstall {
		remove = func() error { return c.Store.RemoveOld(ctx, cmp.Or(c.Keep, 5)) }
	}
	if err := remove(); err != nil {
		c.progressf("old generations remain: %v", err)
	}
	if err := c.createReserve(); err != nil {
		c.progressf("a rollback may fail on a full disk, because no space was reserved: %v", err)
	}
	return c.removeJournal()
}

// removeFormerBinDir removes the old generation's links if the kubelet has moved to another bin
// dir.
func (c *generationChange) removeFormerBinDir(ctx context.Context) error {
	if c.from == nil || c.from.Layout.BinDir == c.to.Layout.BinDir {
		return nil
	}
	if k := c.Setup.Running; k != nil && (k.Flags == nil || path.Clean(k.Flags.BinDir) == path.Clean(c.from.Layout.BinDir)) {
		return nil // the running kubelet may still use them
	}
	return c.removeStageFiles(ctx, generation.StageBeforeActivation)
}

// probePull runs the test pull, if one is configured.
func (in *Installer) probePull(ctx context.Context) error {
	if in.Probe == nil {
		return nil
	}
	in.progressf("waiting for a test pull")
	limit := in.Criteria.TimeoutOrDefault()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("timed out after %v: %w", limit, context.DeadlineExceeded))
	defer cancel()
	err := in.Probe(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		return fmt.Errorf("the test pull failed: %w", err)
	}
	return nil
}
