// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/upstream/helm"
)

// packageScript is a script that packages the chart with the functions of release.sh.
const packageScript = `set -euo pipefail
eval "$(sed -n '/^\(stamp\|name_release\|chart\)() /,/}$/p' release.sh)"
version=v1.2.3+build.4 epoch=1700000000 work=$1
mkdir "$work/dist"
chart regcred`

// TestPackage verifies that Helm accepts the packaged chart and renders it like the directory, except for the version.
func TestPackage(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("bash", "-c", packageScript, "bash", dir)
	cmd.Dir = repositoryRoot(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	archive := filepath.Join(dir, "dist", "regcred.tgz")
	h := helm.New(t, program, "")
	show := h.Run(t, "show", "chart", archive)
	for _, want := range []string{"\nversion: 1.2.3+build.4\n", "\nappVersion: v1.2.3+build.4\n"} {
		if !strings.Contains("\n"+show, want) {
			t.Errorf("no %q in\n%s", want, show)
		}
	}
	h.Run(t, "lint", "--strict", archive, withValues(nil).writeFile(t))
	got := h.Run(t, "template", release, archive, "--namespace", namespace, withValues(nil).writeFile(t))
	want := strings.ReplaceAll(renderChart(t, withValues(nil)), "v0.0.0", "v1.2.3_build.4")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-directory +archive):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(dir, "chart")); err == nil {
		t.Error("its working directory is left")
	}
}
