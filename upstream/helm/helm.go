// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package helm runs the real Helm for tests of the chart. Its version is pinned in helm.mod.
//
//	path, err := helm.BuildHelm(dir)
//	…
//	h := helm.New(t, path, kubeconfig)
//	out := h.Run(t, "install", "regcred", helm.ChartDir(t), "--namespace", "regcred")
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

// Version is the Helm release.
const Version = "v4.3.1"

// BuildHelm builds Helm if necessary. It returns the path of a symlink in dir, or of the executable
// if dir is empty. The first build takes minutes. Later calls use the executable in the user's
// cache directory. A build needs no network if the modules of helm.mod are already downloaded.
func BuildHelm(dir string) (string, error) {
	root, err := plugins.RepositoryRoot()
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
	// Without -X, Helm reports its version as v4.3, without the patch release.
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

// ChartDir returns the directory of the chart for nodes.
func ChartDir(t testing.TB) string { return deployDir(t, "chart") }

// PullSecretsChartDir returns the directory of the chart for pull secrets.
func PullSecretsChartDir(t testing.TB) string { return deployDir(t, "charts", "pull-secrets") }

func deployDir(t testing.TB, elem ...string) string {
	t.Helper()
	root, err := plugins.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(append([]string{root, "deploy"}, elem...)...)
}

// Helm runs helm commands with their own home directory.
type Helm struct {
	path    string
	environ []string
}

// New returns a Helm whose home directory is removed when the test ends. kubeconfig may be
// empty for commands that need no cluster.
func New(t testing.TB, path, kubeconfig string) *Helm {
	t.Helper()
	home := t.TempDir()
	return &Helm{path, []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + kubeconfig,
		"HELM_CACHE_HOME=" + filepath.Join(home, "cache"), "HELM_CONFIG_HOME=" + filepath.Join(home, "config"), "HELM_DATA_HOME=" + filepath.Join(home, "data"),
	}}
}

// Path returns the path of the executable.
func (h *Helm) Path() string { return h.path }

// Environ returns the environment in which Helm runs.
func (h *Helm) Environ() []string { return slices.Clone(h.environ) }

// commandTimeout is the timeout of a command.
const commandTimeout = 20 * time.Minute

// Output runs helm and returns its stdout and stderr. If the exit code is not 0, the error
// contains the stderr.
func (h *Helm) Output(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, h.path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = h.environ, &out, &errs
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), errs.String(), err
}

// Run runs helm, returns its stdout, and fails the test on error.
func (h *Helm) Run(t testing.TB, args ...string) (stdout string) {
	t.Helper()
	stdout, _, err := h.Output(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return stdout
}
