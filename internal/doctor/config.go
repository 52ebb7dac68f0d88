// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/lint"
)

// checkConfig checks whether the kubelet would start with the configuration.
func checkConfig(_ context.Context, w *Input, r *checkResults) {
	o, err := w.Origin, w.configErr
	switch {
	case w.OriginErr != nil:
		r.addErrors(w.OriginErr, "")
	case o == nil:
	case o.NoProviders != nil:
		w.reportNoConfig(r)
	case err != nil:
		w.reportInvalidConfig(r, err)
	default:
		what := fmt.Sprintf("%s (%s): %s", o.Config, o.From, terminal.FormatCount(len(w.Config.Providers), "provider"))
		if slices.ContainsFunc(w.Config.Files(), (*config.File).OutOfTree) {
			r.addResult(finding.SeverityWarning, "regcred convert "+terminal.QuoteShellPath(o.Config), "%s, accepted by regcred, but no kubelet can start with this file", what)
		} else {
			r.addResult(finding.SeverityOK, "", "%s, accepted by kubelet %s", what, w.target.KubeletVersion)
		}
	}
}

// reportNoConfig reports that the kubelet has no credential providers, which is valid on a
// node. On another machine, it is an error unless an image is to be checked.
func (w *Input) reportNoConfig(r *checkResults) {
	without, severity := w.Origin.NoProviders, finding.SeverityInfo
	if !without.IsNode() && w.Image == nil {
		severity = finding.SeverityError
	}
	r.addResult(severity, without.Fix, "%s", without.Message)
	r.list[len(r.list)-1].NoProviders = without
}

// reportInvalidConfig reports a configuration with which the kubelet does not start.
func (w *Input) reportInvalidConfig(r *checkResults, err error) {
	if denied := node.UncheckedError(err); denied != nil {
		r.addErrors(denied, "")
		return
	}
	o := w.Origin
	if place := w.flagLocation(o.Config, configFlagName); place != "" && errors.Is(err, fs.ErrNotExist) {
		r.addResult(finding.SeverityError, "create the file, or correct the flag; then "+w.restartCommand(true), "%v; the kubelet exits at startup, because %s refers to this file", err, place)
		return
	}
	fix := "the kubelet does not start with this" + w.target.Caveat() + "; fix it and run: " + node.ValidateCommand(w.target.Target, o.Config)
	r.addErrors(err, fix)
}

func checkLint(_ context.Context, w *Input, r *checkResults) {
	r.reportWarningsAndErrors(r.filterFindings(w.Config, lint.Check(w.Config)), "no invalid pattern or setting found")
}

// checkExecutables checks the executables. Without a valid configuration, it checks
// only their directory.
func checkExecutables(_ context.Context, w *Input, r *checkResults) {
	found := r.filterFindings(w.configOrEmpty(), w.binDirFindings(w.configOrEmpty()))
	if w.Config == nil && len(found) == 0 {
		return
	}
	r.reportWarningsAndErrors(found, fmt.Sprintf("%s in %s", terminal.FormatCount(len(w.configOrEmpty().Providers), "executable"), w.Origin.BinDir))
}

// The kubelet's flags.
const (
	configFlagName = "--image-credential-provider-config"
	binDirFlagName = "--image-credential-provider-bin-dir"
)

// flagLocation returns the location that sets the flag to path, as "--flag in FILE:LINE". It
// returns "" if there is none.
func (k *Kubelet) flagLocation(path, flag string) string {
	if k.Setup == nil {
		return ""
	}
	f := k.Setup.Config
	if flag == binDirFlagName {
		f = k.Setup.BinDir
	}
	place := k.flagSource(f)
	if place == "" || k.Node.HostPath(f.Path) != filepath.Clean(path) {
		return ""
	}
	return flag + " in " + place
}

// binDirFindings returns findings about the executables. If the directory is missing, the
// finding names the flag that refers to it.
func (k *Kubelet) binDirFindings(cfg *config.Config) []finding.Finding {
	found := lint.BinDir(cfg, k.Origin.BinDir)
	for i := range found {
		f := &found[i]
		if f.Rule != "missing-bin-dir" {
			continue
		}
		f.Fix = "create the directory, and put the plugins there"
		if place := k.flagLocation(k.Origin.BinDir, binDirFlagName); place != "" {
			f.Message += "; " + place + " refers to it"
			f.Fix += ", or correct the flag; then " + k.restartCommand(true)
		} else if k.usesDefaultPaths() {
			f.Message, _, _ = strings.Cut(f.Message, ", so ")
			f.Message += fmt.Sprintf(", so %s starts the kubelet without credential providers, although %s exists", k.Setup.Service, k.Origin.Config)
			f.Fix += "; then " + k.restartCommand(false)
		}
	}
	return found
}

// usesDefaultPaths reports whether the checked directory is the default of k3s or rke2. They
// use their default paths only if the directory and the configuration both exist.
func (k *Kubelet) usesDefaultPaths() bool {
	return k.Setup != nil && k.Setup.Rancher != nil && len(k.Setup.Rancher.Args) == 0 && k.Node.HostPath(k.Setup.BinDir.Path) == filepath.Clean(k.Origin.BinDir)
}

// checkUnits reports settings in systemd units that systemd or the kubelet ignores.
func checkUnits(ctx context.Context, w *Input, r *checkResults) {
	for _, f := range w.Node.CheckUnits(ctx) {
		r.addFinding(finding.Finding{Severity: finding.SeverityWarning, File: f.File, Line: f.Line, Message: f.Message, Fix: f.Fix})
	}
}

// reportWarningsAndErrors adds the warnings and errors in found. If there are none, it adds a
// finding with the text ok.
func (r *checkResults) reportWarningsAndErrors(found []finding.Finding, ok string) {
	for _, f := range found {
		if f.Severity == finding.SeverityInfo {
			continue
		}
		if report.StopsKubelet(f) {
			f.Severity = finding.SeverityError
		}
		f.Fix = report.FindingFix(f)
		r.addFinding(f)
	}
	if len(r.list) == 0 {
		r.addResult(finding.SeverityOK, "", "%s", ok)
	}
}

// checkPaths reports paths that other users can change. For paths that the user specified, it
// reports only a warning, because regcred uses them anyway.
func checkPaths(_ context.Context, w *Input, r *checkResults) {
	err := w.Node.CheckTrust(w.Origin, ProviderNames(w.configOrEmpty()))
	found, ok := errors.AsType[*node.UntrustedPathError](err)
	switch {
	case err == nil:
		r.addResult(finding.SeverityOK, "", "only root and this user can change the configuration and the executables")
	case ok && !w.Origin.Discovered:
		r.addResult(finding.SeverityWarning, found.Fix, "%s is %s", found.Path, found.Who)
	default:
		r.addErrors(err, "")
	}
}
