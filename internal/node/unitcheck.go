// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/regcred/regcred/finding"
)

// CheckUnits returns findings for Environment= settings that systemd ignores, in the
// units of kubelet and runtime, and for typographic quotes and dashes in the kubelet's
// arguments. Findings contain no values.
func (r *Reading) CheckUnits(ctx context.Context) (list []finding.Finding) {
	report := func(at position, message, fix string) {
		list = append(list, finding.Finding{Rule: "units", Severity: finding.SeverityWarning, File: r.Host(at.file), Line: at.line, Message: message, Fix: fix})
	}
	rd := r.reader(ctx)
	s := r.kubeletService(rd)
	units := []*systemdUnit{s.unit}
	for _, runtime := range runtimes() {
		units = append(units, rd.unit(runtime.unit, ""))
	}
	for _, u := range units {
		if u == nil {
			continue
		}
		for _, e := range u.environment {
			if problem, fix := checkEnvironment(e.value, u.name); problem != "" {
				report(e.position, "systemd ignores part of this Environment= line: "+problem, fix)
			}
		}
	}
	for _, w := range rd.command(s) {
		if strings.TrimLeft(w.text, typographic) != w.text {
			report(w.position, "a kubelet argument begins with a typographic quote or dash, so it is not parsed as a flag", `use plain quotes (") and dashes (--)`)
		}
	}
	return list
}

// typographic contains quotes and dashes that programs do not recognize.
const typographic = "\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb\u2013\u2014\u2212"

// checkEnvironment returns why systemd ignores a part of an Environment= value, and the
// fix; "" if it does not.
func checkEnvironment(value, unit string) (problem, fix string) {
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
