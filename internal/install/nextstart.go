// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/service"
)

// nextStart returns what the kubelet does at its next start with the node's current files.
func (in *Installer) nextStart(ctx context.Context) (*node.NextStart, error) {
	n := node.Node{Root: in.fs().Root, Overlay: in.fs().Overlay}
	return n.NewReader().NextStart(ctx, in.Setup.Target())
}

// nextStartAfter returns what the kubelet would do at its next start after a change. It makes
// the change in an overlay, with the same steps as the real change.
func (c *generationChange) nextStartAfter(ctx context.Context) (*node.NextStart, error) {
	in := *c.Installer
	in.Store.FS.Overlay, in.Store.FS.BeforeStep = inroot.NewOverlay(), nil
	in.Service, in.ReadSetup, in.Probe, in.Progress = service.Service{}, nil, nil, nil
	in.Now = func() (generation.BootTime, error) { return generation.BootTime{}, nil }
	planned := &generationChange{Installer: &in, action: c.action, from: c.from, to: c.to}
	err := planned.createPlaceholder()
	if err == nil {
		err = planned.applyChange(ctx)
	}
	if err == nil && c.to == nil {
		err = in.removeState()
	}
	if err != nil {
		return nil, err
	}
	return in.nextStart(ctx)
}

// createPlaceholder creates a generation of an install without most of its content, which is
// not needed to determine what the kubelet does.
func (c *generationChange) createPlaceholder() error {
	if c.action != actionInstall {
		return nil
	}
	dir := c.Store.GenerationPath(c.to.Number)
	for _, d := range []string{c.Store.Dir, path.Dir(dir), dir} {
		if err := c.fs().Mkdir(d, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return c.fs().WriteFile(path.Join(dir, generation.DispatcherName), strings.NewReader(""), inroot.FileAttr{Mode: 0o755})
}

// withoutRegcred returns what the kubelet would do at its next start if regcred were
// uninstalled. The parameter is the current generation, or nil.
func (in *Installer) withoutRegcred(ctx context.Context, current *generation.Manifest) (start *node.NextStart, err error) {
	if current == nil {
		start, err = in.nextStart(ctx)
	} else {
		start, err = (&generationChange{Installer: in, action: actionUninstall, from: current}).nextStartAfter(ctx)
	}
	if err != nil {
		return nil, err
	}
	// Entries remain if no generation is current, for example because it is damaged.
	start.Providers = slices.DeleteFunc(start.Providers, func(p node.NextProvider) bool { return in.isDispatcher(p.Executable) })
	return start, nil
}

// isDispatcher reports whether an executable is regcred's dispatcher.
func (in *Installer) isDispatcher(executable string) bool {
	real, err := in.fs().EvalSymlinks(in.Store.DispatcherPath())
	return err == nil && executable == real
}

// checkPlan checks what the kubelet would do after an install. It returns an error if the
// kubelet would not start, not use regcred, or not run the node's other providers. If nothing
// would be restarted, regcred not being used is only a warning.
func (in *Installer) checkPlan(ctx context.Context, p *Plan) error {
	c := in.plannedChange(p)
	after, err := in.nextStart(ctx)
	if !p.UpToDate {
		after, err = c.nextStartAfter(ctx)
	}
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	switch why := in.flagsProblem(after, p.To.Layout); {
	case why == "":
	case p.From == nil || len(p.Restart) > 0:
		return withHint("fix the cause, or run regcred uninstall --restart and then regcred install", "nothing was changed: after a restart, the kubelet would not use regcred: %s", why)
	default:
		p.Warnings = append(p.Warnings, flagsNotUsedWarning+why)
	}
	if p.UpToDate {
		return nil
	}
	return c.compareWithNow(ctx, after)
}

// checkNextStart checks what the kubelet would do after a rollback or an uninstall.
func (c *generationChange) checkNextStart(ctx context.Context) error {
	after, err := c.nextStartAfter(ctx)
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	return c.compareWithNow(ctx, after)
}

// compareWithNow returns an error if the kubelet would start now, but not after the change, or
// if it would run a provider now that it would run after an uninstall too, but not after the
// change.
func (c *generationChange) compareWithNow(ctx context.Context, after *node.NextStart) error {
	before, err := c.nextStart(ctx)
	if err != nil {
		return err
	}
	if after.Failure != "" && before.Failure == "" {
		return &NextStartError{"would not start: " + after.Failure, c.to == nil}
	}
	if c.to == nil || after.Failure != "" {
		return nil
	}
	lost, err := c.lostProviders(ctx, after)
	if err != nil || len(lost) == 0 {
		return err
	}
	stillRuns := func(p node.NextProvider) bool { return runsProvider(before, p) }
	if i := slices.IndexFunc(lost, stillRuns); i >= 0 {
		return &NextStartError{fmt.Sprintf("would no longer run provider %q of %s:%d", lost[i].Name, lost[i].File, lost[i].Line), false}
	}
	return nil
}

// lostProviders returns the providers that the kubelet would run without regcred, and does not
// run at the given start.
func (c *generationChange) lostProviders(ctx context.Context, start *node.NextStart) (lost []node.NextProvider, err error) {
	vendor, err := c.withoutRegcred(ctx, c.from)
	if err != nil || vendor.Failure != "" {
		return nil, err
	}
	return missingProviders(vendor, start), nil
}

// missingProviders returns the providers of a start that another start does not have.
func missingProviders(want, have *node.NextStart) (missing []node.NextProvider) {
	for _, p := range want.Providers {
		if !runsProvider(have, p) {
			missing = append(missing, p)
		}
	}
	return missing
}

// runsProvider reports whether a start has a provider with the same settings and executable.
func runsProvider(start *node.NextStart, p node.NextProvider) bool {
	return slices.ContainsFunc(start.Providers, func(o node.NextProvider) bool {
		return o.Executable == p.Executable && o.Provider.Equal(&p.Provider)
	})
}

// NextStartError is returned if a change would break the kubelet's next start.
type NextStartError struct {
	Effect    string // "would not start: …", or "would no longer run provider …"
	Uninstall bool   // the change is an uninstall
}

func (e *NextStartError) Error() string {
	return "nothing was changed: after this change, the kubelet " + e.Effect
}

// Hint returns how to continue.
func (e *NextStartError) Hint() string {
	if e.Uninstall {
		return "fix that file or remove both kubelet flags, and try again; --force uninstalls anyway"
	}
	return "fix the cause, or run regcred install, which adapts regcred to the node's current flags and files"
}

// compareNextStart reports what keeps the kubelet from starting, and third-party providers
// that it would not run because of regcred.
func (in *Installer) compareNextStart(ctx context.Context, s *Status) error {
	next, err := in.nextStart(ctx)
	if err != nil {
		return err
	}
	if why := in.flagsProblem(next, s.Current.Layout); why != "" {
		s.addProblem("%s", flagsNotUsedWarning+why)
	}
	if next.Failure != "" {
		s.addProblem("the kubelet would not start: %s", next.Failure)
		return nil
	}
	vendor, err := in.withoutRegcred(ctx, s.Current)
	if err != nil {
		s.addProblem("regcred cannot determine which providers this node has without regcred: %v", err)
		return nil
	}
	for _, p := range missingProviders(vendor, next) {
		s.addProblem("after its next start, the kubelet would not run provider %q of %s:%d%s: run regcred install to include it", p.Name, p.File, p.Line, in.overriddenText(vendor, next))
	}
	return nil
}

// overriddenText describes the first flag of a start that another start overrides, or returns "".
func (in *Installer) overriddenText(vendor, next *node.NextStart) string {
	for _, f := range []struct {
		name         string
		vendor, next node.Flag
	}{{"--image-credential-provider-config", vendor.Config, next.Config}, {"--image-credential-provider-bin-dir", vendor.BinDir, next.BinDir}} {
		if n := len(f.vendor.Given); n > 0 && f.vendor.Path != f.next.Path {
			at := f.vendor.Given[n-1]
			return fmt.Sprintf(", because regcred's drop-in overrides %s=%s of %s:%d", f.name, f.vendor.Path, in.fs().HostPath(at.File), at.Line)
		}
	}
	return ""
}
