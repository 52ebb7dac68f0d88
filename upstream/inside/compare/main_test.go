// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package compare

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/regcred/regcred/upstream/inside"
	"github.com/regcred/regcred/upstream/node"
)

var benchmarkRounds = flag.Int("rounds", 1, "how often to take each time; the tables have medians")

// insideKubeletEnv is the environment variable with the path of the kubelet with regcred embedded. If
// it is set, the tests do not build that kubelet.
const insideKubeletEnv = "REGCRED_INSIDE_KUBELET"

// TestMain builds the kubelet with regcred embedded and passes its path to the process that runs
// the tests.
func TestMain(m *testing.M) {
	if err := buildKubelets(); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
	node.Main(m)
}

func buildKubelets() error {
	if os.Getenv(insideKubeletEnv) != "" || runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	dir := filepath.Join(cache, "regcred-node", inside.Version+"-"+runtime.GOARCH)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, "kubelet")
	fmt.Fprintf(os.Stderr, "compare: building kubelet %s: minutes, for the first time\n", inside.Version)
	// If interrupted, cancel the build, as in package isolated.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	defer stop()
	if err := inside.Build(ctx, path); err != nil {
		return err
	}
	return os.Setenv(insideKubeletEnv, path)
}
