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

	"github.com/regcred/regcred/internal/entries"
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
	if c.restart { // the kubelet that runs now does not keep the cleanup from removing its files
		setup := *in.Setup
		setup.Running, in.Setup = nil, &setup
	}
	planned := &generationChange{Installer: &in, action: c.action, from: c.from, to: c.to}
	steps := func(change func(context.Context) error) func() error { return func() error { return change(ctx) } }
	if err := inOrder(planned.createPlaceholder, steps(planned.applyChange), steps(planned.cleanUp)); err != nil {
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
	start.Failures = slices.DeleteFunc(start.Failures, func(f node.StartFailure) bool { return entries.IsOwnName(f.Provider) })
	return start, nil
}

// isDispatcher reports whether an executable is regcred's dispatcher.
func (in *Installer) isDispatcher(executable string) bool {
	real, err := in.fs().EvalSymlinks(in.Store.DispatcherPath())
	return err == nil && executable == real
}

// checkPlan checks what the kubelet would do after an install.
func (in *Installer) checkPlan(ctx context.Context, p *Plan) error {
	c := in.plannedChange(p)
	c.upToDate = p.UpToDate
	warnings, err := c.checkNextStart(ctx)
	p.Warnings = append(p.Warnings, warnings...)
	return err
}

// checkNextStart checks what the kubelet would do after a change. It returns an error if the change
// makes the kubelet's next start worse: if the kubelet would not start, not use regcred, or not run
// another provider. It returns warnings if that is so already, because the change may be a step to
// fix it.
func (c *generationChange) checkNextStart(ctx context.Context) (warnings []string, err error) {
	before, err := c.nextStart(ctx)
	if err != nil {
		return nil, err
	}
	after := before
	if !c.upToDate {
		if after, err = c.nextStartAfter(ctx); err != nil {
			return nil, c.withAdvice(fmt.Errorf("nothing was changed: %w", err))
		}
	}
	if failures := after.NewFailures(before); len(failures) > 0 {
		return nil, &NextStartError{"would not start: " + node.FailuresText(failures), c.action}
	}
	if c.to != nil {
		if warnings, err = c.compareProviders(ctx, before, after); err != nil {
			return nil, err
		}
	}
	if len(after.Failures) > 0 {
		warnings = append(warnings, "the kubelet would not start, with or without this change: "+node.FailuresText(after.Failures))
	}
	return warnings, nil
}

// compareProviders compares which providers the kubelet runs before and after a change.
func (c *generationChange) compareProviders(ctx context.Context, before, after *node.NextStart) (warnings []string, err error) {
	if why := c.flagsProblem(after, c.to.Layout); why != "" {
		first := c.from == nil && c.action == actionInstall
		if first || c.restart || c.from != nil && c.flagsProblem(before, c.from.Layout) == "" {
			return nil, &NextStartError{"would not use regcred: " + why, c.action}
		}
		warnings = append(warnings, flagsNotUsedWarning+why)
	}
	if len(after.Failures) > 0 {
		return warnings, nil
	}
	vendor, err := c.withoutRegcred(ctx, c.from)
	if err != nil {
		return warnings, nil // status reports it
	}
	for _, p := range missingProviders(vendor, after) {
		if len(vendor.Failures) == 0 && runsProvider(before, p) {
			return nil, &NextStartError{fmt.Sprintf("would no longer run provider %q of %s:%d", p.Name, p.File, p.Line), c.action}
		}
		warnings = append(warnings, c.missingText(p, vendor, after))
	}
	return warnings, nil
}

// withAdvice adds a hint to an error without one.
func (c *generationChange) withAdvice(err error) error {
	if _, hinted := errors.AsType[*node.HintError](err); hinted {
		return err
	}
	return &node.HintError{Err: err, Hint: (&NextStartError{action: c.action}).Hint()}
}

// lostProviders returns the providers that the kubelet would run without regcred, and does not
// run at the given start.
func (c *generationChange) lostProviders(ctx context.Context, start *node.NextStart) (lost []node.NextProvider, err error) {
	vendor, err := c.withoutRegcred(ctx, c.from)
	if err != nil || len(vendor.Failures) > 0 {
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
	Effect string // "would not start: …", "would not use regcred: …" or "would no longer run provider …"
	action changeAction
}

func (e *NextStartError) Error() string {
	return "nothing was changed: after this change, the kubelet " + e.Effect
}

// Hint returns how to continue.
func (e *NextStartError) Hint() string {
	switch e.action {
	case actionUninstall:
		return "fix that file or remove both kubelet flags, and try again; --force uninstalls anyway"
	case actionInstall:
		return "fix the cause, or run regcred uninstall --restart and then regcred install"
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
	if len(next.Failures) > 0 {
		s.addProblem("the kubelet would not start: %s", node.FailuresText(next.Failures))
		return nil
	}
	vendor, err := in.withoutRegcred(ctx, s.Current)
	if err != nil {
		s.addProblem("regcred cannot determine which providers this node has without regcred: %v", err)
		return nil
	}
	for _, p := range missingProviders(vendor, next) {
		text := in.missingText(p, vendor, next)
		if len(vendor.Failures) == 0 {
			text += ": run regcred install to include it"
		}
		s.addProblem("%s", text)
	}
	return nil
}

// missingText describes a provider that the kubelet would run without regcred, but not at its next
// start.
func (in *Installer) missingText(p node.NextProvider, vendor, next *node.NextStart) string {
	text := fmt.Sprintf("after its next start, the kubelet would not run provider %q of %s:%d%s", p.Name, p.File, p.Line, in.overriddenText(vendor, next))
	if len(vendor.Failures) > 0 {
		text += ": regcred install cannot include it, because the kubelet would then not start: " + node.FailuresText(vendor.Failures) + "; fix this, then run regcred install"
	}
	return text
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
