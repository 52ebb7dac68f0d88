// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/spelling"
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
	for _, d := range rd.misplacedDropIns(s) {
		report(filePosition{file: d.dir}, fmt.Sprintf("systemd does not read the drop-ins in this directory (%s): the unit %s does not exist", strings.Join(d.files, ", "), d.owner), d.fix())
	}
	for _, w := range rd.nextCommandWords(s) {
		if strings.TrimLeft(w.text, typographicChars) != w.text {
			report(w.filePosition, "a kubelet argument begins with a typographic quote or dash, so it is not parsed as a flag", `use plain quotes (") and dashes (--)`)
		}
	}
	return list
}

// misplacedDropIn is a drop-in directory that systemd does not read for any unit, but that is
// probably meant for unit.
type misplacedDropIn struct {
	dir, owner, unit string
	files            []string // names of the drop-ins
	isRancher        bool
}

func (d misplacedDropIn) fix() string {
	if d.isRancher {
		return fmt.Sprintf("%s runs the kubelet: set the kubelet's flags in /etc/rancher/%s/config.yaml", d.unit, strings.Split(d.unit, "-")[0])
	}
	return fmt.Sprintf("move them to /etc/systemd/system/%s.d, then run: systemctl daemon-reload && systemctl restart %s", d.unit, strings.TrimSuffix(d.unit, ".service"))
}

// kubeletSettingPattern matches the settings of a kubelet in a drop-in.
var kubeletSettingPattern = regexp.MustCompile(`(?m)^[^#;]*(image[-_]credential[-_]provider|\bKUBELET_)`)

// unitTypes returns the unit types that have drop-ins.
func unitTypes() []string {
	return []string{"service", "socket", "target", "slice", "scope", "mount", "automount", "swap", "timer", "path", "device"}
}

// misplacedDropIns returns drop-in directories with a name that systemd does not look for. The
// name resembles the unit of the kubelet or the runtime, or the drop-ins set up a kubelet.
func (r *fileReader) misplacedDropIns(s kubeletService) (list []misplacedDropIn) {
	if s.unit == nil || s.unit.fragment == "" {
		return nil
	}
	expected := []string{s.unit.name}
	for _, runtime := range knownRuntimes() {
		if r.unitExists(runtime.unit) {
			expected = append(expected, runtime.unit)
		}
	}
	for _, dir := range unitDirs() {
		for _, name := range r.readDirNames(dir) {
			owner, ok := strings.CutSuffix(name, ".d")
			if !ok || slices.Contains(unitTypes(), owner) || r.hasDropInOwner(owner) {
				continue
			}
			d := misplacedDropIn{dir: path.Join(dir, name), owner: owner, isRancher: s.kind.isRancher()}
			text := ""
			for _, file := range r.readDirNames(d.dir) {
				if strings.HasSuffix(file, ".conf") {
					d.files = append(d.files, file)
					text += r.loadContent(path.Join(d.dir, file)).text + "\n"
				}
			}
			stem := strings.TrimSuffix(owner, ".service")
			near := slices.IndexFunc(expected, func(unit string) bool {
				return spelling.Distance(stem, strings.TrimSuffix(unit, ".service")) <= len(stem)/4
			})
			switch {
			case len(d.files) == 0:
				continue
			case near >= 0:
				d.unit = expected[near]
			case kubeletSettingPattern.MatchString(text):
				d.unit = s.unit.name
			default:
				continue
			}
			list = append(list, d)
		}
	}
	return list
}

// hasDropInOwner reports whether systemd reads the drop-ins in NAME.d for some unit: NAME is
// a unit, an instance of a template, or the prefix of several units.
func (r *fileReader) hasDropInOwner(name string) bool {
	stem, kind := strings.TrimSuffix(name, path.Ext(name)), path.Ext(name)
	if !slices.Contains(unitTypes(), strings.TrimPrefix(kind, ".")) {
		return false
	}
	template, _, isInstance := strings.Cut(stem, "@")
	return strings.HasSuffix(stem, "-") || r.unitExists(name) || isInstance && r.unitExists(template+"@"+kind)
}

func (r *fileReader) unitExists(name string) bool {
	return slices.ContainsFunc(unitDirs(), func(dir string) bool { return r.fs().Exists(path.Join(dir, name)) })
}
