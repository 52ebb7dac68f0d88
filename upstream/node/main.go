// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// dirVariable holds, within the namespaces, the directory of the run.
const dirVariable = "REGCRED_TEST_NODE_DIR"

// Address is that of every node. It belongs to the loopback interface, since a
// kubelet refuses 127.0.0.1, and is nobody's (RFC 5737).
const Address = "192.0.2.1"

// programs are what has to be installed, with Debian's packages.
var programs = []struct{ name, pkg string }{
	{"containerd", "containerd"}, {"runc", "runc"}, {"etcd", "etcd-server"},
	{"docker-registry", "docker-registry"}, {"htpasswd", "apache2-utils"},
	{"ip", "iproute2"}, {"unshare", "util-linux"}, {"mount", "mount"},
}

// Main installs Debian packages that are missing, where it may, builds the
// programs under test, runs the tests of a package in namespaces of their own,
// and exits. Where that cannot be, it runs the tests as they are, and [Require]
// skips them.
func Main(m *testing.M) {
	if dir() == "" {
		_, packages := notInstalled()
		install(packages)
	}
	if dir() != "" || missing() != "" {
		os.Exit(m.Run())
	}
	code, err := enter()
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		code = 1
	}
	os.Exit(code)
}

// Require skips a test where no node can be run, or lets it fail if
// REGCRED_TEST_REQUIRE says that one can.
func Require(t testing.TB) {
	t.Helper()
	reason := missing()
	switch {
	case dir() != "":
	case reason == "":
		t.Fatal("the package of this test has no TestMain that calls node.Main")
	case slices.Contains(strings.Split(os.Getenv("REGCRED_TEST_REQUIRE"), ","), "cluster"):
		t.Fatalf("no node can be run: %s", reason)
	default:
		t.Skipf("no node can be run: %s", reason)
	}
}

// missing says what a node would need, or nothing.
func missing() string {
	if runtime.GOOS != "linux" {
		return "it needs Linux"
	}
	if os.Getuid() != 0 {
		return "it needs root"
	}
	if names, packages := notInstalled(); len(names) > 0 {
		return fmt.Sprintf("%s not installed; on Debian: apt-get install %s", strings.Join(names, ", "), strings.Join(packages, " "))
	}
	if out, err := exec.Command("unshare", append(slices.Clone(namespaces), "true")...).CombinedOutput(); err != nil {
		return fmt.Sprintf("it needs namespaces of its own: %v: %s", err, out)
	}
	return ""
}

// notInstalled lists the programs that are not there, and their packages.
func notInstalled() (names, packages []string) {
	for _, p := range programs {
		if _, err := exec.LookPath(p.name); err != nil {
			names, packages = append(names, p.name), append(packages, p.pkg)
		}
	}
	return names, packages
}

// dir is the directory of the run, or "" outside of the namespaces.
func dir() string { return os.Getenv(dirVariable) }

// namespaces are the arguments of unshare. With its first process, which dies
// with unshare, all processes of the new namespace end, and with them the
// mounts that they alone see.
var namespaces = []string{"--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"}

// inside prepares the namespaces and runs a command. What runtimes and
// kubelets write to fixed places is written to memory, the settings of the
// kernel among it that a kubelet changes for the whole machine. The shell
// stays, as the first process: it takes care of orphans.
const inside = `
set -e
ip link set lo up
ip address add ` + Address + `/32 dev lo
for dir in /run /var/log /var/lib; do
	mount -t tmpfs tmpfs $dir
done
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
	[ -e /proc/sys/$setting ] || continue
	mkdir -p /run/sys/$setting
	cat /proc/sys/$setting >/run/sys/$setting/value
	mount --bind /run/sys/$setting/value /proc/sys/$setting
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
	// Short, since the paths of sockets may have no more than 107 bytes.
	dir, err := os.MkdirTemp("", "node-")
	if err != nil {
		return 0, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	defer stop()
	defer func() { err = errors.Join(err, removeGroups(dir), os.RemoveAll(dir)) }()
	if err := buildAll(dir); err != nil {
		return 0, err
	}
	args := append(slices.Clone(namespaces), "sh", "-c", inside, "sh", self)
	cmd := exec.CommandContext(ctx, "unshare", append(args, testArgs()...)...)
	cmd.Env = append(os.Environ(), dirVariable+"="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	dieWithParent(cmd)
	err = cmd.Run()
	if state := cmd.ProcessState; state != nil && state.ExitCode() > 0 {
		return state.ExitCode(), nil
	}
	return 0, err
}

// testArgs are the arguments of this program but the file in which tests note
// what they read: without it go test runs them every time. It cannot know what
// the programs are made of.
func testArgs() []string {
	return slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool {
		return strings.HasPrefix(arg, "-test.testlogfile=")
	})
}
