// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package helm runs the real Helm, for tests of the chart. helm.mod pins its release.
//
//	path, err := helm.Build(dir)
//	…
//	h := helm.New(t, path, kubeconfig)
//	out := h.Run(t, "install", "regcred", helm.Chart(t), "--namespace", "regcred")
package helm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/upstream/plugins"
)

// Version is the release of Helm.
const Version = "v4.3.1"

// Build builds Helm, if that has not been done, and returns the path of a link to it in
// dir, or its own where dir is empty. It takes minutes once, and is then kept in the
// user's cache. It needs no network once the modules of helm.mod are there.
func Build(dir string) (string, error) {
	root, err := plugins.Repository()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cached := filepath.Join(cache, "regcred-helm", Version+"-"+runtime.GOARCH, "helm")
	if _, err := os.Stat(cached); err != nil {
		fmt.Fprintf(os.Stderr, "helm: building %s: minutes, once\n", Version)
	}
	// Without -X it says v4.3 and no more.
	cmd := exec.Command("go", "build", "-modfile=helm.mod", "-o", cached,
		"-ldflags", "-s -w -X helm.sh/helm/v4/internal/version.version="+Version, "helm.sh/helm/v4/cmd/helm")
	cmd.Dir = filepath.Join(root, "upstream")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build helm: %w\n%s", err, said)
	}
	if dir == "" {
		return cached, nil
	}
	path := filepath.Join(dir, "helm")
	return path, os.Symlink(cached, path)
}

// Chart is the directory of the chart.
func Chart(t testing.TB) string {
	t.Helper()
	root, err := plugins.Repository()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "deploy", "chart")
}

// Helm is Helm with a home of its own.
type Helm struct {
	path    string
	environ []string
}

// New makes one that ends with the test. kubeconfig may be empty, for what needs no
// cluster.
func New(t testing.TB, path, kubeconfig string) *Helm {
	t.Helper()
	home := t.TempDir()
	return &Helm{path, []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + kubeconfig,
		"HELM_CACHE_HOME=" + filepath.Join(home, "cache"), "HELM_CONFIG_HOME=" + filepath.Join(home, "config"), "HELM_DATA_HOME=" + filepath.Join(home, "data"),
	}}
}

// Path is the program's.
func (h *Helm) Path() string { return h.path }

// Environ is what it is run with.
func (h *Helm) Environ() []string { return slices.Clone(h.environ) }

// limit is for how long a command may take.
const limit = 20 * time.Minute

// Try runs helm and returns what it printed on standard output and standard error; the
// error says that its exit code was not 0, and holds the latter.
func (h *Helm) Try(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, h.path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = h.environ, &out, &errs
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), errs.String(), err
}

// Run is [Helm.Try] for what has to work.
func (h *Helm) Run(t testing.TB, args ...string) (stdout string) {
	t.Helper()
	stdout, _, err := h.Try(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return stdout
}
