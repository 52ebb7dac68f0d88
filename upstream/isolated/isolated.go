// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package isolated runs a package's tests in isolation: in a network namespace with only a loopback
// interface, with their own mounts, and in a PID namespace. All processes that the tests start end
// with the namespace.
//
//	var run = isolated.Tests{Name: "clients", Programs: isolated.Programs{"skopeo": "skopeo"}, Prepare: build}
//
//	func TestMain(m *testing.M) { run.Main(m) }
//
//	func TestPull(t *testing.T) {
//		run.SkipUnlessAvailable(t)
//		…
//	}
package isolated

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

// Programs maps the programs that must be installed to Debian packages.
type Programs map[string]string

// ownPrograms lists the programs that this package needs.
var ownPrograms = Programs{"ip": "iproute2", "unshare": "util-linux", "mount": "mount"}

// Tests configures the tests of a package.
type Tests struct {
	Name     string // used in REGCRED_TEST_REQUIRE and in the directory's name
	Programs Programs

	// Prepare creates the tests' files in their directory, outside of the namespaces. It
	// may be nil.
	Prepare func(ctx context.Context, dir string) error
	// SetupScript is an sh script that runs in the namespaces before the tests. $1 is their
	// directory.
	SetupScript string
	// Environ lists additional environment variables of the tests. DIR in a value is replaced with
	// the tests' directory.
	Environ []string
	// Clean is called after the tests, before their directory is removed.
	Clean func(dir string) error
	// Wrap is called in the namespaces. It calls run, which runs the tests. It may be nil.
	Wrap func(run func() int) (code int, err error)
}

func (t *Tests) environmentVariable() string {
	return "REGCRED_TEST_" + strings.ToUpper(t.Name) + "_DIR"
}

// Dir returns the tests' directory, or "" outside of the namespaces.
func (t *Tests) Dir() string { return os.Getenv(t.environmentVariable()) }

// Main runs the tests, in namespaces if these can be created, and exits.
func (t *Tests) Main(m *testing.M) {
	code, err := 0, error(nil)
	switch {
	case t.Dir() != "" && t.Wrap != nil:
		code, err = t.Wrap(m.Run)
	case t.Dir() != "" || t.MissingRequirements() != "":
		code = m.Run()
	default:
		code, err = t.runInNamespaces()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", t.Name, err)
		code = 1
	}
	os.Exit(code)
}

// SkipUnlessAvailable skips a test that [Tests.Main] does not run in namespaces. If
// REGCRED_TEST_REQUIRE, a comma-separated list, contains the tests' name, the test fails
// instead.
func (t *Tests) SkipUnlessAvailable(tb testing.TB) {
	tb.Helper()
	reason := t.MissingRequirements()
	switch {
	case t.Dir() != "":
	case reason == "":
		tb.Fatal("the package of this test has no TestMain that calls Main")
	case IsRequired(t.Name):
		tb.Fatalf("%s cannot be tried here: %s", t.Name, reason)
	default:
		tb.Skipf("%s cannot be tried here: %s", t.Name, reason)
	}
}

// IsRequired reports whether REGCRED_TEST_REQUIRE contains name.
func IsRequired(name string) bool {
	return slices.Contains(strings.Split(os.Getenv("REGCRED_TEST_REQUIRE"), ","), name)
}

// MissingRequirements returns why the tests cannot run on this machine, or "" if they can.
func (t *Tests) MissingRequirements() string {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return "it needs Linux and root"
	}
	if names, packages := t.MissingPrograms(); len(names) > 0 {
		return fmt.Sprintf("%s not installed; on Debian: apt-get install %s", strings.Join(names, ", "), strings.Join(packages, " "))
	}
	if out, err := exec.Command("unshare", append(slices.Clone(unshareArgs), "true")...).CombinedOutput(); err != nil {
		return fmt.Sprintf("it needs namespaces of its own: %v: %s", err, out)
	}
	return ""
}

// MissingPrograms returns the programs that are not installed, and their Debian packages.
func (t *Tests) MissingPrograms() (names, packages []string) {
	for _, list := range []Programs{t.Programs, ownPrograms} {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if _, err := exec.LookPath(name); err != nil {
				names, packages = append(names, name), append(packages, list[name])
			}
		}
	}
	return names, packages
}

// unshareArgs are the arguments for unshare. When unshare ends, it kills the first process. All
// processes in the PID namespace and all mounts in the mount namespace end with that process.
var unshareArgs = []string{"--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"}

// script returns the script that runs in the namespaces. The shell stays PID 1 so that it reaps
// orphaned processes.
func (t *Tests) script() string {
	return "set -e\nip link set lo up\n" + t.SetupScript + "\nshift\nset +e\n\"$@\"\nexit $?\n"
}

// runInNamespaces runs this program again, in the namespaces, and returns its exit code.
func (t *Tests) runInNamespaces() (code int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	// Keep the path short: socket paths are limited to 107 bytes.
	dir, err := os.MkdirTemp("", t.Name+"-")
	if err != nil {
		return 0, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	defer stop()
	defer func() { err = errors.Join(err, t.cleanUp(dir), os.RemoveAll(dir)) }()
	if t.Prepare != nil {
		if err := t.Prepare(ctx, dir); err != nil {
			return 0, err
		}
	}
	args := slices.Concat(unshareArgs, []string{"sh", "-c", t.script(), "sh", dir, self}, goTestArgs())
	cmd := exec.CommandContext(ctx, "unshare", args...)
	cmd.Env = append(os.Environ(), t.environmentVariable()+"="+dir)
	for _, entry := range t.Environ {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(entry, "DIR", dir))
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	setParentDeathSignal(cmd)
	err = cmd.Run()
	if state := cmd.ProcessState; state != nil && state.ExitCode() > 0 {
		return state.ExitCode(), nil
	}
	return 0, err
}

func (t *Tests) cleanUp(dir string) error {
	if t.Clean == nil {
		return nil
	}
	return t.Clean(dir)
}

// goTestArgs returns this program's arguments without -test.testlogfile. Without that log of the
// files that tests read, go test does not cache the result. It must not, because it does not know
// which files the programs under test are built from.
func goTestArgs() []string {
	return slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool {
		return strings.HasPrefix(arg, "-test.testlogfile=")
	})
}
