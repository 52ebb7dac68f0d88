// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/node"
)

// Status describes the state of regcred's installation on a node.
type Status struct {
	Current     *generation.Manifest // nil if there is no current generation or it cannot be read
	Generations []Generation         // in ascending order

	InterruptedChange string   // description of an interrupted change, or ""
	Problems          []string // how the node differs from what was installed
	Restart           []string // reasons why the kubelet must be restarted

	LoadedGeneration int // number of the generation whose entries the running kubelet has probably loaded; 0 if none
}

// Generation describes an installed generation.
type Generation struct {
	Number   int
	Manifest *generation.Manifest // nil if the manifest cannot be read
	Err      error                // why the manifest cannot be read
}

// Status reads the state of the node without taking the lock.
func (in *Installer) Status(ctx context.Context) (*Status, error) {
	s := &Status{}
	numbers, err := in.Store.ListNumbers()
	if err != nil {
		return nil, err
	}
	for _, n := range numbers {
		m, err := in.Store.Manifest(ctx, n)
		s.Generations = append(s.Generations, Generation{n, m, err})
	}
	if j, err := in.readJournal(ctx); err != nil {
		s.addProblem("%v", err)
	} else if j.Action != "" {
		s.InterruptedChange = strings.TrimSuffix(j.String(), ",")
	}
	in.addLeftovers(s)
	if !in.HasState() {
		if e, ok := errors.AsType[*node.HintError](in.checkOrphaned()); ok {
			s.addProblem("%v: %s", e, e.Hint)
		}
	}
	switch s.Current, err = in.currentManifest(ctx); {
	case err != nil:
		s.addProblem("%v", err)
		err = nil
	case s.Current == nil && len(numbers) > 0:
		s.addProblem("%s does not exist, so no generation is current", in.fs().HostPath(in.Store.Path("current")))
	case s.Current != nil:
		err = in.compareNode(ctx, s)
	case s.InterruptedChange == "" && in.HasState():
		s.addProblem("%s: left over from a failed install; regcred uninstall removes it", in.fs().HostPath(in.Store.Dir))
	}
	return s, err
}

// addLeftovers reports temporary files that interrupted changes left in the state directory.
func (in *Installer) addLeftovers(s *Status) {
	for _, dir := range []string{in.Store.Dir, in.Store.Path("generations")} {
		list, _ := in.fs().ReadDir(dir)
		for _, e := range list {
			if inroot.IsTemporary(e.Name()) || generation.IsTemporary(e.Name()) {
				s.addProblem("%s: left over from an interrupted change; the next regcred install, rollback or uninstall removes it", in.fs().HostPath(path.Join(dir, e.Name())))
			}
		}
	}
}

func (s *Status) addProblem(format string, args ...any) {
	s.Problems = append(s.Problems, fmt.Sprintf(format, args...))
}

// compareNode adds to s how the node differs from the current generation, and why the kubelet
// must be restarted.
func (in *Installer) compareNode(ctx context.Context, s *Status) (err error) {
	m := s.Current
	s.Problems = append(s.Problems, in.findDamage(ctx, m)...)
	if err := in.checkStateDirPlace(); err != nil {
		s.addProblem("%v", err)
	}
	for _, name := range in.looseFiles(in.Store.Dir) {
		s.addProblem("%s is writable by other users: run chmod go-w on it", in.fs().HostPath(name))
	}
	for _, h := range m.Host {
		if text := in.compareHostFile(ctx, m, h); text != "" {
			s.addProblem("%s: %s", in.fs().HostPath(h.Path), text)
		}
	}
	if u := in.Setup.Unit; m.Layout.DropIn != "" && u != nil && u.Ours != nil && u.Ours.Stale {
		s.addProblem("%s contains an outdated copy of the ExecStart= command from %s: run regcred install to update it", in.fs().HostPath(m.Layout.DropIn), in.fs().HostPath(u.Exec.File))
	}
	in.compareCopies(ctx, s)
	if err := in.compareNextStart(ctx, s); err != nil {
		return err
	}
	memory, err := in.loadedEntries(ctx)
	if err != nil {
		return err
	}
	if len(memory.candidates) > 0 {
		s.LoadedGeneration = memory.candidates[0].Generation
	}
	s.Restart, err = in.restartReasons(ctx, m.Layout, m.Entries)
	return err
}

// findDamage returns how the files of a generation and its dispatcher differ from what was
// installed. Installing again repairs these differences.
func (in *Installer) findDamage(ctx context.Context, m *generation.Manifest) (list []string) {
	for _, name := range in.Store.ModifiedFiles(ctx, m) {
		fix := "run regcred install"
		if m.Previous > 0 {
			fix = fmt.Sprintf("run regcred rollback %d or regcred install", m.Previous)
		}
		list = append(list, fmt.Sprintf("%s has been changed since it was installed: %s", in.fs().HostPath(name), fix))
	}
	dispatcher := in.Store.DispatcherPath()
	for _, f := range m.Files {
		if f.Name == generation.DispatcherName && in.Store.FileSHA256(ctx, dispatcher) != f.SHA256 {
			list = append(list, fmt.Sprintf("%s does not belong to generation %d: run regcred install again", in.fs().HostPath(dispatcher), m.Number))
		}
	}
	return list
}

// compareHostFile returns how a host file differs from the generation, or "" if it does not.
func (in *Installer) compareHostFile(ctx context.Context, m *generation.Manifest, h generation.HostFile) string {
	if h.Kind == generation.HostKindLink {
		target, err := in.fs().Readlink(h.Path)
		switch _, statErr := in.fs().Stat(h.Path); {
		case inroot.IsMissing(err):
			return "missing"
		case err != nil || target != h.Target:
			return "no longer a link to " + h.Target
		case statErr != nil:
			return "dangling symlink to " + h.Target
		}
		return ""
	}
	now, err := in.readIfExists(ctx, h.Path)
	switch {
	case h.Kind == generation.HostKindDir:
		if _, err := in.fs().Stat(h.Path); err != nil {
			return "missing"
		}
	case err != nil:
		return err.Error()
	case now == nil:
		return "missing"
	case h.Kind == generation.HostKindFile && !in.matchesGeneration(ctx, m, h, now):
		return "changed since it was installed"
	case h.Kind == generation.HostKindEntries:
		switch same, err := in.hasEntries(ctx, h.Path, now, m.Entries); {
		case err != nil:
			return err.Error()
		case !same:
			return "its regcred entries differ from those of generation " + fmt.Sprint(m.Number)
		}
	}
	return ""
}

// compareCopies reports changes in the node's files since regcred copied or linked them.
func (in *Installer) compareCopies(ctx context.Context, s *Status) {
	l := s.Current.Layout
	if l.Kind == generation.ConfigKindCopied {
		fresh, err := in.configFiles(ctx, s.Current)
		for _, h := range fresh {
			if now, err := in.readIfExists(ctx, h.Path); err == nil && now != nil && string(now) != h.Content {
				s.addProblem("%s has changed since it was copied into %s: run regcred install to copy it again", in.fs().HostPath(l.Original), in.fs().HostPath(l.Config))
			}
		}
		if err != nil {
			s.addProblem("%s: %v", in.fs().HostPath(l.Original), err)
		}
	}
	if l.OriginalBinDir == "" {
		return
	}
	names, _ := in.executablesToLink(l)
	for _, name := range names {
		if !in.fs().Exists(path.Join(l.BinDir, name)) {
			s.addProblem("%s was added after %s was created: run regcred install to create the missing link", in.fs().HostPath(path.Join(l.OriginalBinDir, name)), in.fs().HostPath(l.BinDir))
		}
	}
}
