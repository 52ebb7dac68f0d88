// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package alone runs the tests of a package where nobody else is: on a network
// with loopback alone, with mounts of their own, and so that all that they started
// ends when they end.
//
//	var run = alone.Tests{Name: "clients", Programs: alone.Programs{"skopeo": "skopeo"}, Prepare: build}
//
//	func TestMain(m *testing.M) { run.Main(m) }
//
//	func TestPull(t *testing.T) {
//		run.Require(t)
//		…
//	}
package alone

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Programs are the programs that have to be installed, with Debian's packages.
type Programs map[string]string

// own are those of this package.
var own = Programs{"ip": "iproute2", "unshare": "util-linux", "mount": "mount"}

// Tests are the tests of a package.
type Tests struct {
	Name     string // of what they are about: in REGCRED_TEST_REQUIRE, and of their directory
	Programs Programs

	// Prepare makes what they need, outside, in their directory; nil if nothing.
	Prepare func(ctx context.Context, dir string) error
	// Inside is a script of sh that is run within, before them; $1 is their directory.
	Inside string
	// Environ is added to their environment; DIR in it stands for their directory.
	Environ []string
	// Clean is called when they have ended, before their directory is removed.
	Clean func(dir string) error
	// Around calls run within; nil means that nothing is done around it.
	Around func(run func() int) (code int, err error)
}

func (t *Tests) variable() string { return "REGCRED_TEST_" + strings.ToUpper(t.Name) + "_DIR" }

// Dir is the directory of the tests; "" outside of their namespaces.
func (t *Tests) Dir() string { return os.Getenv(t.variable()) }

// Main runs the tests, in namespaces of their own if they can have such, and exits.
func (t *Tests) Main(m *testing.M) {
	code, err := 0, error(nil)
	switch {
	case t.Dir() != "" && t.Around != nil:
		code, err = t.Around(m.Run)
	case t.Dir() != "" || t.Missing() != "":
		code = m.Run()
	default:
		code, err = t.enter()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", t.Name, err)
		code = 1
	}
	os.Exit(code)
}

// Require skips a test that is not run by [Tests.Main] within, or lets it fail if
// REGCRED_TEST_REQUIRE, a list with commas, names the tests.
func (t *Tests) Require(tb testing.TB) {
	tb.Helper()
	reason := t.Missing()
	switch {
	case t.Dir() != "":
	case reason == "":
		tb.Fatal("the package of this test has no TestMain that calls Main")
	case Required(t.Name):
		tb.Fatalf("%s cannot be tried here: %s", t.Name, reason)
	default:
		tb.Skipf("%s cannot be tried here: %s", t.Name, reason)
	}
}

// Required reports whether REGCRED_TEST_REQUIRE names something.
func Required(name string) bool {
	return slices.Contains(strings.Split(os.Getenv("REGCRED_TEST_REQUIRE"), ","), name)
}

// Missing says what the tests lack here, or nothing.
func (t *Tests) Missing() string {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return "it needs Linux and root"
	}
	if names, packages := t.NotInstalled(); len(names) > 0 {
		return fmt.Sprintf("%s not installed; on Debian: apt-get install %s", strings.Join(names, ", "), strings.Join(packages, " "))
	}
	if out, err := exec.Command("unshare", append(slices.Clone(namespaces), "true")...).CombinedOutput(); err != nil {
		return fmt.Sprintf("it needs namespaces of its own: %v: %s", err, out)
	}
	return ""
}

// NotInstalled lists the programs that are not there, and their packages.
func (t *Tests) NotInstalled() (names, packages []string) {
	for _, list := range []Programs{t.Programs, own} {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if _, err := exec.LookPath(name); err != nil {
				names, packages = append(names, name), append(packages, list[name])
			}
		}
	}
	return names, packages
}

// namespaces are the arguments of unshare. With its first process, which dies
// with unshare, all processes of the new namespace end, and with them the
// mounts that they alone see.
var namespaces = []string{"--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"}

// script runs what is to be run within. The shell stays, as the first process: it
// takes care of orphans.
func (t *Tests) script() string {
	return "set -e\nip link set lo up\n" + t.Inside + "\nshift\nset +e\n\"$@\"\nexit $?\n"
}

// enter runs this program again, within the namespaces, and returns its exit
// code.
func (t *Tests) enter() (code int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	// Short, since the paths of sockets may have no more than 107 bytes.
	dir, err := os.MkdirTemp("", t.Name+"-")
	if err != nil {
		return 0, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	defer stop()
	defer func() { err = errors.Join(err, t.clean(dir), os.RemoveAll(dir)) }()
	if t.Prepare != nil {
		if err := t.Prepare(ctx, dir); err != nil {
			return 0, err
		}
	}
	args := slices.Concat(namespaces, []string{"sh", "-c", t.script(), "sh", dir, self}, arguments())
	cmd := exec.CommandContext(ctx, "unshare", args...)
	cmd.Env = append(os.Environ(), t.variable()+"="+dir)
	for _, entry := range t.Environ {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(entry, "DIR", dir))
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	dieWithParent(cmd)
	err = cmd.Run()
	if state := cmd.ProcessState; state != nil && state.ExitCode() > 0 {
		return state.ExitCode(), nil
	}
	return 0, err
}

func (t *Tests) clean(dir string) error {
	if t.Clean == nil {
		return nil
	}
	return t.Clean(dir)
}

// arguments are those of this program but the file in which tests note what they
// read: without it go test runs them every time. It cannot know what the programs
// are made of.
func arguments() []string {
	return slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool {
		return strings.HasPrefix(arg, "-test.testlogfile=")
	})
}
