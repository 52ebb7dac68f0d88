// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/regcred/regcred/finding"
)

// unitDirs returns the directories of systemd units in order of precedence (systemd.unit(5)).
func unitDirs() []string {
	return []string{
		"/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/transient", "/run/systemd/generator.early",
		"/etc/systemd/system", "/etc/systemd/system.attached", "/run/systemd/system", "/run/systemd/system.attached",
		"/run/systemd/generator", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system",
		"/run/systemd/generator.late",
	}
}

// systemdUnit contains the settings of a service unit that matter for a kubelet.
type systemdUnit struct {
	name        string
	fragment    string // path of the unit file; "" if it does not exist
	masked      bool
	files       []string  // the unit file and its drop-ins, in the order in which systemd reads them
	execs       []setting // ExecStart
	environment []setting // Environment
	envFiles    []setting // EnvironmentFile
}

// exec returns the last start command.
func (s *systemdUnit) exec() setting {
	if len(s.execs) == 0 {
		return setting{}
	}
	return s.execs[len(s.execs)-1]
}

// unit reads a unit as systemd does: the first file with its name, and the drop-ins
// of all directories. A drop-in hides those with the same name in later directories.
// The drop-in except is ignored.
func (r *reader) unit(name, except string) *systemdUnit {
	s := &systemdUnit{name: name}
	for _, dir := range unitDirs() {
		file := path.Join(dir, name)
		if masked := r.isMask(file); masked || r.exists(file) {
			s.fragment, s.masked = file, masked
			s.add(r, file)
			break
		}
	}
	for _, file := range r.dropIns(r.names(s), except) {
		s.add(r, file)
	}
	return s
}

// isMask reports whether a unit file masks the unit: a symlink to /dev/null, or an
// empty file.
func (r *reader) isMask(file string) bool {
	if target, err := r.fs().Readlink(file); err == nil && path.Clean(target) == "/dev/null" {
		return true
	}
	info, err := r.fs().Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}

// names returns the names whose drop-ins apply to a unit: its own name and, if
// that is an alias, the name of the unit file.
func (r *reader) names(s *systemdUnit) []string {
	names := []string{s.name}
	if real, err := r.fs().Real(s.fragment); s.fragment != "" && err == nil && path.Ext(real) == ".service" && path.Base(real) != s.name {
		names = append(names, path.Base(real))
	}
	return names
}

// dropIns returns the drop-ins of a unit in the order in which systemd reads them.
// Drop-ins of the name's prefixes ("k3s-.service.d") and of all services
// ("service.d") apply too.
func (r *reader) dropIns(names []string, except string) (files []string) {
	found := map[string]string{}
	add := func(dir string) {
		for _, e := range r.list(dir) {
			if file := path.Join(dir, e); strings.HasSuffix(e, ".conf") && file != except && found[e] == "" {
				found[e] = file
			}
		}
	}
	for _, name := range names {
		for _, dir := range unitDirs() {
			for _, n := range withPrefixes(name) {
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

// withPrefixes returns a unit's name and its prefixes, the longest first:
// "a-b.service", "a-.service".
func withPrefixes(name string) []string {
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

// add adds the settings of a unit file or drop-in. An empty value resets a
// setting (systemd.service(5), systemd.exec(5)).
func (s *systemdUnit) add(r *reader, file string) {
	if s.masked && file == s.fragment {
		return
	}
	s.files = append(s.files, file)
	s.read(r.file(file), file)
}

func (s *systemdUnit) read(text, file string) {
	section := ""
	for _, line := range logicalLines(text) {
		if strings.HasPrefix(line.value, "[") {
			section = line.value
			continue
		}
		key, value, ok := strings.Cut(line.value, "=")
		if !ok || section != "[Service]" {
			continue
		}
		s.set(strings.TrimSpace(key), setting{strings.TrimSpace(value), position{file, line.line}})
	}
}

func (s *systemdUnit) set(key string, value setting) {
	switch key {
	case "ExecStart":
		s.execs = appendOrReset(s.execs, value)
	case "Environment":
		s.environment = appendOrReset(s.environment, value)
	case "EnvironmentFile":
		s.envFiles = appendOrReset(s.envFiles, value)
	}
}

func appendOrReset(list []setting, s setting) []setting {
	if s.value == "" {
		return nil
	}
	return append(list, s)
}

// environment returns the variables that a unit sets: EnvironmentFile overrides
// Environment, and later settings override earlier ones. systemd does not start the
// unit because of the missing files.
func (r *reader) environment(s *systemdUnit) (vars map[string]variable, missing []string) {
	vars = map[string]variable{}
	for _, e := range s.environment {
		for _, word := range splitWords(e.value) {
			if name, value, ok := strings.Cut(specifiers(word, s.name), "="); ok {
				vars[name] = variable{value, e.position}
			}
		}
	}
	for _, e := range s.envFiles {
		name, optional := strings.CutPrefix(e.value, "-")
		for _, file := range r.glob(specifiers(name, s.name)) {
			text := r.file(file)
			if r.load(file).err != nil && !optional {
				missing = append(missing, file)
			}
			maps.Copy(vars, environmentFile(text, file))
		}
	}
	return vars, missing
}

// word is a word of a command and its position.
type word struct {
	text string
	position
	by string // the variable that contains the word; "" if the command does
}

func texts(words []word) (list []string) {
	for _, w := range words {
		list = append(list, w.text)
	}
	return list
}

// commandWords returns the words of a unit's command, beginning with the program.
func commandWords(s *systemdUnit, exec setting, vars map[string]variable) (args []word) {
	prefix, command := cutPrefixes(exec.value)
	for i, text := range splitWords(command) {
		text = specifiers(text, s.name)
		name, alone := strings.CutPrefix(text, "$")
		switch {
		case i == 1 && strings.Contains(prefix, "@"): // argv[0]
		case i == 0 || strings.Contains(prefix, ":"): // no variables
			args = append(args, word{text, exec.position, ""})
		case alone && isName(name):
			// A variable without braces is split into words.
			for _, text := range splitPlain(vars[name].value) {
				args = append(args, word{text, vars[name].position, name})
			}
		default:
			text, by := expand(text, vars)
			args = append(args, word{text, exec.position, by})
		}
	}
	return args
}

// cutPrefixes separates the special prefixes of a command, such as "-" and "@".
func cutPrefixes(exec string) (prefixes, command string) {
	command = strings.TrimLeft(exec, "@-:+!|")
	return exec[:len(exec)-len(command)], command
}

func isName(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// expand replaces ${NAME} by the variable's value and "$$" by "$". by is the last
// variable that was replaced.
func expand(text string, vars map[string]variable) (expanded, by string) {
	var b strings.Builder
	for text != "" {
		i := strings.IndexByte(text, '$')
		if i < 0 || i+1 == len(text) {
			break
		}
		b.WriteString(text[:i])
		name, rest, closed := strings.Cut(text[i+1:], "}")
		switch {
		case text[i+1] == '$':
			b.WriteByte('$')
			text = text[i+2:]
		case closed && strings.HasPrefix(name, "{") && isName(name[1:]):
			by = name[1:]
			b.WriteString(vars[by].value)
			text = rest
		default:
			b.WriteByte('$')
			text = text[i+1:]
		}
	}
	return b.String() + text, by
}

// CheckUnits returns findings for Environment= settings that systemd ignores, in the
// units of kubelet and runtime, and for typographic quotes and dashes in the kubelet's
// arguments. Findings contain no values.
func (r *Reading) CheckUnits(ctx context.Context) (list []finding.Finding) {
	report := func(at position, message, fix string) {
		list = append(list, finding.Finding{Rule: "units", Severity: finding.SeverityWarning, File: r.Host(at.file), Line: at.line, Message: message, Fix: fix})
	}
	rd := r.reader(ctx)
	s := r.kubeletService(rd)
	units := []*systemdUnit{s.unit}
	for _, runtime := range runtimes() {
		units = append(units, rd.unit(runtime.unit, ""))
	}
	for _, u := range units {
		if u == nil {
			continue
		}
		for _, e := range u.environment {
			if problem, fix := checkEnvironment(e.value, u.name); problem != "" {
				report(e.position, "systemd ignores part of this Environment= line: "+problem, fix)
			}
		}
	}
	for _, w := range rd.command(s) {
		if strings.TrimLeft(w.text, typographic) != w.text {
			report(w.position, "a kubelet argument begins with a typographic quote or dash, so it is not parsed as a flag", `use plain quotes (") and dashes (--)`)
		}
	}
	return list
}

// typographic contains quotes and dashes that programs do not recognize.
const typographic = "\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb\u2013\u2014\u2212"

// checkEnvironment returns why systemd ignores a part of an Environment= value, and the
// fix; "" if it does not.
func checkEnvironment(value, unit string) (problem, fix string) {
	for _, word := range splitWords(value) {
		name, _, ok := strings.Cut(specifiers(word, unit), "=")
		plain := strings.Trim(name, typographic)
		switch {
		case ok && plain != name && isName(plain):
			return "systemd does not recognize typographic quotes", fmt.Sprintf(`use plain quotes: Environment="%s=VALUE"`, plain)
		case !ok && plain != word:
			return "systemd does not recognize typographic quotes", `use plain quotes: Environment="NAME=VALUE"`
		case !ok:
			return "an assignment is not in the form NAME=VALUE", `quote the whole assignment: Environment="NAME=VALUE WITH SPACES"`
		case !isName(name) || name[0] >= '0' && name[0] <= '9':
			return "invalid variable name", `use the form Environment="NAME=VALUE"`
		}
	}
	if !quotesEnd(value) {
		return "unterminated quote", `use the form Environment="NAME=VALUE"`
	}
	return "", ""
}
