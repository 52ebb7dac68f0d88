// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package clients

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// all is whether clients are built that are in no package of Debian.
var all = flag.Bool("all", false, "also try the clients that are built from Go modules")

// dirVariable holds, within the namespaces, the directory of the run.
const dirVariable = "REGCRED_TEST_CLIENTS_DIR"

// TestMain builds what the tests run, and runs them in namespaces of their own.
// Where that cannot be, [requireRun] skips them.
func TestMain(m *testing.M) {
	flag.Parse()
	if runDir() != "" || missing() != "" {
		os.Exit(m.Run())
	}
	code, err := enter()
	if err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		code = 1
	}
	os.Exit(code)
}

func runDir() string { return os.Getenv(dirVariable) }

// requireRun skips a test where the clients cannot be run, or lets it fail if
// REGCRED_TEST_REQUIRE says that they can.
func requireRun(t *testing.T) {
	t.Helper()
	if runDir() != "" {
		return
	}
	if required("clients") {
		t.Fatalf("clients cannot be run here: %s", missing())
	}
	t.Skipf("clients cannot be run here: %s", missing())
}

// required is whether REGCRED_TEST_REQUIRE, a list with commas, names this.
func required(name string) bool {
	return slices.Contains(strings.Split(os.Getenv("REGCRED_TEST_REQUIRE"), ","), name)
}

// missing says what a run lacks here.
func missing() string {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return "they need Linux and root"
	}
	for _, p := range []struct{ name, pkg string }{
		{"docker-registry", "docker-registry"}, {"htpasswd", "apache2-utils"},
		{"ip", "iproute2"}, {"unshare", "util-linux"}, {"mount", "mount"},
	} {
		if _, err := exec.LookPath(p.name); err != nil {
			return fmt.Sprintf("%s is not installed: Debian's package %s has it", p.name, p.pkg)
		}
	}
	if err := exec.Command("unshare", append(slices.Clone(namespaces), "true")...).Run(); err != nil {
		return "no namespaces of their own: " + err.Error()
	}
	return ""
}

// namespaces are those of a run. No network but loopback is in them; when
// their first process ends, all others end, and the mounts that they alone see.
var namespaces = []string{"--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"}

// inside prepares the namespaces and runs a command: $1 is the table of hosts.
// What clients keep at fixed places is kept in memory.
const inside = `
set -e
ip link set lo up
mount --bind "$1" /etc/hosts
shift
for dir in /run /var/lib /dev/shm; do
	mount -t tmpfs tmpfs $dir
done
set +e
"$@"
exit $?
`

// enter runs this program again, within the namespaces, and returns its exit
// code.
func enter() (code int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "clients-")
	if err != nil {
		return 0, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := build(ctx, dir, *all); err != nil {
		return 0, err
	}
	hosts := filepath.Join(dir, "hosts")
	if err := os.WriteFile(hosts, []byte(hostsFile), 0o644); err != nil {
		return 0, err
	}
	args := slices.Concat(namespaces, []string{"sh", "-c", inside, "sh", hosts, self}, testArgs())
	cmd := exec.CommandContext(ctx, "unshare", args...)
	cmd.Env = append(os.Environ(), dirVariable+"="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	if state := cmd.ProcessState; state != nil && state.ExitCode() > 0 {
		return state.ExitCode(), nil
	}
	return 0, err
}

// testArgs are the arguments of this program but the file in which tests note
// what they read: without it go test runs them every time. It cannot know what
// the clients are made of.
func testArgs() []string {
	return slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool {
		return strings.HasPrefix(arg, "-test.testlogfile=")
	})
}
