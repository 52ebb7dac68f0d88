// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred_test

import (
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// proseLimit is the allowed number of unidiomatic phrases per 10,000 words, for each kind of
// text. A limit may only be lowered. The goal is 8. The phrases are only signs: a sentence is
// good if a reader understands it at once.
var proseLimit = map[string]float64{
	"strings":  8,
	"docs":     8,
	"comments": 8,
}

// proseMarkers are phrases that idiomatic technical English does not use, each with the words
// to use instead.
var proseMarkers = []struct{ pattern, instead string }{
	{`(?:^|[.:;,(] ?)[Ww]hat (?:a|an|the|is|was|it|they|nobody|somebody|stands|comes|came|can|cannot|has|had|no|one|other|others|such|goes|belongs)\b`, "name the thing"},
	{`\b(?:is|are|of|says|say|that|and|by|to|from|in|for|than) what (?:is|was|are|were|it|a|an|the|they|comes|stands|belongs|has|one)\b`, "name the thing"},
	{`\b(?:that|those) of\b`, "repeat the noun"},
	{`\b(?:is|are|was|were|be|been|being) (?:not )?asked\b`, "is called, is queried"},
	{`\basks? (?:the |a |its |each |every |no |one )?(?:plugin|registry|kubelet|provider|server|cloud|host|API|systemd|node|runtime|source|helper)s?\b`, "calls, queries, sends a request to"},
	{`\b(?:is|are|was|were|be) (?:not )?(?:told|said)\b`, "prints, reports, logs"},
	{`\b(?:is|are) none\b`, "there is no X; is not an X"},
	{`\b(?:stands|stood)\b`, "is, is set, is listed"},
	{`\b(?:nobody|somebody|anybody|whoever|whom)\b`, "the caller, the user, another process"},
	{`\b[Bb]eside\b`, "in addition to, next to"},
	{`\b(?:anew|by then|at hand|for want of)\b`, "again; because there is no X"},
	{`\b[Mm]end(?:s|ed|ing)?\b`, "fix"},
	{`\bbut for\b`, "except"},
	{`\b(?:an?|no|some) [\w-]+ of (?:its|their|his|her|your|our) own\b|\bof (?:ours|yours|theirs)\b`, "its own X"},
	{`\b(?:this|that|these|those|it|them|one|loopback|error|name|host) alone\b`, "only"},
	{`\b(?:goes|go|went|going) on\b`, "continues"},
	{`\b(?:takes?|taken|took) (?:\w+ )?off\b`, "uninstalls, removes"},
	{`\bbehind (?:it|them|the|a|each|that)\b`, "after"},
	{`\b(?:in its place|in place of|in vain|at one stroke|to the byte)\b`, "instead of; without effect"},
	{`\b(?:has|have|had) (?:not got|it not|none)\b|, and says (?:so|why|which)\b`, "lacks; reports"},
	{`\b(?:his|himself)\b`, "you, the author, it"},
	{`\b(?:makes|make|made) of (?:it|them|that|these|an?|the)\b`, "treats, interprets"},
}

type proseText struct {
	kind, file string
	line       int
	text       string
}

// TestProse counts unidiomatic phrases in strings, documents and comments. Run it with -v to
// list them.
func TestProse(t *testing.T) {
	words, hits := map[string]int{}, map[string]int{}
	var patterns []*regexp.Regexp
	for _, m := range proseMarkers {
		patterns = append(patterns, regexp.MustCompile(m.pattern))
	}
	for _, text := range proseTexts(t) {
		n := len(strings.Fields(text.text))
		if n < 4 {
			continue
		}
		words[text.kind] += n
		for i, pattern := range patterns {
			for _, found := range pattern.FindAllString(text.text, -1) {
				hits[text.kind]++
				if testing.Verbose() && os.Getenv("REGCRED_PROSE") == text.kind {
					t.Logf("%s:%d: %q: write: %s", text.file, text.line, found, proseMarkers[i].instead)
				}
			}
		}
	}
	for kind, limit := range proseLimit {
		if words[kind] == 0 {
			t.Errorf("%s: no text found", kind)
			continue
		}
		rate := 1e4 * float64(hits[kind]) / float64(words[kind])
		t.Logf("%s: %d phrases in %d words: %.1f per 10,000, limit %.1f", kind, hits[kind], words[kind], rate, limit)
		if rate > limit {
			t.Errorf("%s: %.1f unidiomatic phrases per 10,000 words, limit %.1f; REGCRED_PROSE=%s go test -v -run TestProse . lists them", kind, rate, limit, kind)
		}
	}
}

// proseTexts returns the strings and comments in the Go files of the repository, except tests,
// and the paragraphs of its documents.
func proseTexts(t *testing.T) []proseText {
	t.Helper()
	var texts []proseText
	must.Do(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || path != "." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".md"):
			texts = append(texts, markdownProse(path, readLines(t, path))...)
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			texts = append(texts, goProse(t, path)...)
		}
		return nil
	}))
	return texts
}

// markdownProse returns the lines of a document that are not code.
func markdownProse(path, data string) (texts []proseText) {
	fenced := false
	code := regexp.MustCompile("`[^`]*`")
	for i, line := range strings.Split(data, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		} else if !fenced {
			texts = append(texts, proseText{"docs", path, i + 1, code.ReplaceAllString(line, "X")})
		}
	}
	return texts
}

// goProse returns the comments and strings of a Go file. Each comment group is one text.
func goProse(t *testing.T, path string) (texts []proseText) {
	t.Helper()
	src := readLines(t, path)
	files := token.NewFileSet()
	parsed := must.Get(parser.ParseFile(files, path, src, parser.ParseComments))(t)
	for _, c := range parsed.Comments {
		text := strings.Join(strings.Fields(c.Text()), " ")
		texts = append(texts, proseText{"comments", path, files.Position(c.Pos()).Line, text})
	}
	var s scanner.Scanner
	file := files.AddFile(path, -1, len(src))
	s.Init(file, []byte(src), nil, 0)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return texts
		}
		if tok != token.STRING {
			continue
		}
		if text, err := strconv.Unquote(lit); err == nil {
			texts = append(texts, proseText{"strings", path, files.Position(pos).Line, text})
		}
	}
}
