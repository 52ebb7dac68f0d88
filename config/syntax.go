// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"bytes"
	"fmt"
	"regexp"
	"sort"
	"strings"

	"github.com/regcred/regcred/internal/diagnose"
)

// yamlError explains a YAML syntax error. It omits the parser's error text, which may quote the
// file.
func (s *sourceFile) yamlError(err error) error {
	text, line := err.Error(), 0
	if n, _ := fmt.Sscanf(text, "yaml: line %d:", &line); n > 0 && isParserError(text) {
		line++
	}
	fe := &FieldError{File: s.name, Msg: "not valid YAML"}
	if strings.Contains(text, "alphabetic or numeric") || strings.Contains(text, "unknown anchor") {
		if err := s.aliasErrors(); err != nil {
			return err
		}
	}
	if at := diagnose.TemplateOffset(s.text()); at >= 0 {
		fe.Line, fe.Column = s.lineColumn(int64(at) + 1)
		fe.Msg = "not valid YAML: " + diagnose.TemplateProblem
		return fe
	}
	if n, column := s.findTab(line); n > 0 {
		fe.Line, fe.Column = n, column
		fe.Msg = "not valid YAML: the line is indented with a tab; use spaces"
		return fe
	}
	if line > 0 {
		fe.Line, fe.Column = line, s.indentSize(line)+1
	}
	if cause := diagnose.ExplainYAMLError(text); cause != "" {
		fe.Msg += ": " + cause
	}
	return fe
}

// isParserError reports whether an error comes from the YAML parser and not from its scanner.
// The parser counts lines from 0.
func isParserError(text string) bool {
	for _, expected := range []string{"node content", "'-' indicator", "key", "',' or", "<"} {
		if strings.Contains(text, "did not find expected "+expected) {
			return true
		}
	}
	return false
}

// aliasErrors returns an error for each value that begins with an asterisk but is not an alias
// of an anchor in the file.
func (s *sourceFile) aliasErrors() error {
	// Find values that begin with an asterisk: after a dash, a key, a bracket or a comma, or at
	// the start of a line.
	alias := regexp.MustCompile(`(?m)(?:^[ \t]*|[-:][ \t]+|[\[,][ \t]*)\*([^ ,\]\r\n]*)`)
	var found fieldErrors
	for _, m := range alias.FindAllSubmatchIndex(s.text(), maxFieldErrors) {
		name := s.text()[m[2]:m[3]]
		if len(name) > 0 && bytes.Contains(s.text(), append([]byte("&"), name...)) {
			continue
		}
		line, column := s.lineColumn(int64(m[2]))
		if !diagnose.IsUnquoted(s.lineText(line)[:column-1]) {
			continue
		}
		found.add(&FieldError{File: s.name, Line: line, Column: column,
			Msg: "not valid YAML: a value that begins with * must be quoted; otherwise YAML parses the value as an alias"})
	}
	return found.joinSorted()
}

// findTab finds a tab in the indentation of a line. It also checks the next line, because the
// parser's line number may be off by one.
func (s *sourceFile) findTab(line int) (n, column int) {
	for n := max(line, 1); n <= line+1; n++ {
		if i := bytes.IndexByte(s.lineText(n)[:s.indentSize(n)], '\t'); i >= 0 {
			return n, i + 1
		}
	}
	return 0, 0
}

// indentSize returns the width of a line's indentation in bytes.
func (s *sourceFile) indentSize(line int) int {
	text := s.lineText(line)
	return len(text) - len(bytes.TrimLeft(text, " \t"))
}

// jsonError explains a JSON syntax error. It omits the decoder's error text, which may quote
// the file.
func (s *sourceFile) jsonError(offset int64, cause error) error {
	line, column := s.lineColumn(offset)
	msg := "not valid JSON from here on (a file that begins with { must be JSON without comments or trailing commas)"
	if strings.Contains(cause.Error(), "exceeded max depth") {
		msg = "not valid JSON: nested too deeply"
	} else if at := diagnose.TemplateOffset(s.text()); at >= 0 {
		msg = "neither YAML nor JSON: " + diagnose.TemplateProblem
		line, column = s.lineColumn(int64(at) + 1)
	}
	return &FieldError{File: s.name, Line: line, Column: column, Msg: msg}
}

func (s *sourceFile) lineColumn(offset int64) (line, column int) {
	at := int(min(max(offset-1, 0), int64(len(s.text()))))
	starts := s.lines()
	line = sort.Search(len(starts), func(i int) bool { return starts[i] > at })
	return line, at - starts[line-1] + 1
}
