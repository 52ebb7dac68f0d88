// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/node"
)

// Names of regcred's files on a node.
const (
	ownConfigName  = "90-regcred.json"
	kubeletDirName = "kubelet" // directory below the state directory for files that cannot be at the kubelet's configured paths
)

// decideLayout decides where regcred's files are on a node. It uses the kubelet's configured
// paths if files there are writable and persist. Otherwise it uses the state directory and a
// drop-in that sets the kubelet's flags.
func (in *Installer) decideLayout() (generation.KubeletLayout, error) {
	s := in.Setup
	if s.Way == node.MethodManual {
		return generation.KubeletLayout{}, withHint("set the kubelet flags --image-credential-provider-config and --image-credential-provider-bin-dir as this system requires, then run regcred install again",
			"regcred cannot set the credential provider flags of this node's kubelet (%s)", s.Kind)
	}
	l := generation.KubeletLayout{Kind: generation.ConfigKindShared, Config: s.Vendor.Config.Path, ConfigFlag: s.Vendor.Config.Path, BinDir: s.Vendor.BinDir.Path}
	switch s.Vendor.Config.Type {
	case node.TypeDirectory:
		l.Config, l.Kind = path.Join(l.Config, ownConfigName), generation.ConfigKindOwn
	case node.TypeOther, node.TypeUnknown:
		return l, fmt.Errorf("%s: the kubelet's credential provider configuration is neither a file nor a directory", s.Vendor.Config.Path)
	}
	if s.Way == node.MethodDefaultPaths {
		return l, nil
	}
	moved := false
	if !s.Vendor.Config.IsSet() || s.Vendor.Config.Fixed != "" || s.Nodeadm != nil {
		moved = true
		if err := in.relocateConfig(&l); err != nil {
			return l, err
		}
	}
	if !s.Vendor.BinDir.IsSet() || s.Vendor.BinDir.Fixed != "" {
		moved = true
		l.BinDir, l.OriginalBinDir = in.Store.Path(kubeletDirName, "bin"), s.Vendor.BinDir.Path
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

// relocateConfig moves the configuration below the state directory. If the kubelet supports
// configuration directories, regcred links the existing configuration. Otherwise regcred copies
// it, and status reports later differences.
func (in *Installer) relocateConfig(l *generation.KubeletLayout) error {
	former := in.Setup.Vendor.Config
	l.Kind, l.Config = generation.ConfigKindOwn, in.Store.Path(kubeletDirName, "config", ownConfigName)
	l.ConfigFlag = l.Config
	if !former.IsSet() || former.Type == node.TypeAbsent {
		return nil
	}
	if former.Type == node.TypeDirectory {
		return withHint("make it writable", "%s is not writable (%s), and a configuration directory cannot be linked into regcred's own directory", former.Path, former.Fixed)
	}
	l.Kind, l.Original, l.ConfigFlag = generation.ConfigKindLinked, former.Path, path.Dir(l.Config)
	if !readsDirectories(in.Setup.Version.Kubelet) {
		l.Kind, l.Config = generation.ConfigKindCopied, in.Store.Path(kubeletDirName, "config.json")
		l.ConfigFlag = l.Config
	}
	return nil
}

// hostFiles returns the files on the host that belong to a generation.
func (in *Installer) hostFiles(ctx context.Context, m *generation.Manifest) (list []generation.HostFile, err error) {
	for _, d := range m.Layout.Dirs {
		list = append(list, generation.HostFile{Kind: generation.HostKindDir, Path: d, Mode: 0o755})
	}
	for _, f := range []func(context.Context, *generation.Manifest) ([]generation.HostFile, error){in.linkFiles, in.configFiles, in.flagFiles} {
		files, err := f(ctx, m)
		if err != nil {
			return nil, err
		}
		list = append(list, files...)
	}
	return list, nil
}

// layoutDirs returns the directories that regcred has created for a layout, and the directories
// that it must still create.
func (in *Installer) layoutDirs(l generation.KubeletLayout) (dirs []string, err error) {
	dirs = slices.Clip(l.Dirs)
	for _, file := range []string{l.Config, path.Join(l.BinDir, "x"), l.DropIn, l.NodeConfig} {
		if file == "" {
			continue
		}
		missing, err := in.missingDirs(path.Dir(file))
		if err != nil {
			return nil, err
		}
		for _, d := range missing {
			// The state directory is not listed, because regcred creates and removes it as a
			// whole.
			if d != in.Store.Dir && !strings.HasPrefix(in.Store.Dir, d+"/") && !slices.Contains(dirs, d) {
				dirs = append(dirs, d)
			}
		}
	}
	return dirs, nil
}

// linkFiles returns the links to the dispatcher. If regcred uses its own bin dir, linkFiles
// also returns links to the executables in the original bin dir.
func (in *Installer) linkFiles(_ context.Context, m *generation.Manifest) (list []generation.HostFile, err error) {
	link := func(name, target string) {
		list = append(list, generation.HostFile{Kind: generation.HostKindLink, Path: path.Join(m.Layout.BinDir, name), Target: target})
	}
	for _, e := range m.Entries {
		link(e.Name, in.Store.DispatcherPath())
	}
	if m.Layout.OriginalBinDir == "" {
		return list, nil
	}
	others, err := in.executablesToLink(m.Layout)
	for _, name := range others {
		link(name, path.Join(m.Layout.OriginalBinDir, name))
	}
	return list, err
}

// executablesToLink lists the third-party executables for which regcred's own bin dir has
// links. Names of regcred's entries are left out, because their links lead to the dispatcher.
func (in *Installer) executablesToLink(l generation.KubeletLayout) (names []string, err error) {
	list, err := in.fs().ReadDir(l.OriginalBinDir)
	if err != nil && !inroot.IsMissing(err) {
		return nil, err
	}
	for _, e := range list {
		if !entries.IsOwnName(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// configFiles returns the configuration files that contain regcred's entries.
func (in *Installer) configFiles(ctx context.Context, m *generation.Manifest) (list []generation.HostFile, err error) {
	l := m.Layout
	if l.Kind == generation.ConfigKindShared {
		own := generation.HostFile{Kind: generation.HostKindEntries, Path: l.Config, Mode: 0o644, Stage: generation.StageAfterActivation}
		if l.DropIn != "" { // the entries need the bin dir in the new flags, because the old bin dir has no links to the dispatcher
			own.Stage = generation.StageLast
		}
		return []generation.HostFile{own}, nil
	}
	own := generation.HostFile{Kind: generation.HostKindFile, Path: l.Config, Mode: 0o644, Stage: generation.StageAfterActivation}
	var data []byte
	name := l.Config
	switch l.Kind {
	case generation.ConfigKindCopied:
		own.Mode, name = 0o600, l.Original
		if data, err = in.fs().ReadFile(ctx, l.Original); err != nil {
			return nil, err
		}
	case generation.ConfigKindLinked:
		link := path.Join(path.Dir(l.Config), "10-"+configFileName(l.Original))
		list = append(list, generation.HostFile{Kind: generation.HostKindLink, Path: link, Target: l.Original})
	}
	if data, err = entries.SetEntries(in.fs().HostPath(name), data, m.Entries, nil); err != nil {
		return nil, err
	}
	own.Content = string(data)
	return append(list, own), nil
}

// flagFiles returns the drop-ins that set the kubelet's flags.
func (in *Installer) flagFiles(_ context.Context, m *generation.Manifest) (list []generation.HostFile, err error) {
	l := m.Layout
	if l.DropIn == "" {
		return nil, nil
	}
	if in.Setup.Unit == nil {
		return nil, fmt.Errorf("%s: the unit no longer exists", l.DropIn)
	}
	stage := generation.StageAfterActivation
	if l.Kind != generation.ConfigKindShared {
		stage = generation.StageLast
	}
	add := func(path, text string) {
		list = append(list, generation.HostFile{Kind: generation.HostKindFile, Path: path, Mode: 0o644, Content: dropInHeader + text, Stage: stage})
	}
	args := kubeletFlags(l)
	if l.NodeConfig != "" {
		add(l.NodeConfig, nodeadmDropIn(args))
	}
	command := in.Setup.Unit.Exec
	add(l.DropIn, fmt.Sprintf("# The command of %s followed by two flags, which override earlier ones.\n"+
		"# regcred status reports when the two commands no longer match.\n"+
		"[Service]\nExecStart=\nExecStart=%s\n", command.File, command.With(args...)))
	return list, nil
}

// kubeletFlags returns the kubelet's credential provider flags for a layout.
func kubeletFlags(l generation.KubeletLayout) []string {
	return []string{"--image-credential-provider-config=" + l.ConfigFlag, "--image-credential-provider-bin-dir=" + l.BinDir}
}

// readsDirectories reports whether a kubelet version supports configuration directories.
// Kubelet 1.34 and later do.
func readsDirectories(version string) bool {
	var major, minor int
	_, err := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return err == nil && (major > 1 || minor >= 34)
}

// nodeadmDropIn returns a configuration drop-in for EKS's nodeadm. nodeadm appends the flags in
// the drop-in to the kubelet's flags.
func nodeadmDropIn(args []string) string {
	list, _ := json.Marshal(args) // cannot fail for strings
	return "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    flags: " + string(list) + "\n"
}

// nodeadmEnvFile is the file to which nodeadm writes the kubelet's flags at each boot: first
// its own flags, then the flags in drop-ins (awslabs/amazon-eks-ami: nodeadm).
const nodeadmEnvFile = "/etc/eks/kubelet/environment"

// removeNodeadmFlags removes regcred's flags from the file that nodeadm wrote at the last boot.
// Otherwise the kubelet would start with paths that no longer exist. It keeps an identical bin
// dir flag that nodeadm itself has set.
func (in *Installer) removeNodeadmFlags(ctx context.Context, l generation.KubeletLayout) error {
	if l.NodeConfig == "" {
		return nil
	}
	now, err := in.readIfExists(ctx, nodeadmEnvFile)
	if err != nil {
		return err
	}
	keep := 0
	if path.Dir(l.BinDir) != in.Store.Path(kubeletDirName) { // nodeadm itself sets the same bin dir
		keep = 1
	}
	flags := kubeletFlags(l)
	next := removeWord(removeWord(now, flags[0], 0), flags[1], keep)
	if bytes.Equal(next, now) {
		return nil
	}
	attr, err := in.fs().AttrOf(nodeadmEnvFile)
	if err != nil {
		return err
	}
	return in.fs().WriteFile(nodeadmEnvFile, bytes.NewReader(next), attr)
}

// removeWord removes all occurrences of a word from the lines of an environment file, except
// the first ones, as many as keep. A word ends at a blank, a quote, a line end or the end.
func removeWord(text []byte, word string, keep int) []byte {
	const ends = " \t\r\n\"'"
	for at := 0; ; {
		i := bytes.Index(text[at:], []byte(word))
		if i < 0 {
			return text
		}
		from, to := at+i, at+i+len(word)
		at = to
		if to < len(text) && !strings.ContainsRune(ends, rune(text[to])) || from > 0 && !strings.ContainsRune(ends+"=", rune(text[from-1])) {
			continue
		}
		if keep--; keep >= 0 {
			continue
		}
		switch {
		case from > 0 && text[from-1] == ' ':
			from--
		case to < len(text) && text[to] == ' ':
			to++
		}
		text, at = append(slices.Clone(text[:from]), text[to:]...), from
	}
}
