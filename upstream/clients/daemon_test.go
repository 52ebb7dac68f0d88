// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package clients

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// runDaemonJob returns a function that starts dockerd and runs docker with these arguments.
func runDaemonJob(args string) func(*testing.T, pullJob) (bool, string) {
	return func(t *testing.T, j pullJob) (ok bool, said string) {
		t.Helper()
		in := func(name string) string { return filepath.Join(j.home, name) }
		cmd := exec.Command("dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver=vfs",
			"--data-root", in("data"), "--exec-root", in("exec"), "--pidfile", in("pid"), "--host", "unix://"+in("socket"))
		cmd.Env, cmd.Dir = j.environ, j.home
		startServer(t, cmd, "unix", in("socket"))
		j.environ = append(j.environ, "DOCKER_HOST=unix://"+in("socket"))
		return runCommandJob(args)(t, j)
	}
}
