// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/process"
	"github.com/regcred/regcred/internal/textfmt"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/plugintest"
)

// tryPlugin runs the tests of a provider's executable that need no network.
func (in *Installer) tryPlugin(ctx context.Context, cfg *config.Config, i int, executable string) (list []finding.Finding) {
	in.progressf("trying %s", executable)
	command := cfg.Providers[i].Command(filepath.Dir(executable))
	command.Path = executable
	command.Timeout = 10 * time.Second
	offline := []string{"binary-runs", "version-unknown", "request-kind", "stdin-garbage", "stdin-empty", "stdin-truncated"}
	for _, f := range plugintest.Run(ctx, command, plugintest.Options{Only: offline}) {
		if f.Severity.Compare(finding.SeverityWarning) >= 0 {
			list = append(list, finding.Finding{Severity: f.Severity, File: executable, Message: fmt.Sprintf("%s (regcred plugin test explains %s)", f.Message, f.Rule)})
		}
	}
	return list
}

// lostPrivileges returns a warning if an executable has privileges that its copy does not have.
func lostPrivileges(executable string) (list []finding.Finding) {
	warn := func(what string) {
		list = append(list, finding.Finding{Severity: finding.SeverityWarning, File: executable, Message: what + " not copied; the kubelet runs plugins as its own user, which is usually root"})
	}
	if info, err := os.Stat(executable); err == nil && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		warn("its setuid and setgid bits are")
	}
	if attr, err := (inroot.FS{}).AttrOf(executable); err == nil && attr.Extended["security.capability"] != "" {
		warn("its file capabilities are")
	}
	return list
}

// testCopies tests the new executables of a generation that is being created in dir. A copy may
// not run where it is, for example if it needs files next to the original.
func (in *Installer) testCopies(ctx context.Context, d DesiredState, p *Plan, dir string) error {
	if d.SkipExec {
		return nil
	}
	cfg, err := config.Load(in.hostPath(dir + "/" + generation.ConfigFilePath("")))
	if err != nil {
		return err
	}
	var bad []error
	for _, s := range p.files {
		if isUnchanged(s, p.From) {
			continue
		}
		if s.Name == generation.DispatcherName {
			bad = append(bad, in.tryDispatcher(ctx, cfg, p.To, dir))
		}
		for i, q := range cfg.Providers {
			if generation.ExecutablePath(q.Name) != s.Name {
				continue
			}
			copied := in.hostPath(dir + "/" + s.Name)
			bad = append(bad, compareCopy(ctx, &cfg.Providers[i], s.From, copied))
			for _, f := range in.tryPlugin(ctx, cfg, i, copied) {
				if f.Severity == finding.SeverityWarning {
					p.Warnings = append(p.Warnings, f.String())
					continue
				}
				bad = append(bad, fmt.Errorf("the copy of %s does not work: %s", s.From, f.Message))
			}
		}
	}
	if err := errors.Join(bad...); err != nil {
		return withHint("regcred plugin test shows the runs; a plugin must not need other files in its directory", "nothing was changed: %w", err)
	}
	return nil
}

// compareCopy returns an error if an executable and its copy do not end with the same exit code.
// The tests of a plugin alone do not find this, because a plugin that always fails passes them.
func compareCopy(ctx context.Context, p *config.Provider, original, copied string) error {
	ctx = process.WithGroupKilled(ctx)
	var runs [2]*plugin.Exchange
	for i, executable := range []string{original, copied} {
		command := p.Command(filepath.Dir(executable))
		command.Path, command.APIVersion, command.Timeout = executable, "", 10*time.Second
		runs[i], _ = command.RunRaw(ctx, strings.NewReader("{"))
	}
	if was, is := runs[0].ExitCode, runs[1].ExitCode; was != is {
		return fmt.Errorf("the copy of %s does not work: with the same input it ends with exit code %d instead of %d: %s", original, is, was, textfmt.EscapeLine(strings.TrimSpace(runs[1].Stderr)))
	}
	return nil
}

// tryDispatcher sends the copy of the dispatcher a request for an image without a provider. The
// response must be empty.
func (in *Installer) tryDispatcher(ctx context.Context, cfg *config.Config, m *generation.Manifest, dir string) error {
	image := imageWithoutProvider(cfg)
	if image == "" || len(m.Entries) == 0 {
		return nil
	}
	state, remove, err := in.Store.CreateTestState(m.Number, dir)
	defer remove()
	link := state + "/" + m.Entries[0].Name
	if err == nil {
		err = in.fs().Symlink("../"+filepath.Base(dir)+"/"+generation.DispatcherName, link)
	}
	if err != nil {
		return err
	}
	command := plugin.Command{
		Path: in.fs().HostPath(link), APIVersion: cmp.Or(m.Entries[0].APIVersion, plugin.V1), Timeout: 10 * time.Second,
		Args: plugin.NewSecrets("--state-dir="+in.fs().HostPath(state), "--count-dir="),
	}
	response, err := command.GetCredentials(ctx, &plugin.Request{Image: image})
	if err == nil && len(response.Auth) > 0 {
		err = errors.New("it returned credentials for an image without a provider")
	}
	if err != nil {
		return fmt.Errorf("the dispatcher does not work, so it is damaged or another program: %w", err)
	}
	return nil
}

// imageWithoutProvider returns an image that no provider matches, or "" if it finds none.
func imageWithoutProvider(cfg *config.Config) string {
next:
	for depth := range 10 {
		image := strings.Repeat("test.", depth) + "regcred.invalid/x"
		for _, p := range cfg.Providers {
			for _, text := range p.MatchImages {
				if pattern, err := match.Parse(text); err != nil || pattern.Match(image) {
					continue next
				}
			}
		}
		return image
	}
	return ""
}
