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

// helperProgram is what clients look for on their PATH.
const helperProgram = "docker-credential-" + dockerclient.Helper

// helperReport is the result of the helper commands.
type helperReport struct {
	Helper string       `json:"helper,omitempty"` // its program; "" if it is not on the PATH
	Config string       `json:"config,omitempty"` // none where none is needed
	Hosts  []string     `json:"hosts"`            // that it names exactly
	Files  []helperFile `json:"files"`

	install, status, dryRun bool
	beside                  string // the program, where it is not on the PATH but beside this one
}

// helperFile is the file of a client: what is in it now, or with --dry-run
// would be.
type helperFile struct {
	Client   dockerclient.Client `json:"client"`
	Path     string              `json:"path"`
	Hosts    []string            `json:"hosts"`              // whose helper is regcred's, as the client calls them
	AllHosts bool                `json:"allHosts,omitempty"` // and that of all others
	Missing  []string            `json:"missing,omitempty"`  // the configuration's that no helper is named for
	LeftOver []string            `json:"leftOver,omitempty"` // the file's that the configuration does not name
	Others   map[string]string   `json:"others,omitempty"`   // the configuration's that another helper is named for
	Hidden   []string            `json:"hidden,omitempty"`   // logins in the file that are not used while a helper is named
	Changed  bool                `json:"changed"`
	Diff     string              `json:"diff,omitempty"`
}

// describeFile says what a file has, or would have, of the keys that the hosts
// of a configuration have in it.
func describeFile(c dockerclient.Client, change dockerclient.Change, keys []string) helperFile {
	f := helperFile{Client: c, Path: change.Path, Changed: change.Changed(), Hosts: []string{}, Others: map[string]string{}}
	e, err := dockerclient.Read(change.New)
	if err != nil {
		return f // not possible: it was read to make it
	}
	f.Hosts = append(f.Hosts, e.Hosts...)
	f.AllHosts = e.Store == dockerclient.Helper
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
	f.Hidden = dockerclient.Hidden(change.New, e.Hosts)
	return f
}

// diffOf is what changes in a file, for patch; or, where lines with other
// values change too, which may be secret, for the reader alone.
func diffOf(c dockerclient.Change) string {
	raw := textedit.Diff(c.Path, c.Old, c.New)
	masked := textedit.Diff(c.Path, dockerclient.Masked(c.Old), dockerclient.Masked(c.New))
	if changedLines(raw) == changedLines(masked) {
		return raw
	}
	return masked
}

// changedLines are the lines of a diff but for their places.
func changedLines(diff string) string {
	var b strings.Builder
	for line := range strings.Lines(diff) {
		if !strings.HasPrefix(line, "@@") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// findHelper looks for the helper's program as clients do, on the PATH, and
// else beside this one.
func (a *app) findHelper(r *helperReport) {
	r.Hosts, r.Files = append([]string{}, r.Hosts...), []helperFile{}
	if r.Helper = onPath(a.Getenv("PATH"), helperProgram); r.Helper == "" {
		r.beside = besideUs(helperProgram)
	}
}

// onPath finds a program in the absolute directories of a PATH.
func onPath(list, name string) string {
	for _, dir := range filepath.SplitList(list) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(dir) {
			return path
		}
	}
	return ""
}

// besideUs finds a program in the directory of this one, or of what this one
// is a link to.
func besideUs(name string) string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	dirs := []string{filepath.Dir(self)}
	if target, err := filepath.EvalSymlinks(self); err == nil {
		dirs = append(dirs, filepath.Dir(target))
	}
	return onPath(strings.Join(dirs, string(filepath.ListSeparator)), name)
}

// changes shows what became of the files.
func (r *helperReport) changes(t *terminal.Text) {
	for _, f := range r.Files {
		switch {
		case f.Changed && r.dryRun:
			t.Quote("", strings.TrimSuffix(f.Diff, "\n"))
		case !f.Changed:
			t.Line(terminal.OK, f.Path+": nothing to change")
		case r.install:
			t.Line(terminal.OK, fmt.Sprintf("%s: %s", f.Path, f.asked()))
		default:
			t.Line(terminal.OK, f.Path+": regcred's helper was removed")
		}
	}
}

// asked says about what regcred's helper is asked.
func (f *helperFile) asked() string {
	text := terminal.Count(len(f.Hosts), "host")
	if len(f.Hosts) > 0 {
		text += ": " + commas(f.Hosts)
	}
	if f.AllHosts {
		text += "; and all other hosts without a helper (credsStore)"
	}
	return text
}

// text shows what is there.
func (r *helperReport) text(t *terminal.Text) {
	if r.Helper != "" {
		t.Line(terminal.OK, helperProgram+": "+r.Helper)
	} else {
		t.Line(terminal.Error, helperProgram+": not on the PATH")
	}
	for _, f := range r.Files {
		switch {
		case !f.named():
			t.Line(terminal.None, fmt.Sprintf("%s: %s: regcred's helper is not configured", f.Client, f.Path))
			continue
		case f.complete():
			t.Line(terminal.OK, fmt.Sprintf("%s: %s: %s", f.Client, f.Path, f.asked()))
		default:
			t.Line(terminal.Error, fmt.Sprintf("%s: %s: %s", f.Client, f.Path, f.asked()))
		}
		if len(f.Missing) > 0 {
			t.Detail("without the helper: %s", commas(f.Missing))
		}
		if len(f.LeftOver) > 0 {
			t.Detail("entries for hosts that are not in the configuration: %s", commas(f.LeftOver))
		}
	}
}

// named reports whether regcred's helper is.
func (f *helperFile) named() bool { return len(f.Hosts) > 0 || f.AllHosts }

// complete reports whether it is, for what the configuration has and no more.
func (f *helperFile) complete() bool {
	return f.named() && len(f.Missing) == 0 && len(f.LeftOver) == 0 && len(f.Others) == 0
}

// code is the exit code of a status.
func (r *helperReport) code() int {
	named := 0
	for _, f := range r.Files {
		if f.named() {
			named++
			if !f.complete() {
				return exitFailed
			}
		}
	}
	switch {
	case named == 0:
		return exitEmpty
	case r.Helper == "":
		return exitFailed
	}
	return exitOK
}

// noteFiles says what a reader of the files may not expect.
func (a *app) noteFiles(r *helperReport) {
	named := false
	for _, f := range r.Files {
		named = named || f.named()
		for _, host := range slices.Sorted(maps.Keys(f.Others)) {
			a.Note("%s: %s keeps the helper %q", f.Path, host, f.Others[host])
		}
		if len(f.Hidden) > 0 {
			a.Warn("%s: clients ignore these credentials because a helper is configured for their hosts: %s", f.Path, commas(f.Hidden))
		}
	}
	if named && r.Helper == "" {
		what := "install it there"
		if r.beside != "" {
			what = fmt.Sprintf("create a symlink to %s in a directory on the PATH", r.beside)
		}
		a.Warn("%s is not on the PATH: %s", helperProgram, what)
	}
}
