// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/textfmt"
)

// putHostFile writes a host file unless it is up to date. It reports whether it wrote the file.
func (in *Installer) putHostFile(ctx context.Context, m *generation.Manifest, h generation.HostFile) (changed bool, err error) {
	switch h.Kind {
	case generation.HostKindDir:
		if err := in.fs().Mkdir(h.Path, h.Mode); !errors.Is(err, fs.ErrExist) {
			return true, err
		}
		return false, nil
	case generation.HostKindLink:
		return in.putLink(h)
	case generation.HostKindFile:
		return in.putFile(ctx, h)
	case generation.HostKindEntries:
		return in.putEntries(ctx, h, m.Entries)
	}
	return false, fmt.Errorf("%s: unsupported kind of file %q", h.Path, h.Kind)
}

func (in *Installer) putLink(h generation.HostFile) (changed bool, err error) {
	if target, err := in.fs().Readlink(h.Path); err == nil && target == h.Target {
		return false, nil
	}
	if in.fs().Exists(h.Path) {
		if err := in.saveModified(h.Path); err != nil {
			return false, err
		}
	}
	return true, in.fs().Symlink(h.Target, h.Path)
}

// putFile writes a file that only regcred should change. If another program has changed the
// file, putFile first renames the changed file.
func (in *Installer) putFile(ctx context.Context, h generation.HostFile) (changed bool, err error) {
	name, now, err := in.readResolved(ctx, h.Path)
	if err != nil || bytes.Equal(now, []byte(h.Content)) && now != nil {
		return false, err
	}
	if now != nil && !in.isOwnContent(ctx, h.Path, now) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if err := in.saveModified(name); err != nil {
			return false, err
		}
	}
	attr := inroot.FileAttr{Mode: h.Mode}
	if was, err := in.fs().AttrOf(name); err == nil {
		attr.Extended = was.Extended
	}
	return true, in.fs().WriteFile(name, strings.NewReader(h.Content), attr)
}

// isOwnContent reports whether any generation has written this content to a host file. If ctx has
// ended, it may wrongly return false.
func (in *Installer) isOwnContent(ctx context.Context, name string, now []byte) bool {
	numbers, _ := in.Store.ListNumbers()
	return slices.ContainsFunc(numbers, func(n int) bool {
		m, err := in.Store.Manifest(ctx, n)
		return err == nil && slices.ContainsFunc(m.Host, func(h generation.HostFile) bool { return h.Path == name && in.hasContentOf(ctx, m, h, now) })
	})
}

// putEntries sets regcred's provider entries in the node's configuration file. It preserves the
// file's attributes. If list is nil, it removes regcred's entries.
func (in *Installer) putEntries(ctx context.Context, h generation.HostFile, list []entries.Entry) (changed bool, err error) {
	name, now, err := in.readResolved(ctx, h.Path)
	if list == nil && isReplaced(err) {
		in.reportKept(h.Path, "it is no longer a file with regcred's entries")
		return false, nil
	}
	if err != nil {
		return false, err
	}
	next, err := in.nextEntries(ctx, h.Path, now, list)
	if err != nil || bytes.Equal(now, next) && (now == nil) == (next == nil) {
		return false, err
	}
	if next == nil {
		return true, in.fs().Remove(name)
	}
	if originals, err := in.readOriginals(ctx); err == nil && list == nil && !originals[h.Path].isUnmodified(now) {
		in.progressf("%s has been changed since the install, so only regcred's entries are removed", in.fs().HostPath(name))
	}
	if list != nil {
		without, err := in.setEntries(ctx, h.Path, now, nil)
		if err != nil {
			return false, err
		}
		if err := in.saveOriginal(ctx, h.Path, now, without, next); err != nil {
			return false, err
		}
	}
	attr, err := in.fs().AttrOf(name)
	if errors.Is(err, fs.ErrNotExist) {
		attr, err = inroot.FileAttr{Mode: h.Mode}, nil
	}
	if err != nil {
		return false, err
	}
	return true, in.fs().WriteFile(name, bytes.NewReader(next), attr)
}

var errDangling = errors.New("dangling symlink")

// isReplaced reports whether a file cannot be read because it was replaced: by a directory, FIFO
// or device, a dangling symlink, or a file that is too large for a configuration.
func isReplaced(err error) bool {
	_, special := errors.AsType[*regularfile.NotRegularError](err)
	_, large := errors.AsType[*regularfile.TooLargeError](err)
	return special || large || errors.Is(err, errDangling)
}

// nextEntries returns the new content of the node's configuration file, or nil if the file must
// be removed. If list is nil and only regcred has changed the file, it returns the original
// content.
func (in *Installer) nextEntries(ctx context.Context, name string, now []byte, list []entries.Entry) ([]byte, error) {
	original, known := originalFile{}, false
	if list == nil {
		originals, err := in.readOriginals(ctx)
		if err != nil {
			return nil, err
		}
		original, known = originals[name]
		if data, ok := original.originalContent(now); ok {
			return data, nil
		}
	}
	// Do not move regcred's entries if another program has added entries after them.
	same, err := in.hasEntries(ctx, name, now, list)
	if err == nil && same {
		return now, nil
	}
	var next []byte
	switch {
	case err != nil:
	case known && !original.Absent && now != nil: // the file existed before regcred's first install
		next, err = in.removeEntries(ctx, name, now)
	default:
		next, err = in.setEntries(ctx, name, now, list)
	}
	if err != nil && list == nil {
		// The kubelet cannot read the file, but regcred's entries can still be removed.
		if without, ok := entries.RemoveByName(now); ok {
			return without, nil
		}
		file := in.fs().HostPath(name)
		return nil, withHint("remove the entries "+strings.Join(entries.FindNames(now), " and ")+" from "+file+", or move the file away; then run regcred uninstall again", "%w", err)
	}
	return next, err
}

// removeEntries returns the content of a configuration file without regcred's entries, even if no
// other entry is left.
func (in *Installer) removeEntries(ctx context.Context, name string, now []byte) ([]byte, error) {
	former, err := in.ownEntryNames(ctx, now)
	if err != nil {
		return nil, err
	}
	return entries.Remove(in.fs().HostPath(name), now, former)
}

// preflight returns an error if regcred's entries cannot be set in the node's configuration
// file. It does not change the file.
func (in *Installer) preflight(ctx context.Context, from, to *generation.Manifest) error {
	m, list := from, []entries.Entry(nil)
	if to != nil {
		m, list = to, to.Entries
	}
	for _, h := range m.Host {
		if h.Kind != generation.HostKindEntries {
			continue
		}
		now, err := in.readIfExists(ctx, h.Path)
		if list == nil && isReplaced(err) {
			continue // it has no entries
		}
		if err == nil {
			_, err = in.nextEntries(ctx, h.Path, now, list)
		}
		if err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
	}
	return nil
}

// setEntries returns the content of a configuration file with list as regcred's only entries.
// It keeps other entries.
func (in *Installer) setEntries(ctx context.Context, name string, now []byte, list []entries.Entry) ([]byte, error) {
	former, err := in.ownEntryNames(ctx, now)
	if err != nil {
		return nil, err
	}
	return entries.SetEntries(in.fs().HostPath(name), now, list, former)
}

// hasEntries reports whether list contains exactly regcred's entries in a configuration file.
func (in *Installer) hasEntries(ctx context.Context, name string, now []byte, list []entries.Entry) (bool, error) {
	former, err := in.ownEntryNames(ctx, now)
	if err != nil {
		return false, err
	}
	return entries.HasEntries(in.fs().HostPath(name), now, list, former)
}

// ownEntryNames returns the names of all entries that regcred has written, or is about to
// write, on this node. now is the content of the file with the entries.
func (in *Installer) ownEntryNames(ctx context.Context, now []byte) (names []string, err error) {
	known, err := in.knownEntries(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range known {
		names = append(names, e.Name)
	}
	return append(names, in.dispatcherLinkNames(now)...), nil
}

// knownEntries returns all entries that a kubelet may have loaded or that a rollback may
// restore. The latest entries come first.
func (in *Installer) knownEntries(ctx context.Context) (list []entries.Entry, err error) {
	records, _, err := in.readRecords(ctx)
	if err != nil {
		return nil, err
	}
	numbers, err := in.Store.ListNumbers()
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Backward(numbers) {
		if m, err := in.Store.Manifest(ctx, n); err == nil { // skip damaged generations
			list = append(list, m.Entries...)
		}
	}
	for _, r := range slices.Backward(records) {
		list = append(list, r.Entries...)
	}
	return list, nil
}

// resolveTarget resolves symlinks, so that regcred changes a link's target and keeps the link.
// It returns name unchanged if the file does not exist.
func (in *Installer) resolveTarget(name string) (string, error) {
	if target, err := in.fs().Readlink(name); err == nil && target == os.DevNull {
		return "", withHint("rm "+textfmt.QuoteShellWord(in.fs().HostPath(name)), "%s is masked: it is a symlink to %s", in.fs().HostPath(name), target)
	}
	real, err := in.fs().EvalSymlinks(name)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return real, err
	case !in.fs().Exists(name):
		return name, nil
	}
	return "", fmt.Errorf("%s: %w", in.fs().HostPath(name), errDangling)
}

// readResolved resolves the symlinks in name, and returns the resolved path and the file's content.
func (in *Installer) readResolved(ctx context.Context, name string) (target string, now []byte, err error) {
	if target, err = in.resolveTarget(name); err == nil {
		now, err = in.readIfExists(ctx, target)
	}
	return target, now, err
}

// readIfExists returns a file's content. It returns nil if the file does not exist.
func (in *Installer) readIfExists(ctx context.Context, name string) ([]byte, error) {
	data, err := in.fs().ReadFile(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && data == nil {
		data = []byte{}
	}
	return data, err
}

// hasHostFile reports whether a generation has a host file with the path of h.
func hasHostFile(m *generation.Manifest, h generation.HostFile) bool {
	return m != nil && slices.ContainsFunc(m.Host, func(o generation.HostFile) bool { return o.Path == h.Path })
}

// removeHostFile removes a host file. It reports whether it changed anything.
func (in *Installer) removeHostFile(ctx context.Context, h generation.HostFile) (changed bool, err error) {
	switch h.Kind {
	case generation.HostKindDir:
		err := in.fs().Remove(h.Path)
		if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrExist) {
			in.reportKept(h.Path, "it has content that regcred did not create")
			return false, nil
		}
		return true, err
	case generation.HostKindLink:
		switch target, err := in.fs().Readlink(h.Path); {
		case errors.Is(err, fs.ErrNotExist):
			return false, nil
		case err != nil || target != h.Target:
			in.reportKept(h.Path, "it no longer links to "+h.Target)
			return false, nil
		}
		return true, in.fs().Remove(h.Path)
	case generation.HostKindFile:
		return in.removeFile(ctx, h)
	case generation.HostKindEntries:
		return in.putEntries(ctx, h, nil)
	}
	return false, nil
}

// savedSuffix is appended to the names of regcred's files that another program has changed.
// regcred keeps these files instead of deleting them. Neither systemd nor the kubelet reads
// files with this suffix.
const savedSuffix = ".regcred-saved"

func (in *Installer) removeFile(ctx context.Context, h generation.HostFile) (changed bool, err error) {
	now, err := in.readIfExists(ctx, h.Path)
	if isReplaced(err) || err == nil && now == nil && in.fs().Exists(h.Path) {
		return true, in.saveModified(h.Path)
	}
	if err != nil || now == nil {
		return false, err
	}
	if string(now) == h.Content || in.isOwnContent(ctx, h.Path, now) {
		return true, in.fs().Remove(h.Path)
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return true, in.saveModified(h.Path)
}

// saveModified renames a file that another program has changed, so that its content is kept. It
// keeps files that were saved earlier.
func (in *Installer) saveModified(name string) error {
	saved := name + savedSuffix
	for n := 2; in.fs().Exists(saved); n++ {
		saved = fmt.Sprintf("%s%s.%d", name, savedSuffix, n)
	}
	in.Left = append(in.Left, in.fs().HostPath(saved))
	in.progressf("%s has been changed since the install, so it is kept as %s", in.fs().HostPath(name), path.Base(saved))
	return in.fs().Rename(name, saved)
}

// removeStrayLinks removes links to the dispatcher that neither generation m nor the running
// kubelet uses. m is nil if no generation is current.
func (in *Installer) removeStrayLinks(ctx context.Context, binDir string, m *generation.Manifest) error {
	needed, err := in.entryNamesInUse(ctx, m)
	if err != nil {
		return err
	}
	list, err := in.fs().ReadDir(binDir)
	if err != nil {
		return nil // the directory does not exist
	}
	for _, e := range list {
		name := path.Join(binDir, e.Name())
		target, err := in.fs().Readlink(name)
		if err != nil || target != in.Store.DispatcherPath() || needed[e.Name()] {
			continue
		}
		if err := in.fs().Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// entryNamesInUse returns the names of the entries that the running kubelet may use, and of
// those in generation m. It returns no names if m is nil.
func (in *Installer) entryNamesInUse(ctx context.Context, m *generation.Manifest) (names map[string]bool, err error) {
	names = map[string]bool{}
	if m == nil {
		return names, nil
	}
	records, known, err := in.readRecords(ctx)
	if err != nil || !known {
		return nil, cmp.Or(err, errors.New("the kubelet's loaded entries are unknown"))
	}
	for _, r := range append(records, generation.AppliedChange{Entries: m.Entries}) {
		for _, e := range r.Entries {
			names[e.Name] = true
		}
	}
	return names, nil
}

// removeGenerationTempFiles removes temporary files that interrupted writes left next to a
// generation's host files.
func (in *Installer) removeGenerationTempFiles(m *generation.Manifest) error {
	if m == nil {
		return nil
	}
	for _, h := range m.Host {
		name, err := in.resolveTarget(h.Path)
		if err != nil {
			continue
		}
		if err := in.fs().RemoveAllTempFiles(path.Dir(name)); err != nil {
			return err
		}
	}
	return nil
}
