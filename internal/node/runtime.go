// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

// Runtime is the container runtime of a node, and what it is started with.
type Runtime struct {
	Name    string    // "containerd" or "CRI-O"
	PID     int       // 0 if it is known by its unit alone
	From    string    // where Environ is from, for people: "containerd, process 812"
	Environ []string  // of its process, or else as its unit has it
	Started time.Time // zero if it is not known
}

// runtimes are the runtimes of kubelets, by the names of their processes and units.
func runtimes() []struct{ name, comm, unit string } {
	return []struct{ name, comm, unit string }{
		{"containerd", "containerd", "containerd.service"},
		{"CRI-O", "crio", "crio.service"},
	}
}

// Runtime finds the container runtime of this node: the process pid, or if that is
// 0 one that runs, with its environment if this user may read that, else the one
// that has a unit. It is nil if there is none.
func (n Node) Runtime(ctx context.Context, pid int) *Runtime {
	r := newReading(ctx, n)
	for _, want := range runtimes() {
		if found := r.runtimeProcess(want.name, want.comm, pid); found != nil {
			if found.Environ == nil {
				found.Environ, found.From = r.unitEnviron(want.unit), fmt.Sprintf("%s, from %s: only root can read the environment of process %d", want.name, want.unit, found.PID)
			}
			return found
		}
	}
	for _, want := range runtimes() {
		if r.unit(want.unit, "").fragment != "" {
			return &Runtime{Name: want.name, From: want.name + ", from " + want.unit, Environ: r.unitEnviron(want.unit)}
		}
	}
	return nil
}

// runtimeProcess finds a process of this node's root directory by its name, as
// the kubelet's is found.
func (r *reading) runtimeProcess(name, comm string, pid int) *Runtime {
	running := r.search(func(p *process) bool { return p.comm() == comm && (pid == 0 || p.pid == pid) })
	if running == nil {
		return nil
	}
	found := &Runtime{Name: name, PID: running.PID, From: fmt.Sprintf("%s, process %d", name, running.PID), Started: r.bootTime(running.Start)}
	p, err := r.node.openProcess(running.PID)
	if err != nil {
		return nil
	}
	defer p.Close()
	if environ, err := p.list("environ"); err == nil {
		found.Environ = append([]string{}, environ...)
	}
	return found
}

// ticksPerSecond is in what /proc counts, on every architecture that Go is for.
const ticksPerSecond = 100

// bootTime is the moment so many ticks after boot (proc(5), btime); zero if that
// is not known.
func (r *reading) bootTime(ticks uint64) time.Time {
	data, err := os.ReadFile(r.node.host(proc + "/stat"))
	if err != nil {
		return time.Time{}
	}
	_, rest, _ := bytes.Cut(data, []byte("\nbtime "))
	digits, _, _ := bytes.Cut(rest, []byte("\n"))
	boot, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(boot+int64(ticks/ticksPerSecond), 0)
}

// unitEnviron is the environment that a unit gives its process.
func (r *reading) unitEnviron(unit string) (environ []string) {
	vars, _ := r.variables(r.unit(unit, ""))
	for name, v := range vars {
		environ = append(environ, name+"="+v.value)
	}
	slices.Sort(environ)
	return environ
}
