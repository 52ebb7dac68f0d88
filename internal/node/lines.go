// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"path"
	"strings"
)

// mark is where something stands.
type mark struct {
	file string
	line int // from 1
}

// setting is a value of a unit, as written.
type setting struct {
	value string
	mark
}

// variable is one of a service's environment.
type variable struct {
	value string
	mark
}

// physicalLines are the lines of a text, without their ends, which may be those
// of other systems too.
func physicalLines(text string) []string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// logicalLines are the lines of a unit, those joined that a backslash continues,
// without comments, which may stand in between. Each has the number of its first.
func logicalLines(text string) (list []setting) {
	continued := false
	for i, line := range physicalLines(strings.TrimPrefix(text, "\ufeff")) {
		line = strings.TrimLeft(line, " \t")
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		more := (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1 // "\\" is one backslash
		if more {
			line = line[:len(line)-1] + " "
		}
		switch {
		case continued:
			list[len(list)-1].value += line
		case strings.TrimSpace(line) != "":
			list = append(list, setting{line, mark{line: i + 1}})
		default:
			more = false
		}
		continued = more
	}
	for i := range list {
		list[i].value = strings.TrimSpace(list[i].value)
	}
	return list
}

// environmentFile reads a file as systemd.exec(5) has it: NAME=value, where a
// value may be quoted from its start on, and then go over several lines. Quotes
// within a value that is not quoted are its own.
func environmentFile(text, file string) map[string]variable {
	vars := map[string]variable{}
	text = strings.Join(physicalLines(text), "\n")
	for at, line, used := 0, 1, 0; at < len(text); at += used {
		rest := text[at:]
		key, _, _ := strings.Cut(rest, "\n")
		trimmed := strings.TrimLeft(key, " \t")
		name, _, ok := strings.Cut(trimmed, "=")
		if strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, ";") || !ok {
			used = len(key) + 1
			line++
			continue
		}
		start := strings.IndexByte(rest, '=') + 1
		value, length := environmentValue(rest[start:])
		used = start + length
		if name = strings.TrimSpace(name); isName(name) {
			vars[name] = variable{value, mark{file, line}}
		}
		line += strings.Count(rest[:used], "\n")
	}
	return vars
}

// environmentValue reads the value at the start of text, and tells how much of
// text that was, the end of its line included.
func environmentValue(text string) (value string, used int) {
	var b strings.Builder
	kept := 0 // of b, what blanks at the end must not be cut from
	quote, plain := byte(0), false
	i := 0
	for ; i < len(text); i++ {
		c := text[i]
		switch {
		case quote == '\'' && c != quote, quote == '"' && c != quote && c != '\\':
			b.WriteByte(c)
		case quote != 0 && c == quote:
			quote, kept = 0, b.Len()
		case c == '\\' && i+1 < len(text):
			i++
			if quote == '"' && !strings.ContainsRune("\"\\`$\n", rune(text[i])) {
				b.WriteByte('\\')
			}
			if text[i] != '\n' {
				b.WriteByte(text[i])
				plain, kept = plain || quote == 0, b.Len()
			}
		case c == '\n':
			return trimTail(b.String(), kept), i + 1
		case !plain && (c == '"' || c == '\''):
			quote = c
		case !plain && (c == ' ' || c == '\t'):
		default:
			plain = true
			b.WriteByte(c)
		}
	}
	return trimTail(b.String(), kept), i
}

// trimTail cuts blanks off the end of what stands after the first kept bytes.
func trimTail(s string, kept int) string {
	return s[:kept] + strings.TrimRight(s[kept:], " \t")
}

// specifiers puts in what "%" stands for in a unit of this name, as far as it is
// the same on every node (systemd.unit(5)).
func specifiers(text, unit string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	stem := strings.TrimSuffix(unit, path.Ext(unit))
	prefix, instance, _ := strings.Cut(stem, "@")
	return strings.NewReplacer("%%", "%",
		"%n", unit, "%N", stem, "%p", prefix, "%P", prefix, "%i", instance, "%I", instance, "%j", prefix[strings.LastIndexByte(prefix, '-')+1:],
		"%E", "/etc", "%t", "/run", "%S", "/var/lib", "%C", "/var/cache", "%L", "/var/log", "%T", "/tmp", "%V", "/var/tmp",
		"%u", "root", "%U", "0", "%g", "root", "%G", "0", "%h", "/root").Replace(text)
}
