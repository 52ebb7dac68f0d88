// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/regcred/regcred/finding"
)

// typographicChars contains typographic quotes and dashes. Programs do not treat them like the
// ASCII characters.
const typographicChars = "\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb\u2013\u2014\u2212"

// checkEnvironment returns why systemd ignores part of an Environment= value, and how to fix
// it. It returns "" if the value is valid.
func checkEnvironment(value, unit string) (problem, fix string) {
	for _, word := range splitWords(value) {
		name, _, ok := strings.Cut(expandSpecifiers(word, unit), "=")
		plain := strings.Trim(name, typographicChars)
		switch {
		case ok && plain != name && isVariableName(plain):
			return "systemd does not recognize typographic quotes", fmt.Sprintf(`use plain quotes: Environment="%s=VALUE"`, plain)
		case !ok && plain != word:
			return "systemd does not recognize typographic quotes", `use plain quotes: Environment="NAME=VALUE"`
		case !ok:
			return "an assignment is not in the form NAME=VALUE", `quote the whole assignment: Environment="NAME=VALUE WITH SPACES"`
		case !isVariableName(name) || name[0] >= '0' && name[0] <= '9':
			return "invalid variable name", `use the form Environment="NAME=VALUE"`
		}
	}
	if !hasBalancedQuotes(value) {
		return "unterminated quote", `use the form Environment="NAME=VALUE"`
	}
	return "", ""
}

// CheckUnits checks the units of the kubelet and the container runtime. It reports Environment=
// settings that systemd ignores, and kubelet arguments that begin with typographic quotes or
// dashes. The findings do not contain values, which may be secret.
func (r *Reader) CheckUnits(ctx context.Context) (list []finding.Finding) {
	report := func(at filePosition, message, fix string) {
		list = append(list, finding.Finding{Rule: "units", Severity: finding.SeverityWarning, File: r.HostPath(at.file), Line: at.line, Message: message, Fix: fix})
	}
	rd := r.newReader(ctx)
	s := r.kubeletService(rd)
	units := []*systemdUnit{s.unit}
	for _, runtime := range knownRuntimes() {
		units = append(units, rd.readUnit(runtime.unit, ""))
	}
	for _, u := range units {
		if u == nil {
			continue
		}
		for _, e := range u.environment {
			if problem, fix := checkEnvironment(e.value, u.name); problem != "" {
				report(e.filePosition, "systemd ignores part of this Environment= line: "+problem, fix)
			}
		}
	}
	for _, w := range rd.nextCommandWords(s) {
		if strings.TrimLeft(w.text, typographicChars) != w.text {
			report(w.filePosition, "a kubelet argument begins with a typographic quote or dash, so it is not parsed as a flag", `use plain quotes (") and dashes (--)`)
		}
	}
	return list
}
