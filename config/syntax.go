// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"bytes"
	"fmt"
	"regexp"
	"sort"
	"strings"
)

// yamlError explains why a file is not YAML. The parser's text is matched
// against what it is known to say and never passed on: it may quote the file.
func (s *source) yamlError(err error) error {
	text, line := err.Error(), 0
	if n, _ := fmt.Sscanf(text, "yaml: line %d:", &line); n > 0 && fromParser(text) {
		line++
	}
	fe := &FieldError{File: s.name, Msg: "not valid YAML"}
	if strings.Contains(text, "alphabetic or numeric") || strings.Contains(text, "unknown anchor") {
		if err := s.aliasErrors(); err != nil {
			return err
		}
	}
	if at := template(s.text()); at >= 0 {
		fe.Line, fe.Column = s.position(int64(at) + 1)
		fe.Msg = "not valid YAML: " + isTemplate
		return fe
	}
	if n, column := s.findTab(line); n > 0 {
		fe.Line, fe.Column = n, column
		fe.Msg = "not valid YAML: a tab in the indentation; YAML wants spaces"
		return fe
	}
	if line > 0 {
		fe.Line, fe.Column = line, s.indent(line)+1
	}
	for _, known := range yamlProblems {
		if strings.Contains(text, known.text) {
			fe.Msg += ": " + known.msg
			break
		}
	}
	return fe
}

// fromParser reports whether an error is the parser's, and not its scanner's: the one
// counts lines from 0, the other from 1.
func fromParser(text string) bool {
	for _, expected := range []string{"node content", "'-' indicator", "key", "',' or", "<"} {
		if strings.Contains(text, "did not find expected "+expected) {
			return true
		}
	}
	return false
}

// yamlProblems is what the parser says, and what we say.
var yamlProblems = []struct{ text, msg string }{
	{"mapping values are not allowed", "a colon where none can be; is the line indented wrongly, or a value with a colon not quoted?"},
	{"could not find expected ':'", "a line without a colon where a field is expected; is something not indented, or a quote not closed?"},
	{"did not find expected key", "a field is expected here; is something indented wrongly, or a quote not closed?"},
	{"did not find expected '-' indicator", "an entry of a list is expected here; is something indented wrongly?"},
	{"did not find expected ',' or", "before this a bracket is not closed, or a comma is missing"},
	{"did not find expected node content", "a value is expected here; quote one that has brackets, colons or commas, such as an IPv6 address"},
	{"found unexpected end of stream", "a quote is not closed"},
	{"cannot start any token", "a character that cannot begin a value; quote the value"},
	{"unknown escape character", `a backslash that means nothing inside "…"; use '…'`},
	{"control characters", "it has control characters; is it a text file?"},
	{"UTF-8", "it is not UTF-8 text"},
	{"alphabetic or numeric character", "a bare * or &; quote the value, and look for a quote above that is not closed"},
	{"unknown anchor", "an alias (*name) without an anchor (&name)"},
	{"excessive aliasing", "its aliases expand to too much; write the values out"},
	{"invalid map key", "a mapping or list where the name of a field is expected"},
	{"map key of type", "something that is not text where the name of a field is expected"},
	{"exceeded max depth", "it is nested too deeply"},
	{"value contains itself", "an alias inside of what it stands for"},
	{"map merge requires", "the merge key << wants a mapping"},
}

// aliasErrors reports each value that begins with an asterisk and is not an
// alias to something in the file, or returns nil.
func (s *source) aliasErrors() error {
	// A value that begins with an asterisk: after a dash, a key, a bracket or a
	// comma, or on a line of its own.
	alias := regexp.MustCompile(`(?m)(?:^[ \t]*|[-:][ \t]+|[\[,][ \t]*)\*([^ ,\]\r\n]*)`)
	var found problems
	for _, m := range alias.FindAllSubmatchIndex(s.text(), maxProblems) {
		name := s.text()[m[2]:m[3]]
		if len(name) > 0 && bytes.Contains(s.text(), append([]byte("&"), name...)) {
			continue
		}
		line, column := s.position(int64(m[2]))
		if !plainText(s.line(line)[:column-1]) {
			continue
		}
		found.add(&FieldError{File: s.name, Line: line, Column: column,
			Msg: "not valid YAML: a value that begins with * must be quoted, since YAML takes it for an alias"})
	}
	return found.join()
}

// plainText reports whether what follows before on its line is neither quoted
// nor a comment.
func plainText(before []byte) bool {
	text := strings.TrimLeft(string(before), " \t")
	return strings.Count(text, `"`)%2 == 0 && strings.Count(text, "'")%2 == 0 && !strings.HasPrefix(text, "#") && !strings.Contains(text, " #")
}

// findTab returns a tab in the indentation of a line or of the one after it,
// since the parser is not exact about lines.
func (s *source) findTab(line int) (n, column int) {
	for n := max(line, 1); n <= line+1; n++ {
		if i := bytes.IndexByte(s.line(n)[:s.indent(n)], '\t'); i >= 0 {
			return n, i + 1
		}
	}
	return 0, 0
}

// indent returns how many bytes of blanks a line begins with.
func (s *source) indent(line int) int {
	text := s.line(line)
	return len(text) - len(bytes.TrimLeft(text, " \t"))
}

// jsonError explains why a file is not JSON. The decoder's text is not passed
// on, since it quotes the file.
func (s *source) jsonError(offset int64, cause error) error {
	line, column := s.position(offset)
	msg := "not valid JSON from here on (a file that begins with { is read as JSON alone: no comments, no trailing commas, nothing after the last brace)"
	if strings.Contains(cause.Error(), "exceeded max depth") {
		msg = "not valid JSON: it is nested too deeply"
	} else if at := template(s.text()); at >= 0 {
		msg = "neither YAML nor JSON: " + isTemplate
		line, column = s.position(int64(at) + 1)
	}
	return &FieldError{File: s.name, Line: line, Column: column, Msg: msg}
}

// position turns an offset into line and column.
func (s *source) position(offset int64) (line, column int) {
	at := int(min(max(offset-1, 0), int64(len(s.text()))))
	starts := s.lines()
	line = sort.Search(len(starts), func(i int) bool { return starts[i] > at })
	return line, at - starts[line-1] + 1
}
