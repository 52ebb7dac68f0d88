// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/inroot"
)

// NextStart describes what the kubelet does with credential providers when it starts the
// next time, according to the node's files.
type NextStart struct {
	Flags
	Failures  []StartFailure // why the kubelet exits; empty if it starts
	Providers []NextProvider // without the providers in Failures
}

// StartFailure is a reason why the kubelet exits when it starts.
type StartFailure struct {
	Text     string // with file and line
	Provider string // name of the provider whose executable cannot be run, or ""
	cause    string // Text without paths and lines, which another change may move
}

// NewFailures returns the failures of n that another start does not have. The same failure may have
// another path or line.
func (n *NextStart) NewFailures(other *NextStart) (list []StartFailure) {
	for _, f := range n.Failures {
		if !slices.ContainsFunc(other.Failures, func(o StartFailure) bool { return o.cause == f.cause }) {
			list = append(list, f)
		}
	}
	return list
}

// FailuresText returns the texts of failures in one line.
func FailuresText(list []StartFailure) string {
	var texts []string
	for _, f := range list {
		texts = append(texts, f.Text)
	}
	return strings.Join(texts, "; ")
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
		n.Failures = []StartFailure{missingFlag(r.Node, s.Flags)}
	default:
		rd.loadProviders(n, target)
	}
	return n, context.Cause(ctx)
}

// missingFlag describes a command line with only one of the two flags.
// kubelet: cmd/kubelet/app/options, validateImageCredentialProviderFlags.
func missingFlag(n Node, f Flags) StartFailure {
	given, name, missing := f.Config, configFlag, binDirFlag
	if !given.IsSet() {
		given, name, missing = f.BinDir, binDirFlag, configFlag
	}
	cause := fmt.Sprintf("--%s is not set", missing)
	return StartFailure{Text: fmt.Sprintf("%s sets --%s, but %s", n.occurrenceText(given), name, cause), cause: cause}
}

// occurrenceText returns the file and line that set a flag.
func (n Node) occurrenceText(f Flag) string {
	if len(f.Given) == 0 {
		return "the kubelet's command line"
	}
	last := f.Given[len(f.Given)-1]
	return fmt.Sprintf("%s:%d", n.HostPath(last.File), last.Line)
}

// loadProviders sets the providers and the failures of n. Unlike the kubelet, it does not stop at the
// first failure.
// kubelet: pkg/credentialprovider/plugin, RegisterCredentialProviderPlugins.
func (r *fileReader) loadProviders(n *NextStart, target config.Target) {
	_, binDirErr := r.fs().Stat(n.BinDir.Path)
	if binDirErr != nil {
		n.Failures = append(n.Failures, StartFailure{Text: r.withOccurrence(n.BinDir, binDirFlag, binDirErr), cause: binDirFlag + causeOf(binDirErr)})
	}
	cfg, err := r.loadConfig(n.Config.Path)
	if err == nil {
		err = cfg.ValidateFor(target)
	}
	for _, err := range separateErrors(err) {
		n.Failures = append(n.Failures, StartFailure{Text: r.withOccurrence(n.Config, configFlag, err), cause: configFlag + causeOf(err)})
	}
	if cfg == nil || binDirErr != nil {
		return
	}
	for i, p := range cfg.Providers {
		at := cfg.Position(i, "")
		next := NextProvider{Provider: p, File: at.File, Line: at.Line}
		if next.Executable, err = r.resolveExecutable(path.Join(n.BinDir.Path, p.Name)); err != nil {
			n.Failures = append(n.Failures, StartFailure{
				Text: fmt.Sprintf("%s:%d: provider %q: %v", at.File, at.Line, p.Name, err), Provider: p.Name, cause: p.Name + causeOf(err),
			})
			continue
		}
		n.Providers = append(n.Providers, next)
	}
}

// separateErrors returns the errors that [errors.Join] joined.
func separateErrors(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// causeOf returns the text of an error without paths and lines.
func causeOf(err error) string {
	if inroot.IsMissing(err) {
		return fs.ErrNotExist.Error()
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	if e, ok := errors.AsType[*config.FieldError](err); ok {
		return (&config.FieldError{Path: e.Path, Value: e.Value, Msg: e.Msg}).Error()
	}
	return err.Error()
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
		return "", &fs.PathError{Op: "run", Path: r.HostPath(name), Err: syscall.EISDIR}
	case info.Mode()&0o111 == 0:
		return "", &fs.PathError{Op: "run", Path: r.HostPath(name), Err: errors.New("not executable")}
	}
	return r.fs().EvalSymlinks(name)
}
