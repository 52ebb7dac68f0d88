// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// unitDirs returns the directories in which systemd looks for units, in order of precedence
// (systemd.unit(5)).
func unitDirs() []string {
	return []string{
		"/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/transient", "/run/systemd/generator.early",
		"/etc/systemd/system", "/etc/systemd/system.attached", "/run/systemd/system", "/run/systemd/system.attached",
		"/run/systemd/generator", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system",
		"/run/systemd/generator.late",
	}
}

// systemdUnit holds the settings of a service unit that affect the kubelet.
type systemdUnit struct {
	name        string
	fragment    string // path of the unit file; "" if it does not exist
	masked      bool
	files       []string      // the unit file and its drop-ins, in the order in which systemd reads them
	execs       []unitSetting // ExecStart
	environment []unitSetting // Environment
	envFiles    []unitSetting // EnvironmentFile
	unsetVars   []unitSetting // UnsetEnvironment
	workDirs    []unitSetting // WorkingDirectory; the last one takes effect
	rootDirs    []unitSetting // RootDirectory and RootImage
	noExec      []unitSetting // NoExecPaths and InaccessiblePaths
	exec        []unitSetting // ExecPaths
}

// startCommand returns the last ExecStart command.
func (s *systemdUnit) startCommand() unitSetting {
	if len(s.execs) == 0 {
		return unitSetting{}
	}
	return s.execs[len(s.execs)-1]
}

// readUnit reads a unit and its drop-ins as systemd does. It uses the first unit file with that
// name. A drop-in hides drop-ins with the same name in later directories. readUnit ignores the
// drop-in except.
func (r *fileReader) readUnit(name, except string) *systemdUnit {
	s := &systemdUnit{name: name}
	for _, dir := range unitDirs() {
		file := path.Join(dir, name)
		if masked := r.isMask(file); masked || r.fileExists(file) {
			s.fragment, s.masked = file, masked
			s.addFile(r, file)
			break
		}
	}
	for _, file := range r.unitDropIns(r.unitNames(s), except) {
		s.addFile(r, file)
	}
	return s
}

// isMask reports whether a unit file masks the unit, either as a symlink to /dev/null
// or as an empty file.
func (r *fileReader) isMask(file string) bool {
	if target, err := r.fs().Readlink(file); err == nil && path.Clean(target) == "/dev/null" {
		return true
	}
	info, err := r.fs().Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}

// unitNames returns the unit names whose drop-ins systemd reads for a unit: the unit's own name
// and, if it is an alias, the name of the unit file.
func (r *fileReader) unitNames(s *systemdUnit) []string {
	names := []string{s.name}
	if real, err := r.fs().EvalSymlinks(s.fragment); s.fragment != "" && err == nil && path.Ext(real) == ".service" && path.Base(real) != s.name {
		names = append(names, path.Base(real))
	}
	return names
}

// unitDropIns returns the paths of a unit's drop-ins in the order in which systemd reads them.
// They include drop-ins for prefixes of the name ("k3s-.service.d") and for all services
// ("service.d").
func (r *fileReader) unitDropIns(names []string, except string) (files []string) {
	found := map[string]string{}
	add := func(dir string) {
		for _, e := range r.readDirNames(dir) {
			if file := path.Join(dir, e); strings.HasSuffix(e, ".conf") && found[e] == "" && !r.isSameFile(file, except) {
				found[e] = file
			}
		}
	}
	for _, name := range names {
		for _, dir := range unitDirs() {
			for _, n := range nameAndPrefixes(name) {
				add(path.Join(dir, n+".d"))
			}
		}
	}
	for _, dir := range unitDirs() {
		add(path.Join(dir, "service.d"))
	}
	for _, e := range slices.Sorted(maps.Keys(found)) {
		if !r.isMask(found[e]) {
			files = append(files, found[e])
		}
	}
	return files
}

// isSameFile reports whether two paths lead to the same file, possibly through symlinks.
func (r *fileReader) isSameFile(a, b string) bool {
	if a == b || path.Base(a) != path.Base(b) {
		return a == b
	}
	realA, errA := r.fs().EvalSymlinks(a)
	realB, errB := r.fs().EvalSymlinks(b)
	return errA == nil && errB == nil && realA == realB
}

// nameAndPrefixes returns a unit's name and its prefixes, longest first. For "a-b.service", it
// returns "a-b.service" and "a-.service".
func nameAndPrefixes(name string) []string {
	names := []string{name}
	stem, ext := strings.TrimSuffix(name, path.Ext(name)), path.Ext(name)
	for {
		i := strings.LastIndexByte(strings.TrimRight(stem, "-"), '-')
		if i < 0 {
			return names
		}
		stem = stem[:i+1]
		names = append(names, stem+ext)
	}
}

// addFile adds the settings of a unit file or drop-in to s. An empty value removes the earlier
// values of a setting (systemd.service(5), systemd.exec(5)).
func (s *systemdUnit) addFile(r *fileReader, file string) {
	if s.masked && file == s.fragment {
		return
	}
	s.files = append(s.files, file)
	s.parseText(r.readFile(file), file)
}

func (s *systemdUnit) parseText(text, file string) {
	lists := map[string]*[]unitSetting{
		"ExecStart": &s.execs, "Environment": &s.environment, "EnvironmentFile": &s.envFiles, "UnsetEnvironment": &s.unsetVars,
		"WorkingDirectory": &s.workDirs, "RootDirectory": &s.rootDirs, "RootImage": &s.rootDirs,
		"NoExecPaths": &s.noExec, "InaccessiblePaths": &s.noExec, "ExecPaths": &s.exec,
	}
	section := ""
	for _, line := range logicalLines(text) {
		if strings.HasPrefix(line.value, "[") {
			section = line.value
			continue
		}
		key, value, ok := strings.Cut(line.value, "=")
		list := lists[strings.TrimSpace(key)]
		switch value = strings.TrimSpace(value); {
		case !ok || section != "[Service]" || list == nil:
		case value == "":
			*list = nil
		default:
			*list = append(*list, unitSetting{value, filePosition{file, line.line}})
		}
	}
}

// unitVariables returns the environment variables that a unit sets. EnvironmentFile overrides
// Environment, and later settings override earlier settings. missing lists missing files
// without which systemd does not start the unit.
func (r *fileReader) unitVariables(s *systemdUnit) (vars map[string]envVariable, missing []string) {
	vars = map[string]envVariable{}
	for _, e := range s.environment {
		for _, word := range splitWords(e.value) {
			if name, value, ok := strings.Cut(expandSpecifiers(word, s.name), "="); ok {
				vars[name] = envVariable{value, e.filePosition}
			}
		}
	}
	for _, e := range s.envFiles {
		name, optional := strings.CutPrefix(e.value, "-")
		for _, file := range r.globPaths(expandSpecifiers(name, s.name)) {
			text := r.readFile(file)
			if r.loadContent(file).err != nil && !optional {
				missing = append(missing, file)
			}
			maps.Copy(vars, parseEnvironmentFile(text, file))
		}
	}
	for _, e := range s.unsetVars {
		for _, word := range splitWords(e.value) {
			name, value, hasValue := strings.Cut(expandSpecifiers(word, s.name), "=")
			if !hasValue || vars[name].value == value {
				delete(vars, name)
			}
		}
	}
	return vars, missing
}

// workDir returns the working directory of the unit's processes.
func (s *systemdUnit) workDir() string {
	if len(s.workDirs) == 0 {
		return "/"
	}
	dir := expandSpecifiers(strings.TrimPrefix(s.workDirs[len(s.workDirs)-1].value, "-"), s.name)
	if dir == "~" {
		return "/root" // the kubelet runs as root
	}
	return path.Join("/", dir)
}

// noExecReason returns the setting that keeps the unit's processes from executing files in a
// directory, or "" if there is none. The setting with the longest path applies (systemd.exec(5)).
func (s *systemdUnit) noExecReason(dir string) string {
	longest := func(settings []unitSetting) (length int, at filePosition, text string) {
		for _, e := range settings {
			for _, word := range splitWords(e.value) {
				p := path.Join("/", expandSpecifiers(strings.TrimLeft(word, "-+"), s.name))
				if (p == "/" || dir == p || strings.HasPrefix(dir, p+"/")) && len(p) > length {
					length, at, text = len(p), e.filePosition, p
				}
			}
		}
		return length, at, text
	}
	no, at, text := longest(s.noExec)
	if yes, _, _ := longest(s.exec); no <= yes {
		return ""
	}
	return fmt.Sprintf("%s:%d does not allow %s to execute files below %s", at.file, at.line, s.name, text)
}

// commandWords returns the words of a unit's start command with variables expanded. The first
// word is the program.
func commandWords(s *systemdUnit, exec unitSetting, vars map[string]envVariable) (args []commandWord) {
	prefix, command := cutExecPrefixes(exec.value)
	for i, text := range splitWords(command) {
		text = expandSpecifiers(text, s.name)
		name, alone := strings.CutPrefix(text, "$")
		switch {
		case i == 1 && strings.Contains(prefix, "@"): // with the prefix "@", the second word is argv[0]
		case i == 0 || strings.Contains(prefix, ":"): // variables are not expanded
			args = append(args, commandWord{text, exec.filePosition, ""})
		case alone && isVariableName(name):
			// $NAME as a separate word is split into words.
			for _, text := range splitVariableWords(vars[name].value) {
				args = append(args, commandWord{text, vars[name].filePosition, name})
			}
		default:
			text, by := expandVariables(text, vars)
			args = append(args, commandWord{text, exec.filePosition, by})
		}
	}
	return args
}

// commandProblem returns why flags that are appended to a unit's start command would not reach
// the kubelet. It returns "" if they would. program is the base name of the expected
// executable.
func commandProblem(s *systemdUnit, args []commandWord, program string) string {
	exec := s.startCommand()
	shells := []string{"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"}
	// These programs run the kubelet with another root directory.
	isolators := []string{"docker", "podman", "nerdctl", "ctr", "rkt", "kubelet-wrapper", "systemd-nspawn", "chroot", "nsenter", "unshare", "snap"}
	at := fmt.Sprintf("%s:%d", exec.file, exec.line)
	words := wordTexts(args)
	_, command := cutExecPrefixes(exec.value)
	name := func(w string) string { return path.Base(w) }
	switch {
	case s.masked:
		return s.fragment + " is masked"
	case len(s.execs) == 0:
		return s.name + " has no ExecStart"
	case len(s.rootDirs) > 0:
		return fmt.Sprintf("%s:%d gives the kubelet another root directory, where paths differ from the node's", s.rootDirs[0].file, s.rootDirs[0].line)
	case len(s.execs) > 1:
		return fmt.Sprintf("%s: %d ExecStart commands", at, len(s.execs))
	case !hasBalancedQuotes(command):
		return at + ": unterminated quote"
	case slices.Contains(splitWords(command), ";"):
		return at + ": the line contains several commands"
	case slices.Contains(shells, name(words[0])):
		return at + ": it starts the kubelet through a shell, which does not pass arguments after the script to the kubelet"
	case slices.ContainsFunc(words, func(w string) bool { return slices.Contains(isolators, name(w)) }):
		return at + ": it starts the kubelet in a container or another root directory, where paths differ from the node's"
	case !slices.ContainsFunc(words, func(w string) bool { return name(w) == program || name(w) == "hyperkube" }):
		return fmt.Sprintf("%s: it starts %s, which might not pass flags on to the kubelet", at, words[0])
	case slices.Contains(words, "--"):
		return at + ": arguments after -- are not flags"
	}
	return ""
}
