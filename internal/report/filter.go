// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package report

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"regexp"
	"slices"
	"strings"
	"sync"

	yaml3 "go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/spelling"
	"github.com/regcred/regcred/lint"
	"github.com/regcred/regcred/lint/pullsecret"
)

// Filter selects lint findings by rule. The zero value selects all findings.
type Filter struct {
	Only     []string // if not empty, only these rules are selected
	Disabled []string
}

// RuleNames returns the sorted names of all lint rules.
func RuleNames() []string {
	names := append(lint.Rules(), pullsecret.Rules()...)
	slices.Sort(names)
	return slices.Compact(names)
}

// ParseRules parses a comma-separated list of rule names. The error for an unknown name
// suggests the most similar name.
func ParseRules(list string) ([]string, error) {
	all := RuleNames()
	names := strings.Split(list, ",")
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
		if slices.Contains(all, names[i]) {
			continue
		}
		nearest := slices.MinFunc(all, func(a, b string) int {
			return spelling.Distance(a, names[i]) - spelling.Distance(b, names[i])
		})
		return nil, fmt.Errorf("unknown rule %q; the most similar is %s", names[i], nearest)
	}
	return names, nil
}

// Apply returns the selected findings and the number of findings that are suppressed by comments in
// their files. text returns the contents of a file. Findings that stop the kubelet are always kept.
func (f *Filter) Apply(list []finding.Finding, text func(file string) []byte) (kept []finding.Finding, suppressed int) {
	files := map[string]map[int][]string{}
	kept = []finding.Finding{}
	for _, found := range list {
		switch {
		case StopsKubelet(found):
		case len(f.Only) > 0 && !slices.Contains(f.Only, found.Rule) || slices.Contains(f.Disabled, found.Rule):
			continue
		default:
			byLine, read := files[found.File]
			if !read {
				byLine = suppressedRules(text(found.File))
				files[found.File] = byLine
			}
			if found.Line > 0 && slices.Contains(byLine[found.Line], found.Rule) {
				suppressed++
				continue
			}
		}
		kept = append(kept, found)
	}
	return kept, suppressed
}

// ConfigTextReader returns a function for [Filter.Apply] that returns the contents of cfg's
// files.
func ConfigTextReader(cfg *config.Config) func(file string) []byte {
	return func(file string) []byte {
		for _, f := range cfg.Files() {
			if f.Name == file {
				return f.Data()
			}
		}
		return nil
	}
}

var (
	suppressPattern = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`#[ \t]*regcred:disable=([a-z0-9-]+(?:,[a-z0-9-]+)*)(?:[ \t\r\n]|$)`)
	})
	documentStartPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^---(?:[ \t\r].*)?$`) })
)

// suppressedRules returns the rules suppressed by comments in a YAML file, by line. A comment "#
// regcred:disable=RULE[,RULE] reason" suppresses the rules on its line. A comment on a line of its
// own suppresses them on the next line that is not a comment.
func suppressedRules(text []byte) map[int][]string {
	if !bytes.Contains(text, []byte("regcred:disable=")) {
		return nil
	}
	byLine := map[int][]string{}
	lines := bytes.Split(text, []byte("\n"))
	start := 0
	for _, mark := range append(documentStartPattern().FindAllIndex(text, -1), []int{len(text)}) {
		for _, at := range findSuppressComments(text[start:mark[0]]) {
			offset := start + at[0]
			line := 1 + bytes.Count(text[:offset], []byte("\n"))
			if isComment(lines[line-1]) {
				for line++; line <= len(lines) && isComment(lines[line-1]); line++ {
				}
			}
			names := strings.Split(string(text[start+at[2]:start+at[3]]), ",")
			byLine[line] = append(byLine[line], names...)
		}
		start = mark[0]
	}
	return byLine
}

// isComment reports whether a line contains only a comment.
func isComment(line []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("#")) }

// maxYAMLParses limits how often a document is parsed.
const maxYAMLParses = 200

// findSuppressComments returns the submatch indexes of suppressPattern in a document. It skips
// matches inside scalars. A match is in a comment if changing the match does not change the parsed
// document.
func findSuppressComments(document []byte) [][]int {
	candidates := suppressPattern().FindAllSubmatchIndex(document, -1)
	if len(candidates) == 0 {
		return nil
	}
	want, ok := contentHash(document)
	if !ok {
		return nil
	}
	parses := 0
	same := func(changed [][]int) bool {
		text := bytes.Clone(document)
		for _, at := range changed {
			i := at[0] + bytes.IndexByte(text[at[0]:], ':')
			text[i] = '='
		}
		parses++
		got, ok := contentHash(text)
		return ok && got == want
	}
	var inComments func(list [][]int) [][]int
	inComments = func(list [][]int) [][]int {
		switch {
		case parses == maxYAMLParses:
			return nil
		case same(list):
			return list
		case len(list) == 1:
			return nil
		}
		half := len(list) / 2
		return slices.Concat(inComments(list[:half]), inComments(list[half:]))
	}
	return inComments(candidates)
}

// contentHash returns a hash of the structure and values of a YAML document, ignoring
// comments and positions. ok is false if the document is not valid YAML.
func contentHash(document []byte) (sum string, ok bool) {
	defer func() {
		if recover() != nil { // yaml/v3 panics on some invalid documents
			ok = false
		}
	}()
	var root yaml3.Node
	if yaml3.Unmarshal(document, &root) != nil {
		return "", false
	}
	h := sha256.New()
	hashNode(h, &root)
	return string(h.Sum(nil)), true
}

func hashNode(h hash.Hash, n *yaml3.Node) {
	fmt.Fprintf(h, "%d %q %q %q %d\n", n.Kind, n.Tag, n.Anchor, n.Value, len(n.Content))
	for _, c := range n.Content {
		hashNode(h, c)
	}
}
