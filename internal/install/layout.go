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
	"github.com/regcred/regcred/internal/node"
)

// Names of regcred's files on a node.
const (
	ownFile    = "90-regcred.json"
	nodeConfig = "90-regcred.yaml"
	kubeletDir = "kubelet" // below the state directory, if regcred cannot use the kubelet's directories
)

// layoutOf decides the location of files on a node: to the kubelet's configured paths if they
// are writable and persistent, otherwise below the state directory, with a drop-in that
// sets the kubelet's flags.
func (in *Installer) layoutOf() (generation.Layout, error) {
	s := in.Setup
	if s.Way == node.ByHand {
		return generation.Layout{}, withHint("set the kubelet flags --image-credential-provider-config and --image-credential-provider-bin-dir as this system requires, then run regcred install again",
			"regcred cannot set the credential provider flags of this node's kubelet (%s)", s.Kind)
	}
	l := generation.Layout{Kind: generation.ConfigShared, Config: s.Vendor.Config.Path, Flag: s.Vendor.Config.Path, BinDir: s.Vendor.BinDir.Path}
	switch s.Vendor.Config.Type {
	case node.Directory:
		l.Config, l.Kind = path.Join(l.Config, ownFile), generation.ConfigOwn
	case node.Other, node.Unknown:
		return l, fmt.Errorf("%s: the kubelet's credential provider configuration is neither a file nor a directory", s.Vendor.Config.Path)
	}
	if s.Way == node.ByPlaces {
		return l, nil
	}
	moved := false
	if !s.Vendor.Config.Set() || s.Vendor.Config.Fixed != "" || s.Nodeadm != nil {
		moved = true
		if err := in.moveConfig(&l); err != nil {
			return l, err
		}
	}
	if !s.Vendor.BinDir.Set() || s.Vendor.BinDir.Fixed != "" {
		moved = true
		l.BinDir, l.LinksOf = in.Store.Path(kubeletDir, "bin"), s.Vendor.BinDir.Path
	}
	if !moved {
		return l, nil
	}
	if s.Unit == nil || s.Unit.Problem != "" {
		why := "the kubelet does not run as a systemd unit"
		if s.Unit != nil {
			why = s.Unit.Problem
		}
		return l, withHint("set both kubelet flags as this system requires, then run regcred install again", "a drop-in cannot set this kubelet's flags: %s", why)
	}
	l.DropIn = s.Unit.DropIn
	if s.Nodeadm != nil && s.Nodeadm.Supported {
		l.NodeConfig = s.Nodeadm.DropIn
	}
	return l, nil
}

// moveConfig places the configuration below the state directory. It includes the existing
// one: by a link if the kubelet reads directories, otherwise as a copy that status
// compares.
func (in *Installer) moveConfig(l *generation.Layout) error {
	former := in.Setup.Vendor.Config
	l.Kind, l.Config = generation.ConfigOwn, in.Store.Path(kubeletDir, "config", ownFile)
	l.Flag = l.Config
	if !former.Set() || former.Type == node.Absent {
		return nil
	}
	if former.Type == node.Directory {
		return withHint("make it writable", "%s is not writable (%s), and a configuration directory cannot be linked into regcred's own directory", former.Path, former.Fixed)
	}
	l.Kind, l.Original, l.Flag = generation.ConfigLinked, former.Path, path.Dir(l.Config)
	if !readsDirectories(in.Setup.Version.Kubelet) {
		l.Kind, l.Config = generation.ConfigCopied, in.Store.Path(kubeletDir, "config.json")
		l.Flag = l.Config
	}
	return nil
}

// hostOf lists a generation's files on the host.
func (in *Installer) hostOf(ctx context.Context, m *generation.Manifest) (list []generation.HostFile, err error) {
	for _, d := range m.Layout.Dirs {
		list = append(list, generation.HostFile{Kind: generation.HostDir, Path: d, Mode: 0o755})
	}
	for _, f := range []func(context.Context, *generation.Manifest) ([]generation.HostFile, error){in.links, in.configuration, in.flags} {
		files, err := f(ctx, m)
		if err != nil {
			return nil, err
		}
		list = append(list, files...)
	}
	return list, nil
}

// newDirs lists the directories that a layout needs and that do not exist.
func (in *Installer) newDirs(l generation.Layout) (dirs []string, err error) {
	for _, file := range []string{l.Config, path.Join(l.BinDir, "x"), l.DropIn, l.NodeConfig} {
		if file == "" {
			continue
		}
		missing, err := in.missingDirs(path.Dir(file))
		if err != nil {
			return nil, err
		}
		for _, d := range missing {
			// The state directory is not listed: it is created and removed as a whole.
			if d != in.Store.Dir && !strings.HasPrefix(in.Store.Dir, d+"/") && !slices.Contains(dirs, d) {
				dirs = append(dirs, d)
			}
		}
	}
	return dirs, nil
}

// links returns the links to the dispatcher and, in regcred's own bin dir, to third-party
// executables.
func (in *Installer) links(_ context.Context, m *generation.Manifest) (list []generation.HostFile, err error) {
	link := func(name, target string) {
		list = append(list, generation.HostFile{Kind: generation.HostLink, Path: path.Join(m.Layout.BinDir, name), Target: target})
	}
	for _, e := range m.Entries {
		link(e.Name, in.Store.DispatcherPath())
	}
	if m.Layout.LinksOf == "" {
		return list, nil
	}
	others, err := in.fs().ReadDir(m.Layout.LinksOf)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range others {
		link(e.Name(), path.Join(m.Layout.LinksOf, e.Name()))
	}
	return list, nil
}

// configuration returns the configuration files with regcred's entries.
func (in *Installer) configuration(ctx context.Context, m *generation.Manifest) (list []generation.HostFile, err error) {
	l := m.Layout
	if l.Kind == generation.ConfigShared {
		return []generation.HostFile{{Kind: generation.HostEntries, Path: l.Config, Mode: 0o644, Stage: sharedStage(l)}}, nil
	}
	own := generation.HostFile{Kind: generation.HostFileOwn, Path: l.Config, Mode: 0o644, Stage: generation.AfterActivation}
	var data []byte
	name := l.Config
	switch l.Kind {
	case generation.ConfigCopied:
		own.Mode, name = 0o600, l.Original
		if data, err = in.fs().ReadFile(ctx, l.Original); err != nil {
			return nil, err
		}
	case generation.ConfigLinked:
		link := path.Join(path.Dir(l.Config), "10-"+configName(l.Original))
		list = append(list, generation.HostFile{Kind: generation.HostLink, Path: link, Target: l.Original})
	}
	if data, err = entries.Set(in.fs().Host(name), data, m.Entries, nil); err != nil {
		return nil, err
	}
	own.Content = string(data)
	return append(list, own), nil
}

// sharedStage returns when the node's own file gets entries. If the flags change the bin
// dir, the file comes last, because the old bin dir has no links to the dispatcher.
func sharedStage(l generation.Layout) generation.Stage {
	if l.DropIn != "" {
		return generation.Last
	}
	return generation.AfterActivation
}

// flagsStage returns when the flags are changed.
func flagsStage(l generation.Layout) generation.Stage {
	if l.Kind != generation.ConfigShared {
		return generation.Last
	}
	return generation.AfterActivation
}

// flags returns the files that set the kubelet's flags.
func (in *Installer) flags(_ context.Context, m *generation.Manifest) (list []generation.HostFile, err error) {
	l := m.Layout
	if l.DropIn == "" {
		return nil, nil
	}
	if in.Setup.Unit == nil {
		return nil, fmt.Errorf("%s: the unit no longer exists", l.DropIn)
	}
	args := arguments(l)
	if l.NodeConfig != "" {
		text, err := nodeConfigOf(args)
		if err != nil {
			return nil, err
		}
		list = append(list, generation.HostFile{Kind: generation.HostFileOwn, Path: l.NodeConfig, Mode: 0o644, Content: text, Stage: flagsStage(l)})
	}
	command := in.Setup.Unit.Exec
	text := fmt.Sprintf(header+
		"# The command of %s followed by two flags, which override earlier ones.\n"+
		"# regcred status reports when the two commands no longer match.\n"+
		"[Service]\nExecStart=\nExecStart=%s\n", command.File, command.With(args...))
	return append(list, generation.HostFile{Kind: generation.HostFileOwn, Path: l.DropIn, Mode: 0o644, Content: text, Stage: flagsStage(l)}), nil
}

// arguments returns the kubelet's flags.
func arguments(l generation.Layout) []string {
	return []string{"--image-credential-provider-config=" + l.Flag, "--image-credential-provider-bin-dir=" + l.BinDir}
}

// readsDirectories reports whether a kubelet reads a configuration directory, as it does
// since 1.34.
func readsDirectories(version string) bool {
	var major, minor int
	_, err := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return err == nil && (major > 1 || minor >= 34)
}
