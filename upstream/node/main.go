// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/regcred/regcred/upstream/alone"
	"github.com/regcred/regcred/upstream/kubelet"
)

// Address is that of every node. It belongs to the loopback interface, since a
// kubelet refuses 127.0.0.1, and is nobody's (RFC 5737).
const Address = "192.0.2.1"

// tests are those of whoever calls [Main]. What runtimes and kubelets write to
// fixed places is written to memory, the settings of the kernel among it that a
// kubelet changes for the whole machine.
var tests = alone.Tests{
	Name: "cluster",
	Programs: alone.Programs{
		"containerd": "containerd", "runc": "runc", "etcd": "etcd-server",
		"docker-registry": "docker-registry", "htpasswd": "apache2-utils", "systemctl": "systemd",
	},
	Prepare: func(ctx context.Context, dir string) error { return buildAll(ctx, dir) },
	Clean:   removeGroups,
	Inside: `ip address add ` + Address + `/32 dev lo
ip address add ` + serviceAddress + `/32 dev lo
for dir in /run /var/log /var/lib; do
	mount -t tmpfs tmpfs $dir
done
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
	[ -e /proc/sys/$setting ] || continue
	mkdir -p /run/sys/$setting
	cat /proc/sys/$setting >/run/sys/$setting/value
	mount --bind /run/sys/$setting/value /proc/sys/$setting
done`,
}

// Main installs Debian packages that are missing, where it may, builds the
// programs under test, runs the tests of a package in namespaces of their own,
// and exits. Where that cannot be, it runs the tests as they are, and [Require]
// skips them. Which kubelet it is can be said: -kubelet 1.33.13.
func Main(m *testing.M) { run(m) }

// MainCluster is [Main] for packages that start a [Cluster]: its programs are built
// and installed, too.
func MainCluster(m *testing.M) {
	tests.Programs["/usr/lib/cni/ptp"] = "containernetworking-plugins"
	tests.Prepare = func(ctx context.Context, dir string) error {
		return buildAll(ctx, dir, "kube-controller-manager", "kube-scheduler")
	}
	run(m)
}

func run(m *testing.M) {
	// The program that is run within has the same arguments.
	name := flag.String("kubelet", kubelet.Version, "the `release` of the kubelet, or inside: with regcred in it")
	flag.Parse()
	var err error
	if chosen, err = choose(*name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if dir() == "" {
		_, packages := tests.NotInstalled()
		install(packages)
	}
	tests.Main(m)
}

// Require skips a test where no node can be run, or lets it fail if
// REGCRED_TEST_REQUIRE says that one can.
func Require(t testing.TB) {
	t.Helper()
	tests.Require(t)
}

// dir is the directory of the run, or "" outside of the namespaces.
func dir() string { return tests.Dir() }
