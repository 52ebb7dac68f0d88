// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
)

// running finds the kubelet that runs on this node, or the program that has it
// inside: by these names and, since a kubelet may be started under another one,
// by its unit.
func (r *reading) running(unit string, names ...string) *Running {
	named := func(p *process) bool { return slices.Contains(names, p.comm()) }
	if found := r.search(named); found != nil || unit == "" {
		return found
	}
	return r.search(func(p *process) bool { return p.isMainOf(unit) })
}

// search finds a process of this node's root directory.
func (r *reading) search(is func(*process) bool) *Running {
	entries, err := os.ReadDir(r.node.host(proc))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if found := r.process(pid, is); found != nil {
			return found
		}
	}
	return nil
}

// process looks at a process; nil if it is not the one, or has ended.
func (r *reading) process(pid int, is func(*process) bool) *Running {
	p, err := r.node.openProcess(pid)
	if err != nil {
		return nil
	}
	defer p.Close()
	if !is(p) {
		return nil
	}
	if here, err := p.hasRoot(r.node.host("/")); err != nil || !here {
		r.note(proc+"/"+strconv.Itoa(pid)+"/root", err)
		return nil
	}
	start, err := p.start()
	args, argErr := p.list("cmdline")
	if errors.Join(err, argErr, p.checkOwner(os.Geteuid())) != nil {
		return nil
	}
	found := &Running{PID: pid, Start: start}
	// A script that starts the kubelet has none of its flags.
	if flags := kubeletFlags(args); p.comm() == "kubelet" || len(flags) > 0 {
		found.Flags = &RunningFlags{flags[configFlag], flags[binDirFlag]}
	}
	return found
}

// comm is the name of a process, as far as the kernel keeps it.
func (p *process) comm() string {
	data, err := read(p.at("comm"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// isMainOf reports whether systemd has started a process for a unit, of which
// its control group tells.
func (p *process) isMainOf(unit string) bool {
	groups, err := read(p.at("cgroup"))
	if err != nil {
		return false
	}
	in := func(line string) bool { return strings.HasSuffix(line, "/"+unit) }
	if !slices.ContainsFunc(strings.Split(string(groups), "\n"), in) {
		return false
	}
	parent, err := p.stat(1)
	return err == nil && parent == 1
}

// hasRoot reports whether the root directory of a process is this one.
func (p *process) hasRoot(dir string) (bool, error) {
	theirs, err := os.Stat(p.at("root"))
	if err != nil {
		return false, err
	}
	ours, err := os.Stat(dir)
	return err == nil && os.SameFile(theirs, ours), err
}

// start is when the process started, in clock ticks after boot.
func (p *process) start() (uint64, error) { return p.stat(19) }

// stat is a number of /proc/PID/stat, counted from the state, field 3 of
// proc(5): the name, field 2, may have anything in it.
func (p *process) stat(field int) (uint64, error) {
	stat, err := read(p.at("stat"))
	if err != nil {
		return 0, p.fail("stat", err)
	}
	fields := strings.Fields(string(stat)[strings.LastIndexByte(string(stat), ')')+1:])
	if len(fields) <= field {
		return 0, p.fail("stat", errors.New("too few fields"))
	}
	return strconv.ParseUint(fields[field], 10, 64)
}

// Next are the two flags of the kubelet's next start. k3s and rke2 give it both or
// none.
func (s *Setup) Next() RunningFlags {
	if s.Rancher != nil && len(s.Rancher.Args) == 0 && (s.Config.Type != File || s.BinDir.Type != Directory) {
		return RunningFlags{}
	}
	return RunningFlags{s.Config.Path, s.BinDir.Path}
}

// differs reports whether a running kubelet has other flags than its files give
// the next one.
func (s *Setup) differs() bool {
	return s.Running != nil && s.Running.Flags != nil && *s.Running.Flags != s.Next()
}
