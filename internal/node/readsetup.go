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
)

// Setup describes how the node's files set up the kubelet. To get the kubelet's version, it
// runs the kubelet's executable for at most 10 s. On Linux, Setup returns an error only if ctx
// ends. Setup.Unread lists files that could not be read.
func (r *Reader) Setup(ctx context.Context) (*Setup, error) {
	if !r.hasAbsolutePaths() {
		return nil, errors.New("regcred does not support Kubernetes nodes on this operating system")
	}
	if r.setup != nil {
		return r.setup, nil
	}
	s := *r.setupSurvey(ctx)
	if s.Kind != NoKubelet {
		s.Version = r.kubeletVersion(ctx, s.Program)
	}
	if err := context.Cause(ctx); err != nil {
		return &s, err
	}
	r.setup = &s
	return r.setup, nil
}

// setupSurvey returns the Setup without the kubelet's version. It does not run any program.
func (r *Reader) setupSurvey(ctx context.Context) *Setup {
	if r.setupWithoutVersion != nil {
		return r.setupWithoutVersion
	}
	rd := r.newReader(ctx)
	next := r.nextStartConfig(rd)
	s := &Setup{Kind: next.kind, Init: next.init, Service: next.name}
	if next.kind != NoKubelet {
		s.Flags, s.Vendor, s.Rancher = next.flags, next.vendor, next.rancher
		config := rd.kubeletConfig(next.configs)
		s.Health, s.Gates = healthEndpoint(wordTexts(next.args), config), featureGates(wordTexts(next.args), config)
		s.Unit = rd.describeUnit(next.kubeletService)
		s.Program = programPath(next.kubeletService.args, next.program)
		s.Running = rd.findKubeletProcess(next.kubeletService)
	} else {
		s.Running = rd.findRunning(func(p *process) bool { return p.commandName() == "kubelet" })
	}
	s.Nodeadm = rd.describeNodeadm(next.kind.kindSpec().nodeConfigDir)
	s.Way = configMethod(s)
	s.Refusal = newRefusal(s)
	s.Unread = rd.unreadablePaths
	if ctx.Err() == nil {
		r.setupWithoutVersion = s
	}
	return s
}

// nextStartConfig holds the settings for the kubelet's next start.
type nextStartConfig struct {
	kubeletService
	args    []commandWord // the kubelet's arguments, including those in regcred's drop-in
	configs []configFile
	flags   Flags
	vendor  Flags // without regcred's drop-in
	rancher *Rancher
}

func (r *Reader) nextStartConfig(rd *fileReader) nextStartConfig {
	next := nextStartConfig{kubeletService: r.kubeletService(rd)}
	s := next.kubeletService
	var dirs []string
	if s.kind.isRancher() {
		next.flags, next.rancher = rd.rancherFlags(s)
		next.vendor = next.flags
		next.args, dirs = rd.rancherArgs(s, next.rancher.Files), []string{next.rancher.dropInDir()}
	} else {
		next.args = rd.nextCommandWords(s)
		next.vendor = rd.providerFlags(slices.Concat(s.args, s.embedded))
		next.flags = next.vendor
		if s.dropInCommand() != (unitSetting{}) {
			next.flags = rd.providerFlags(next.args)
		}
	}
	next.configs = rd.configFiles(wordTexts(next.args), dirs...)
	return next
}

// describeUnit describes the service's systemd unit. It returns nil on other init
// systems.
func (r *fileReader) describeUnit(s kubeletService) *Unit {
	if s.unit == nil {
		return nil
	}
	exec := s.originalUnit.startCommand()
	u := &Unit{
		Name: s.unit.name, Files: s.unit.files,
		Exec:  Command{exec.value, exec.file, exec.line},
		Words: wordTexts(s.args), Missing: s.missing,
		DropIn: dropInPath(s.unit.name), settings: s.unit,
	}
	if e := s.dropInCommand(); e != (unitSetting{}) {
		u.Ours = &InstalledDropIn{Stale: !strings.HasPrefix(e.value, u.Exec.Text+" ")}
	}
	u.Problem = r.dropInProblem(s, u)
	return u
}

// dropInProblem returns why a drop-in cannot set the kubelet's flags, or "" if it can.
func (r *fileReader) dropInProblem(s kubeletService, u *Unit) string {
	if problem := commandProblem(s.originalUnit, s.args, s.program); problem != "" {
		return problem
	}
	if exec := u.Exec; path.Base(exec.File) > dropInName && exec.File != s.originalUnit.fragment {
		return fmt.Sprintf("%s:%d overrides the start command and is read after %s", exec.File, exec.Line, u.DropIn)
	}
	for _, file := range u.Files {
		if err := r.loadContent(file).err; err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Sprintf("%s: %v", file, withoutPath(err))
		}
	}
	return r.describePath(u.DropIn).Fixed
}

// describeNodeadm describes nodeadm on an EKS node. It returns nil on other nodes.
func (r *fileReader) describeNodeadm(dir string) *Nodeadm {
	if dir == "" {
		return nil
	}
	exec := r.readUnit("nodeadm-run.service", "").startCommand().value
	return &Nodeadm{Supported: strings.Contains(exec, "file://"+dir), DropIn: dir + "/90-regcred.yaml"}
}

// isUsable reports whether files at the flag's path can be changed, and whether the path has
// one of the given types.
func (f Flag) isUsable(types ...FileType) bool {
	return f.IsSet() && f.Fixed == "" && slices.Contains(types, f.Type)
}

// configMethod returns the method with which regcred can set the kubelet's flags.
func configMethod(s *Setup) ConfigMethod {
	v := s.Vendor
	kept := v.Config.isUsable(TypeFile, TypeDirectory, TypeAbsent) && v.BinDir.isUsable(TypeDirectory, TypeAbsent)
	switch {
	case s.Rancher != nil && kept:
		return MethodDefaultPaths
	case s.Rancher != nil, s.Kind == NoKubelet:
		return MethodManual
	case kept && s.Nodeadm == nil: // nodeadm overwrites the configuration file
		return MethodFiles
	case s.Unit != nil && s.Unit.Problem == "":
		return MethodDropIn
	}
	return MethodManual
}
