// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/dockerclient"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/internal/textedit"
)

// helperProgram is the name under which clients look up the helper on the PATH.
const helperProgram = "docker-credential-" + dockerclient.HelperName

// helperReport is the result of the helper commands.
type helperReport struct {
	Helper string             `json:"helper,omitempty"` // path of the helper; "" if it is not on the PATH
	Config string             `json:"config,omitempty"` // path of the configuration; empty if it was not loaded
	Hosts  []string           `json:"hosts"`            // exact hosts in the configuration
	Files  []helperFileReport `json:"files"`

	install, dryRun bool
	siblingPath     string // path of the helper if it is next to this program but not on the PATH
}

// helperFileReport describes a client's file. With --dry-run, it describes the file
// after the change.
type helperFileReport struct {
	Client   dockerclient.Client `json:"client"`
	Path     string              `json:"path"`
	Hosts    []string            `json:"hosts"`              // hosts that use regcred's helper, in the client's spelling
	AllHosts bool                `json:"allHosts,omitempty"` // regcred's helper is the default for all other hosts
	Missing  []string            `json:"missing,omitempty"`  // hosts in the configuration without a helper in the file
	LeftOver []string            `json:"leftOver,omitempty"` // hosts in the file that are not in the configuration
	Others   map[string]string   `json:"others,omitempty"`   // hosts in the configuration with another helper
	Hidden   []string            `json:"hidden,omitempty"`   // credentials in the file that a helper overrides
	Problem  string              `json:"problem,omitempty"`  // why some clients cannot use the file
	Changed  bool                `json:"changed"`
	Diff     string              `json:"diff,omitempty"`
}

// newHelperFileReport compares a client's file, after the change, with the keys for the
// configuration's hosts.
func newHelperFileReport(c dockerclient.Client, change dockerclient.FileChange, keys []string) helperFileReport {
	f := helperFileReport{Client: c, Path: change.Path, Changed: change.IsChanged(), Diff: diffText(change), Hosts: []string{}, Others: map[string]string{}}
	e, err := dockerclient.ReadEntries(change.New)
	if err != nil {
		return f // not reached, because the edit has already parsed this content
	}
	f.Hosts = append(f.Hosts, e.Hosts...)
	f.AllHosts = e.Store == dockerclient.HelperName
	for _, key := range keys {
		if name, ok := e.Others[key]; ok {
			f.Others[key] = name
		} else if !slices.Contains(e.Hosts, key) {
			f.Missing = append(f.Missing, key)
		}
	}
	for _, key := range e.Hosts {
		if !slices.Contains(keys, key) {
			f.LeftOver = append(f.LeftOver, key)
		}
	}
	f.Problem = dockerclient.AuthsProblem(change.New)
	f.Hidden = dockerclient.HiddenCredentials(change.New, e.Hosts)
	return f
}

// diffText returns the change of a file as a diff. If the changed lines contain other values, which
// may be secret, the values are masked. The diff is then not valid input for patch.
func diffText(c dockerclient.FileChange) string {
	raw := textedit.Diff(c.Path, c.Old, c.New)
	masked := textedit.Diff(c.Path, dockerclient.MaskValues(c.Old), dockerclient.MaskValues(c.New))
	if changedLines(raw) == changedLines(masked) {
		return raw
	}
	return masked
}

// changedLines returns the lines of a diff without line numbers.
func changedLines(diff string) string {
	var b strings.Builder
	for line := range strings.Lines(diff) {
		if !strings.HasPrefix(line, "@@") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// findHelper looks for the helper on the PATH, as clients do, and then in the directory
// of this program.
func (a *app) findHelper(r *helperReport) {
	r.Hosts = append([]string{}, r.Hosts...)
	if r.Helper = findOnPath(a.Getenv("PATH"), helperProgram); r.Helper == "" {
		r.siblingPath = nextToProgram(helperProgram)
	}
}

// findOnPath looks for a program in the absolute directories of a PATH.
func findOnPath(list, name string) string {
	for _, dir := range filepath.SplitList(list) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(dir) {
			return path
		}
	}
	return ""
}

// nextToProgram looks for a program in the directory of this executable. If the executable is a
// symlink, it also looks in the directory of the symlink's target.
func nextToProgram(name string) string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	dirs := []string{filepath.Dir(self)}
	if target, err := filepath.EvalSymlinks(self); err == nil {
		dirs = append(dirs, filepath.Dir(target))
	}
	return findOnPath(strings.Join(dirs, string(filepath.ListSeparator)), name)
}

// renderChanges prints how the files changed.
func (r *helperReport) renderChanges(t *terminal.Text) {
	for _, f := range r.Files {
		switch {
		case f.Changed && r.dryRun:
			t.Quote("", strings.TrimSuffix(f.Diff, "\n"))
		case !f.Changed:
			t.MarkedLine(terminal.MarkOK, f.Path+": nothing to change")
		case r.install:
			t.MarkedLine(terminal.MarkOK, fmt.Sprintf("%s: %s", f.Path, f.hostsText()))
		default:
			t.MarkedLine(terminal.MarkOK, f.Path+": regcred's helper was removed")
		}
	}
}

// hostsText describes the hosts for which clients call regcred's helper.
func (f *helperFileReport) hostsText() string {
	text := terminal.FormatCount(len(f.Hosts), "host")
	if len(f.Hosts) > 0 {
		text += ": " + strings.Join(f.Hosts, ", ")
	}
	if f.AllHosts {
		text += "; and all other hosts without a helper (credsStore)"
	}
	return text
}

// renderStatus prints whether the helper is on the PATH, and the status of each file.
func (r *helperReport) renderStatus(t *terminal.Text) {
	if r.Helper != "" {
		t.MarkedLine(terminal.MarkOK, helperProgram+": "+r.Helper)
	} else {
		t.MarkedLine(terminal.MarkError, helperProgram+": not on the PATH")
	}
	for _, f := range r.Files {
		switch {
		case !f.usesHelper():
			t.MarkedLine(terminal.MarkNoCredential, fmt.Sprintf("%s: %s: regcred's helper is not configured", f.Client, f.Path))
			continue
		case f.isComplete():
			t.MarkedLine(terminal.MarkOK, fmt.Sprintf("%s: %s: %s", f.Client, f.Path, f.hostsText()))
		default:
			t.MarkedLine(terminal.MarkError, fmt.Sprintf("%s: %s: %s", f.Client, f.Path, f.hostsText()))
		}
		if len(f.Missing) > 0 {
			t.Detail("without the helper: %s", strings.Join(f.Missing, ", "))
		}
		if len(f.LeftOver) > 0 {
			t.Detail("entries for hosts that are not in the configuration: %s", strings.Join(f.LeftOver, ", "))
		}
	}
}

// usesHelper reports whether the file configures regcred's helper.
func (f *helperFileReport) usesHelper() bool { return len(f.Hosts) > 0 || f.AllHosts }

// isComplete reports whether the file configures regcred's helper for exactly the hosts in the
// configuration.
func (f *helperFileReport) isComplete() bool {
	return f.usesHelper() && len(f.Missing) == 0 && len(f.LeftOver) == 0 && len(f.Others) == 0
}

// exitCode returns the exit code of "regcred helper status".
func (r *helperReport) exitCode() int {
	named := 0
	for _, f := range r.Files {
		if f.usesHelper() {
			named++
			if !f.isComplete() {
				return exitFailed
			}
		}
	}
	switch {
	case named == 0:
		return exitNoMatch
	case r.Helper == "":
		return exitFailed
	}
	return exitOK
}

// printFileNotes prints notes about other helpers, ignored credentials, and a helper that is not on
// the PATH.
func (a *app) printFileNotes(r *helperReport) {
	named := false
	for _, f := range r.Files {
		named = named || f.usesHelper()
		for _, host := range slices.Sorted(maps.Keys(f.Others)) {
			a.Note("%s: %s keeps the helper %q", f.Path, host, f.Others[host])
		}
		if f.Problem != "" {
			a.Warn("%s: %s; docker ignores the credentials in this file, and clients such as crane, ko and cosign cannot use the file", f.Path, f.Problem)
		}
		if len(f.Hidden) > 0 {
			a.Warn("%s: clients ignore these credentials because a helper is configured for their hosts: %s", f.Path, strings.Join(f.Hidden, ", "))
		}
	}
	if named && r.Helper == "" {
		what := "install it there"
		if r.siblingPath != "" {
			what = fmt.Sprintf("create a symlink to %s in a directory on the PATH", r.siblingPath)
		}
		a.Warn("%s is not on the PATH: %s", helperProgram, what)
	}
}
