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
)

// fieldDir has the misconfigurations that people reported in public, a file
// each; docs/project/testing.md says what is in one.
const fieldDir = "../../testdata/field"

// TestField sets each of them up and runs what an operator would run first. One
// finding of the output has to name cause, place and cure.
func TestField(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(fieldDir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in %s: %v", fieldDir, err)
	}
	count := newFieldCount()
	for _, file := range files {
		c, err := readFieldCase(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(c.name, func(t *testing.T) {
			out := c.play(t)
			named := c.named(out)
			count.add(c, named)
			switch {
			case strings.Contains(out, canary.Password):
				t.Errorf("a password is shown:\n%s", out)
			case named && c.open != "":
				t.Errorf("it is named now: remove the line \"open: %s\"", c.open)
			case !named:
				tell := t.Errorf
				if c.open != "" {
					tell = t.Logf
				}
				tell("%s\nno finding has all of\n  %s\nregcred %s\n%s", c.thread, strings.Join(c.want, "\n  "), c.run, out)
			}
		})
	}
	t.Logf("%s", count)
}

// named reports whether one finding has all that is wanted, and the output
// nothing that is not.
func (c *fieldCase) named(out string) bool {
	for _, not := range c.not {
		if contains(out, not) {
			return false
		}
	}
	return slices.ContainsFunc(fieldFindings(out), func(finding string) bool {
		return !slices.ContainsFunc(c.want, func(want string) bool { return !containsAny(finding, want) })
	})
}

// containsAny reports whether a text has one of the fragments that " | " parts.
func containsAny(text, fragments string) bool {
	return slices.ContainsFunc(strings.Split(fragments, " | "), func(f string) bool { return contains(text, f) })
}

func contains(text, fragment string) bool {
	fold := func(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }
	return strings.Contains(fold(text), fold(fragment))
}

// A finding begins with its severity, at the margin, below the head of a section,
// or below something good; what is good is none.
var (
	findingStart = regexp.MustCompile(`^( {0,2}(error|warning|info|skipped|no|none|note):?( |$)| +(error|warning): )`)
	findingRest  = regexp.MustCompile(`^(   |hint: )`)
)

// fieldFindings cuts an output into findings: a line, with what hangs below it.
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

// TestFieldFindings: fragments are sought in one finding, not in two, and not
// in what is good.
func TestFieldFindings(t *testing.T) {
	const out = "error   a: cause\n          fix: cure\nok      b: place\nerror: c\nhint: d\n\nproviders\n  no       e\n           error: f\n"
	want := []string{"error   a: cause\n          fix: cure\n", "error: c\nhint: d\n", "  no       e\n           error: f\n"}
	if got := fieldFindings(out); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for want, named := range map[string]bool{"cause,cure": true, "CAUSE, fix:  cure ": true, "x | cause": true, "cause,d": false, "place": false, "c,d": true} {
		c := fieldCase{want: strings.Split(want, ",")}
		if c.named(out) != named {
			t.Errorf("%q: named %v, want %v", want, !named, named)
		}
	}
	if c := (fieldCase{want: []string{"cause"}, not: []string{"place"}}); c.named(out) {
		t.Error("what must not be said is said, and it counts as named")
	}
}

// fieldCount counts cases and those that are named, by class.
type fieldCount struct{ cases, named map[string]int }

func newFieldCount() *fieldCount { return &fieldCount{map[string]int{}, map[string]int{}} }

func (n *fieldCount) add(c *fieldCase, named bool) {
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

// play sets a case up and returns what the command prints.
func (c *fieldCase) play(t *testing.T) string {
	t.Helper()
	if why := c.runsHere(); why != "" {
		t.Skip(why)
	}
	dir := fieldTemp(t)
	if err := c.layOut(t, dir); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("regcred", strings.Fields(c.expand(c.run, dir))...)
	cmd.Dir, cmd.Env = dir, c.environ(dir)
	switch {
	case c.isolated(dir):
		cmd = c.onNode(t, dir)
	case len(c.servers) > 0:
		cmd.Path, cmd.Args = fieldServer(t, c.path, dir)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		t.Fatal(err)
	}
	if cmd.ProcessState.ExitCode() == fieldBroken {
		t.Fatalf("the case could not be set up: %s", stderr.String())
	}
	// The directory's name is nothing that anybody is told.
	return strings.NewReplacer(dir+"/", "", fieldWork+"/", "").Replace(stdout.String() + stderr.String())
}

// fieldTemp is a directory whose name, unlike that of t.TempDir, says nothing.
func fieldTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "node")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
