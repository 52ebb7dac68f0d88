// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package family

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/regcred/regcred/match"
)

// label is one label of a form: the texts that it may be.
type label struct {
	glob string       // the pattern that matches these texts, and perhaps others
	what string       // the texts in words
	prog *syntax.Prog // of a regular expression for them; nil for the one text glob
	not  []string     // beginnings that they do not have
}

// open reports whether there is more than one such text.
func (l label) open() bool { return l.prog != nil }

// meets reports whether a glob matches any of the texts.
func (l label) meets(glob string) bool {
	if !l.open() {
		return match.Label(glob, l.glob)
	}
	if glob == "*" {
		return true
	}
	head, _, _ := strings.Cut(glob, "*")
	if slices.ContainsFunc(l.not, func(s string) bool { return strings.HasPrefix(head, s) }) {
		return false
	}
	w := walk{glob: glob, prog: l.prog, seen: map[state]bool{}}
	return w.reaches(state{0, l.prog.Start})
}

// state is how far a text has come: in the glob, and in the program.
type state struct{ at, pc int }

// walk looks for a text that takes both the glob and the program to the end.
type walk struct {
	glob string
	prog *syntax.Prog
	seen map[state]bool
}

func (w *walk) reaches(s state) bool {
	if w.seen[s] {
		return false
	}
	w.seen[s] = true
	star := s.at < len(w.glob) && w.glob[s.at] == '*'
	if star && w.reaches(state{s.at + 1, s.pc}) {
		return true
	}
	switch i := &w.prog.Inst[s.pc]; i.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		return w.reaches(state{s.at, int(i.Out)}) || w.reaches(state{s.at, int(i.Arg)})
	case syntax.InstCapture, syntax.InstNop, syntax.InstEmptyWidth:
		return w.reaches(state{s.at, int(i.Out)})
	case syntax.InstMatch:
		return s.at == len(w.glob)
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		switch {
		case star:
			return w.reaches(state{s.at, int(i.Out)})
		case s.at < len(w.glob) && i.MatchRune(rune(w.glob[s.at])):
			return w.reaches(state{s.at + 1, int(i.Out)})
		}
	}
	return false
}

// language is a kind of labels that the forms name.
type language struct {
	name    string // in capitals, as it stands in a form's text
	what    string
	expr    string
	example string
	not     []string
}

// compile makes a form of a text in which the names of languages stand for
// their labels, or for a part of one: LOCATION-docker.pkg.dev.
func compile(text string, languages []language) form {
	f := form{text: text}
	var example []string
	for part := range strings.SplitSeq(text, ".") {
		l, x := label{glob: part, what: fmt.Sprintf("%q", part)}, part
		for _, lang := range languages {
			rest, named := strings.CutPrefix(part, lang.name)
			if !named || rest != "" && rest[0] != '-' {
				continue
			}
			l = label{glob: "*" + rest, what: lang.what, prog: program(lang.expr + rest), not: lang.not}
			if x = lang.example + rest; rest != "" {
				l.what += " with " + rest
			}
			break
		}
		f.labels, example = append(f.labels, l), append(example, x)
	}
	at, err := match.ParseLocation(strings.Join(example, "."))
	if err != nil {
		panic(err) // a test compiles all
	}
	f.example = at
	return f
}

// program compiles an expression of this package.
func program(expr string) *syntax.Prog {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		panic(err) // a test compiles all
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		panic(err)
	}
	return prog
}
