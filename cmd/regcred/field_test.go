// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

// fieldDir has a file for each misconfiguration that users reported in public.
// docs/project/testing.md describes the format.
const fieldDir = "../../testdata/field"

// TestField sets up each case and runs the command that an operator would run first.
// One finding in the output must name the cause, the location and the fix.
func TestField(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(fieldDir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in %s: %v", fieldDir, err)
	}
	count := newFieldCount()
	for _, file := range files {
		c := must.Get(readFieldCase(file))(t)
		t.Run(c.name, func(t *testing.T) {
			out := c.runCase(t)
			named := c.isNamedIn(out)
			count.countCase(c, named)
			switch {
			case strings.Contains(out, canary.PasswordSecret):
				t.Errorf("a password is shown:\n%s", out)
			case named && c.mustBeFixedBy != "":
				t.Errorf("it is named now: remove the line \"open: %s\"", c.mustBeFixedBy)
			case !named:
				tell := t.Errorf
				if c.mustBeFixedBy != "" {
					tell = t.Logf
				}
				tell("%s\nno finding has all of\n  %s\nregcred %s\n%s", c.thread, strings.Join(c.want, "\n  "), c.run, out)
			}
		})
	}
	t.Logf("%s", count)
}

// isNamedIn reports whether one finding contains all wanted fragments, and the output contains no
// unwanted fragment.
func (c *fieldCase) isNamedIn(out string) bool {
	for _, not := range c.not {
		if containsWord(out, not) {
			return false
		}
	}
	return slices.ContainsFunc(fieldFindings(out), func(finding string) bool {
		return !slices.ContainsFunc(c.want, func(want string) bool { return !containsAny(finding, want) })
	})
}

// containsAny reports whether text contains one of the fragments separated by " | ".
func containsAny(text, fragments string) bool {
	return slices.ContainsFunc(strings.Split(fragments, " | "), func(f string) bool { return containsWord(text, f) })
}

func containsWord(text, fragment string) bool {
	fold := func(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }
	return strings.Contains(fold(text), fold(fragment))
}

// findingStart matches the first line of a finding. The line begins with the severity, either at
// the margin, below a section's heading or below a passed item. Passed items are not findings.
// findingRest matches the other lines of a finding.
var (
	findingStart = regexp.MustCompile(`^( {0,2}(error|warning|info|skipped|no|none|note):?( |$)| +(error|warning): )`)
	findingRest  = regexp.MustCompile(`^(   |hint: )`)
)

// fieldFindings splits an output into findings. A finding is a line and its indented
// details.
func fieldFindings(out string) (findings []string) {
	open := false
	for line := range strings.Lines(out) {
		switch {
		case findingStart.MatchString(line) && (!open || !findingRest.MatchString(line)):
			findings, open = append(findings, line), true
		case open && findingRest.MatchString(line):
			findings[len(findings)-1] += line
		default:
			open = false
		}
	}
	return findings
}

// TestFieldFindings checks that all fragments must be in the same finding, and not in a
// passed item.
func TestFieldFindings(t *testing.T) {
	const out = "error   a: cause\n          fix: cure\nok      b: place\nerror: c\nhint: d\n\nproviders\n  no       e\n           error: f\n"
	want := []string{"error   a: cause\n          fix: cure\n", "error: c\nhint: d\n", "  no       e\n           error: f\n"}
	if got := fieldFindings(out); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for want, named := range map[string]bool{"cause,cure": true, "CAUSE, fix:  cure ": true, "x | cause": true, "cause,d": false, "place": false, "c,d": true} {
		c := fieldCase{want: strings.Split(want, ",")}
		if c.isNamedIn(out) != named {
			t.Errorf("%q: named %v, want %v", want, !named, named)
		}
	}
	if c := (fieldCase{want: []string{"cause"}, not: []string{"place"}}); c.isNamedIn(out) {
		t.Error("an unwanted text is printed, and counts as named")
	}
}

// fieldCount counts the cases, and the cases whose cause is named in the output, by class.
type fieldCount struct{ cases, named map[string]int }

func newFieldCount() *fieldCount { return &fieldCount{map[string]int{}, map[string]int{}} }

func (n *fieldCount) countCase(c *fieldCase, named bool) {
	for _, class := range []string{c.class, "all"} {
		n.cases[class]++
		if named {
			n.named[class]++
		}
	}
}

func (n *fieldCount) String() string {
	var b bytes.Buffer
	for _, class := range slices.Sorted(maps.Keys(n.cases)) {
		fmt.Fprintf(&b, "\n%-16s %2d cases, %2d named", class, n.cases[class], n.named[class])
	}
	return b.String()
}

// runCase sets up a case and returns the command's output.
func (c *fieldCase) runCase(t *testing.T) string {
	t.Helper()
	if why := c.skipReason(); why != "" {
		t.Skip(why)
	}
	dir := fieldTemp(t)
	must.Do(t, c.writeFiles(t, dir))
	cmd := exec.Command("regcred", strings.Fields(c.expandVariables(c.run, dir))...)
	cmd.Dir, cmd.Env = dir, c.commandEnviron(dir)
	switch {
	case c.needsNamespaces(dir):
		cmd = c.isolatedCommand(t, dir)
	case len(c.servers) > 0:
		cmd.Path, cmd.Args = fieldServer(t, c.path, dir)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		t.Fatal(err)
	}
	if cmd.ProcessState.ExitCode() == fieldSetupFailed {
		t.Fatalf("the case could not be set up: %s", stderr.String())
	}
	// Hide the directory's name, which could contain a wanted fragment.
	return strings.NewReplacer(dir+"/", "", fieldWork+"/", "").Replace(stdout.String() + stderr.String())
}

// fieldTemp creates a directory whose name, unlike t.TempDir's, does not reveal the
// case.
func fieldTemp(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "node"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
