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

// Setup reads how this node's kubelet is run. It changes nothing, and runs
// at most the kubelet's own program, to be told its version (10 s). It fails on
// Linux only if ctx ends; what it cannot read is in the result.
func (n Node) Setup(ctx context.Context) (*Setup, error) {
	if !n.located() {
		return nil, errors.New("regcred does not support Kubernetes nodes on this operating system")
	}
	r := newReading(ctx, n)
	found := r.find()
	s := &Setup{Kind: found.kind, Init: found.init, Service: found.service}
	if found.kind != NoKubelet {
		r.flagsOf(s, found)
		s.Unit = r.unitOf(found)
		s.Program = programOf(found.args, found.program)
		s.Version = r.version(s.Program)
		s.Running = r.running(s.unitName(), found.processes()...)
	} else {
		s.Running = r.running("", "kubelet") // somebody else's
	}
	s.Nodeadm = r.nodeadm(found.kind)
	s.Way = way(s)
	s.Refusal = refusal(s)
	if s.Running != nil && s.Kind != NoKubelet {
		s.Running.Differs = s.differs()
	}
	s.Unread = r.unread
	return s, context.Cause(ctx)
}

// unitName is that of the unit that starts the kubelet; "" if there is none.
func (s *Setup) unitName() string {
	if s.Unit == nil {
		return ""
	}
	return s.Unit.Name
}

// flagsOf finds the two flags, where the kubelet says that it is well, and its gates.
func (r *reading) flagsOf(s *Setup, found started) {
	var args, dirs []string
	switch found.program {
	case "k3s", "rke2":
		s.Flags, s.Rancher = r.rancherFlags(found)
		s.Vendor = s.Flags
		args, dirs = texts(r.rancherArgs(found, s.Rancher.Files)), []string{s.Rancher.dropIns()}
	default:
		s.Vendor = r.flags(slices.Concat(found.args, found.inner))
		s.Flags = s.Vendor
		now := r.command(found)
		if found.unit != nil && ours(found) != (setting{}) {
			s.Flags = r.flags(now)
		}
		args = texts(now)
	}
	flags := kubeletFlags(args, healthFlags()...)
	read := r.kubeletConfig(flags, dirs...)
	s.Health, s.Gates = healthOf(flags, read), gatesOf(args, read)
}

// command are the words of the kubelet's next start: with our drop-in, if it is there.
func (r *reading) command(found started) []word {
	if found.unit == nil || ours(found) == (setting{}) {
		return slices.Concat(found.args, found.inner)
	}
	vars, _ := r.variables(found.unit)
	return arguments(found.unit, found.unit.exec(), vars)
}

// ours is the command of our drop-in; that of no file if there is none.
func ours(found started) setting {
	for _, e := range found.unit.execs {
		if e.file == dropInOf(found.unit.name) {
			return e
		}
	}
	return setting{}
}

// unitOf describes the unit of systemd; nil if there is none.
func (r *reading) unitOf(found started) *Unit {
	if found.unit == nil {
		return nil
	}
	s, exec := found.without, found.without.exec()
	u := &Unit{
		Name: s.name, Files: found.unit.files, Masked: s.masked,
		Exec:  Command{exec.value, exec.file, exec.line},
		Words: texts(found.args), Missing: found.missing,
		Type: s.last["Type"], KillMode: s.last["KillMode"], Restart: s.last["Restart"], Watchdog: s.last["WatchdogSec"],
		DropIn: dropInOf(s.name),
	}
	if e := ours(found); e != (setting{}) {
		u.Ours = &OurOwn{Exec: e.value, Stale: !strings.HasPrefix(e.value, u.Exec.Text+" ")}
	}
	u.Problem = r.dropInProblem(found, u)
	return u
}

// dropInProblem says why a drop-in of ours could not give the kubelet its flags.
func (r *reading) dropInProblem(found started, u *Unit) string {
	if why := commandProblem(found.without, found.args, found.program); why != "" {
		return why
	}
	if exec := u.Exec; path.Base(exec.File) > dropInName && exec.File != found.without.fragment {
		return fmt.Sprintf("%s:%d overrides the start command and is read after %s", exec.File, exec.Line, u.DropIn)
	}
	for _, file := range u.Files {
		if err := r.failed[file]; err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Sprintf("%s: %v", file, cause(err))
		}
	}
	return r.place(u.DropIn).Fixed
}

// nodeadm describes the agent of EKS; nil on other nodes.
func (r *reading) nodeadm(kind Kind) *Nodeadm {
	const dir = "/etc/eks/nodeadm.d"
	if kind != EKS2023 {
		return nil
	}
	exec := r.unit("nodeadm-run.service", "").exec().value
	return &Nodeadm{Dir: dir, Supported: strings.Contains(exec, "file://"+dir), DropIn: dir + "/90-regcred.yaml"}
}

// processes are the names of what runs the kubelet, as the kernel has them.
func (found started) processes() []string {
	switch found.kind {
	case K3sServer, K3sAgent:
		return []string{"k3s-server", "k3s-agent", "k3s"}
	case K0s, MicroK8s:
		return nil
	}
	return []string{"kubelet"}
}

// usable reports whether what a flag names can be changed, and is one of these.
func (f Flag) usable(types ...PlaceType) bool {
	return f.Set() && f.Fixed == "" && slices.Contains(types, f.Type)
}

// way is how the kubelet comes to what install brings.
func way(s *Setup) Way {
	v := s.Vendor
	kept := v.Config.usable(File, Directory, Absent) && v.BinDir.usable(Directory, Absent)
	switch {
	case s.Rancher != nil && kept:
		return ByPlaces
	case s.Rancher != nil, s.Kind == NoKubelet:
		return ByHand
	case kept && s.Nodeadm == nil: // nodeadm writes its file anew
		return ByFiles
	case s.Unit != nil && s.Unit.Problem == "":
		return ByDropIn
	}
	return ByHand
}
