// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// unitDirs are where systemd looks for units, the first first (systemd.unit(5)).
func unitDirs() []string {
	return []string{
		"/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/transient", "/run/systemd/generator.early",
		"/etc/systemd/system", "/etc/systemd/system.attached", "/run/systemd/system", "/run/systemd/system.attached",
		"/run/systemd/generator", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system",
		"/run/systemd/generator.late",
	}
}

// reading is what has been read while searching, and what could not be. Paths
// are those of the node.
type reading struct {
	node   Node
	ctx    context.Context
	texts  map[string]string // of files, by path
	unread []string          // for want of rights
	failed map[string]error  // files that cannot be read, for whatever reason
}

func newReading(ctx context.Context, n Node) *reading {
	return &reading{node: n, ctx: ctx, texts: map[string]string{}, failed: map[string]error{}}
}

// file reads a file; "" if there is none, or it cannot be read.
func (r *reading) file(name string) string {
	data, err := r.node.files().ReadFile(r.ctx, name)
	r.note(name, err)
	if err != nil {
		r.failed[name] = err
		return ""
	}
	r.texts[name] = string(data)
	return string(data)
}

// there reports whether a name leads to anything.
func (r *reading) there(name string) bool {
	_, err := r.node.files().Stat(name)
	r.note(name, err)
	return err == nil
}

// list lists the names in a directory.
func (r *reading) list(dir string) (names []string) {
	entries, err := r.node.files().ReadDir(dir)
	r.note(dir, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// note remembers what could not be looked at.
func (r *reading) note(name string, err error) { r.noteHost(r.node.host(name), err) }

// noteHost is note of a path of this machine.
func (r *reading) noteHost(name string, err error) {
	if errors.Is(err, fs.ErrPermission) && !slices.Contains(r.unread, name) {
		r.unread = append(r.unread, name)
	}
}

// read lists the files that have been read, as this machine names them.
func (r *reading) read() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(r.texts)) {
		names = append(names, r.node.host(name))
	}
	return names
}

// naming lists the files that have been read in which a flag of credential
// providers stands, as this machine names them.
func (r *reading) naming() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(r.texts)) {
		if strings.Contains(strings.ReplaceAll(r.texts[name], "_", "-"), "--image-credential-provider-") {
			names = append(names, r.node.host(name))
		}
	}
	return names
}

// service is what matters here of a unit of systemd.
type service struct {
	name        string
	fragment    string // the unit file; "" if there is none
	masked      bool
	files       []string          // the unit file and its drop-ins, in the order in which they are read
	execs       []setting         // of ExecStart
	environment []setting         // of Environment
	envFiles    []setting         // of EnvironmentFile
	last        map[string]string // others, of which the last counts
}

// exec is the command that counts: the last.
func (s *service) exec() setting {
	if len(s.execs) == 0 {
		return setting{}
	}
	return s.execs[len(s.execs)-1]
}

// unit reads a service as systemd does: the first file of its name, and drop-ins
// of all directories by name, of which each hides those of the same name in the
// directories after its own. A drop-in of the path without is taken as not there.
func (r *reading) unit(name, without string) *service {
	s := &service{name: name, last: map[string]string{}}
	for _, dir := range unitDirs() {
		file := path.Join(dir, name)
		if masked := r.isMask(file); masked || r.there(file) {
			s.fragment, s.masked = file, masked
			s.add(r, file)
			break
		}
	}
	for _, file := range r.dropIns(r.names(s), without) {
		s.add(r, file)
	}
	return s
}

// isMask reports whether a unit file is a link to /dev/null, or empty, which
// stands for no unit.
func (r *reading) isMask(file string) bool {
	if target, err := r.node.files().Readlink(file); err == nil && path.Clean(target) == "/dev/null" {
		return true
	}
	info, err := r.node.files().Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}

// names are those whose drop-ins a unit has: its own, and that of the file that
// its name is a link to.
func (r *reading) names(s *service) []string {
	names := []string{s.name}
	if real, err := r.node.files().Real(s.fragment); s.fragment != "" && err == nil && path.Ext(real) == ".service" && path.Base(real) != s.name {
		names = append(names, path.Base(real))
	}
	return names
}

// dropIns lists the drop-ins of a unit in the order in which they are read. Beside
// those of its names there are those of its prefixes ("k3s-.service.d") and of all
// services; of two with one name, that of the directory looked at first counts.
func (r *reading) dropIns(names []string, without string) (files []string) {
	found := map[string]string{}
	look := func(dir string) {
		for _, e := range r.list(dir) {
			if file := path.Join(dir, e); strings.HasSuffix(e, ".conf") && file != without && found[e] == "" {
				found[e] = file
			}
		}
	}
	for _, name := range names {
		for _, dir := range unitDirs() {
			for _, n := range withPrefixes(name) {
				look(path.Join(dir, n+".d"))
			}
		}
	}
	for _, dir := range unitDirs() {
		look(path.Join(dir, "service.d"))
	}
	for _, e := range slices.Sorted(maps.Keys(found)) {
		if !r.isMask(found[e]) {
			files = append(files, found[e])
		}
	}
	return files
}

// withPrefixes lists a unit's name and its prefixes, the longest first:
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

// add reads a unit file over what was read before. An empty value takes back
// what was (systemd.service(5), systemd.exec(5)).
func (s *service) add(r *reading, file string) {
	if s.masked && file == s.fragment {
		return
	}
	s.files = append(s.files, file)
	s.read(r.file(file), file)
}

func (s *service) read(text, file string) {
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
		s.set(strings.TrimSpace(key), setting{strings.TrimSpace(value), mark{file, line.line}})
	}
}

func (s *service) set(key string, value setting) {
	switch key {
	case "ExecStart":
		s.execs = appendOrReset(s.execs, value)
	case "Environment":
		s.environment = appendOrReset(s.environment, value)
	case "EnvironmentFile":
		s.envFiles = appendOrReset(s.envFiles, value)
	case "Type", "KillMode", "Restart", "WatchdogSec":
		s.last[key] = value.value
	}
}

func appendOrReset(list []setting, s setting) []setting {
	if s.value == "" {
		return nil
	}
	return append(list, s)
}

// variables are those of the environment that a service is started with: files
// win over Environment, and later ones over earlier ones. Missing are the files
// without which systemd does not start it.
func (r *reading) variables(s *service) (vars map[string]variable, missing []string) {
	vars = map[string]variable{}
	for _, e := range s.environment {
		for _, word := range splitWords(e.value) {
			if name, value, ok := strings.Cut(specifiers(word, s.name), "="); ok {
				vars[name] = variable{value, e.mark}
			}
		}
	}
	for _, e := range s.envFiles {
		name, optional := strings.CutPrefix(e.value, "-")
		for _, file := range r.glob(specifiers(name, s.name)) {
			text := r.file(file)
			if r.failed[file] != nil && !optional {
				missing = append(missing, file)
			}
			maps.Copy(vars, environmentFile(text, file))
		}
	}
	return vars, missing
}

// glob lists the files of a pattern, or the pattern itself if there are none.
func (r *reading) glob(pattern string) []string {
	matches := []string{"/"}
	for _, part := range components(pattern) {
		var next []string
		for _, dir := range matches {
			if !strings.ContainsAny(part, `*?[\`) {
				next = append(next, path.Join(dir, part))
				continue
			}
			for _, e := range r.list(dir) {
				// As glob(7) has them but for "[!…]".
				if ok, err := filepath.Match(part, e); err == nil && ok {
					next = append(next, path.Join(dir, e))
				}
			}
		}
		matches = next
	}
	matches = slices.DeleteFunc(matches, func(m string) bool { return m != path.Clean(pattern) && !r.there(m) })
	if len(matches) == 0 {
		return []string{pattern}
	}
	return matches
}

// word is one word of a command, and where it comes from.
type word struct {
	text string
	mark
	by string // the variable that it comes by; "" if it stands in the command
}

func texts(words []word) (list []string) {
	for _, w := range words {
		list = append(list, w.text)
	}
	return list
}

// arguments are the words of a command of a service, the program being the first.
func arguments(s *service, exec setting, vars map[string]variable) (args []word) {
	prefix, command := cutPrefixes(exec.value)
	for i, text := range splitWords(command) {
		text = specifiers(text, s.name)
		name, alone := strings.CutPrefix(text, "$")
		switch {
		case i == 1 && strings.Contains(prefix, "@"): // the name by which the program knows itself
		case i == 0 || strings.Contains(prefix, ":"): // no variables
			args = append(args, word{text, exec.mark, ""})
		case alone && isName(name):
			// On its own it is as many words as it has; the quotes are gone by then.
			for _, text := range splitPlain(vars[name].value) {
				args = append(args, word{text, vars[name].mark, name})
			}
		default:
			text, by := expand(text, vars)
			args = append(args, word{text, exec.mark, by})
		}
	}
	return args
}

// cutPrefixes cuts off what stands before the program of a command.
func cutPrefixes(exec string) (prefixes, command string) {
	command = strings.TrimLeft(exec, "@-:+!|")
	return exec[:len(exec)-len(command)], command
}

func isName(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// expand puts values in the place of ${NAME}, and "$" of "$$". By is the last
// variable that it used.
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
