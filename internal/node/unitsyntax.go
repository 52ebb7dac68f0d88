// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// filePosition identifies a line in a file.
type filePosition struct {
	file string
	line int // from 1
}

// unitSetting is the value of a setting in a unit file, before expansion.
type unitSetting struct {
	value string
	filePosition
}

// envVariable is an environment variable of a service, with the position at which it is set.
type envVariable struct {
	value string
	filePosition
}

// physicalLines splits a text into lines. It accepts LF, CRLF and CR line endings.
func physicalLines(text string) []string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// logicalLines returns the lines of a unit file without comments and empty lines. It joins
// lines that end in a backslash. A joined line has the position of its first line.
func logicalLines(text string) (list []unitSetting) {
	continued := false
	for i, line := range physicalLines(strings.TrimPrefix(text, "\ufeff")) {
		line = strings.TrimLeft(line, " \t")
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		more := (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1 // an escaped backslash does not continue the line
		if more {
			line = line[:len(line)-1] + " "
		}
		switch {
		case continued:
			list[len(list)-1].value += line
		case strings.TrimSpace(line) != "":
			list = append(list, unitSetting{line, filePosition{line: i + 1}})
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

// parseEnvironmentFile parses the NAME=value lines of an environment file (systemd.exec(5)). A
// value in quotes may contain line breaks. Quotes inside an unquoted value are kept.
func parseEnvironmentFile(text, file string) map[string]envVariable {
	vars := map[string]envVariable{}
	for _, a := range environmentAssignments(text, file) {
		vars[a.name] = a.envVariable
	}
	return vars
}

// environmentAssignment is a line of an environment file.
type environmentAssignment struct {
	name string
	envVariable
}

// environmentAssignments returns all assignments of an environment file in order. A later assignment
// overrides an earlier one.
func environmentAssignments(text, file string) (list []environmentAssignment) {
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
		value, length := parseEnvironmentValue(rest[start:])
		used = start + length
		if name = strings.TrimSpace(name); isVariableName(name) {
			list = append(list, environmentAssignment{name, envVariable{value, filePosition{file, line}}})
		}
		line += strings.Count(rest[:used], "\n")
	}
	return list
}

// parseEnvironmentValue parses the value at the start of text. It returns the value, and the
// number of bytes used including the line ending.
func parseEnvironmentValue(text string) (value string, used int) {
	var b strings.Builder
	kept := 0 // the first kept bytes of b do not lose trailing blanks
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
			return trimTrailingBlanks(b.String(), kept), i + 1
		case !plain && (c == '"' || c == '\''):
			quote = c
		case !plain && (c == ' ' || c == '\t'):
		default:
			plain = true
			b.WriteByte(c)
		}
	}
	return trimTrailingBlanks(b.String(), kept), i
}

// trimTrailingBlanks removes trailing blanks from s, but not from its first kept bytes.
func trimTrailingBlanks(s string, kept int) string {
	return s[:kept] + strings.TrimRight(s[kept:], " \t")
}

// expandSpecifiers expands specifiers such as %n (systemd.unit(5)). It expands only specifiers
// that have the same value on every node.
func expandSpecifiers(text, unit string) string {
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

// splitWords splits the value of a unit setting into words as systemd does. It splits at blanks
// outside of quotes, and replaces C-style escapes. It keeps unknown escapes.
func splitWords(text string) []string { return splitEscaped(text, unescapeSystemd) }

// splitVariableWords splits the value of an environment variable into words. A backslash makes
// the next character literal.
func splitVariableWords(text string) []string {
	return splitEscaped(text, func(text string) (string, int) { return text[1:2], 2 })
}

func splitEscaped(text string, escape func(string) (string, int)) (list []string) {
	var b strings.Builder
	inWord, quote := false, byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		if quote == 0 && strings.IndexByte(" \t\r\n", c) >= 0 {
			if inWord {
				list = append(list, b.String())
			}
			inWord = false
			b.Reset()
			continue
		}
		inWord = true
		switch {
		case c == '\\' && i+1 < len(text):
			s, n := escape(text[i:])
			b.WriteString(s)
			i += n - 1
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		default:
			b.WriteByte(c)
		}
	}
	if inWord {
		list = append(list, b.String())
	}
	return list
}

// unescapeSystemd returns the replacement for the escape sequence at the start of text, and the
// length of the sequence.
func unescapeSystemd(text string) (string, int) {
	if text[1] == '"' || text[1] == '\'' {
		return text[1:2], 2
	}
	if r, _, rest, err := strconv.UnquoteChar(text, 0); err == nil {
		return string(r), len(text) - len(rest)
	}
	if text[1] == 's' {
		return " ", 2
	}
	return text[:2], 2
}

// pathComponents splits a path into its elements. It keeps "..", because ".." after a symlink
// refers to the parent of the symlink's target.
func pathComponents(path string) []string {
	path = path[len(filepath.VolumeName(path)):]
	return slices.DeleteFunc(strings.Split(filepath.ToSlash(path), "/"), func(s string) bool { return s == "" || s == "." })
}

// splitFlags splits a file with flags into words. It replaces quotes with spaces, because in
// these files quotes only enclose whole lists of flags or whole values.
func splitFlags(text string) []string {
	var list []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		line = strings.NewReplacer(`="--`, "= --", "='--", "= --", `="`, "=", "='", "=", `"`, " ", "'", " ", "=--", "= --").Replace(strings.TrimSuffix(line, `\`))
		list = append(list, strings.Fields(line)...)
	}
	return list
}

// With returns the command with additional arguments. The arguments are quoted for ExecStart=
// of the same unit.
func (c Command) With(args ...string) string {
	prefixes, _ := cutExecPrefixes(c.Text)
	line := c.Text
	for _, arg := range args {
		line += " " + quoteSystemd(arg, strings.Contains(prefixes, ":"))
	}
	return line
}

// quoteSystemd quotes an argument for a systemd command. literal means that systemd does not
// expand variables in the command.
func quoteSystemd(arg string, literal bool) string {
	arg = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "%", "%%").Replace(arg)
	if !literal {
		arg = strings.ReplaceAll(arg, "$", "$$")
	}
	if arg == "" || arg == ";" || strings.ContainsAny(arg, " \t\"'\\") {
		return `"` + arg + `"`
	}
	return arg
}

// hasBalancedQuotes reports whether all quotes in a command are terminated.
func hasBalancedQuotes(command string) bool {
	// If a quote is not terminated, the additional word becomes part of the quoted text.
	words := splitWords(command + " x")
	return len(words) > 0 && words[len(words)-1] == "x"
}

// commandWord is a word of a command line and the position at which it is set.
type commandWord struct {
	text string
	filePosition
	variable string // environment variable that contains the word; "" if the word is in the command itself
}

func wordTexts(words []commandWord) (list []string) {
	for _, w := range words {
		list = append(list, w.text)
	}
	return list
}

// cutExecPrefixes splits a command into its special prefixes, such as "-" and "@", and the
// rest.
func cutExecPrefixes(exec string) (prefixes, command string) {
	command = strings.TrimLeft(exec, "@-:+!|")
	return exec[:len(exec)-len(command)], command
}

func isVariableName(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// variablePattern matches "$$" and ${NAME}.
var variablePattern = regexp.MustCompile(`\$\$|\$\{\w+\}`)

// expandVariables replaces ${NAME} with the variable's value, and "$$" with "$". by is the name
// of the last variable that it replaced.
func expandVariables(text string, vars map[string]envVariable) (expanded, by string) {
	expanded = variablePattern.ReplaceAllStringFunc(text, func(match string) string {
		if match == "$$" {
			return "$"
		}
		by = match[2 : len(match)-1]
		return vars[by].value
	})
	return expanded, by
}
