// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// kubeletService is the service that starts the kubelet.
type kubeletService struct {
	kind     Kind
	init     Init
	name     string       // as init calls it; "" on a node without a service
	unit     *systemdUnit // nil unless init is systemd
	original *systemdUnit // unit without regcred's drop-in
	vars     map[string]variable
	args     []word // the original command
	embedded []word // arguments of a kubelet that is part of another program
	missing  []string
	program  string  // base name of the executable that the service starts
	by       *reader // that has found the service
}

func (r *reader) findKubeletService() kubeletService {
	kind := r.detect()
	if kind == "" {
		for _, name := range slices.Concat(r.enabledFirst("k3s"), r.enabledFirst("rke2-")) {
			if s, ok := r.rancherService(name); ok {
				return s
			}
		}
		if k0s := r.units(K0s.info().unit); len(k0s) > 0 {
			s := r.unitService(k0s[0])
			return r.complete(s, K0s)
		}
	}
	s := r.unitService(cmp.Or(kind.info().unit, "kubelet.service"))
	switch {
	case kind == "" && s.unit.fragment == "":
		return r.openRCService()
	case kind == "":
		kind = s.kindOfUnit()
	}
	return r.complete(s, kind)
}

// complete fills in what depends on the kind.
func (r *reader) complete(s kubeletService, kind Kind) kubeletService {
	s.kind = kind
	if embedded := kind.info().embedded; embedded != nil {
		s.embedded = embedded(r, s)
	}
	if s.unit.fragment == "" {
		s.unit, s.init, s.name = nil, NoInit, ""
	}
	return s
}

// detect returns the kind that a file on the node identifies; "" if none does.
func (r *reader) detect() (kind Kind) {
	signs := r.fileCache.reader(r.ctx) // the kubelet's flags do not depend on the signs
	applies := func(s sign) bool {
		return s.has == "" && signs.exists(s.file) || s.has != "" && signs.hasLine(s.file, s.has)
	}
	for _, k := range kinds() {
		if slices.ContainsFunc(k.signs, applies) {
			kind = k.kind
			break
		}
	}
	r.unread = append(r.unread, signs.unread...)
	return kind
}

// hasLine reports whether a line of a file is a text, ignoring quotes. If the text
// ends in "=", the line must begin with it; if it is a path, the line must contain it.
func (r *reader) hasLine(file, text string) bool {
	for _, line := range physicalLines(strings.ReplaceAll(r.file(file), `"`, "")) {
		if strings.HasSuffix(text, "=") && strings.HasPrefix(line, text) || line == text || strings.Contains(text, "/") && strings.Contains(line, text) {
			return true
		}
	}
	return false
}

// units returns the units whose names match a pattern.
func (r *reader) units(pattern string) (names []string) {
	for _, dir := range unitDirs() {
		for _, e := range r.list(dir) {
			if ok, _ := path.Match(pattern, e); ok && !slices.Contains(names, e) {
				names = append(names, e)
			}
		}
	}
	return names
}

const microK8sArgs = "/var/snap/microk8s/current/args/kubelet"

func (r *reader) microK8sArgs(kubeletService) (args []word) {
	for i, line := range physicalLines(r.file(microK8sArgs)) {
		for _, w := range splitFlags(line) {
			args = append(args, word{text: w, position: position{microK8sArgs, i + 1}})
		}
	}
	return args
}

func (*reader) k0sArgs(s kubeletService) (args []word) {
	const flag = "kubelet-extra-args"
	for _, g := range givenIn(s.args, flag)[flag] {
		for _, w := range splitPlain(g.Value) {
			args = append(args, word{text: w, position: position{g.File, g.Line}, by: flag})
		}
	}
	return args
}

// unitService reads a systemd unit.
func (r *reader) unitService(name string) kubeletService {
	s := kubeletService{init: Systemd, name: name, unit: r.unit(name, ""), original: r.unit(name, dropInOf(name)), program: "kubelet"}
	s.vars, s.missing = r.environment(s.original)
	s.args = commandWords(s.original, s.original.exec(), s.vars)
	return s
}

// dropInOf returns the path of regcred's drop-in for a unit.
func dropInOf(unit string) string {
	return path.Join("/etc/systemd/system", unit+".d", dropInName)
}

const dropInName = "90-regcred.conf"

// kindOfUnit returns the kind that the files of kubelet.service identify.
func (s kubeletService) kindOfUnit() Kind {
	var reads []string
	for _, file := range s.original.files {
		reads = append(reads, path.Base(file))
	}
	for _, e := range s.original.envFiles {
		reads = append(reads, strings.TrimPrefix(e.value, "-"))
	}
	for _, file := range reads {
		for _, k := range kinds() {
			if slices.Contains(k.unitReads, file) {
				return k.kind
			}
		}
	}
	return PlainUnit
}

// rancherService reads a unit of k3s or rke2; false if it starts something else.
func (r *reader) rancherService(name string) (kubeletService, bool) {
	s := r.unitService(name)
	if len(s.args) < 2 {
		return s, false
	}
	s.program = path.Base(s.args[0].text)
	s.kind = Kind(s.program + "-" + s.args[1].text)
	return s, s.kind.isRancher()
}

// enabledFirst returns the units with a prefix, enabled units first: the rke2 package
// includes two units, and the role of a k3s node may have been changed.
func (r *reader) enabledFirst(prefix string) []string {
	names := r.units(prefix + "*.service")
	slices.SortStableFunc(names, func(a, b string) int { return r.enabled(b) - r.enabled(a) })
	return names
}

// enabled returns 1 if a unit is started at boot, and 0 otherwise.
func (r *reader) enabled(unit string) int {
	if r.fs().Exists(path.Join("/etc/systemd/system/multi-user.target.wants", unit)) {
		return 1
	}
	return 0
}

// openRCService reads a service of OpenRC: a script that sets command_args, or
// reads them from a file in /etc/conf.d.
func (r *reader) openRCService() kubeletService {
	for _, name := range []string{"k3s", "k3s-agent", "kubelet"} {
		script := path.Join("/etc/init.d", name)
		if !r.exists(script) {
			continue
		}
		kind := cmp.Or(map[string]Kind{"k3s": K3sServer, "k3s-agent": K3sAgent}[name], OpenRCUnit)
		s := kubeletService{init: OpenRC, name: name, kind: kind, program: kind.info().program}
		s.vars = r.shellVariables(path.Join("/etc/conf.d", name), "/var/lib/kubelet/kubeadm-flags.env", "/etc/rancher/k3s/"+name+".env", script)
		s.args = s.openRCArgs()
		return s
	}
	init := NoInit
	if r.exists("/run/systemd/system") || r.exists("/usr/lib/systemd/systemd") || r.exists("/lib/systemd/systemd") {
		init = Systemd
	}
	return kubeletService{kind: NoKubelet, init: init}
}

// shellVariables returns the variables that shell scripts assign one after
// another. Only assignments in the form of an environment file are understood; a
// value may contain the variable's previous value.
func (r *reader) shellVariables(files ...string) map[string]variable {
	vars := map[string]variable{}
	for _, file := range files {
		for name, v := range environmentFile(r.file(file), file) {
			if self := "${" + name + "}"; strings.Contains(v.value, self) {
				v.value = strings.ReplaceAll(v.value, self, vars[name].value)
				v.position = cmp.Or(vars[name].position, v.position)
			}
			vars[name] = v
		}
	}
	return vars
}

func (s kubeletService) openRCArgs() (args []word) {
	for _, name := range []string{"command", "command_args"} {
		v := s.vars[name]
		text, _ := expand(v.value, s.vars)
		for _, w := range splitPlain(text) {
			args = append(args, word{w, v.position, name})
		}
	}
	return args
}
