// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"fmt"
	"strings"
)

// Fault is something in a unit that does not mean what it looks like.
type Fault struct {
	File    string
	Line    int
	Message string // without values
	Mend    string
}

// UnitFaults finds what systemd passes over in the environment of the kubelet's and
// the runtime's unit, and words of the kubelet's command that only look like flags:
// quotes and dashes of a page that made them typographic.
func (n Node) UnitFaults(ctx context.Context) (list []Fault) {
	r := newReading(ctx, n)
	found := r.find()
	units := []*service{found.unit}
	for _, runtime := range runtimes() {
		units = append(units, r.unit(runtime.unit, ""))
	}
	for _, s := range units {
		if s == nil {
			continue
		}
		for _, e := range s.environment {
			if why, mend := badAssignment(e.value, s.name); why != "" {
				list = append(list, Fault{n.host(e.file), e.line, "systemd ignores part of this Environment= line: " + why, mend})
			}
		}
	}
	for _, w := range r.command(found) {
		if first := strings.TrimLeft(w.text, typographic); first != w.text {
			list = append(list, Fault{n.host(w.file), w.line, "a kubelet argument begins with a typographic quote or dash, so it is not parsed as a flag", `use plain quotes (") and dashes (--)`})
		}
	}
	return list
}

// typographic are quotes and dashes that are none to a program.
const typographic = "\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb\u2013\u2014\u2212"

// badAssignment says what is wrong with the value of an Environment=; "" if nothing is.
// The variable is named if it is one.
func badAssignment(value, unit string) (why, mend string) {
	for _, word := range splitWords(value) {
		name, _, ok := strings.Cut(specifiers(word, unit), "=")
		plain := strings.Trim(name, typographic)
		switch {
		case ok && plain != name && isName(plain):
			return "systemd does not recognize typographic quotes", fmt.Sprintf(`use plain quotes: Environment="%s=VALUE"`, plain)
		case !ok && plain != word:
			return "systemd does not recognize typographic quotes", `use plain quotes: Environment="NAME=VALUE"`
		case !ok:
			return "an assignment is not in the form NAME=VALUE", `quote the whole assignment: Environment="NAME=VALUE WITH SPACES"`
		case !isName(name) || name[0] >= '0' && name[0] <= '9':
			return "invalid variable name", `use the form Environment="NAME=VALUE"`
		}
	}
	if !quotesEnd(value) {
		return "unterminated quote", `use the form Environment="NAME=VALUE"`
	}
	return "", ""
}
