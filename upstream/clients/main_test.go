// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package clients

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/regcred/regcred/upstream/isolated"
)

// testAllClients also selects the clients that must be built and the clients that need dockerd.
var testAllClients = flag.Bool("all", false, "also try the clients that are built from Go modules")

// isolatedTests runs the tests in namespaces. The directories that clients use at fixed paths are mounted
// in memory.
var isolatedTests = isolated.Tests{
	Name:     "clients",
	Programs: isolated.Programs{"docker-registry": "docker-registry", "htpasswd": "apache2-utils"},
	Prepare: func(ctx context.Context, dir string) error {
		return errors.Join(buildPrograms(ctx, dir, *testAllClients), os.WriteFile(filepath.Join(dir, "hosts"), []byte(hostsFile), 0o644))
	},
	SetupScript: `mount --bind "$1/hosts" /etc/hosts
for dir in /run /var/lib /dev/shm; do
	mount -t tmpfs tmpfs $dir
done`,
}

// TestMain builds the programs, and runs the tests in their own namespaces.
func TestMain(m *testing.M) {
	flag.Parse()
	isolatedTests.Main(m)
}
