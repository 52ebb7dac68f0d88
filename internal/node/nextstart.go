// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/regcred/regcred/config"
)

// NextStart describes what the kubelet does with credential providers when it starts the
// next time, according to the node's files.
type NextStart struct {
	Flags
	Failure   string // why the kubelet exits, with file and line; "" if it starts
	Providers []NextProvider
}

// NextProvider is a provider that the kubelet registers when it starts.
type NextProvider struct {
	config.Provider
	File       string // configuration file, as seen from this machine
	Line       int
	Executable string // path on the node after resolving symlinks
}

// NextStart returns what the kubelet does when it starts the next time. The target is the
// version and the feature gates of the kubelet; see [Setup.Target].
func (r *Reader) NextStart(ctx context.Context, target config.Target) (*NextStart, error) {
	rd := r.newReader(ctx)
	s := r.setupSurvey(ctx)
	n := &NextStart{Flags: s.Flags}
	used := s.NextFlags()
	switch {
	case used == RunningFlags{}:
	case used.Config == "" || used.BinDir == "":
		n.Failure = missingFlagText(r.Node, s.Flags)
	default:
		n.Failure = rd.loadProviders(n, target)
	}
	return n, context.Cause(ctx)
}

// missingFlagText describes a command line with only one of the two flags.
// kubelet: cmd/kubelet/app/options, validateImageCredentialProviderFlags.
func missingFlagText(n Node, f Flags) string {
	given, name, missing := f.Config, configFlag, binDirFlag
	if !given.IsSet() {
		given, name, missing = f.BinDir, binDirFlag, configFlag
	}
	return fmt.Sprintf("%s sets --%s, but --%s is not set", n.occurrenceText(given), name, missing)
}

// occurrenceText returns the file and line that set a flag.
func (n Node) occurrenceText(f Flag) string {
	if len(f.Given) == 0 {
		return "the kubelet's command line"
	}
	last := f.Given[len(f.Given)-1]
	return fmt.Sprintf("%s:%d", n.HostPath(last.File), last.Line)
}

// loadProviders sets the providers of n. It returns why the kubelet rejects them, or "".
// kubelet: pkg/credentialprovider/plugin, RegisterCredentialProviderPlugins.
func (r *fileReader) loadProviders(n *NextStart, target config.Target) (failure string) {
	if _, err := r.fs().Stat(n.BinDir.Path); err != nil {
		return r.withOccurrence(n.BinDir, binDirFlag, err)
	}
	cfg, err := r.loadConfig(n.Config.Path)
	if err == nil {
		err = cfg.ValidateFor(target)
	}
	if err != nil {
		return r.withOccurrence(n.Config, configFlag, err)
	}
	for i, p := range cfg.Providers {
		at := cfg.Position(i, "")
		next := NextProvider{Provider: p, File: at.File, Line: at.Line}
		if next.Executable, err = r.resolveExecutable(path.Join(n.BinDir.Path, p.Name)); err != nil {
			return fmt.Sprintf("%s:%d: provider %q: %v", at.File, at.Line, p.Name, err)
		}
		n.Providers = append(n.Providers, next)
	}
	return ""
}

// withOccurrence adds the place that sets a flag to an error about the flag's value.
func (r *fileReader) withOccurrence(f Flag, name string, err error) string {
	if len(f.Given) == 0 {
		return err.Error()
	}
	return fmt.Sprintf("%v (%s sets --%s=%s)", err, r.occurrenceText(f), name, f.Path)
}

// loadConfig reads a configuration file or directory as the kubelet does.
func (r *fileReader) loadConfig(name string) (*config.Config, error) {
	info, err := r.fs().Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		data, err := r.fs().ReadFile(r.ctx, name)
		if err != nil {
			return nil, err
		}
		return config.Parse(r.HostPath(name), data)
	}
	list, err := r.fs().ReadDir(name)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, e := range list {
		if !slices.Contains([]string{".json", ".yaml", ".yml"}, path.Ext(e.Name())) || e.IsDir() {
			continue
		}
		if files[e.Name()], err = r.fs().ReadFile(r.ctx, path.Join(name, e.Name())); err != nil {
			return nil, err
		}
	}
	return config.ParseDir(r.HostPath(name), files)
}

// resolveExecutable returns the real path of an executable. The kubelet only checks that a file
// exists and has an executable bit (os/exec.LookPath).
func (r *fileReader) resolveExecutable(name string) (string, error) {
	info, err := r.fs().Stat(name)
	switch {
	case err != nil:
		return "", err
	case info.IsDir():
		return "", fmt.Errorf("%s is a directory", r.HostPath(name))
	case info.Mode()&0o111 == 0:
		return "", fmt.Errorf("%s is not executable", r.HostPath(name))
	}
	return r.fs().EvalSymlinks(name)
}
