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

// Plan is what would be changed, and why. Nothing has been written for it.
type Plan struct {
	From *generation.Manifest // the current generation; nil if there is none
	To   *generation.Manifest // the next; its Number is not known yet unless Former

	Former bool // To is there already: it is the current one, or one from before it

	Restart  []string // why the kubelet has to be restarted for it; nil: it need not be
	Warnings []string // what may not work
	Diffs    []Diff   // of what a person reads, first the node's files and then the generation's
	Nothing  bool     // the node has all this already

	files  []source
	number int // that To will have
}

// Diff is one file before and after.
type Diff struct {
	Name string
	Text string // unified; "" if the content is not shown
}

// Plan makes a plan, and refuses what would not work.
func (in *Installer) Plan(ctx context.Context, w Wish) (*Plan, error) {
	from, err := in.current(ctx)
	if err == nil {
		err = in.unfinished(ctx)
	}
	if err != nil {
		return nil, err
	}
	unlinked := in.unlinked(from)
	if unlinked != nil {
		if from, err = in.latest(ctx); err != nil || from == nil {
			return nil, cmp.Or(err, unlinked)
		}
	}
	if err := in.refused(w); err != nil && from == nil {
		return nil, err
	}
	if err := owned(from, w.Owner); err != nil {
		return nil, err
	}
	if dir := in.stateOfKubelet(); from == nil && dir != "" && dir != in.Store.Dir {
		return nil, in.stranded()
	}
	cfg, files, err := in.gather(ctx, w, from)
	if err != nil {
		return nil, err
	}
	p := &Plan{From: from, files: files, To: &generation.Manifest{
		Previous: numberOf(from), Created: stamp(), Version: in.Version, Source: sourceOf(w), Owner: w.Owner, MaxStale: generation.Duration(w.MaxStale),
		Reserve: w.Reserve,
	}}
	p.inherit(w)
	if p.Warnings, err = in.examine(ctx, w, cfg, files, from); err != nil {
		return nil, err
	}
	if err := in.plan(ctx, p, cfg); err != nil {
		return nil, err
	}
	if unlinked != nil && !p.Former {
		return nil, unlinked
	}
	return p, in.preflight(p)
}

// unlinked is an error if there are generations and none is current.
func (in *Installer) unlinked(current *generation.Manifest) error {
	numbers, err := in.Store.Numbers()
	if err != nil || current != nil || len(numbers) == 0 {
		return err
	}
	return withHint(generationsExist(numbers)+"; regcred rollback N switches to generation N, and regcred uninstall removes all generations",
		"%s does not exist, so no generation is current", in.fs().Host(in.Store.Path("current")))
}

// inherit takes over from the generation before what a wish leaves open.
func (p *Plan) inherit(w Wish) {
	was := p.From
	if was == nil {
		was = &generation.Manifest{}
	}
	p.To.Source = cmp.Or(p.To.Source, was.Source)
	p.To.MaxStale = cmp.Or(p.To.MaxStale, was.MaxStale, generation.Duration(generation.DefaultMaxStale))
	if w.Reserve == nil {
		p.To.Reserve = was.Reserve
	}
	if p.To.AnyImage = was.AnyImage; w.AnyImage != nil {
		p.To.AnyImage = *w.AnyImage
	}
}

// plan decides about entries, host and restart.
func (in *Installer) plan(ctx context.Context, p *Plan, cfg *config.Config) error {
	known, err := in.known(ctx)
	if err != nil {
		return err
	}
	want, err := entries.Derive(cfg.Providers, entries.Options{
		Known: known, Reserve: p.To.Reserve, AnyImage: p.To.AnyImage, Target: in.Setup.Target(),
	})
	if err != nil {
		return err
	}
	// What covers the providers stays as it is: a kubelet need not read it anew.
	if p.To.Entries = want; p.asWide() && len(entries.Uncovered(p.From.Entries, want)) == 0 {
		p.To.Entries = p.From.Entries
	}
	if p.From != nil {
		p.To.Layout = p.From.Layout
	} else if p.To.Layout, err = in.layoutOf(); err != nil {
		return err
	}
	if p.To.Layout.Dirs, err = in.dirs(p.To.Layout); err != nil {
		return err
	}
	if p.To.Host, err = in.hostOf(ctx, p.To); err != nil {
		return err
	}
	if p.Restart, err = in.restartFor(ctx, p.To.Layout, want); err != nil {
		return err
	}
	if err := in.reaches(p); err != nil {
		return err
	}
	if p.number, err = in.Store.Next(p.To.Previous); err != nil {
		return err
	}
	if p.Diffs, err = in.diffs(ctx, p); err != nil {
		return err
	}
	if p.Nothing = in.hasAll(ctx, p); p.Nothing {
		if why := in.astray(p.To.Layout); why != "" && in.blocked(p.To.Layout) == "" {
			p.Warnings = append(p.Warnings, without+why)
		}
		return nil
	}
	return in.orFormer(ctx, p, want)
}

// hasAll reports whether the node has all that is planned.
func (in *Installer) hasAll(ctx context.Context, p *Plan) bool {
	return len(p.Diffs) == 0 && p.asWide() && p.From.MaxStale == p.To.MaxStale &&
		len(in.damage(ctx, p.From)) == 0 && !in.outdated(p.From) && in.fs().Exists(in.Store.Path("current"))
}

// orFormer plans to make a generation current that is there, if it has all that the
// next would have.
func (in *Installer) orFormer(ctx context.Context, p *Plan, want []entries.Entry) error {
	m, restart, err := in.former(ctx, p, want)
	if err != nil || m == nil {
		return err
	}
	p.To, p.Former, p.Restart, p.number = m, true, restart, m.Number
	p.Diffs, err = in.diffs(ctx, p)
	return err
}

// asWide reports whether entries are to have the patterns beside those of providers
// that they have. Only a wish for others makes them narrower.
func (p *Plan) asWide() bool {
	return p.From != nil && p.From.AnyImage == p.To.AnyImage && slices.Equal(p.From.Reserve, p.To.Reserve)
}

// dirs are those made for a layout: before, and now.
func (in *Installer) dirs(l generation.Layout) ([]string, error) {
	more, err := in.newDirs(l)
	if err != nil {
		return nil, err
	}
	for _, d := range more {
		if !slices.Contains(l.Dirs, d) {
			l.Dirs = append(slices.Clip(l.Dirs), d)
		}
	}
	return l.Dirs, nil
}

// restartFor says why the running kubelet does not do with these entries and
// this layout what it should.
func (in *Installer) restartFor(ctx context.Context, l generation.Layout, want []entries.Entry) (why []string, err error) {
	running := in.Setup.Running
	if running == nil {
		return nil, nil
	}
	if f := running.Flags; f != nil && (path.Clean(f.Config) != path.Clean(l.Flag) || path.Clean(f.BinDir) != path.Clean(l.BinDir)) {
		return []string{"it runs without --image-credential-provider-config=" + l.Flag + " --image-credential-provider-bin-dir=" + l.BinDir}, nil
	}
	memory, err := in.memory(ctx)
	if err != nil {
		return nil, err
	}
	return memory.lacks(want), nil
}

// diffs shows what changes.
func (in *Installer) diffs(ctx context.Context, p *Plan) (list []Diff, err error) {
	for _, h := range p.To.Host {
		d, err := in.hostDiff(ctx, p.From, p.To, h)
		if err != nil {
			return nil, err
		}
		if d.Text != "" {
			list = append(list, d)
		}
	}
	for _, s := range p.files {
		if same(s, p.From) {
			continue
		}
		list = append(list, Diff{Name: s.Name, Text: p.contentDiff(s)})
	}
	if p.From != nil {
		for _, f := range p.From.Files {
			if !slices.ContainsFunc(p.files, func(s source) bool { return s.Name == f.Name }) {
				list = append(list, Diff{Name: f.Name, Text: fmt.Sprintf("--- generation %d/%s\n+++ /dev/null\n", p.From.Number, f.Name)})
			}
		}
	}
	return list, nil
}

// hostDiff shows a file of the node.
func (in *Installer) hostDiff(ctx context.Context, from, m *generation.Manifest, h generation.HostFile) (d Diff, err error) {
	d.Name = in.fs().Host(h.Path)
	switch h.Kind {
	case generation.HostDir:
		if !in.fs().Exists(h.Path) {
			d.Text = fmt.Sprintf("--- /dev/null\n+++ %s/\n", d.Name)
		}
		return d, nil
	case generation.HostLink:
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
	name, err := in.target(h.Path)
	if err != nil {
		return d, err
	}
	now, err := in.content(ctx, name)
	if err != nil {
		return d, err
	}
	next := []byte(h.Content)
	if h.Kind == generation.HostEntries {
		if next, err = in.nextEntries(ctx, h.Path, now, m.Entries); err != nil {
			return d, err
		}
	} else if now != nil && !in.mine(ctx, h.Path, now) && !in.removed(from, now) {
		return d, withHint("move it away", "%s already exists and differs from regcred's file", d.Name)
	}
	if h.Path == m.Layout.Config { // it may have secrets of others
		now, next = entries.Masked(now), entries.Masked(next)
	}
	d.Text = textedit.Diff(d.Name, now, next)
	return d, nil
}

// contentDiff shows a file of the next generation. What a configuration has may
// be a secret, so only the names of what changes in it are shown.
func (p *Plan) contentDiff(s source) string {
	was := "/dev/null"
	if p.From != nil && slices.ContainsFunc(p.From.Files, func(f generation.File) bool { return f.Name == s.Name }) {
		was = fmt.Sprintf("generation %d/%s", p.From.Number, s.Name)
	}
	text := fmt.Sprintf("--- %s\n+++ generation %d/%s\n", was, p.number, s.Name)
	if path.Dir(s.Name) == path.Dir(generation.ConfigFile("x")) {
		return text
	}
	return text + fmt.Sprintf("@@ %s @@\n", s.SHA256)
}

// refused says why a node would not keep a change.
func (in *Installer) refused(w Wish) error {
	r := in.Setup.Refusal
	if r == nil || r.Reapplied && w.Reapplied {
		return nil
	}
	return &RefusedError{Why: r.Why, Kind: string(in.Setup.Kind)}
}

// RefusedError means that a node does not keep what is changed on it.
type RefusedError struct{ Why, Kind string }

func (e *RefusedError) Error() string {
	if e.Kind == string(node.NoKubelet) {
		return "cannot install here: " + e.Why
	}
	return fmt.Sprintf("cannot install on this node (%s): %s", e.Kind, e.Why)
}

// preflight refuses what could not be written, before anything is.
func (in *Installer) preflight(p *Plan) error {
	const margin = 4 << 20 // manifests, journal, and what is in the kubelet's directories
	if above := path.Dir(in.Store.Dir); p.From == nil {
		if info, err := in.fs().Stat(above); err != nil {
			return fmt.Errorf("nothing was changed: check the state directory's parent: %w", err)
		} else if !info.IsDir() {
			return fmt.Errorf("nothing was changed: %s is not a directory", in.fs().Host(above))
		}
		if err := in.vacant(); err != nil {
			return err
		}
	}
	dirs := []string{in.Store.Dir}
	for _, h := range p.To.Host {
		dirs = append(dirs, path.Dir(h.Path))
		if err := in.fs().Refusal(h.Path); h.Kind == generation.HostEntries && in.fs().Exists(h.Path) && err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
	}
	for _, d := range dirs {
		there := in.existing(d)
		if err := in.fs().Refusal(there); err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
	}
	state := in.existing(in.Store.Dir)
	if in.fs().NoExec(state) {
		return withHint("--state-dir selects another directory", "nothing was changed: %s is mounted noexec, so plugins cannot run from there", in.fs().Host(state))
	}
	if free, err := in.fs().Free(state); err == nil && !p.Former && free < size(p.files)+margin {
		return fmt.Errorf("nothing was changed: %s has %d MiB free, but %d MiB are needed", in.fs().Host(state), free>>20, (size(p.files)+margin)>>20)
	}
	return nil
}

// existing is a directory, or the first above it that is there.
func (in *Installer) existing(dir string) string {
	for ; dir != "/"; dir = path.Dir(dir) {
		if _, err := in.fs().Stat(dir); err == nil {
			break
		}
	}
	return dir
}
