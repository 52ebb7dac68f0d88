// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registry

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
)

// regexpText returns a regular expression that matches exactly the labels of the kind.
func (k *labelKind) regexpText() string {
	if k.name == "REGION" && k.prefix != "" {
		return k.prefix + `([a-z]+-)*[a-z]+-[0-9]{1,2}`
	}
	return map[string]string{
		"REGION": `[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}`, "ACCOUNT": `[0-9]{12}`, "ENDPOINT": `vpce-[0-9a-z-]+`, "LOCATION": `[a-z]+[a-z0-9-]*`,
		"REGISTRY": `[a-z0-9]{5,50}(-[a-z0-9]+)?`, "NAME": `[a-z0-9]([a-z0-9-]*[a-z0-9])?`,
	}[k.name]
}

// TestContains compares contains with the regular expressions.
func TestContains(t *testing.T) {
	for _, k := range slices.Concat(labelKinds(""), labelKinds("cn-"), labelKinds("us-iso-")) {
		re := regexp.MustCompile("^(?:" + k.regexpText() + ")$")
		for label := range strings.FieldsSeq("a 1 - -a a- a-b abc-1 us-east-1 us-east us-east-123 us--1 u-east-1 abcde-east-1 us-gov-west-1 cn-north-1 cn-1 us-iso-1 us-iso-east-1 " +
			"us-e1st-1 111122223333 11112222333 1111222233334 vpce- vpce-0 vpc-0 europe-west1 1europe team teams teams-1 teams-a-b teams- TEAMS a_b " + strings.Repeat("a", 50) + " " + strings.Repeat("a", 51)) {
			if got, want := k.containsLabel(label), re.MatchString(label); got != want {
				t.Errorf("%s: contains(%q) = %v, want %v", k.description, label, got, want)
			}
		}
	}
}

// sampleLabel returns a label of the kind. It runs the compiled regular expression as a generator. The
// seed selects the branches.
func (k *labelKind) sampleLabel(seed []byte) string {
	re, err := syntax.Parse(k.regexpText(), syntax.Perl)
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
		text := generateText(prog, next)
		if len(text) <= 63 && !slices.ContainsFunc(k.reserved, func(s string) bool { return strings.HasPrefix(text, s) }) || try == 50 {
			return text
		}
	}
}

func generateText(prog *syntax.Prog, next func(int) int) string {
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
