// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
)

// kubeletService describes the service that starts the kubelet.
type kubeletService struct {
	kind         Kind
	init         InitSystem
	name         string       // name of the service in the init system; "" if there is no service
	unit         *systemdUnit // nil unless the init system is systemd
	originalUnit *systemdUnit // the unit without regcred's drop-in
	vars         map[string]envVariable
	args         []commandWord // words of the original unit's start command
	embedded     []commandWord // kubelet arguments that are not in the start command, as on MicroK8s and k0s
	missing      []string
	program      string      // base name of the executable that the service starts
	foundBy      *fileReader // reader that found the service, with the files that it read
}

func (r *fileReader) findKubeletService() kubeletService {
	kind := r.detectKind()
	if kind == "" {
		for _, name := range slices.Concat(r.unitsEnabledFirst("k3s"), r.unitsEnabledFirst("rke2-")) {
			if s, ok := r.rancherService(name); ok {
				return s
			}
		}
		if k0s := r.matchingUnits(K0s.kindSpec().unit); len(k0s) > 0 {
			s := r.unitService(k0s[0])
			return r.completeService(s, K0s)
		}
	}
	s := r.unitService(cmp.Or(kind.kindSpec().unit, "kubelet.service"))
	switch {
	case kind == "" && s.unit.fragment == "":
		return r.openRCService()
	case kind == "":
		kind = s.kindOfUnit()
	}
	return r.completeService(s, kind)
}

// completeService sets the fields of s that depend on the kind.
func (r *fileReader) completeService(s kubeletService, kind Kind) kubeletService {
	s.kind = kind
	s.embedded = r.embeddedArgs(kind.kindSpec(), s.args)
	if s.unit.fragment == "" {
		s.unit, s.init, s.name = nil, InitUnknown, ""
	}
	return s
}

// detectKind returns the node's kind if a file identifies it, or "".
func (r *fileReader) detectKind() (kind Kind) {
	signs := r.fileCache.newReader(r.ctx) // separate reader, because the kubelet's flags do not depend on these files
	applies := func(s kindMarker) bool {
		if s.pattern == "" {
			return signs.fileExists(s.file)
		}
		return regexp.MustCompile("(?m)" + s.pattern).MatchString(strings.ReplaceAll(signs.readFile(s.file), `"`, ""))
	}
	for _, k := range kindTable() {
		if slices.ContainsFunc(k.markers, applies) {
			kind = k.kind
			break
		}
	}
	r.unreadablePaths = append(r.unreadablePaths, signs.unreadablePaths...)
	return kind
}

// matchingUnits returns the names of the units that match a pattern.
func (r *fileReader) matchingUnits(pattern string) (names []string) {
	for _, dir := range unitDirs() {
		for _, e := range r.readDirNames(dir) {
			if ok, _ := path.Match(pattern, e); ok && !slices.Contains(names, e) {
				names = append(names, e)
			}
		}
	}
	return names
}

// embeddedArgs returns the kubelet's arguments that are not in the start command. They are in a
// file, as for MicroK8s, or in the value of a flag, as for k0s.
func (r *fileReader) embeddedArgs(k kindSpec, command []commandWord) (args []commandWord) {
	if k.argsFile != "" {
		for i, line := range physicalLines(r.readFile(k.argsFile)) {
			for _, w := range splitFlags(line) {
				args = append(args, commandWord{text: w, filePosition: filePosition{k.argsFile, i + 1}})
			}
		}
	}
	if k.argsFlag != "" {
		for _, g := range findFlags(command, k.argsFlag)[k.argsFlag] {
			for _, w := range splitVariableWords(g.Value) {
				args = append(args, commandWord{text: w, filePosition: filePosition{g.File, g.Line}, variable: k.argsFlag})
			}
		}
	}
	return args
}

// unitService reads a systemd unit and returns it as the kubelet's service.
func (r *fileReader) unitService(name string) kubeletService {
	s := kubeletService{init: InitSystemd, name: name, unit: r.readUnit(name, ""), originalUnit: r.readUnit(name, dropInPath(name)), program: "kubelet"}
	s.vars, s.missing = r.unitVariables(s.originalUnit)
	s.args = commandWords(s.originalUnit, s.originalUnit.startCommand(), s.vars)
	return s
}

// dropInPath returns the path of regcred's drop-in for a unit.
func dropInPath(unit string) string {
	return path.Join("/etc/systemd/system", unit+".d", dropInName)
}

const dropInName = "90-regcred.conf"

// kindOfUnit returns the kind of a node based on the drop-ins and environment files of
// kubelet.service.
func (s kubeletService) kindOfUnit() Kind {
	var reads []string
	for _, file := range s.originalUnit.files {
		reads = append(reads, path.Base(file))
	}
	for _, e := range s.originalUnit.envFiles {
		reads = append(reads, strings.TrimPrefix(e.value, "-"))
	}
	for _, file := range reads {
		for _, k := range kindTable() {
			if slices.Contains(k.unitReads, file) {
				return k.kind
			}
		}
	}
	return OtherSystemd
}

// rancherService reads a unit of k3s or rke2. It returns false if the unit starts another
// program.
func (r *fileReader) rancherService(name string) (kubeletService, bool) {
	s := r.unitService(name)
	if len(s.args) < 2 {
		return s, false
	}
	s.program = path.Base(s.args[0].text)
	s.kind = Kind(s.program + "-" + s.args[1].text)
	return s, s.kind.isRancher()
}

// unitsEnabledFirst returns the service units with a name prefix. Enabled units come first. A
// node may have several units: the rke2 package includes two, and a k3s node may have changed
// its role.
func (r *fileReader) unitsEnabledFirst(prefix string) []string {
	names := r.matchingUnits(prefix + "*.service")
	disabled := func(unit string) int {
		if r.fs().Exists(path.Join("/etc/systemd/system/multi-user.target.wants", unit)) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(names, func(a, b string) int { return disabled(a) - disabled(b) })
	return names
}

// openRCService reads the OpenRC service that starts k3s or the kubelet. The script of the
// service, or a file in /etc/conf.d, sets command_args.
func (r *fileReader) openRCService() kubeletService {
	for _, name := range []string{"k3s", "k3s-agent", "kubelet"} {
		script := path.Join("/etc/init.d", name)
		if !r.fileExists(script) {
			continue
		}
		kind := cmp.Or(map[string]Kind{"k3s": K3sServer, "k3s-agent": K3sAgent}[name], OtherOpenRC)
		s := kubeletService{init: InitOpenRC, name: name, kind: kind, program: kind.kindSpec().program}
		s.vars = r.shellVariables(path.Join("/etc/conf.d", name), "/var/lib/kubelet/kubeadm-flags.env", "/etc/rancher/k3s/"+name+".env", script)
		s.args = s.openRCArgs()
		return s
	}
	init := InitUnknown
	if r.fileExists("/run/systemd/system") || r.fileExists("/usr/lib/systemd/systemd") || r.fileExists("/lib/systemd/systemd") {
		init = InitSystemd
	}
	return kubeletService{kind: NoKubelet, init: init}
}

// shellVariables returns the variables that a sequence of shell scripts assigns. It recognizes
// only assignments in the syntax of environment files. A value may refer to the variable's
// previous value.
func (r *fileReader) shellVariables(files ...string) map[string]envVariable {
	vars := map[string]envVariable{}
	for _, file := range files {
		for name, v := range parseEnvironmentFile(r.readFile(file), file) {
			if self := "${" + name + "}"; strings.Contains(v.value, self) {
				v.value = strings.ReplaceAll(v.value, self, vars[name].value)
				v.filePosition = cmp.Or(vars[name].filePosition, v.filePosition)
			}
			vars[name] = v
		}
	}
	return vars
}

func (s kubeletService) openRCArgs() (args []commandWord) {
	for _, name := range []string{"command", "command_args"} {
		v := s.vars[name]
		text, _ := expandVariables(v.value, s.vars)
		for _, w := range splitVariableWords(text) {
			args = append(args, commandWord{w, v.filePosition, name})
		}
	}
	return args
}

// nextCommandWords returns the kubelet's command line for the next start, including regcred's
// drop-in.
func (r *fileReader) nextCommandWords(s kubeletService) []commandWord {
	exec := s.dropInCommand()
	if exec == (unitSetting{}) {
		return slices.Concat(s.args, s.embedded)
	}
	vars, _ := r.unitVariables(s.unit)
	return commandWords(s.unit, s.unit.startCommand(), vars)
}

// dropInCommand returns the start command in regcred's drop-in. It returns the zero value if
// the drop-in does not exist.
func (s kubeletService) dropInCommand() unitSetting {
	if s.unit != nil {
		for _, e := range s.unit.execs {
			if e.file == dropInPath(s.unit.name) {
				return e
			}
		}
	}
	return unitSetting{}
}
