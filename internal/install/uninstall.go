// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/generation"
)

// Uninstall removes everything that regcred installed on the node, also after an interrupted
// change, which it does not finish. If no manifest can be read, it removes the files that it
// recognizes. [Installer.Left] lists what it leaves in place.
func (in *Installer) Uninstall(ctx context.Context, o Options) error {
	if !in.HasState() {
		return in.checkOrphaned()
	}
	unlock, err := in.lockOnly(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	m, interrupted, err := in.uninstallFrom(ctx)
	if err != nil {
		return err
	}
	if len(m.Host) == 0 { // only leftovers of a failed install exist
		return in.removeState()
	}
	if err := in.checkUninstallAllowed(m, o); err != nil {
		return err
	}
	memory, err := in.loadedEntries(ctx)
	if err != nil {
		return err
	}
	var why []string
	if !memory.hasNoEntries() {
		why = []string{"it runs with regcred's entries"}
	}
	if err := checkRestartAllowed(why, o); err != nil {
		return err
	}
	if len(why) > 0 {
		if err := in.checkReadable(ctx, m); err != nil {
			return withHint("fix the file; then run regcred uninstall --restart", "nothing was changed: the kubelet must be restarted, but would not start: %w", err)
		}
	}
	c := &generationChange{Installer: in, action: actionUninstall, from: m, restart: len(why) > 0, resumed: interrupted}
	if !o.Force {
		if err := c.checkNextStart(ctx); err != nil {
			return err
		}
	}
	return c.run(ctx)
}

// checkReadable returns an error if the kubelet cannot read a file with regcred's entries.
func (in *Installer) checkReadable(ctx context.Context, m *generation.Manifest) error {
	for _, h := range m.Host {
		if h.Kind != generation.HostKindEntries {
			continue
		}
		now, err := in.readIfExists(ctx, h.Path)
		if err == nil {
			_, err = in.hasEntries(ctx, h.Path, now, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// uninstallFrom returns a manifest with all host files that must be removed. If the current
// generation is damaged or a change was interrupted, these are the files of several generations
// and the files that are recognized.
func (in *Installer) uninstallFrom(ctx context.Context) (m *generation.Manifest, interrupted bool, err error) {
	current, err := in.currentManifest(ctx)
	if isUnreadable(err) {
		return nil, false, err
	}
	j, journalErr := in.readJournal(ctx)
	if _, damaged := errors.AsType[*damagedFileError](journalErr); journalErr != nil && !damaged {
		return nil, false, journalErr
	}
	interrupted = journalErr != nil || j.Action != ""
	if current != nil && !interrupted {
		return current, false, nil
	}
	all := &generation.Manifest{}
	if current != nil {
		all = new(*current)
	}
	numbers, err := in.Store.ListNumbers()
	if err != nil {
		return nil, false, err
	}
	for _, n := range slices.Backward(numbers) {
		switch m, err := in.Store.Manifest(ctx, n); {
		case isUnreadable(err):
			return nil, false, err
		case err != nil: // damaged
		case all.Number == 0:
			all = m
		default:
			all.Host = addHostFiles(all.Host, m.Host)
		}
	}
	if current == nil {
		in.salvaging = true
		recognized := in.recognizeHostFiles(ctx)
		if all.Number == 0 {
			all.Layout = recognized.Layout
		}
		all.Host = addHostFiles(all.Host, recognized.Host)
	}
	return all, interrupted, in.removeGenerationTempFiles(all)
}

// addHostFiles adds the files of more whose paths list does not contain.
func addHostFiles(list, more []generation.HostFile) []generation.HostFile {
	list = slices.Clip(list)
	for _, h := range more {
		if !slices.ContainsFunc(list, func(o generation.HostFile) bool { return o.Path == h.Path }) {
			list = append(list, h)
		}
	}
	return list
}

// recognizeHostFiles returns a manifest with the host files that are certainly regcred's: drop-ins with
// its header, links to the dispatcher, its configuration, and files with its entries.
func (in *Installer) recognizeHostFiles(ctx context.Context) *generation.Manifest {
	s := in.Setup
	m := &generation.Manifest{Layout: generation.KubeletLayout{ConfigFlag: s.Config.Path, BinDir: s.BinDir.Path}}
	add := func(kind generation.HostKind, name, target string, now []byte, stage generation.InstallStage) {
		m.Host = append(m.Host, generation.HostFile{Kind: kind, Path: name, Target: target, Content: string(now), Mode: 0o644, Stage: stage})
	}
	list, _ := in.fs().ReadDir(s.BinDir.Path)
	for _, e := range list {
		name := path.Join(s.BinDir.Path, e.Name())
		if target, err := in.fs().Readlink(name); err == nil && target == in.Store.DispatcherPath() {
			add(generation.HostKindLink, name, target, nil, generation.StageBeforeActivation)
		}
	}
	for _, config := range []string{s.Config.Path, s.Vendor.Config.Path} {
		if info, err := in.fs().Stat(config); config != "" && err == nil && info.IsDir() {
			config = path.Join(config, ownConfigName)
		}
		if now, err := in.readIfExists(ctx, config); config != "" && err == nil && len(entries.FindNames(now)) > 0 {
			kind := generation.HostKindEntries
			if path.Base(config) == ownConfigName || strings.HasPrefix(config, in.Store.Dir+"/") {
				kind = generation.HostKindFile
			}
			add(kind, config, "", now, generation.StageAfterActivation)
		}
	}
	if s.Unit != nil {
		m.Layout.DropIn = s.Unit.DropIn
	}
	if s.Nodeadm != nil {
		m.Layout.NodeConfig = s.Nodeadm.DropIn
	}
	for _, name := range []string{m.Layout.NodeConfig, m.Layout.DropIn} {
		if now, err := in.readIfExists(ctx, name); err == nil && strings.HasPrefix(string(now), dropInHeader) {
			add(generation.HostKindFile, name, "", now, generation.StageLast)
		}
	}
	return m
}
