// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registry

import (
	"regexp/syntax"
	"slices"
	"strings"
)

// sample returns a label of the kind, by a walk through the program of its
// expression. The seed selects the branches.
func (k *labelKind) sample(seed []byte) string {
	re, err := syntax.Parse(strings.Trim(k.expr.String(), "^$"), syntax.Perl)
	if err != nil {
		panic(err)
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		panic(err)
	}
	next := func(n int) int {
		if len(seed) == 0 || n < 2 {
			return 0
		}
		b := seed[0]
		seed = append(slices.Clone(seed[1:]), b*31+7)
		return int(b) % n
	}
	for try := 0; ; try++ {
		text := walkOnce(prog, next)
		if len(text) <= 63 && !slices.ContainsFunc(k.reserved, func(s string) bool { return strings.HasPrefix(text, s) }) || try == 50 {
			return text
		}
	}
}

func walkOnce(prog *syntax.Prog, next func(int) int) string {
	var text strings.Builder
	for pc := prog.Start; ; {
		i := &prog.Inst[pc]
		pc = int(i.Out)
		switch i.Op {
		case syntax.InstMatch:
			return text.String()
		case syntax.InstAlt:
			if next(2) == 1 || text.Len() > 40 {
				pc = int(i.Arg)
			}
		case syntax.InstRune1, syntax.InstRune:
			if len(i.Rune) == 1 {
				text.WriteRune(i.Rune[0])
				continue
			}
			pair := 2 * next(len(i.Rune)/2)
			text.WriteRune(i.Rune[pair] + rune(next(int(i.Rune[pair+1]-i.Rune[pair])+1)))
		}
	}
}
