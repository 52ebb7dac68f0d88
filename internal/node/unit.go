// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// unitDirs are where systemd looks for units, the first first (systemd.unit(5)).
func unitDirs() []string {
	return []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}
}

// reading is what has been read while searching, and what could not be.
type reading struct {
	node   Node
	texts  map[string]string // of files, by path
	unread []string          // for want of rights
}

// file reads a file; "" if there is none, or it cannot be read.
func (r *reading) file(name string) string {
	data, err := read(name)
	r.note(name, err)
	if err == nil {
		r.texts[name] = string(data)
	}
	return string(data)
}

// note remembers what could not be looked at.
func (r *reading) note(name string, err error) {
	if errors.Is(err, fs.ErrPermission) && !slices.Contains(r.unread, name) {
		r.unread = append(r.unread, name)
	}
}

// naming lists the files that have been read in which a flag of credential
// providers stands.
func (r *reading) naming() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(r.texts)) {
		if strings.Contains(strings.ReplaceAll(r.texts[name], "_", "-"), "--image-credential-provider-") {
			names = append(names, name)
		}
	}
	return names
}

// service is what matters here of a unit of systemd.
type service struct {
	exec        string   // the last ExecStart
	environment []string // of Environment, as written
	files       []string // of EnvironmentFile, as written
}

// unit reads a service as systemd does: the first file of its name, and drop-ins
// of all directories by name, of which each hides those of the same name in the
// directories after its own. Not read are drop-ins for all services, and what
// generators make.
func (r *reading) unit(name string) (s service) {
	for _, dir := range unitDirs() {
		file := r.node.host(path.Join(dir, name))
		_, err := os.Stat(file)
		if r.note(file, err); err == nil { // also /dev/null, which stands for none
			s.read(r.file(file))
			break
		}
	}
	dropIns := map[string]string{}
	for _, dir := range slices.Backward(unitDirs()) {
		where := r.node.host(path.Join(dir, name+".d"))
		entries, err := readDir(where)
		r.note(where, err)
		for _, e := range entries {
			if strings.HasSuffix(e, ".conf") {
				dropIns[e] = filepath.Join(where, e)
			}
		}
	}
	for _, e := range slices.Sorted(maps.Keys(dropIns)) {
		s.read(r.file(dropIns[e]))
	}
	return s
}

// read reads a unit file over what was read before. An empty value takes back
// what was (systemd.service(5), systemd.exec(5)).
func (s *service) read(text string) {
	section := ""
	for _, line := range logicalLines(text) {
		if strings.HasPrefix(line, "[") {
			section = line
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || section != "[Service]" {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "ExecStart":
			s.exec = value
		case "Environment":
			s.environment = appendOrReset(s.environment, value)
		case "EnvironmentFile":
			s.files = appendOrReset(s.files, value)
		}
	}
}

func appendOrReset(list []string, value string) []string {
	if value == "" {
		return nil
	}
	return append(list, value)
}

// logicalLines joins the lines that a backslash continues, and drops comments,
// which may stand in between.
func logicalLines(text string) (list []string) {
	continued := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		rest, more := strings.CutSuffix(line, `\`)
		if continued {
			list[len(list)-1] += " " + rest
		} else if line != "" {
			list = append(list, rest)
		}
		continued = more && line != ""
	}
	return list
}

// variables are those of the environment that a service is started with:
// files win over Environment, and later ones over earlier ones.
func (r *reading) variables(s service) map[string]string {
	vars := map[string]string{}
	for _, line := range s.environment {
		for _, word := range splitWords(line) {
			if name, value, ok := strings.Cut(word, "="); ok {
				vars[name] = value
			}
		}
	}
	for _, name := range s.files {
		name = strings.TrimPrefix(name, "-")
		// A pattern, as Glob has them but for "[!…]".
		matches, err := filepath.Glob(r.node.host(strings.ReplaceAll(name, "%%", "%")))
		if err != nil || len(matches) == 0 {
			matches = []string{r.node.host(name)}
		}
		for _, match := range matches {
			maps.Copy(vars, environmentFile(r.file(match)))
		}
	}
	return vars
}

// environmentFile reads lines as NAME=value, of which values may be quoted.
func environmentFile(text string) map[string]string {
	vars := map[string]string{}
	for _, line := range logicalLines(text) {
		if name, value, ok := strings.Cut(line, "="); ok {
			vars[strings.TrimSpace(name)] = unquoteValue(strings.TrimSpace(value))
		}
	}
	return vars
}

// arguments are the words of the command that a service runs, without those
// that stand before the arguments.
func (r *reading) arguments(s service) []string {
	vars := r.variables(s)
	var args []string
	command := strings.TrimLeft(s.exec, "@-:+!|")
	literal := strings.Contains(s.exec[:len(s.exec)-len(command)], ":") // no variables
	for _, word := range splitWords(command) {
		name, alone := strings.CutPrefix(word, "$")
		switch {
		case literal:
			args = append(args, word)
		case alone && isName(name):
			// On its own it is as many words as it has; the quotes are gone by then.
			args = append(args, splitWords(vars[name])...)
		default:
			args = append(args, expand(word, vars))
		}
	}
	// A shell that starts the kubelet has it in one word.
	for _, arg := range slices.Clone(args) {
		if strings.ContainsAny(arg, " \t") && !strings.HasPrefix(arg, "--") {
			args = append(args, splitWords(arg)...)
		}
	}
	return args
}

func isName(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// expand puts values in the place of ${NAME}, and "$" and "%" of "$$" and "%%".
func expand(word string, vars map[string]string) string {
	var b strings.Builder
	for word != "" {
		i := strings.IndexAny(word, "$%")
		if i < 0 || i+1 == len(word) {
			break
		}
		b.WriteString(word[:i])
		name, rest, closed := strings.Cut(word[i+1:], "}")
		switch {
		case word[i+1] == word[i]:
			b.WriteByte(word[i])
			word = word[i+2:]
		case word[i] == '$' && closed && strings.HasPrefix(name, "{") && isName(name[1:]):
			b.WriteString(vars[name[1:]])
			word = rest
		default:
			b.WriteByte(word[i])
			word = word[i+1:]
		}
	}
	return b.String() + word
}
