// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/regularfile"
)

// Setup returns how this node's kubelet is run. It runs only the kubelet's own
// program, for at most 10 s, to get its version. On Linux it fails only if ctx ends;
// Setup.Unread lists what could not be read.
func (r *Reading) Setup(ctx context.Context) (*Setup, error) {
	if !r.hasPaths() {
		return nil, errors.New("regcred does not support Kubernetes nodes on this operating system")
	}
	if r.setup != nil {
		return r.setup, nil
	}
	s := *r.surveyed(ctx)
	if s.Kind != NoKubelet {
		s.Version = r.version(ctx, s.Program)
	}
	if err := context.Cause(ctx); err != nil {
		return &s, err
	}
	r.setup = &s
	return r.setup, nil
}

// surveyed returns the Setup without Version.
func (r *Reading) surveyed(ctx context.Context) *Setup {
	if r.survey != nil {
		return r.survey
	}
	rd := r.reader(ctx)
	next := r.nextStart(rd)
	s := &Setup{Kind: next.kind, Init: next.init, Service: next.name}
	if next.kind != NoKubelet {
		s.Flags, s.Vendor, s.Rancher = next.flags, next.vendor, next.rancher
		config := rd.kubeletConfig(next.configs)
		s.Health, s.Gates = healthOf(texts(next.args), config), gatesOf(texts(next.args), config)
		s.Unit = rd.unitOf(next.kubeletService)
		s.Program = programOf(next.kubeletService.args, next.program)
		s.Running = rd.running(next.kubeletService)
	} else {
		s.Running = rd.findRunning(func(p *process) bool { return p.comm() == "kubelet" })
	}
	s.Nodeadm = rd.nodeadm(next.kind.info().nodeConfigDir)
	s.Way = wayOf(s)
	s.Refusal = refusalOf(s)
	s.Unread = rd.unread
	if ctx.Err() == nil {
		r.survey = s
	}
	return s
}

// nextStart is what determines the configuration of the kubelet's next start.
type nextStart struct {
	kubeletService
	args    []word // the kubelet's own arguments, with regcred's drop-in
	configs []configFile
	flags   Flags
	vendor  Flags // without regcred's drop-in
	rancher *Rancher
}

func (r *Reading) nextStart(rd *reader) nextStart {
	next := nextStart{kubeletService: r.kubeletService(rd)}
	s := next.kubeletService
	var dirs []string
	if s.kind.isRancher() {
		next.flags, next.rancher = rd.rancherFlags(s)
		next.vendor = next.flags
		next.args, dirs = rd.rancherArgs(s, next.rancher.Files), []string{next.rancher.dropIns()}
	} else {
		next.args = rd.command(s)
		next.vendor = rd.flags(slices.Concat(s.args, s.embedded))
		next.flags = next.vendor
		if s.installed() != (setting{}) {
			next.flags = rd.flags(next.args)
		}
	}
	next.configs = rd.configFiles(texts(next.args), dirs...)
	return next
}

// command returns the words of the service's next start, with regcred's drop-in.
func (r *reader) command(s kubeletService) []word {
	exec := s.installed()
	if exec == (setting{}) {
		return slices.Concat(s.args, s.embedded)
	}
	vars, _ := r.environment(s.unit)
	return commandWords(s.unit, s.unit.exec(), vars)
}

// installed returns the command of regcred's drop-in, or zero without a drop-in.
func (s kubeletService) installed() setting {
	if s.unit != nil {
		for _, e := range s.unit.execs {
			if e.file == dropInOf(s.unit.name) {
				return e
			}
		}
	}
	return setting{}
}

// unitOf describes the service's systemd unit, or returns nil on other init systems.
func (r *reader) unitOf(s kubeletService) *Unit {
	if s.unit == nil {
		return nil
	}
	exec := s.original.exec()
	u := &Unit{
		Name: s.unit.name, Files: s.unit.files,
		Exec:  Command{exec.value, exec.file, exec.line},
		Words: texts(s.args), Missing: s.missing,
		DropIn: dropInOf(s.unit.name),
	}
	if e := s.installed(); e != (setting{}) {
		u.Ours = &InstalledDropIn{Stale: !strings.HasPrefix(e.value, u.Exec.Text+" ")}
	}
	u.Problem = r.dropInProblem(s, u)
	return u
}

// dropInProblem returns why a drop-in could not set the kubelet's flags.
func (r *reader) dropInProblem(s kubeletService, u *Unit) string {
	if problem := commandProblem(s.original, s.args, s.program); problem != "" {
		return problem
	}
	if exec := u.Exec; path.Base(exec.File) > dropInName && exec.File != s.original.fragment {
		return fmt.Sprintf("%s:%d overrides the start command and is read after %s", exec.File, exec.Line, u.DropIn)
	}
	for _, file := range u.Files {
		if err := r.load(file).err; err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Sprintf("%s: %v", file, cause(err))
		}
	}
	return r.place(u.DropIn).Fixed
}

// nodeadm describes the agent of EKS nodes; nil on other nodes.
func (r *reader) nodeadm(dir string) *Nodeadm {
	if dir == "" {
		return nil
	}
	exec := r.unit("nodeadm-run.service", "").exec().value
	return &Nodeadm{Supported: strings.Contains(exec, "file://"+dir), DropIn: dir + "/90-regcred.yaml"}
}

// usable reports whether the path of a flag can be changed and has one of the types.
func (f Flag) usable(types ...PlaceType) bool {
	return f.Set() && f.Fixed == "" && slices.Contains(types, f.Type)
}

// wayOf returns how regcred can set the kubelet's flags.
func wayOf(s *Setup) Way {
	v := s.Vendor
	kept := v.Config.usable(File, Directory, Absent) && v.BinDir.usable(Directory, Absent)
	switch {
	case s.Rancher != nil && kept:
		return ByPlaces
	case s.Rancher != nil, s.Kind == NoKubelet:
		return ByHand
	case kept && s.Nodeadm == nil: // nodeadm overwrites its file
		return ByFiles
	case s.Unit != nil && s.Unit.Problem == "":
		return ByDropIn
	}
	return ByHand
}

// place describes a path of the node. A relative path is resolved against "/", the
// working directory of services.
func (r *reader) place(p string) Place {
	if p == "" {
		return Place{}
	}
	p = path.Join("/", p)
	return Place{Path: p, Type: r.placeType(p), Fixed: r.fixed(r.existing(p))}
}

func (r *reader) placeType(p string) PlaceType {
	info, err := r.fs().Stat(p)
	r.note(p, err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Absent
	case err != nil:
		return Unknown
	case info.IsDir():
		return Directory
	case info.Mode().IsRegular():
		return File
	}
	return Other
}

// existing returns the part of a path that exists, without symlinks.
func (r *reader) existing(p string) string {
	for at := p; ; at = path.Dir(at) {
		if real, err := r.fs().Real(at); err == nil || at == "/" {
			return cmp.Or(real, "/")
		}
	}
}

// fixed returns why files at an existing path cannot be written; "" if they can.
// Permissions do not matter, because an installer is root.
func (r *reader) fixed(existing string) string {
	err := r.fs().Refusal(existing)
	if err == nil || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return fmt.Sprintf("%s: %s", existing, regularfile.Cause(err))
}

// binDir describes a directory of executables.
func (r *reader) binDir(p string) Place {
	out := r.place(p)
	if out.Fixed == "" && p != "" {
		if existing := r.existing(out.Path); r.fs().NoExec(existing) {
			out.Fixed = existing + " is mounted noexec"
		}
	}
	return out
}
