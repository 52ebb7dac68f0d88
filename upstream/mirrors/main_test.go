// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package mirrors

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/regcred/regcred/upstream/isolated"
)

// isolatedTests runs the tests in namespaces. In them every host name resolves to loopback, and this
// machine's registry settings are hidden.
var isolatedTests = isolated.Tests{
	Name:     "mirrors",
	Programs: isolated.Programs{"containerd": "containerd", "skopeo": "skopeo"},
	Prepare: func(ctx context.Context, dir string) error {
		if err := buildContainerd(ctx, dir); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "hosts"), []byte("127.0.0.1 localhost "+strings.Join(hostNames, " ")+"\n"), 0o644)
	},
	SetupScript: `mount --bind "$1/hosts" /etc/hosts
for dir in /run /var/lib /etc/containers /etc/docker /etc/containerd; do
	test ! -d $dir || mount -t tmpfs tmpfs $dir
done`,
	Environ: []string{"HOME=DIR/home"},
}

func TestMain(m *testing.M) { isolatedTests.Main(m) }

// containerd2 returns the path of the program built by [buildContainerd].
func containerd2() string { return filepath.Join(isolatedTests.Dir(), "containerd") }

// buildContainerd builds containerd 2 from its module, which takes half a minute once.
// The program stays in the user's cache, where go build replaces it only if it changes.
func buildContainerd(ctx context.Context, dir string) error {
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	out := filepath.Join(cache, "regcred-mirrors", "containerd-"+runtime.GOARCH)
	if _, err := os.Stat(out); err != nil {
		fmt.Fprintln(os.Stderr, "mirrors: building containerd 2: half a minute, once")
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-modfile=containerd2.mod", "-tags", "no_btrfs no_devmapper no_zfs no_tracing",
		"-ldflags", "-s -w", "-o", out, "github.com/containerd/containerd/v2/cmd/containerd")
	cmd.Dir, cmd.Env = strings.TrimSpace(string(module)), append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build containerd 2: %w\n%s", err, said)
	}
	return os.Symlink(out, filepath.Join(dir, "containerd"))
}
