// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/regcred/regcred/upstream/isolated"
	"github.com/regcred/regcred/upstream/kubelet"
)

// NodeAddress is the IP address of every standalone node. It is assigned to the loopback
// interface because a kubelet rejects 127.0.0.1, and is reserved for documentation (RFC 5737).
const NodeAddress = "192.0.2.1"

// isolatedTests runs the tests of a package that calls [Main]. It mounts tmpfs over the fixed
// directories that runtimes and kubelets write to, and bind-mounts copies of the global
// kernel settings that a kubelet changes.
var isolatedTests = isolated.Tests{
	Name: "cluster",
	Programs: isolated.Programs{
		"containerd": "containerd", "runc": "runc", "etcd": "etcd-server",
		"docker-registry": "docker-registry", "htpasswd": "apache2-utils", "systemctl": "systemd",
	},
	Prepare: func(ctx context.Context, dir string) error { return buildAll(ctx, dir) },
	Clean:   removeAllCgroups,
	SetupScript: `ip address add ` + NodeAddress + `/32 dev lo
ip address add ` + kubernetesServiceIP + `/32 dev lo
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

// Main installs missing Debian packages if it can, builds the programs under test, runs a
// package's tests in separate namespaces, and exits. If namespaces are not available, it
// runs the tests as they are, and [SkipUnlessSupported] skips them. The flag -kubelet selects the
// kubelet's release, for example -kubelet 1.33.13.
func Main(m *testing.M) { runMain(m) }

// MainCluster is [Main] for packages that start a [Cluster]. It also builds the
// controllers and installs the CNI plugins.
func MainCluster(m *testing.M) {
	isolatedTests.Programs["/usr/lib/cni/ptp"] = "containernetworking-plugins"
	isolatedTests.Prepare = func(ctx context.Context, dir string) error {
		return buildAll(ctx, dir, "kube-controller-manager", "kube-scheduler")
	}
	runMain(m)
}

func runMain(m *testing.M) {
	// The test program is executed again inside the namespaces, with the same arguments.
	name := flag.String("kubelet", kubelet.Version, "the `release` of the kubelet, or inside: with regcred in it")
	flag.Parse()
	var err error
	if selectedVersions, err = parseChoice(*name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if testRunDir() == "" {
		_, packages := isolatedTests.MissingPrograms()
		installPackages(packages)
	}
	isolatedTests.Main(m)
}

// SkipUnlessSupported skips a test if nodes cannot run here, or fails it if REGCRED_TEST_REQUIRE
// requires them.
func SkipUnlessSupported(t testing.TB) {
	t.Helper()
	isolatedTests.SkipUnlessAvailable(t)
}

// testRunDir returns the run's directory, or "" outside the namespaces.
func testRunDir() string { return isolatedTests.Dir() }
