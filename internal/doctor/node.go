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

// Node checks what is on this machine: the configuration of k, its executables, who may
// change them, and the node's docker config files. It gives k the configuration if that is valid; without credential providers an empty one.
func (r *Report) Node(ctx context.Context, k *Kubelet) {
	switch o := k.Origin; {
	case o == nil:
	case o.Without != nil:
		r.without(o.Without)
		k.Config = &config.Config{}
	default:
		k.Config = r.config(ctx, k)
	}
	if k.Config != nil && k.Origin.Without == nil {
		r.checkMirrors(k.Node.Node, k.Config)
	}
	if k.Files() != nil {
		r.checkDockerConfig(ctx, k)
	}
	r.checkUnits(ctx, k)
}

// config checks the configuration, and what of the rest does not need a valid one.
func (r *Report) config(ctx context.Context, k *Kubelet) *config.Config {
	o := k.Origin
	cfg, err := config.Load(o.Config)
	var judge node.Judge
	if err == nil {
		judge, err = k.Node.Accept(ctx, o, cfg)
	}
	if err != nil {
		r.badConfig(k, judge, err)
		if found := r.selected(&config.Config{}, k.binDir(&config.Config{})); len(found) > 0 {
			r.checkFindings("executables", found, "")
		}
		r.checkPaths(k.Node.Node, o, &config.Config{})
		return nil
	}
	what := fmt.Sprintf("%s (%s): %s", o.Config, o.From, terminal.Count(len(cfg.Providers), "provider"))
	if slices.ContainsFunc(cfg.Files(), (*config.File).Predecessor) {
		r.Add("config", Warn, "regcred convert "+terminal.ShellPath(o.Config), "%s, accepted by regcred, but no kubelet can start with this file", what)
	} else {
		r.Add("config", OK, "", "%s, accepted by kubelet %s", what, judge.KubeletVersion)
	}
	r.checkFindings("lint", r.selected(cfg, lint.Check(cfg)), "no invalid pattern or setting found")
	r.checkFindings("executables", r.selected(cfg, k.binDir(cfg)), fmt.Sprintf("%s in %s", terminal.Count(len(cfg.Providers), "executable"), o.BinDir))
	r.checkPaths(k.Node.Node, o, cfg)
	return cfg
}

// badConfig tells of a configuration with which no kubelet starts.
func (r *Report) badConfig(k *Kubelet, judge node.Judge, err error) {
	if denied := node.Denied(err); denied != nil {
		r.Fail("config", denied, "")
		return
	}
	o := k.Origin
	if place := k.givenAt(o.Config, configFlag); place != "" && errors.Is(err, fs.ErrNotExist) {
		r.Add("config", Fail, "create the file, or correct the flag; then "+k.restart(true), "%v; the kubelet exits at startup, because %s refers to this file", err, place)
		return
	}
	r.Fail("config", err, "the kubelet does not start with this"+judge.Doubt()+"; fix it and run: "+node.ValidateCommand(judge.Target, o.Config))
}

// The kubelet's flags.
const (
	configFlag = "--image-credential-provider-config"
	binDirFlag = "--image-credential-provider-bin-dir"
)

// givenAt says where the kubelet is told of a path: "--flag in FILE:LINE"; "" if it is
// another's.
func (k *Kubelet) givenAt(path, flag string) string {
	if k.Setup == nil {
		return ""
	}
	f := k.Setup.Config
	if flag == binDirFlag {
		f = k.Setup.BinDir
	}
	place := k.place(f)
	if place == "" || k.Node.Host(f.Path) != filepath.Clean(path) {
		return ""
	}
	return flag + " in " + place
}

// binDir are the findings about the executables, with where the kubelet is told of
// their directory.
func (k *Kubelet) binDir(cfg *config.Config) []finding.Finding {
	found := lint.BinDir(cfg, k.Origin.BinDir)
	for i := range found {
		f := &found[i]
		if f.Rule != "missing-bin-dir" {
			continue
		}
		f.Fix = "create the directory, and put the plugins there"
		if place := k.givenAt(k.Origin.BinDir, binDirFlag); place != "" {
			f.Message += "; " + place + " refers to it"
			f.Fix += ", or correct the flag; then " + k.restart(true)
		} else if k.places() {
			f.Message, _, _ = strings.Cut(f.Message, ", so ")
			f.Message += fmt.Sprintf(", so %s starts the kubelet without credential providers, although %s exists", k.Setup.Service, k.Origin.Config)
			f.Fix += "; then " + k.restart(false)
		}
	}
	return found
}

// places reports whether the kubelet has the two paths because they are there, as k3s
// and rke2 have it, and this is what was checked.
func (k *Kubelet) places() bool {
	return k.Setup != nil && k.Setup.Rancher != nil && len(k.Setup.Rancher.Args) == 0 && k.Node.Host(k.Setup.BinDir.Path) == filepath.Clean(k.Origin.BinDir)
}

// checkUnits tells of what systemd, or the kubelet, passes over in units.
func (r *Report) checkUnits(ctx context.Context, k *Kubelet) {
	for _, f := range k.Node.CheckUnits(ctx) {
		r.Add("units", Warn, f.Fix, "%s:%d: %s", f.File, f.Line, f.Message)
	}
}

// checkFindings turns findings of the linter into checks; ok says what is so
// if none of them is serious.
func (r *Report) checkFindings(check string, findings []finding.Finding, ok string) {
	serious := false
	for _, f := range findings {
		result := Warn
		switch {
		case f.Severity == finding.SeverityInfo:
			continue
		case f.Severity == finding.SeverityError || report.StopsKubelet(f):
			result = Fail
		}
		serious = true
		r.Add(check, result, report.Fix(f), "%s", f.String())
	}
	if !serious {
		r.Add(check, OK, "", "%s", ok)
	}
}

// checkPaths looks for paths that others may change. Those that were given by
// flags are used all the same, so there it is a warning.
func (r *Report) checkPaths(n node.Node, o *node.Origin, cfg *config.Config) {
	err := n.CheckTrust(o, Names(cfg))
	found, ok := errors.AsType[*node.Untrusted](err)
	switch {
	case err == nil:
		r.Add("paths", OK, "", "only root and this user can change the configuration and the executables")
	case ok && !o.Discovered:
		r.Add("paths", Warn, found.Fix, "%s is %s", found.Path, found.Who)
	default:
		r.Fail("paths", err, "")
	}
}
