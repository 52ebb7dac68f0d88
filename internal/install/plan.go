// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/textedit"
)

// Plan lists the changes of an install and their reasons.
type Plan struct {
	From *generation.Manifest // the current generation, or nil
	To   *generation.Manifest // next generation; its Number is not known yet unless Reactivate is set

	Reactivate bool // To already exists: it is the current or an earlier generation

	Restart  []string // why the kubelet must be restarted; nil if no restart is needed
	Warnings []string
	Diffs    []FileDiff // diffs of the node's files, then of the generation's
	UpToDate bool       // the node is up to date

	want   []entries.Entry // entries that the providers need
	files  []generation.NewFile
	number int // number that To will get
}

// FileDiff describes a file before and after a change.
type FileDiff struct {
	Name string
	Text string // unified diff; "" if the content is not shown
}

// Plan plans an install. It returns an error if the install would fail.
func (in *Installer) Plan(ctx context.Context, d Desired) (*Plan, error) {
	from, unlinked, err := in.currentForPlan(ctx)
	if err != nil {
		return nil, err
	}
	if err := in.checkAllowed(d, from); err != nil {
		return nil, err
	}
	cfg, files, err := in.gatherFiles(ctx, d, from)
	if err != nil {
		return nil, err
	}
	p := &Plan{From: from, To: in.nextManifest(d, from), files: files}
	if p.Warnings, err = in.checkFiles(ctx, d, cfg, files, from); err != nil {
		return nil, err
	}
	if p.want, err = in.wantedEntries(ctx, p, cfg); err != nil {
		return nil, err
	}
	// Each step uses what the previous steps have set.
	for _, step := range []func(context.Context, *Plan) error{in.planHost, in.planRestart, in.planDiffs, in.planReuse} {
		if err := step(ctx, p); err != nil {
			return nil, err
		}
	}
	if unlinked != nil && !p.Reactivate {
		return nil, unlinked
	}
	return p, in.checkWritable(p)
}

// currentForPlan returns the current generation, or nil. If generations exist and none is
// current, it returns the latest one and an error for that.
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

// checkAllowed returns an error if this node or another owner forbids an install.
func (in *Installer) checkAllowed(d Desired, from *generation.Manifest) error {
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

// nextManifest returns a manifest with what is desired. Other settings are
// those of the current generation.
func (in *Installer) nextManifest(d Desired, from *generation.Manifest) *generation.Manifest {
	was := from
	if was == nil {
		was = &generation.Manifest{}
	}
	source := cmp.Or(d.Config, was.Source)
	if d.Owner != "" {
		source = "release " + d.Owner // the pod's directory is only temporary
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

// wantedEntries returns the entries that the providers need.
func (in *Installer) wantedEntries(ctx context.Context, p *Plan, cfg *config.Config) ([]entries.Entry, error) {
	known, err := in.knownEntries(ctx)
	if err != nil {
		return nil, err
	}
	return entries.Derive(cfg.Providers, entries.Options{
		Known: known, Reserve: p.To.Reserve, AnyImage: p.To.AnyImage, Target: in.Setup.Target(),
	})
}

// planHost sets the next generation's entries, layout and host files. It keeps the current
// entries if they cover the wanted ones, so that the kubelet need not be restarted.
func (in *Installer) planHost(ctx context.Context, p *Plan) (err error) {
	p.To.Entries = p.want
	if p.hasSamePatterns() && len(entries.FindGaps(p.From.Entries, p.want)) == 0 {
		p.To.Entries = p.From.Entries
	}
	if p.From != nil {
		p.To.Layout = p.From.Layout
	} else if p.To.Layout, err = in.decideLayout(); err != nil {
		return err
	}
	if p.To.Layout.Dirs, err = in.layoutDirs(p.To.Layout); err != nil {
		return err
	}
	p.To.Host, err = in.hostFiles(ctx, p.To)
	return err
}

func (in *Installer) planRestart(ctx context.Context, p *Plan) (err error) {
	if p.Restart, err = in.restartReasons(ctx, p.To.Layout, p.want); err != nil {
		return err
	}
	return in.checkFlags(p)
}

func (in *Installer) planDiffs(ctx context.Context, p *Plan) (err error) {
	if p.number, err = in.Store.NextNumber(p.To.Previous); err != nil {
		return err
	}
	p.Diffs, err = in.fileDiffs(ctx, p)
	return err
}

// planReuse changes the plan if the node is up to date, or if a generation with the
// planned content exists.
func (in *Installer) planReuse(ctx context.Context, p *Plan) error {
	if p.UpToDate = in.isUpToDate(ctx, p); p.UpToDate {
		if why := in.flagsProblem(p.To.Layout); why != "" && in.dropInProblem(p.To.Layout) == "" {
			p.Warnings = append(p.Warnings, flagsNotUsedWarning+why)
		}
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

// isUpToDate reports whether the node already has everything that is planned.
func (in *Installer) isUpToDate(ctx context.Context, p *Plan) bool {
	return len(p.Diffs) == 0 && p.hasSamePatterns() && p.From.MaxStale == p.To.MaxStale &&
		len(in.findDamage(ctx, p.From)) == 0 && !in.hasDeadLinks(p.From) && in.fs().Exists(in.Store.Path("current"))
}

// hasSamePatterns reports whether --reserve and --any-image are the same as in the
// current generation. Patterns are removed from entries only if they change.
func (p *Plan) hasSamePatterns() bool {
	return p.From != nil && p.From.AnyImage == p.To.AnyImage && slices.Equal(p.From.Reserve, p.To.Reserve)
}

// restartReasons returns why the running kubelet must be restarted for the given
// entries and layout.
func (in *Installer) restartReasons(ctx context.Context, l generation.KubeletLayout, want []entries.Entry) (why []string, err error) {
	running := in.Setup.Running
	if running == nil {
		return nil, nil
	}
	if f := running.Flags; f != nil && (path.Clean(f.Config) != path.Clean(l.Flag) || path.Clean(f.BinDir) != path.Clean(l.BinDir)) {
		return []string{"it runs without --image-credential-provider-config=" + l.Flag + " --image-credential-provider-bin-dir=" + l.BinDir}, nil
	}
	memory, err := in.kubeletMemory(ctx)
	if err != nil {
		return nil, err
	}
	return memory.missingEntries(want), nil
}

// fileDiffs returns the diffs of all files.
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
			if !slices.ContainsFunc(p.files, func(s generation.NewFile) bool { return s.Name == f.Name }) {
				list = append(list, FileDiff{Name: f.Name, Text: fmt.Sprintf("--- generation %d/%s\n+++ /dev/null\n", p.From.Number, f.Name)})
			}
		}
	}
	return list, nil
}

// hostFileDiff returns the diff of a host file.
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
	_, now, err := in.read(ctx, h.Path)
	if err != nil {
		return d, err
	}
	next := []byte(h.Content)
	if h.Kind == generation.HostKindEntries {
		if next, err = in.nextEntries(ctx, h.Path, now, m.Entries); err != nil {
			return d, err
		}
	} else if now != nil && !in.isWritten(ctx, h.Path, now) && !in.isFromRemovedState(from, now) {
		return d, withHint("move it away", "%s already exists and differs from regcred's file", d.Name)
	}
	if h.Path == m.Layout.Config { // it may contain third-party secrets
		now, next = entries.MaskValues(now), entries.MaskValues(next)
	}
	d.Text = textedit.Diff(d.Name, now, next)
	return d, nil
}

// contentDiff returns the diff of a file in the next generation. It does not show the
// content of a configuration, which may contain secrets.
func (p *Plan) contentDiff(s generation.NewFile) string {
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

// checkSupported returns an error if the node's system reverts changes.
func (in *Installer) checkSupported(d Desired) error {
	r := in.Setup.Refusal
	if r == nil || r.Reapplied && d.Reapplied {
		return nil
	}
	return &UnsupportedNodeError{Why: r.Why, Kind: string(in.Setup.Kind)}
}

// UnsupportedNodeError is returned if the node's system reverts changes.
type UnsupportedNodeError struct{ Why, Kind string }

func (e *UnsupportedNodeError) Error() string {
	if e.Kind == string(node.NoKubelet) {
		return "cannot install here: " + e.Why
	}
	return fmt.Sprintf("cannot install on this node (%s): %s", e.Kind, e.Why)
}

// checkWritable returns an error if a file cannot be written.
func (in *Installer) checkWritable(p *Plan) error {
	if above := path.Dir(in.Store.Dir); p.From == nil {
		if info, err := in.fs().Stat(above); err != nil {
			return fmt.Errorf("nothing was changed: check the state directory's parent: %w", err)
		} else if !info.IsDir() {
			return fmt.Errorf("nothing was changed: %s is not a directory", in.fs().HostPath(above))
		}
		if err := in.checkStateDir(); err != nil {
			return err
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
	needed := uint64(4 << 20) // for manifests, the journal and the kubelet's directories
	for _, f := range p.files {
		needed += uint64(f.Size)
	}
	if free, err := in.fs().FreeBytes(state); err == nil && !p.Reactivate && free < needed {
		return fmt.Errorf("nothing was changed: %s has %d MiB free, but %d MiB are needed", in.fs().HostPath(state), free>>20, needed>>20)
	}
	return nil
}

// existingAncestor returns a directory or its nearest existing parent.
func (in *Installer) existingAncestor(dir string) string {
	for ; dir != "/"; dir = path.Dir(dir) {
		if _, err := in.fs().Stat(dir); err == nil {
			break
		}
	}
	return dir
}
