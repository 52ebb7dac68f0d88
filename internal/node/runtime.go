// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Runtime is the container runtime of a node.
type Runtime struct {
	Name    string    // "containerd" or "CRI-O"
	PID     int       // 0 if only its unit was found
	From    string    // source of Environ, such as "containerd, process 812"
	Environ []string  // of the process, or as set by its unit
	Started time.Time // zero if it is unknown
}

// runtimes returns the container runtimes.
func runtimes() []struct{ name, comm, unit string } {
	return []struct{ name, comm, unit string }{
		{"containerd", "containerd", "containerd.service"},
		{"CRI-O", "crio", "crio.service"},
	}
}

// Runtime returns the container runtime with a process ID or, if pid is 0, a running
// one. If none runs, it returns the first that has a unit, or nil.
func (r *Reading) Runtime(ctx context.Context, pid int) *Runtime {
	rd := r.reader(ctx)
	for _, want := range runtimes() {
		running := rd.findRunning(func(p *process) bool { return p.comm() == want.comm && (pid == 0 || p.pid == pid) })
		if running == nil {
			continue
		}
		p, err := r.openProcess(running.PID)
		if err != nil {
			continue
		}
		environ, err := p.list("environ")
		p.Close()
		from := fmt.Sprintf("%s, process %d", want.name, running.PID)
		if err != nil {
			environ, from = rd.unitEnviron(want.unit), fmt.Sprintf("%s, from %s: only root can read the environment of process %d", want.name, want.unit, running.PID)
		}
		return &Runtime{Name: want.name, PID: running.PID, From: from, Environ: environ, Started: r.StartTime(running)}
	}
	for _, want := range runtimes() {
		if rd.unit(want.unit, "").fragment != "" {
			return &Runtime{Name: want.name, From: want.name + ", from " + want.unit, Environ: rd.unitEnviron(want.unit)}
		}
	}
	return nil
}

// unitEnviron returns the environment that a unit sets.
func (r *reader) unitEnviron(unit string) (environ []string) {
	vars, _ := r.environment(r.unit(unit, ""))
	for name, v := range vars {
		environ = append(environ, name+"="+v.value)
	}
	slices.Sort(environ)
	return environ
}
