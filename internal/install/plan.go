// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/textedit"
)

// Plan describes the changes of an install and their reasons.
type Plan struct {
	From *generation.Manifest // current generation, or nil
	To   *generation.Manifest // next generation; Plan sets its Number only if Reactivate is set

	Reactivate bool // To is an existing generation, and is activated again

	Restart  []string // reasons why the kubelet must be restarted; nil if no restart is needed
	Warnings []string
	Caches   []CacheLimit // providers whose responses the kubelet caches for a shorter time than configured
	Diffs    []FileDiff   // diffs of files on the host, then of files in the generation
	UpToDate bool         // the node already has the desired state

	want   []entries.Entry // entries that the kubelet needs for the providers
	files  []generation.SourceFile
	number int // the number that To will have
}

// CacheLimit describes how long the kubelet caches the responses of a provider.
type CacheLimit struct {
	Provider   string
	Configured time.Duration // the provider's defaultCacheDuration
	Limit      time.Duration // Desired.MaxStale
}

// MoreRuns returns how many times as often the provider's plugin may run because of the limit.
func (c CacheLimit) MoreRuns() int { return int((c.Configured + c.Limit - 1) / c.Limit) }

// cacheLimits returns the providers whose defaultCacheDuration is longer than limit.
func cacheLimits(cfg *config.Config, limit time.Duration) (list []CacheLimit) {
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		if d := p.DefaultCacheDuration; d != nil && limit > 0 && *d > limit {
			list = append(list, CacheLimit{p.Name, *d, limit})
		}
	}
	return list
}

// FileDiff describes a file before and after a change.
type FileDiff struct {
	Name string
	Text string // unified diff; "" if the content is not shown
}

// Plan returns the plan for an install. It returns an error if the install would fail.
func (in *Installer) Plan(ctx context.Context, d DesiredState) (*Plan, error) {
	from, unlinked, err := in.currentForPlan(ctx)
	if err != nil {
		return nil, err
	}
	if err := in.checkAllowed(d, from); err != nil {
		return nil, err
	}
	in.salvaging = from == nil && in.stateDirInUse() == in.Store.Dir // it was removed
	cfg, files, err := in.gatherFiles(ctx, d, from)
	if err != nil {
		return nil, err
	}
	p := &Plan{From: from, To: in.nextManifest(d, from), files: files}
	if p.Warnings, err = in.checkFiles(ctx, d, cfg, files, from); err != nil {
		return nil, err
	}
	if len(cfg.Providers) == 0 {
		p.Warnings = append(p.Warnings, "the configuration has no provider, so the kubelet gets no credentials from regcred")
	}
	p.Caches = cacheLimits(cfg, time.Duration(p.To.MaxStale))
	if p.want, err = in.wantedEntries(ctx, p, cfg); err != nil {
		return nil, err
	}
	// Each step uses results of the previous steps.
	for _, step := range []func(context.Context, *Plan) error{in.planHost, in.planRestart, in.planDiffs, in.planReuse} {
		if err := step(ctx, p); err != nil {
			return nil, err
		}
	}
	if unlinked != nil && !p.Reactivate {
		return nil, unlinked
	}
	if err := in.checkWritable(p); err != nil {
		return p, err
	}
	return p, in.checkPlan(ctx, p)
}

// currentForPlan returns the current generation, or nil if there are no generations. If
// generations exist but none is current, it returns the latest generation and, in unlinked, an
// error that describes the problem.
func (in *Installer) currentForPlan(ctx context.Context) (from *generation.Manifest, unlinked, err error) {
	if from, err = in.currentManifest(ctx); err == nil {
		err = in.checkInterrupted(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	if unlinked = in.checkCurrent(from); unlinked == nil {
		return from, nil, nil
	}
	if from, _ = in.latestReadable(ctx); from == nil {
		return nil, nil, unlinked
	}
	return from, unlinked, nil
}

// checkCurrent returns an error if generations exist but none is current.
func (in *Installer) checkCurrent(current *generation.Manifest) error {
	numbers, err := in.Store.ListNumbers()
	if err != nil || current != nil || len(numbers) == 0 {
		return err
	}
	return withHint(generationsText(numbers)+"; regcred rollback N switches to generation N, and regcred uninstall removes all generations",
		"%s does not exist, so no generation is current", in.fs().HostPath(in.Store.Path("current")))
}

// checkAllowed returns an error if the node does not support an install, or if another owner or
// another state directory is in use.
func (in *Installer) checkAllowed(d DesiredState, from *generation.Manifest) error {
	if err := in.checkSupported(d); err != nil && from == nil {
		return err
	}
	if from != nil && from.Owner != d.Owner {
		return &OwnerError{Generation: from.Number, Owner: from.Owner, Requested: d.Owner}
	}
	if dir := in.stateDirInUse(); from == nil && dir != "" && dir != in.Store.Dir {
		return in.checkOrphaned()
	}
	return nil
}

// nextManifest returns the manifest of the next generation. It keeps the current generation's
// values for settings that d does not specify.
func (in *Installer) nextManifest(d DesiredState, from *generation.Manifest) *generation.Manifest {
	was := from
	if was == nil {
		was = &generation.Manifest{}
	}
	source := cmp.Or(d.Config, was.Source)
	if d.Owner != "" {
		source = "release " + d.Owner // d.Config is a temporary directory in the pod
	}
	m := &generation.Manifest{
		Previous: was.Number, Created: timestamp(), Version: in.Version, Owner: d.Owner, Source: source,
		MaxStale: cmp.Or(generation.Duration(d.MaxStale), was.MaxStale, generation.Duration(generation.DefaultMaxStaleness)),
		Reserve:  d.Reserve, AnyImage: was.AnyImage,
	}
	if d.Reserve == nil {
		m.Reserve = was.Reserve
	}
	if d.AnyImage != nil {
		m.AnyImage = *d.AnyImage
	}
	return m
}

// wantedEntries returns the entries that the kubelet needs for the configured providers.
func (in *Installer) wantedEntries(ctx context.Context, p *Plan, cfg *config.Config) ([]entries.Entry, error) {
	known, err := in.knownEntries(ctx)
	if err != nil {
		return nil, err
	}
	return entries.Derive(cfg.Providers, entries.Options{
		KnownEntries: known, ReservedPatterns: p.To.Reserve, AnyImage: p.To.AnyImage, Target: in.Setup.Target(),
	})
}

// planHost sets the next generation's entries, layout and host files. If the current entries
// already cover the wanted entries, planHost keeps them, so that the kubelet need not be
// restarted.
func (in *Installer) planHost(ctx context.Context, p *Plan) (err error) {
	p.To.Entries = p.want
	// The kubelet would not start without an entry.
	if p.hasSamePatterns() && len(entries.FindGaps(p.From.Entries, p.want)) == 0 || len(p.want) == 0 {
		p.To.Entries = p.From.Entries
	}
	if p.From != nil {
		if done, err := in.keepLayout(ctx, p); done || err != nil {
			return err
		}
	}
	if p.To.Layout, err = in.decideLayout(); err != nil {
		return err
	}
	return in.setHostFiles(ctx, p)
}

// keepLayout keeps the current layout. It returns false if that layout no longer works and
// another one is possible, because the node's flags, files or kubelet version have changed
// since the layout was chosen.
func (in *Installer) keepLayout(ctx context.Context, p *Plan) (done bool, err error) {
	p.To.Layout = p.From.Layout
	err = in.setHostFiles(ctx, p)
	if err == nil && in.layoutWorks(ctx, p) {
		return true, nil
	}
	fresh, layoutErr := in.decideLayout()
	fresh.Dirs = p.From.Layout.Dirs
	return layoutErr != nil || reflect.DeepEqual(fresh, p.From.Layout), err
}

// layoutWorks reports whether the kubelet would start with the planned files, use regcred, and
// run every provider that it runs without regcred.
func (in *Installer) layoutWorks(ctx context.Context, p *Plan) bool {
	c := in.plannedChange(p)
	after, err := c.nextStartAfter(ctx)
	if err != nil || after.Failure != "" || in.flagsProblem(after, p.To.Layout) != "" {
		return false
	}
	lost, err := c.lostProviders(ctx, after)
	return err == nil && len(lost) == 0
}

// plannedChange returns the change that a plan makes.
func (in *Installer) plannedChange(p *Plan) *generationChange {
	c := &generationChange{Installer: in, action: actionInstall, from: p.From, to: p.To, files: p.files, restart: len(p.Restart) > 0}
	if p.Reactivate {
		c.action = actionRollback
	}
	return c
}

// setHostFiles sets the files of the planned layout.
func (in *Installer) setHostFiles(ctx context.Context, p *Plan) (err error) {
	if p.To.Layout.Dirs, err = in.layoutDirs(p.To.Layout); err != nil {
		return err
	}
	p.To.Host, err = in.hostFiles(ctx, p.To)
	return err
}

func (in *Installer) planRestart(ctx context.Context, p *Plan) (err error) {
	p.Restart, err = in.restartReasons(ctx, p.To.Layout, p.want)
	return err
}

func (in *Installer) planDiffs(ctx context.Context, p *Plan) (err error) {
	if p.number, err = in.Store.NextNumber(p.To.Previous); err != nil {
		return err
	}
	p.Diffs, err = in.fileDiffs(ctx, p)
	return err
}

// planReuse checks whether the node is up to date, or whether a generation with the planned
// content exists. It changes the plan accordingly.
func (in *Installer) planReuse(ctx context.Context, p *Plan) error {
	if p.UpToDate = in.isUpToDate(ctx, p); p.UpToDate {
		return nil
	}
	m, restart, err := in.findReusable(ctx, p)
	if err != nil || m == nil {
		return err
	}
	p.To, p.Reactivate, p.Restart, p.number = m, true, restart, m.Number
	p.Diffs, err = in.fileDiffs(ctx, p)
	return err
}

// isUpToDate reports whether the node already has the planned state.
func (in *Installer) isUpToDate(ctx context.Context, p *Plan) bool {
	return len(p.Diffs) == 0 && p.hasSamePatterns() && p.From.MaxStale == p.To.MaxStale &&
		len(in.findDamage(ctx, p.From)) == 0 && !in.hasDeadLinks(p.From) && in.fs().Exists(in.Store.Path("current"))
}

// hasSamePatterns reports whether the --reserve and --any-image settings are the same as in the
// current generation. Only if they have changed, patterns may be removed from the entries.
func (p *Plan) hasSamePatterns() bool {
	return p.From != nil && p.From.AnyImage == p.To.AnyImage && slices.Equal(p.From.Reserve, p.To.Reserve)
}

// restartReasons returns why the running kubelet must be restarted for a layout and entries. It
// returns nil if no restart is needed.
func (in *Installer) restartReasons(ctx context.Context, l generation.KubeletLayout, want []entries.Entry) (why []string, err error) {
	running := in.Setup.Running
	if running == nil {
		return nil, nil
	}
	if f := running.Flags; f != nil && (path.Clean(f.Config) != path.Clean(l.ConfigFlag) || path.Clean(f.BinDir) != path.Clean(l.BinDir)) {
		return []string{"it runs without --image-credential-provider-config=" + l.ConfigFlag + " --image-credential-provider-bin-dir=" + l.BinDir}, nil
	}
	memory, err := in.loadedEntries(ctx)
	if err != nil {
		return nil, err
	}
	return memory.missingEntries(want), nil
}

// fileDiffs returns the diffs of all files that the plan changes.
func (in *Installer) fileDiffs(ctx context.Context, p *Plan) (list []FileDiff, err error) {
	for _, h := range p.To.Host {
		d, err := in.hostFileDiff(ctx, p.From, p.To, h)
		if err != nil {
			return nil, err
		}
		if d.Text != "" {
			list = append(list, d)
		}
	}
	for _, s := range p.files {
		if isUnchanged(s, p.From) {
			continue
		}
		list = append(list, FileDiff{Name: s.Name, Text: p.contentDiff(s)})
	}
	if p.From != nil {
		for _, f := range p.From.Files {
			if !slices.ContainsFunc(p.files, func(s generation.SourceFile) bool { return s.Name == f.Name }) {
				list = append(list, FileDiff{Name: f.Name, Text: fmt.Sprintf("--- generation %d/%s\n+++ /dev/null\n", p.From.Number, f.Name)})
			}
		}
	}
	return list, nil
}

// hostFileDiff returns the diff of a host file. Its Text is "" if the file does not change. It
// returns an error if the file exists and does not belong to regcred.
func (in *Installer) hostFileDiff(ctx context.Context, from, m *generation.Manifest, h generation.HostFile) (d FileDiff, err error) {
	d.Name = in.fs().HostPath(h.Path)
	switch h.Kind {
	case generation.HostKindDir:
		if !in.fs().Exists(h.Path) {
			d.Text = fmt.Sprintf("--- /dev/null\n+++ %s/\n", d.Name)
		}
		return d, nil
	case generation.HostKindLink:
		target, err := in.fs().Readlink(h.Path)
		if err == nil && target == h.Target {
			return d, nil
		}
		if in.fs().Exists(h.Path) && h.Target == in.Store.DispatcherPath() {
			return d, withHint("move the file elsewhere, or rename the provider", "%s already exists and does not belong to regcred", d.Name)
		}
		d.Text = fmt.Sprintf("--- /dev/null\n+++ %s -> %s\n", d.Name, h.Target)
		return d, nil
	}
	_, now, err := in.readResolved(ctx, h.Path)
	next := []byte(h.Content)
	if err == nil && h.Kind == generation.HostKindEntries {
		next, err = in.nextEntries(ctx, h.Path, now, m.Entries)
	}
	_, hinted := errors.AsType[*node.HintError](err)
	switch {
	case err == nil || hinted:
	case h.Kind == generation.HostKindFile && isReplaced(err):
		return d, withHint("move it away", "%w", err)
	case from != nil:
		return d, withHint("fix "+d.Name+"; or regcred uninstall removes regcred and keeps the file as it is", "%w", err)
	}
	if err != nil {
		return d, err
	}
	if h.Kind != generation.HostKindEntries && now != nil && !in.isOwnContent(ctx, h.Path, now) && !in.isFromRemovedState(from, now) {
		return d, withHint("move it away", "%s already exists and differs from regcred's file", d.Name)
	}
	if h.Path == m.Layout.Config { // the configuration may contain secrets of other providers
		now, next = entries.MaskValues(now), entries.MaskValues(next)
	}
	d.Text = textedit.Diff(d.Name, now, next)
	return d, nil
}

// contentDiff returns the diff of a file in the next generation. It shows checksums instead of
// content. For configuration files, which may contain secrets, it shows only the names.
func (p *Plan) contentDiff(s generation.SourceFile) string {
	was := "/dev/null"
	if p.From != nil && slices.ContainsFunc(p.From.Files, func(f generation.File) bool { return f.Name == s.Name }) {
		was = fmt.Sprintf("generation %d/%s", p.From.Number, s.Name)
	}
	text := fmt.Sprintf("--- %s\n+++ generation %d/%s\n", was, p.number, s.Name)
	if path.Dir(s.Name) == path.Dir(generation.ConfigFilePath("x")) {
		return text
	}
	return text + fmt.Sprintf("@@ %s @@\n", s.SHA256)
}

// checkSupported returns an error if the node does not support an install, for example because
// its system reverts changes.
func (in *Installer) checkSupported(d DesiredState) error {
	r := in.Setup.Refusal
	if r == nil || r.Reapplied && d.Reapplied {
		return nil
	}
	return &UnsupportedNodeError{Why: r.Why, Kind: string(in.Setup.Kind)}
}

// UnsupportedNodeError reports that regcred cannot install on a node, for example because the
// node's system reverts changes.
type UnsupportedNodeError struct{ Why, Kind string }

func (e *UnsupportedNodeError) Error() string {
	if e.Kind == string(node.NoKubelet) {
		return "cannot install here: " + e.Why
	}
	return fmt.Sprintf("cannot install on this node (%s): %s", e.Kind, e.Why)
}

// checkWritable returns an error if a planned file cannot be written, or if the state directory
// is mounted noexec or does not have enough free space.
func (in *Installer) checkWritable(p *Plan) error {
	if above := path.Dir(in.Store.Dir); p.From == nil {
		if info, err := in.fs().Stat(above); err != nil {
			return fmt.Errorf("nothing was changed: check the state directory's parent: %w", err)
		} else if !info.IsDir() {
			return fmt.Errorf("nothing was changed: %s is not a directory", in.fs().HostPath(above))
		}
		if err := cmp.Or(in.checkStateDir(), in.checkStateDirPlace()); err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
	}
	dirs := []string{in.Store.Dir}
	for _, h := range p.To.Host {
		dirs = append(dirs, path.Dir(h.Path))
		if err := in.fs().WritableError(h.Path); h.Kind == generation.HostKindEntries && in.fs().Exists(h.Path) && err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
	}
	for _, d := range dirs {
		if err := in.fs().WritableError(in.existingAncestor(d)); err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
	}
	state := in.existingAncestor(in.Store.Dir)
	if in.fs().IsNoExec(state) {
		return withHint("--state-dir selects another directory", "nothing was changed: %s is mounted noexec, so plugins cannot run from there", in.fs().HostPath(state))
	}
	if why := in.Setup.Unit.NoExecReason(in.Store.Dir); why != "" {
		return withHint("--state-dir selects another directory", "nothing was changed: the kubelet could not run plugins in %s: %s", in.fs().HostPath(in.Store.Dir), why)
	}
	needed := uint64(4 << 20) // space for manifests, the journal and the kubelet's directories
	for _, f := range p.files {
		needed += uint64(f.Size)
	}
	if free, err := in.fs().FreeBytes(state); err == nil && !p.Reactivate && free < needed {
		return fmt.Errorf("nothing was changed: %s has %d MiB free, but %d MiB are needed", in.fs().HostPath(state), free>>20, needed>>20)
	}
	return nil
}

// existingAncestor returns dir or its nearest parent directory that exists.
func (in *Installer) existingAncestor(dir string) string {
	for ; dir != "/"; dir = path.Dir(dir) {
		if _, err := in.fs().Stat(dir); err == nil {
			break
		}
	}
	return dir
}
